//! Services and endpoints: cluster IPs and node ports, where no other server allocates them.
//!
//! Each allocation is a separate key, stored next to the Service, written in the same commit and expected to be absent: two
//! services can never get the same address, whichever server they are made on, and nothing has to be rebuilt after a
//! restart.
//! Source: kubernetes/pkg/registry/core/service/storage/alloc.go. Ranges: one /16 of addresses, the default node ports.

use std::net::{IpAddr, Ipv4Addr};

use api::validation::NameRule;
use api::{FieldError, FieldPath, GroupKind, GroupResource, Status};
use serde_json::{Value, json};
use storage::{Expect, Key, Write};

use super::addresses;
use super::built_in::RULED;
use super::checks::judge;
use super::endpoint::Endpoint;
use super::fields::put;
use super::rules::{Generation, PutOfAbsent};
use super::{Allocation, Deletion, Holder, Strategy};
use crate::objects::ResourcePrefix;

mod rules;

pub(super) const SERVICES: Strategy = Strategy {
    name: NameRule::DnsLabel,
    selectable: &[
        ("spec.clusterIP", "spec.clusterIP"),
        ("spec.type", "spec.type"),
    ],
    endpoints: &[("proxy", Endpoint::Balanced)],
    put_of_absent: PutOfAbsent::Creates,
    prepare_update,
    validate,
    allocation: Some(Allocation { allocate, release }),
    deletion: Deletion::ANSWERED_WITH_OBJECT,
    ..RULED
};

/// Source: kubernetes/pkg/registry/core/endpoint (deprecated in 1.33).
pub(super) const ENDPOINTS: Strategy = Strategy {
    deprecation: Some(
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    put_of_absent: PutOfAbsent::Creates,
    validate: |object, _live| judge(object, rules::ENDPOINTS),
    ..RULED
};

pub(super) const ENDPOINT_SLICES: Strategy = Strategy {
    generation: Generation::Counted,
    validate: |object, _live| judge(object, rules::ENDPOINT_SLICE),
    ..RULED
};

/// The first two bytes of every cluster IP.
const NETWORK: [u8; 2] = [10, 96];
/// The address of the API server itself, `default/kubernetes`.
const FIRST: u16 = 1;
const NODE_PORT_MIN: u16 = 30_000;
const NODE_PORT_MAX: u16 = 32_767;
/// How often a random address is tried before the range is considered full.
const ATTEMPTS_MAX: usize = 64;

/// Fields that only some types of services have, each group with whether a service has them.
const OF_TYPES: [(&[&str], fn(&Value) -> bool); 7] = [
    (&["clusterIP", "clusterIPs"], is_internal),
    (&["ipFamilies"], is_internal),
    (&["ipFamilyPolicy"], is_internal),
    (&["internalTrafficPolicy"], is_internal),
    (&["externalTrafficPolicy"], is_exposed),
    (&["allocateLoadBalancerNodePorts"], is_load_balancer),
    (&["loadBalancerClass"], is_load_balancer),
];

/// Keeps what a service has and an update leaves out, and drops what its new type does not have.
fn prepare_update(endpoint: Endpoint, object: &mut Value, live: &Value) {
    // Not validated yet: the value can have any type.
    if endpoint != Endpoint::Main || !object["spec"].is_object() {
        return;
    }
    keep_addresses(object, live);
    keep_node_ports(object, live);
    drop_of_other_types(object, live);
}

fn keep_addresses(object: &mut Value, live: &Value) {
    if !is_internal(object) || !is_internal(live) {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let missing = object["spec"].get(field).is_none_or(is_blank);
        if let (true, Some(value)) = (missing, live["spec"].get(field)) {
            object["spec"][field] = value.clone();
        }
    }
}

/// A port keeps the node port that the port of the same name had, unless another one asks for it.
fn keep_node_ports(object: &mut Value, live: &Value) {
    if !needs_node_ports(object) || !needs_node_ports(live) {
        return;
    }
    let name = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
    let old_ports = live["spec"]["ports"].as_array().map(Vec::as_slice);
    let mut used = node_ports(object);
    for port in ports_mut(object).into_iter().flatten() {
        if !port.is_object() || !port.get("nodePort").is_none_or(is_blank) {
            continue;
        }
        let mut same = old_ports.unwrap_or_default().iter();
        let kept = same
            .find(|old| name(old) == name(port))
            .and_then(|old| u16::try_from(old["nodePort"].as_u64()?).ok())
            .filter(|number| *number != 0 && !used.contains(number));
        if let Some(number) = kept {
            port["nodePort"] = json!(number);
            used.push(number);
        }
    }
}

/// A merge patch of the type leaves the fields of the old type in place: fields of the old type that the patch left unchanged are removed.
fn drop_of_other_types(object: &mut Value, live: &Value) {
    let goes = |object: &Value, has: fn(&Value) -> bool| has(live) && !has(object);
    for (fields, has) in OF_TYPES {
        let same = |field: &&str| object["spec"].get(field) == live["spec"].get(field);
        if goes(object, has) && fields.iter().all(same) {
            for field in fields {
                put(&mut object["spec"], field, None);
            }
        }
    }
    if goes(object, needs_node_ports) && node_ports(object) == node_ports(live) {
        for port in ports_mut(object).into_iter().flatten() {
            put(port, "nodePort", None);
        }
    }
}

fn validate(object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    let mut errors = judge(object, rules::SERVICE);
    errors.extend(live.and_then(|live| validate_address_kept(object, live)));
    errors
}

/// The address of a service cannot change, unless it had none.
fn validate_address_kept(object: &Value, live: &Value) -> Option<FieldError> {
    let path = FieldPath::new("spec").child("clusterIPs").index(0);
    let (new, old) = (&object["spec"]["clusterIP"], &live["spec"]["clusterIP"]);
    let changed = is_internal(object) && is_internal(live) && !is_blank(old) && new != old;
    changed.then(|| FieldError::invalid(&path, json!([new]), "may not change once set"))
}

/// Allocates what the service needs and does not have yet.
fn allocate(
    holder: &Holder<'_>,
    object: &mut Value,
    live: Option<&Value>,
) -> Result<Vec<Write>, Status> {
    let mut writes = Vec::new();
    let owner = owner_of(holder);
    if needs_address(object) {
        allocate_address(holder, object, live, &owner, &mut writes)?;
    } else if object["spec"]["clusterIP"] == "None" {
        object["spec"]["clusterIPs"] = json!(["None"]);
        default_headless_families(&mut object["spec"]);
    }
    allocate_node_ports(holder, object, live, &owner, &mut writes)?;
    if let Some(live) = live {
        writes.extend(given_up(holder, object, live));
    }
    Ok(writes)
}

/// Defaults the address families of a headless service. Without a selector its endpoints are somebody else's, so it may have
/// both families, whatever the cluster has.
///
/// Source: `kubernetes/pkg/registry/core/service/storage/alloc.go` `initIPFamilyFields`.
fn default_headless_families(spec: &mut Value) {
    let has_selector = spec["selector"]
        .as_object()
        .is_some_and(|it| !it.is_empty());
    if spec.get("ipFamilies").is_none_or(is_blank) {
        spec["ipFamilies"] = json!(["IPv4"]);
    }
    if spec.get("ipFamilyPolicy").is_none_or(is_blank) {
        let policy = if has_selector {
            "SingleStack"
        } else {
            "RequireDualStack"
        };
        spec["ipFamilyPolicy"] = json!(policy);
    }
    if has_selector || spec["ipFamilyPolicy"] == "SingleStack" {
        return;
    }
    if let Some(families) = spec["ipFamilies"].as_array_mut()
        && let [one] = families.as_slice()
    {
        let other = if one == "IPv4" { "IPv6" } else { "IPv4" };
        families.push(json!(other));
    }
}

/// Gives everything back that a service has.
fn release(holder: &Holder<'_>, object: &Value) -> Vec<Write> {
    given_up(holder, &json!({"spec": {}}), object)
}

fn allocate_address(
    holder: &Holder<'_>,
    object: &mut Value,
    live: Option<&Value>,
    owner: &str,
    writes: &mut Vec<Write>,
) -> Result<(), Status> {
    let asked = asked_address(&object["spec"])
        .map_err(|error| Status::invalid(&kind(), holder.name, vec![error]))?;
    let has = live.and_then(address_in);
    let is_taken = |address| holder.store.get(&address_key(holder, address)).is_some();
    let first = address_of(FIRST);
    let address = match asked {
        Some(address) => address,
        // Where the Service is there, it is its name that is refused.
        None if holder.namespace == "default"
            && holder.name == "kubernetes"
            && (has == Some(first) || !is_taken(first)) =>
        {
            first
        }
        None => free_address(holder)
            .ok_or_else(|| Status::internal("failed to allocate a serviceIP: range is full"))?,
    };
    if has != Some(address) {
        if is_taken(address) {
            let error = not_allocated(address.into(), "provided IP is already allocated");
            return Err(Status::invalid(&kind(), holder.name, vec![error]));
        }
        let key = address_key(holder, address);
        writes.push(Write::put(key, owner.as_bytes()).expecting(Expect::Absent));
    }
    let spec = &mut object["spec"];
    spec["clusterIP"] = json!(address);
    spec["clusterIPs"] = json!([address]);
    let families = spec.get("ipFamilies").is_none_or(is_blank);
    if families {
        spec["ipFamilies"] = json!(["IPv4"]);
    }
    if spec.get("ipFamilyPolicy").is_none_or(is_blank) {
        spec["ipFamilyPolicy"] = json!("SingleStack");
    }
    Ok(())
}

/// Reads the address that a service asks for; `None` where it asks for none.
///
/// # Errors
/// It is no address, or not one of this range.
/// Source: `kubernetes/pkg/registry/core/service/ipallocator/interfaces.go`, `ErrNotInRange`.
fn asked_address(spec: &Value) -> Result<Option<Ipv4Addr>, FieldError> {
    let asked = spec["clusterIP"].as_str().unwrap_or_default();
    if asked.is_empty() {
        return Ok(None);
    }
    let address = match (addresses::fault(asked), addresses::parse(asked)) {
        (None, Some(address)) => address,
        (fault, _) => {
            let path = FieldPath::new("spec").child("clusterIPs").index(0);
            return Err(FieldError::invalid(&path, asked, fault.unwrap_or_default()));
        }
    };
    match address {
        IpAddr::V4(address) if is_in_range(address) => Ok(Some(address)),
        address => {
            let [first, second] = NETWORK;
            let detail = format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is \
                 {first}.{second}.0.0/16"
            );
            Err(not_allocated(address, &detail))
        }
    }
}

/// Neither the first nor the last address of a network is anybody's.
fn is_in_range(address: Ipv4Addr) -> bool {
    let [first, second, high, low] = address.octets();
    let host = u16::from_be_bytes([high, low]);
    [first, second] == NETWORK && host != 0 && host != u16::MAX
}

fn not_allocated(address: IpAddr, detail: &str) -> FieldError {
    let path = FieldPath::new("spec").child("clusterIPs");
    let detail = format!("failed to allocate IP {address}: {detail}");
    FieldError::invalid(&path, json!([address]), detail)
}

fn allocate_node_ports(
    holder: &Holder<'_>,
    object: &mut Value,
    live: Option<&Value>,
    owner: &str,
    writes: &mut Vec<Write>,
) -> Result<(), Status> {
    if !needs_node_ports(object) {
        return Ok(());
    }
    let had = live.map(node_ports).unwrap_or_default();
    let mut taken = Vec::new();
    for (index, port) in ports_mut(object).into_iter().flatten().enumerate() {
        let refuse = |asked: i64, detail: String| {
            let path = FieldPath::new("spec").child("ports").index(index);
            let error = FieldError::invalid(&path.child("nodePort"), asked, detail);
            Status::invalid(&kind(), holder.name, vec![error])
        };
        let number = match port["nodePort"].as_i64().unwrap_or(0) {
            0 => free_node_port(holder, &taken)
                .ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?,
            asked => u16::try_from(asked)
                .ok()
                .filter(|number| (NODE_PORT_MIN..=NODE_PORT_MAX).contains(number))
                .ok_or_else(|| {
                    let detail = format!(
                        "provided port is not in the valid range. The range of valid ports is \
                         {NODE_PORT_MIN}-{NODE_PORT_MAX}"
                    );
                    refuse(asked, detail)
                })?,
        };
        port["nodePort"] = json!(number);
        if had.contains(&number) || taken.contains(&number) {
            continue;
        }
        let key = node_port_key(holder, number);
        if holder.store.get(&key).is_some() {
            let detail = "provided port is already allocated".to_owned();
            return Err(refuse(number.into(), detail));
        }
        writes.push(Write::put(key, owner.as_bytes()).expecting(Expect::Absent));
        taken.push(number);
    }
    Ok(())
}

/// What the old state had and the new one has not.
fn given_up(holder: &Holder<'_>, object: &Value, live: &Value) -> Vec<Write> {
    let mut keys = Vec::new();
    if needs_address(live)
        && let Some(old) = address_in(live)
        && address_in(object) != Some(old)
    {
        keys.push(address_key(holder, old));
    }
    let kept = node_ports(object);
    let lost = node_ports(live)
        .into_iter()
        .filter(|port| !kept.contains(port));
    keys.extend(lost.map(|port| node_port_key(holder, port)));
    keys.retain(|key| holder.store.get(key).is_some());
    keys.into_iter().map(Write::delete).collect()
}

fn free_address(holder: &Holder<'_>) -> Option<Ipv4Addr> {
    let mut addresses = std::iter::repeat_with(|| address_of(rand::random_range(2..=65_000)));
    addresses
        .by_ref()
        .take(ATTEMPTS_MAX)
        .find(|address| holder.store.get(&address_key(holder, *address)).is_none())
}

fn free_node_port(holder: &Holder<'_>, taken: &[u16]) -> Option<u16> {
    let mut ports = std::iter::repeat_with(|| rand::random_range(NODE_PORT_MIN..=NODE_PORT_MAX));
    ports.by_ref().take(ATTEMPTS_MAX).find(|port| {
        !taken.contains(port) && holder.store.get(&node_port_key(holder, *port)).is_none()
    })
}

/// The ports as they can be changed. Indexing would put a null where there are none.
fn ports_mut(object: &mut Value) -> Option<&mut Vec<Value>> {
    object.get_mut("spec")?.get_mut("ports")?.as_array_mut()
}

fn node_ports(object: &Value) -> Vec<u16> {
    let ports = object["spec"]["ports"].as_array().into_iter().flatten();
    ports
        .filter_map(|port| u16::try_from(port["nodePort"].as_u64()?).ok())
        .filter(|port| *port != 0)
        .collect()
}

/// Returns the address that a service has, if it has one.
fn address_in(object: &Value) -> Option<Ipv4Addr> {
    object["spec"]["clusterIP"].as_str()?.parse().ok()
}

fn is_internal(object: &Value) -> bool {
    object["spec"]["type"] != "ExternalName"
}

fn is_exposed(object: &Value) -> bool {
    object["spec"]["type"] == "NodePort" || is_load_balancer(object)
}

fn is_load_balancer(object: &Value) -> bool {
    object["spec"]["type"] == "LoadBalancer"
}

fn needs_address(object: &Value) -> bool {
    is_internal(object) && object["spec"]["clusterIP"] != "None"
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

fn address_of(host: u16) -> Ipv4Addr {
    let [high, low] = host.to_be_bytes();
    let [first, second] = NETWORK;
    Ipv4Addr::new(first, second, high, low)
}

fn owner_of(holder: &Holder<'_>) -> String {
    json!({"kind": "Service", "namespace": holder.namespace, "name": holder.name}).to_string()
}

fn address_key(holder: &Holder<'_>, address: Ipv4Addr) -> Key {
    allocated("serviceips").key(holder.cluster, "", &address.to_string())
}

fn node_port_key(holder: &Holder<'_>, port: u16) -> Key {
    allocated("nodeports").key(holder.cluster, "", &port.to_string())
}

fn kind() -> GroupKind {
    GroupKind::new("", "Service")
}

fn allocated(resource: &str) -> ResourcePrefix {
    ResourcePrefix::new(&GroupResource::new(
        api::wheelhouse::INTERNAL_GROUP,
        resource,
    ))
}

#[cfg(test)]
mod tests;
