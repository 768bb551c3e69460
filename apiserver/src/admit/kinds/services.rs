//! Services: cluster IPs and node ports, where no other server allots them.
//!
//! What is allotted is a key of its own beside the service, written in the same commit and expected to be absent: two
//! services can never get the same address, whichever server they are made on, and nothing has to be rebuilt after a
//! restart.
//! Source: kubernetes/pkg/registry/core/service/storage/alloc.go. Ranges: one /16 of addresses, the default node ports.

use api::{FieldError, FieldPath, GroupResource, Status};
use serde_json::{Value, json};
use storage::{Expect, Key, Write};

use crate::call::{Access, Target};
use crate::objects::ResourcePrefix;
use crate::refusal::Refusal;

/// The first two bytes of every cluster IP.
const NETWORK: [u8; 2] = [10, 96];
/// The address of the API server itself, `default/kubernetes`.
const FIRST: u16 = 1;
const NODE_PORT_MIN: u16 = 30_000;
const NODE_PORT_MAX: u16 = 32_767;
/// How often a random address is tried before the range is taken for full.
const ATTEMPTS_MAX: usize = 64;

/// Keeps the addresses of a service that an update leaves out.
pub(super) fn keep_addresses(object: &mut Value, live: &Value) {
    // Not validated yet: anything may stand here.
    if !object["spec"].is_object() || !needs_address(object) || !needs_address(live) {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let missing = object["spec"].get(field).is_none_or(is_blank);
        if let (true, Some(value)) = (missing, live["spec"].get(field)) {
            object["spec"][field] = value.clone();
        }
    }
    let old_ports = live["spec"]["ports"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let ports = ports_mut(object).into_iter().flatten();
    for port in ports.filter(|port| port.is_object()) {
        let same = old_ports
            .iter()
            .find(|old| old["port"] == port["port"] && old.get("protocol") == port.get("protocol"));
        if let (true, Some(Some(node_port))) = (
            port.get("nodePort").is_none_or(is_blank),
            same.map(|old| old.get("nodePort")),
        ) {
            port["nodePort"] = node_port.clone();
        }
    }
}

pub(super) fn validate(object: &Value) -> Vec<FieldError> {
    let ports = FieldPath::new("spec").child("ports");
    let is_external = object["spec"]["type"] == "ExternalName";
    let headless = object["spec"]["clusterIP"] == "None";
    let none = object["spec"]["ports"].as_array().is_none_or(Vec::is_empty);
    if none && !is_external && !headless {
        return vec![FieldError::required(&ports, "")];
    }
    if is_external
        && object["spec"]["externalName"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
    {
        return vec![FieldError::required(
            &FieldPath::new("spec").child("externalName"),
            "",
        )];
    }
    Vec::new()
}

/// Allots what the service needs and does not have yet.
pub(super) fn allocate(
    access: &Access<'_>,
    target: &Target,
    object: &mut Value,
    live: Option<&Value>,
) -> Result<Vec<Write>, Refusal> {
    let mut writes = Vec::new();
    let owner = owner_of(target);
    if needs_address(object) {
        allocate_address(access, target, object, live, &owner, &mut writes)?;
    } else if object["spec"]["clusterIP"] == "None" {
        object["spec"]["clusterIPs"] = json!(["None"]);
    }
    allocate_node_ports(access, target, object, live, &owner, &mut writes)?;
    if let Some(live) = live {
        writes.extend(given_up(access, target, object, live));
    }
    Ok(writes)
}

/// Gives everything back that a service has.
pub(super) fn release(access: &Access<'_>, target: &Target, object: &Value) -> Vec<Write> {
    given_up(access, target, &json!({"spec": {}}), object)
}

fn allocate_address(
    access: &Access<'_>,
    target: &Target,
    object: &mut Value,
    live: Option<&Value>,
    owner: &str,
    writes: &mut Vec<Write>,
) -> Result<(), Refusal> {
    let spec = &mut object["spec"];
    let asked = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    let had = live
        .and_then(|live| live["spec"]["clusterIP"].as_str())
        .unwrap_or_default();
    let address = if asked.is_empty() {
        let is_kubernetes = target.namespace == "default" && target.name == "kubernetes";
        let address = if is_kubernetes {
            Some(address_text(FIRST))
        } else {
            free_address(access, target)
        };
        address.ok_or_else(|| Status::internal("failed to allocate a serviceIP: range is full"))?
    } else {
        asked
    };
    if address != had {
        let key = address_key(target, &address);
        if access.shared.store.get(&key).is_some() {
            let path = FieldPath::new("spec").child("clusterIPs");
            let detail =
                format!("failed to allocate IP {address}: provided IP is already allocated");
            let error = FieldError::invalid(&path, json!([address]), detail);
            let kind = access.scope.gvk().group_kind();
            return Err(Status::invalid(&kind, &target.name, vec![error]).into());
        }
        writes.push(Write::put(key, owner.as_bytes()).expecting(Expect::Absent));
    }
    spec["clusterIP"] = json!(address);
    spec["clusterIPs"] = json!([address]);
    let families = spec.get("ipFamilies").is_none_or(is_blank);
    if families {
        spec["ipFamilies"] = json!([if address.contains(':') {
            "IPv6"
        } else {
            "IPv4"
        }]);
    }
    if spec.get("ipFamilyPolicy").is_none_or(is_blank) {
        spec["ipFamilyPolicy"] = json!("SingleStack");
    }
    Ok(())
}

fn allocate_node_ports(
    access: &Access<'_>,
    target: &Target,
    object: &mut Value,
    live: Option<&Value>,
    owner: &str,
    writes: &mut Vec<Write>,
) -> Result<(), Refusal> {
    if !needs_node_ports(object) {
        return Ok(());
    }
    let had = live.map(node_ports).unwrap_or_default();
    let mut taken = Vec::new();
    for port in ports_mut(object).into_iter().flatten() {
        let asked = port["nodePort"].as_u64().unwrap_or(0);
        let number = if asked == 0 {
            free_node_port(access, target, &taken)
        } else {
            Some(asked)
        };
        let number = number
            .ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?;
        port["nodePort"] = json!(number);
        if had.contains(&number) || taken.contains(&number) {
            continue;
        }
        let key = node_port_key(target, number);
        if access.shared.store.get(&key).is_some() {
            let path = FieldPath::new("spec")
                .child("ports")
                .index(taken.len())
                .child("nodePort");
            let error = FieldError::invalid(&path, number, "provided port is already allocated");
            let kind = access.scope.gvk().group_kind();
            return Err(Status::invalid(&kind, &target.name, vec![error]).into());
        }
        writes.push(Write::put(key, owner.as_bytes()).expecting(Expect::Absent));
        taken.push(number);
    }
    Ok(())
}

/// What the old state had and the new one has not.
fn given_up(access: &Access<'_>, target: &Target, object: &Value, live: &Value) -> Vec<Write> {
    let mut keys = Vec::new();
    let address = |object: &Value| {
        object["spec"]["clusterIP"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let old = address(live);
    if needs_address(live) && !old.is_empty() && old != address(object) {
        keys.push(address_key(target, &old));
    }
    let kept = node_ports(object);
    let lost = node_ports(live)
        .into_iter()
        .filter(|port| !kept.contains(port));
    keys.extend(lost.map(|port| node_port_key(target, port)));
    keys.retain(|key| access.shared.store.get(key).is_some());
    keys.into_iter().map(Write::delete).collect()
}

fn free_address(access: &Access<'_>, target: &Target) -> Option<String> {
    let mut addresses = std::iter::repeat_with(|| address_text(rand::random_range(2..=65_000)));
    addresses.by_ref().take(ATTEMPTS_MAX).find(|address| {
        access
            .shared
            .store
            .get(&address_key(target, address))
            .is_none()
    })
}

fn free_node_port(access: &Access<'_>, target: &Target, taken: &[u64]) -> Option<u64> {
    let mut ports =
        std::iter::repeat_with(|| u64::from(rand::random_range(NODE_PORT_MIN..=NODE_PORT_MAX)));
    ports.by_ref().take(ATTEMPTS_MAX).find(|port| {
        !taken.contains(port)
            && access
                .shared
                .store
                .get(&node_port_key(target, *port))
                .is_none()
    })
}

/// The ports as they can be changed. Indexing would put a null where there are none.
fn ports_mut(object: &mut Value) -> Option<&mut Vec<Value>> {
    object.get_mut("spec")?.get_mut("ports")?.as_array_mut()
}

fn node_ports(object: &Value) -> Vec<u64> {
    let ports = object["spec"]["ports"].as_array().into_iter().flatten();
    ports
        .filter_map(|port| port["nodePort"].as_u64())
        .filter(|port| *port != 0)
        .collect()
}

fn needs_address(object: &Value) -> bool {
    object["spec"]["type"] != "ExternalName" && object["spec"]["clusterIP"] != "None"
}

fn needs_node_ports(object: &Value) -> bool {
    match object["spec"]["type"].as_str() {
        Some("NodePort") => true,
        Some("LoadBalancer") => {
            object["spec"]["allocateLoadBalancerNodePorts"] != Value::Bool(false)
        }
        _ => false,
    }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || *value == json!("") || *value == json!([]) || *value == json!(0)
}

fn address_text(host: u16) -> String {
    let [high, low] = host.to_be_bytes();
    let [first, second] = NETWORK;
    format!("{first}.{second}.{high}.{low}")
}

fn owner_of(target: &Target) -> String {
    json!({"kind": "Service", "namespace": target.namespace, "name": target.name}).to_string()
}

fn address_key(target: &Target, address: &str) -> Key {
    allotment("serviceips").key(&target.cluster, "", address)
}

fn node_port_key(target: &Target, port: u64) -> Key {
    allotment("nodeports").key(&target.cluster, "", &port.to_string())
}

fn allotment(resource: &str) -> ResourcePrefix {
    ResourcePrefix::new(&GroupResource::new(
        api::wheelhouse::INTERNAL_GROUP,
        resource,
    ))
}
