//! The layers: what clusters of each kind serve without any definition of their own.
//!
//! - root: what a hub needs to be administered, and the project's and kro's kinds;
//! - embedded: every built-in kind of Kubernetes that can be served without nodes, and kro's kinds;
//! - composite: kro's kinds and our records; the rest is the spoke's.
//!
//! Not served, though Kubernetes has it: `componentstatuses`, `bindings` and `nodes/proxy`, `autoscaling/v1` (its objects would
//! have to be converted to `v2` and back). What only a kubelet can answer, `pods/log` for instance, is served as by a cluster
//! whose pods do not run.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use api::crd::CustomResourceDefinition;
use api::{GroupResource, GroupVersionKind, kro, wheelhouse};
use schema::Schema;
use schema::builtin::{Resource, catalog};

use super::compile::{Blueprint, Pool, install, storage_version_hash};
use super::scope::{Conversion, Life, Phase, ResourceRules, ResourceScope};
use super::view::ClusterKind;
use super::view::Layer;
use crate::objects::ResourcePrefix;
use crate::served::{KindDigest, KindSource, ServedKind, ServedSubresource};
use crate::strategy::version::{ScalePaths, SelectableField, StatusMode, VersionRules};
use crate::strategy::{self, StoredAs, Strategy};

/// The tag of built-in objects. Raised by hand when built-in defaults change in a way that stored objects must show.
const TAG: u64 = 1;

/// Built-in resources of root; empty for all of a group.
const ROOT: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "configmaps",
            "events",
            "namespaces",
            "secrets",
            "serviceaccounts",
        ],
    ),
    ("admissionregistration.k8s.io", &[]),
    ("apiextensions.k8s.io", &[]),
    ("coordination.k8s.io", &["leases"]),
    ("events.k8s.io", &[]),
    ("rbac.authorization.k8s.io", &[]),
];

/// Built-in resources that no cluster serves.
const NEVER: &[(&str, &str, &str)] = &[
    ("", "v1", "bindings"),
    ("", "v1", "componentstatuses"),
    ("autoscaling", "v1", "horizontalpodautoscalers"),
];

/// Subresources that are served of every resource that Kubernetes serves them of. Of the others a [`Strategy`] says which
/// there are: discovery names what is answered, and nothing else.
const SUBRESOURCES: &[&str] = &["scale", "status"];
/// What the issuer of tokens answers, beside any strategy.
const TOKEN: (&str, &str) = ("serviceaccounts", "token");

/// The layer of a kind of cluster.
pub(super) fn layer(kind: ClusterKind) -> Arc<Layer> {
    static ROOT_LAYER: LazyLock<Arc<Layer>> = LazyLock::new(|| Arc::new(make(ClusterKind::Root)));
    static EMBEDDED: LazyLock<Arc<Layer>> = LazyLock::new(|| Arc::new(make(ClusterKind::Embedded)));
    static COMPOSITE: LazyLock<Arc<Layer>> =
        LazyLock::new(|| Arc::new(make(ClusterKind::Composite)));
    Arc::clone(match kind {
        ClusterKind::Root => &ROOT_LAYER,
        ClusterKind::Embedded => &EMBEDDED,
        ClusterKind::Composite => &COMPOSITE,
    })
}

/// The resources that the code brings, whether a cluster serves them or not; some more than once.
pub(crate) fn built_in_names() -> impl Iterator<Item = GroupResource> {
    let kubernetes = catalog().resources().iter();
    let kubernetes =
        kubernetes.map(|it| GroupResource::new(it.group.as_str(), it.resource.as_str()));
    let own = kro::definitions()
        .into_iter()
        .chain(wheelhouse::definitions());
    let own = own.filter_map(|definition| {
        let spec = &definition["spec"];
        let (group, plural) = (spec["group"].as_str()?, spec["names"]["plural"].as_str()?);
        Some(GroupResource::new(group, plural))
    });
    kubernetes.chain(own)
}

fn make(kind: ClusterKind) -> Layer {
    let mut scopes = Vec::new();
    let mut unstored = Vec::new();
    for resource in catalog().resources() {
        let name = (
            resource.group.as_str(),
            resource.version.as_str(),
            resource.resource.as_str(),
        );
        if NEVER.contains(&name) || kind == ClusterKind::Composite {
            continue;
        }
        if is_review(resource) {
            unstored.push(Arc::new(served_kind(resource, None)));
        } else if kind == ClusterKind::Embedded || is_of_root(resource) {
            scopes.push(built_in(resource));
        }
    }
    scopes.extend(own(kind));
    unstored.push(Arc::new(preview()));
    Layer::new(scopes, unstored)
}

fn is_review(resource: &Resource) -> bool {
    matches!(
        resource.group.as_str(),
        "authentication.k8s.io" | "authorization.k8s.io"
    )
}

fn is_of_root(resource: &Resource) -> bool {
    ROOT.iter().any(|(group, resources)| {
        *group == resource.group
            && (resources.is_empty() || resources.contains(&resource.resource.as_str()))
    })
}

fn built_in(resource: &Resource) -> ResourceScope {
    let name = GroupResource::new(resource.group.as_str(), resource.resource.as_str());
    let strategy = strategy::built_in(&name);
    let version = Arc::new(version_rules(resource, strategy));
    let (stored_as, storage, conversion) = match strategy.stored_as {
        None => (name.clone(), Arc::clone(&version), Conversion::None),
        Some(stored) => {
            let (group, resource) = stored.resource;
            (
                GroupResource::new(group, resource),
                stored_rules(&version, stored),
                Conversion::Renaming(stored),
            )
        }
    };
    let kind = served_kind(resource, Some(&version.schema));
    ResourceScope {
        kind: Arc::new(kind),
        rules: Arc::new(ResourceRules {
            prefix: ResourcePrefix::new(&stored_as),
            strategy,
            resource: name,
            storage,
            versions: vec![Arc::clone(&version)],
            conversion,
        }),
        version,
        life: Life::endless(),
    }
}

fn version_rules(resource: &Resource, strategy: &Strategy) -> VersionRules {
    let gvk = resource.gvk();
    let api_version = gvk.api_version();
    let has = |subresource: &str| {
        resource
            .subresources
            .iter()
            .any(|it| it.name == subresource)
    };
    let selectable = strategy.selectable.iter();
    let schema = catalog()
        .schema(&gvk)
        .unwrap_or_else(|| Arc::new(Schema::any()));
    VersionRules {
        number: VersionRules::next_number(),
        lead: VersionRules::lead_of(&api_version, &gvk.kind),
        gvk,
        api_version,
        hash: TAG,
        columns: Arc::new(schema::builtin::columns(&resource.gvr())),
        selectable: selectable
            .map(|(label, path)| SelectableField::of_go(label, path, &schema))
            .collect(),
        schema,
        status: if has("status") {
            StatusMode::Subresource
        } else {
            StatusMode::Inline
        },
        scale: has("scale").then(|| ScalePaths {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            label_selector: strategy.scale_selector.map(str::to_owned),
        }),
        deprecation: strategy.deprecation.map(str::to_owned),
    }
}

/// The rules of the kind that a version is stored as; the version itself where it is that kind.
fn stored_rules(version: &Arc<VersionRules>, stored: &StoredAs) -> Arc<VersionRules> {
    let (group, _) = stored.resource;
    if version.gvk.group == group {
        return Arc::clone(version);
    }
    let gvk = GroupVersionKind::new(group, stored.version, stored.kind);
    Arc::new(VersionRules {
        number: VersionRules::next_number(),
        lead: VersionRules::lead_of(&gvk.api_version(), stored.kind),
        api_version: gvk.api_version(),
        gvk,
        schema: Arc::clone(&version.schema),
        hash: TAG,
        columns: Arc::clone(&version.columns),
        selectable: Vec::new(),
        status: StatusMode::Inline,
        scale: None,
        deprecation: None,
    })
}

fn served_kind(resource: &Resource, schema: Option<&Arc<Schema>>) -> ServedKind {
    let gvk = resource.gvk();
    let strategy = strategy::built_in(&GroupResource::new(&*resource.group, &*resource.resource));
    let served = |name: &str| {
        SUBRESOURCES.contains(&name)
            || strategy.endpoints.iter().any(|(own, _)| *own == name)
            || (resource.group.as_str(), resource.resource.as_str(), name) == ("", TOKEN.0, TOKEN.1)
    };
    let subresources = resource.subresources.iter().filter(|it| served(&it.name));
    ServedKind {
        gvr: resource.gvr(),
        list_kind: format!("{}List", gvk.kind),
        singular: resource.singular.clone(),
        namespaced: resource.namespaced,
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        verbs: resource.verbs.clone(),
        subresources: subresources
            .map(|it| ServedSubresource {
                name: it.name.clone(),
                gvk: GroupVersionKind::new(
                    it.group.as_str(),
                    it.version.as_str(),
                    it.kind.as_str(),
                ),
                verbs: it.verbs.clone(),
            })
            .collect(),
        storage_version_hash: schema
            .map(|_| storage_version_hash(&gvk))
            .unwrap_or_default(),
        definition_schema: None,
        schema_hash: if schema.is_some() { TAG } else { 0 },
        selectable_fields: Vec::new(),
        source: KindSource::BuiltIn,
        digest: KindDigest::default(),
        gvk,
    }
}

/// Previews of definitions, which are created and never stored.
fn preview() -> ServedKind {
    let definition = CustomResourceDefinition::from_value(&wheelhouse::preview::definition())
        .expect("our own definition is one (tested)");
    let mut spec = definition.spec;
    spec.set_name_defaults();
    let names = spec.names.clone();
    let blueprint = Blueprint::new(spec, names, &BTreeMap::new(), Phase::Served);
    let installed = install(&Pool::default(), (&blueprint, &blueprint.marks()), None)
        .expect("our own definition compiles (tested)");
    let scope = installed.versions.values().next();
    let kind = &scope.expect("it has one version").kind;
    ServedKind {
        verbs: vec!["create".to_owned()],
        storage_version_hash: String::new(),
        ..ServedKind::clone(kind)
    }
}

/// Kinds of kro and of the project, which behave as if they were defined in the cluster.
fn own(kind: ClusterKind) -> Vec<ResourceScope> {
    let pool = Pool::default();
    let definitions = kro::definitions()
        .into_iter()
        .chain(wheelhouse::definitions());
    let mut scopes = Vec::new();
    for definition in definitions {
        let definition = CustomResourceDefinition::from_value(&definition)
            .expect("our own definitions are definitions (tested)");
        let mut spec = definition.spec;
        spec.set_name_defaults();
        let is = |group: &str, resource: &str| spec.group == group && spec.names.plural == resource;
        let only_root = is(wheelhouse::GROUP, wheelhouse::SPOKE_RESOURCE)
            || is(
                wheelhouse::INTERNAL_GROUP,
                wheelhouse::DISCOVERY_RECORD_RESOURCE,
            );
        let only_composite = is(
            wheelhouse::INTERNAL_GROUP,
            wheelhouse::SERVED_RESOURCE_RESOURCE,
        );
        if (only_root && kind != ClusterKind::Root)
            || (only_composite && kind != ClusterKind::Composite)
        {
            continue;
        }
        let (names, resource) = (spec.names.clone(), spec.group_resource());
        let mut blueprint = Blueprint::new(spec, names, &BTreeMap::new(), Phase::Served);
        blueprint.strategy = strategy::own(&resource);
        let installed = install(&pool, (&blueprint, &blueprint.marks()), None)
            .expect("our own definitions compile (tested)");
        let versions = installed.versions.values();
        scopes.extend(versions.map(|scope| with_subresources(ResourceScope::clone(scope))));
    }
    scopes
}

/// Publishes what is answered below a Spoke, beside any strategy: roles name it.
fn with_subresources(mut scope: ResourceScope) -> ResourceScope {
    if scope.gvk().kind != wheelhouse::SPOKE_KIND {
        return scope;
    }
    let mut kind = ServedKind::clone(&scope.kind);
    // The verbs of the proxy are those that a host asks its own roles for, as of `services/proxy`.
    for (name, of_kind, verbs) in [
        (
            wheelhouse::KUBECONFIG_SUBRESOURCE,
            wheelhouse::KUBECONFIG_REQUEST_KIND,
            &["create"][..],
        ),
        (
            wheelhouse::PROXY_SUBRESOURCE,
            wheelhouse::PROXY_OPTIONS_KIND,
            &["create", "delete", "get", "patch", "update"],
        ),
    ] {
        kind.subresources.push(ServedSubresource {
            name: name.to_owned(),
            gvk: GroupVersionKind::new(wheelhouse::GROUP, wheelhouse::VERSION, of_kind),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        });
    }
    scope.kind = Arc::new(kind);
    scope
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_layer_serves_can_be_claimed_by_a_definition() {
        for resource in catalog().resources() {
            let gvk = resource.gvk();
            assert!(
                api::reserved::claim_kind(&resource.group, &resource.resource, &gvk.kind).is_err(),
                "{gvk}"
            );
        }
        for definition in kro::definitions()
            .into_iter()
            .chain(wheelhouse::definitions())
        {
            let definition = CustomResourceDefinition::from_value(&definition).expect("ours");
            let name = &definition.metadata.name;
            assert!(api::reserved::claim(&definition.spec).is_err(), "{name}");
        }
    }

    #[test]
    fn every_layer_can_be_made_and_serves_what_it_must() {
        for (kind, group, version, resource, served) in [
            (ClusterKind::Root, "", "v1", "namespaces", true),
            (ClusterKind::Root, "", "v1", "pods", false),
            (
                ClusterKind::Root,
                "wheelhouse.dev",
                "v1alpha1",
                "spokes",
                true,
            ),
            (
                ClusterKind::Root,
                "kro.run",
                "v1alpha1",
                "resourcegraphdefinitions",
                true,
            ),
            (ClusterKind::Embedded, "", "v1", "pods", true),
            (ClusterKind::Embedded, "apps", "v1", "deployments", true),
            (
                ClusterKind::Embedded,
                "autoscaling",
                "v1",
                "horizontalpodautoscalers",
                false,
            ),
            (
                ClusterKind::Embedded,
                "wheelhouse.dev",
                "v1alpha1",
                "spokes",
                false,
            ),
            (ClusterKind::Composite, "", "v1", "namespaces", false),
            (
                ClusterKind::Composite,
                "kro.run",
                "v1alpha1",
                "resourcegraphdefinitions",
                true,
            ),
            (
                ClusterKind::Composite,
                "internal.wheelhouse.dev",
                "v1alpha1",
                "servedresources",
                true,
            ),
            (
                ClusterKind::Embedded,
                "internal.wheelhouse.dev",
                "v1alpha1",
                "inventories",
                true,
            ),
        ] {
            let found = layer(kind).get(group, version, resource).is_some();
            assert_eq!(found, served, "{kind:?} {group}/{version} {resource}");
        }
    }
}
