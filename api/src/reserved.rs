//! Groups and kinds that no definition can claim.
//!
//! The hub's own controllers trust what is stored under these names: a Spoke says which logical clusters there are, an Inventory
//! names what is deleted in a spoke, RBAC objects say who may do what. A definition that a tenant writes must not put
//! objects where they look for theirs, in any logical cluster.
//!
//! **Invariant:** this is the only list. The API server, the graph compiler and the syncer all ask [`claim`].

use crate::crd::DefinitionSpec;
use crate::{kro, wheelhouse};

/// The groups of Kubernetes' own kinds, `core` as storage keys write it included.
///
/// Source: kubernetes/pkg/controlplane/instance.go (APIs that are installed), staging/src/k8s.io/kube-aggregator.
const BUILT_IN: [&str; 25] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "core",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// The groups of the hub's own kinds.
const OWN: [&str; 3] = [
    wheelhouse::GROUP,
    wheelhouse::INTERNAL_GROUP,
    kro::INTERNAL_GROUP,
];

/// The names of kro's own kind in its group, which is also the default group of the kinds that graphs generate.
const KRO_RESOURCES: [&str; 3] = [kro::RGD_RESOURCE, "resourcegraphdefinition", "rgd"];
const KRO_KINDS: [&str; 2] = [kro::RGD_KIND, "ResourceGraphDefinitionList"];

/// A name that a definition claims and that is reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reserved {
    /// The whole group is.
    #[error(
        "group {} is reserved and cannot be extended by a definition: choose another group",
        dialect::quote(group)
    )]
    Group {
        /// The group.
        group: String,
    },
    /// One of kro's own kinds is, in a group that is free otherwise.
    #[error(
        "{} is the name of a kind of kro in group kro.run and cannot be defined again: choose another name",
        dialect::quote(name)
    )]
    Name {
        /// The plural, singular, short or kind name.
        name: String,
    },
}

/// Returns whether a group is one of the hub's own kinds.
pub fn is_hubs_own_group(group: &str) -> bool {
    OWN.contains(&group)
}

/// Returns whether the hub keeps a group for itself or for Kubernetes' own kinds.
pub fn is_reserved_group(group: &str) -> bool {
    OWN.contains(&group) || BUILT_IN.contains(&group)
}

/// Returns whether a group is one of the hub's own kinds.
pub fn is_own_group(group: &str) -> bool {
    OWN.contains(&group)
}

/// Checks the names that a definition claims.
///
/// # Errors
/// The first name that is reserved.
pub fn claim(spec: &DefinitionSpec) -> Result<(), Reserved> {
    let names = &spec.names;
    let resources = [&names.plural, &names.singular]
        .into_iter()
        .chain(&names.short_names);
    claim_names(
        &spec.group,
        resources.map(String::as_str),
        [names.kind.as_str(), names.list_kind.as_str()],
    )
}

/// [`claim`] for a kind of which only group, plural and kind are known yet.
///
/// # Errors
/// The first name that is reserved.
pub fn claim_kind(group: &str, plural: &str, kind: &str) -> Result<(), Reserved> {
    claim_names(group, [plural], [kind])
}

fn claim_names<'a>(
    group: &str,
    resources: impl IntoIterator<Item = &'a str>,
    kinds: impl IntoIterator<Item = &'a str>,
) -> Result<(), Reserved> {
    if is_reserved_group(group) {
        return Err(Reserved::Group {
            group: group.to_owned(),
        });
    }
    if group != kro::GROUP {
        return Ok(());
    }
    let resource = resources
        .into_iter()
        .find(|name| KRO_RESOURCES.contains(name));
    let taken = resource.or_else(|| kinds.into_iter().find(|kind| KRO_KINDS.contains(kind)));
    match taken {
        Some(name) => Err(Reserved::Name {
            name: name.to_owned(),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_relies_on_can_be_claimed() {
        for (group, plural, kind, free) in [
            ("example.com", "spokes", "Spoke", true),
            ("kro.run", "carts", "Cart", true),
            ("kro.run", "resourcegraphdefinitions", "Other", false),
            ("kro.run", "others", "ResourceGraphDefinition", false),
            (
                "example.com",
                "resourcegraphdefinitions",
                "ResourceGraphDefinition",
                true,
            ),
            ("internal.kro.run", "others", "Other", false),
            ("wheelhouse.dev", "spokes", "Spoke", false),
            ("wheelhouse.dev", "others", "Other", false),
            (
                "internal.wheelhouse.dev",
                "servedresources",
                "ServedResource",
                false,
            ),
            ("x.wheelhouse.dev", "spokes", "Spoke", true),
            ("", "secrets", "Secret", false),
            ("core", "secrets", "Secret", false),
            ("apps", "deployments", "Deployment", false),
            ("rbac.authorization.k8s.io", "others", "Other", false),
            ("gateway.networking.k8s.io", "gateways", "Gateway", true),
        ] {
            let claimed = claim_kind(group, plural, kind);
            assert_eq!(claimed.is_ok(), free, "{group} {plural} {kind}");
        }
    }

    #[test]
    fn no_other_name_of_a_definition_gets_around_it() {
        let spec = |names: serde_json::Value| -> DefinitionSpec {
            let spec = serde_json::json!({"group": "kro.run", "scope": "Cluster", "names": names, "versions": []});
            serde_json::from_value(spec).expect("a spec")
        };
        for (names, free) in [
            (
                serde_json::json!({"plural": "carts", "singular": "cart", "kind": "Cart", "listKind": "CartList"}),
                true,
            ),
            (
                serde_json::json!({"plural": "carts", "singular": "resourcegraphdefinition", "kind": "Cart"}),
                false,
            ),
            (
                serde_json::json!({"plural": "carts", "kind": "Cart", "shortNames": ["c", "rgd"]}),
                false,
            ),
            (
                serde_json::json!({"plural": "carts", "kind": "Cart", "listKind": "ResourceGraphDefinitionList"}),
                false,
            ),
        ] {
            assert_eq!(claim(&spec(names.clone())).is_ok(), free, "{names}");
        }
    }
}
