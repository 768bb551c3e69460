//! Services, endpoints, ingresses, policies.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{NONE, Printer, Row, UNKNOWN, UNSET, at, labels, scalar, selector, shortened, text_at};

/// How many endpoints, hosts and ports are shown.
const SHOWN: usize = 3;

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "",
        resource: "services",
        columns: "Name:string,Type:string,Cluster-IP:string,External-IP:string,Port(s):string,Age:string,@Selector:string",
        cells: |row| {
            let inner = json!(row.text_or("spec.clusterIP", NONE));
            let ports: Vec<String> = row.list("spec.ports").iter().map(service_port).collect();
            let ports = if ports.is_empty() {
                NONE.to_owned()
            } else {
                ports.join(",")
            };
            let selected = json!(labels(row.get("spec.selector")));
            let kind = json!(row.text("spec.type"));
            vec![
                row.name(),
                kind,
                inner,
                json!(external(row)),
                json!(ports),
                row.age(),
                selected,
            ]
        },
    },
    Printer {
        group: "",
        resource: "endpoints",
        columns: "Name:string,Endpoints:string,Age:string",
        cells: |row| vec![row.name(), json!(endpoints(row)), row.age()],
    },
    Printer {
        group: "discovery.k8s.io",
        resource: "endpointslices",
        columns: "Name:string,AddressType:string,Ports:string,Endpoints:string,Age:string",
        cells: |row| {
            let ports = row.list("ports").iter();
            let ports: Vec<String> = ports
                .map(|it| it.get("port").map_or_else(|| "*".to_owned(), scalar))
                .collect();
            let addresses = row.list("endpoints").iter();
            let addresses = addresses
                .filter_map(|it| it.get("addresses")?.as_array())
                .flatten();
            let addresses: Vec<String> = addresses.map(scalar).collect();
            let or_unset = |items: &[String]| {
                json!(if items.is_empty() {
                    UNSET.to_owned()
                } else {
                    shortened(items, SHOWN)
                })
            };
            let kind = json!(row.text("addressType"));
            vec![
                row.name(),
                kind,
                or_unset(&ports),
                or_unset(&addresses),
                row.age(),
            ]
        },
    },
    Printer {
        group: "networking.k8s.io",
        resource: "ingresses",
        columns: "Name:string,Class:string,Hosts:string,Address:string,Ports:string,Age:string",
        cells: |row| {
            let old_class = row.get("metadata.annotations").map_or("", |it| {
                it.get("kubernetes.io/ingress.class")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            });
            let class = if old_class.is_empty() {
                NONE
            } else {
                old_class
            };
            let class = json!(row.text_or("spec.ingressClassName", class));
            let ports = if row.list("spec.tls").is_empty() {
                "80"
            } else {
                "80, 443"
            };
            vec![
                row.name(),
                class,
                json!(hosts(row)),
                json!(balancers(row)),
                json!(ports),
                row.age(),
            ]
        },
    },
    Printer {
        group: "networking.k8s.io",
        resource: "ingressclasses",
        columns: "Name:string,Controller:string,Parameters:string,Age:string",
        cells: |row| {
            let parameters = row.get("spec.parameters").map(|it| {
                let group = text_at(it, "apiGroup");
                let dot = if group.is_empty() { "" } else { "." };
                format!(
                    "{}{dot}{group}/{}",
                    text_at(it, "kind"),
                    text_at(it, "name")
                )
            });
            let parameters = json!(parameters.unwrap_or_else(|| NONE.to_owned()));
            vec![
                row.name(),
                json!(row.text("spec.controller")),
                parameters,
                row.age(),
            ]
        },
    },
    Printer {
        group: "networking.k8s.io",
        resource: "networkpolicies",
        columns: "Name:string,Pod-Selector:string,Age:string",
        cells: |row| {
            vec![
                row.name(),
                json!(selector(row.get("spec.podSelector"))),
                row.age(),
            ]
        },
    },
    Printer {
        group: "networking.k8s.io",
        resource: "ipaddresses",
        columns: "Name:string,ParentRef:string",
        cells: |row| {
            let parent = row.get("spec.parentRef").map_or_else(
                || NONE.to_owned(),
                |it| {
                    let parts =
                        ["group", "resource", "namespace", "name"].map(|field| text_at(it, field));
                    let [group, resource, namespace, name] = parts;
                    let dot = if group.is_empty() { "" } else { "." };
                    let slash = if namespace.is_empty() { "" } else { "/" };
                    format!("{resource}{dot}{group}/{namespace}{slash}{name}")
                },
            );
            vec![row.name(), json!(parent)]
        },
    },
    Printer {
        group: "networking.k8s.io",
        resource: "servicecidrs",
        columns: "Name:string,CIDRs:string,Age:string",
        cells: |row| {
            let ranges: Vec<String> = row.list("spec.cidrs").iter().map(scalar).collect();
            vec![row.name(), json!(ranges.join(",")), row.age()]
        },
    },
];

fn service_port(port: &Value) -> String {
    let number = |field| port.get(field).and_then(Value::as_i64).unwrap_or(0);
    let protocol = text_at(port, "protocol");
    match number("nodePort") {
        0 => format!("{}/{protocol}", number("port")),
        node_port => format!("{}:{node_port}/{protocol}", number("port")),
    }
}

fn external(row: &Row<'_>) -> String {
    let given: Vec<String> = row.list("spec.externalIPs").iter().map(scalar).collect();
    match row.text("spec.type") {
        "ClusterIP" | "NodePort" if given.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => given.join(","),
        "LoadBalancer" => {
            let balancers = balancers(row);
            match (balancers.is_empty(), given.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (false, true) => balancers,
                (true, false) => given.join(","),
                (false, false) => format!("{balancers},{}", given.join(",")),
            }
        }
        "ExternalName" => row.text("spec.externalName").to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}

/// The addresses of load balancers.
fn balancers(row: &Row<'_>) -> String {
    let ingress = row.list("status.loadBalancer.ingress").iter();
    let addresses: BTreeSet<&str> = ingress
        .map(|it| match text_at(it, "ip") {
            "" => text_at(it, "hostname"),
            address => address,
        })
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn hosts(row: &Row<'_>) -> String {
    let rules = row.list("spec.rules");
    let hosts: Vec<&str> = rules
        .iter()
        .map(|rule| text_at(rule, "host"))
        .filter(|host| !host.is_empty())
        .collect();
    if hosts.is_empty() {
        return "*".to_owned();
    }
    let first: Vec<&str> = hosts.iter().take(SHOWN).copied().collect();
    let joined = first.join(",");
    if hosts.len() > SHOWN {
        format!("{joined} + {} more...", rules.len() - SHOWN)
    } else {
        joined
    }
}

fn endpoints(row: &Row<'_>) -> String {
    let subsets = row.list("subsets");
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let mut found = Vec::new();
    for subset in subsets {
        let list = |field| {
            at(subset, field)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        if list("ports").next().is_none() {
            found.extend(list("addresses").map(|it| text_at(it, "ip").to_owned()));
        }
        for port in list("ports") {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
            let joined = |it: &Value| match text_at(it, "ip") {
                v6 if v6.contains(':') => format!("[{v6}]:{number}"),
                v4 => format!("{v4}:{number}"),
            };
            found.extend(list("addresses").map(joined));
        }
    }
    shortened(&found, SHOWN)
}
