//! Volumes, their claims and classes.

use serde_json::{Value, json};

use super::{Printer, Row, UNSET, scalar, text_at};

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "",
        resource: "persistentvolumeclaims",
        columns: "Name:string,Status:string,Volume:string,Capacity:string,Access Modes:string,StorageClass:string,\
                  VolumeAttributesClass:string,Age:string,@VolumeMode:string",
        cells: |row| {
            let is_bound = !row.text("spec.volumeName").is_empty();
            let capacity = row
                .get("status.capacity.storage")
                .map(scalar)
                .filter(|_| is_bound);
            let modes = if is_bound {
                modes(row.list("status.accessModes"))
            } else {
                String::new()
            };
            let attributes = match row.text("status.currentVolumeAttributesClassName") {
                "" => row.text_or("spec.volumeAttributesClassName", UNSET),
                current => current,
            };
            vec![
                row.name(),
                json!(phase(row)),
                json!(row.text("spec.volumeName")),
                json!(capacity.unwrap_or_default()),
                json!(modes),
                json!(row.text("spec.storageClassName")),
                json!(attributes),
                row.age(),
                json!(row.text_or("spec.volumeMode", UNSET)),
            ]
        },
    },
    Printer {
        group: "",
        resource: "persistentvolumes",
        columns: "Name:string,Capacity:string,Access Modes:string,Reclaim Policy:string,Status:string,Claim:string,\
                  StorageClass:string,VolumeAttributesClass:string,Reason:string,Age:string,@VolumeMode:string",
        cells: |row| {
            let claim = row
                .get("spec.claimRef")
                .map(|it| format!("{}/{}", text_at(it, "namespace"), text_at(it, "name")));
            vec![
                row.name(),
                json!(
                    row.get("spec.capacity.storage")
                        .map_or_else(|| "0".to_owned(), scalar)
                ),
                json!(modes(row.list("spec.accessModes"))),
                json!(row.text("spec.persistentVolumeReclaimPolicy")),
                json!(phase(row)),
                json!(claim.unwrap_or_default()),
                json!(row.text("spec.storageClassName")),
                json!(row.text_or("spec.volumeAttributesClassName", UNSET)),
                json!(row.text("status.reason")),
                row.age(),
                json!(row.text_or("spec.volumeMode", UNSET)),
            ]
        },
    },
    Printer {
        group: "storage.k8s.io",
        resource: "storageclasses",
        columns: "Name:string,Provisioner:string,ReclaimPolicy:string,VolumeBindingMode:string,\
                  AllowVolumeExpansion:string,Age:string",
        cells: |row| {
            let is_default = row.get("metadata.annotations").is_some_and(|annotations| {
                [
                    "storageclass.kubernetes.io",
                    "storageclass.beta.kubernetes.io",
                ]
                .iter()
                .any(|prefix| {
                    annotations.get(format!("{prefix}/is-default-class")) == Some(&json!("true"))
                })
            });
            let name = row.text("metadata.name");
            let name = if is_default {
                format!("{name} (default)")
            } else {
                name.to_owned()
            };
            let expands = row.get("allowVolumeExpansion") == Some(&Value::Bool(true));
            let text = |path| json!(row.text(path));
            let (policy, mode) = (text("reclaimPolicy"), text("volumeBindingMode"));
            vec![
                json!(name),
                text("provisioner"),
                policy,
                mode,
                json!(expands),
                row.age(),
            ]
        },
    },
    Printer {
        group: "storage.k8s.io",
        resource: "csidrivers",
        columns: "Name:string,AttachRequired:boolean,PodInfoOnMount:boolean,StorageCapacity:boolean,\
                  TokenRequests:string,RequiresRepublish:boolean,Modes:string,Age:string",
        cells: |row| {
            let flag = |path| json!(row.get(path) == Some(&Value::Bool(true)));
            let texts = |path: &str, field: Option<&str>| -> Vec<String> {
                let text = |it: &Value| {
                    field.map_or_else(|| scalar(it), |name| text_at(it, name).to_owned())
                };
                row.list(path).iter().map(text).collect()
            };
            let tokens = texts("spec.tokenRequests", Some("audience"));
            let tokens = if tokens.is_empty() {
                UNSET.to_owned()
            } else {
                tokens.join(",")
            };
            let attach = row.get("spec.attachRequired") != Some(&Value::Bool(false));
            vec![
                row.name(),
                json!(attach),
                flag("spec.podInfoOnMount"),
                flag("spec.storageCapacity"),
                json!(tokens),
                flag("spec.requiresRepublish"),
                json!(texts("spec.volumeLifecycleModes", None).join(",")),
                row.age(),
            ]
        },
    },
    Printer {
        group: "storage.k8s.io",
        resource: "csinodes",
        columns: "Name:string,Drivers:integer,Age:string",
        cells: |row| vec![row.name(), json!(row.list("spec.drivers").len()), row.age()],
    },
    Printer {
        group: "storage.k8s.io",
        resource: "volumeattachments",
        columns: "Name:string,Attacher:string,PV:string,Node:string,Attached:boolean,Age:string",
        cells: |row| {
            let attached = row.get("status.attached") == Some(&Value::Bool(true));
            let text = |path| json!(row.text(path));
            let volume = text("spec.source.persistentVolumeName");
            vec![
                row.name(),
                text("spec.attacher"),
                volume,
                text("spec.nodeName"),
                json!(attached),
                row.age(),
            ]
        },
    },
    Printer {
        group: "storage.k8s.io",
        resource: "volumeattributesclasses",
        columns: "Name:string,DriverName:string,Age:string",
        cells: |row| vec![row.name(), json!(row.text("driverName")), row.age()],
    },
];

fn phase<'v>(row: &'v Row<'_>) -> &'v str {
    if row.is_terminating() {
        "Terminating"
    } else {
        row.text("status.phase")
    }
}

/// Modes in their short names, in their usual order.
fn modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |name: &str| modes.iter().any(|mode| mode == name);
    let found: Vec<&str> = short
        .into_iter()
        .filter(|(name, _)| has(name))
        .map(|(_, short)| short)
        .collect();
    found.join(",")
}
