//! The schemas that a definition is compiled against: the built-in kinds, then what the receiving
//! clusters publish in their OpenAPI v3.
//!
//! Compiling is pure, so everything that a definition names is fetched before.
//!
//! # Invariants
//!
//! What one cluster publishes is a *view* of its own, and never mixed into another's: a definition compiles if it does
//! with one view, whatever the others say. The view that most clusters share is tried first, of several the one of the
//! oldest Spoke, and before all the one with which the definition compiled last. A cluster that does not answer in time
//! is passed over for a while; its text is read within what a spoke may make the hub hold.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use api::{
    ClusterScope, GroupVersion, GroupVersionKind, LogicalCluster, kro::RgdSpec,
    validation::is_dns1035_label,
};
use client::{Dynamic, Path};
use futures::future::join_all;
use graph::{ResolveError, ResolvedKind, SchemaResolver};
use schema::Schema;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use spokes::State;
use tokio::time::Instant;
use tracing::debug;

use crate::{
    engine::Engine,
    state::{
        keys::text,
        served::DefinitionKey,
        target::{Reach, Target, TargetSort},
    },
};

/// How long a cluster may take for what a definition names.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long one that took longer is not asked again.
const PAUSE: Duration = Duration::from_secs(30);

/// How many clusters are asked at a time.
const ASKED_COUNT: usize = 4;

/// How many clusters that serve everything are enough to tell what most say.
const VIEW_COUNT: usize = 3;

/// What receiving clusters say of the kinds that one definition names, the view to be tried first in front.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    views: Vec<View>,
    /// What all of them serve together, for a definition whose kinds are in several clusters.
    union: FetchedSchemas,
}

#[derive(Debug)]
struct View {
    fingerprint: u64,
    schemas: FetchedSchemas,
}

/// The kinds that one definition names, as far as they are served.
#[derive(Debug, Clone, Default)]
pub(crate) struct FetchedSchemas {
    kinds: HashMap<GroupVersionKind, Found>,
    served: BTreeSet<GroupVersion>,
    /// A cluster could not be asked: what is missing may be there.
    unavailable: Option<String>,
}

#[derive(Debug, Clone)]
struct Found {
    kind: ResolvedKind,
    fingerprint: u64,
}

/// Fetches what a definition names and the built-in kinds do not have.
pub(crate) async fn fetch(
    engine: &Engine,
    key: &DefinitionKey,
    spec: &RgdSpec,
    home: &Target,
) -> Fetched {
    let mut wanted = named(spec);
    wanted.retain(|gvk| ResolvedKind::built_in(gvk).is_none());
    let generated = generated(engine, home, &wanted);
    wanted.retain(|gvk| !generated.contains_key(gvk));
    let mut read = Vec::new();
    if !wanted.is_empty() {
        let mut places: Vec<Arc<Target>> = engine.fleet.all();
        places.retain(|target| target.cluster == home.cluster || home.sort == TargetSort::Root);
        // Root first: kinds that other definitions generate are there.
        places.sort_by(|one, other| {
            let age = |target: &Target| (target.sort != TargetSort::Root, target.created.clone());
            age(one).cmp(&age(other))
        });
        for places in places.chunks(ASKED_COUNT) {
            let asked = places.iter().map(|target| ask(target, &wanted));
            read.extend(join_all(asked).await);
            let is_whole = |read: &&FetchedSchemas| read.kinds.len() == wanted.len();
            let whole_count = read.iter().filter(is_whole).count();
            let root_has_all = read.first().is_some_and(|root| is_whole(&root));
            if root_has_all || whole_count >= VIEW_COUNT {
                break;
            }
        }
    }
    let is_whole = |read: &FetchedSchemas| read.kinds.len() == wanted.len();
    if home.sort == TargetSort::Root && !wanted.is_empty() && !read.iter().any(is_whole) {
        read.extend(fetch_elsewhere(engine, &wanted).await);
    }
    Fetched::of(read, engine.definitions.view(key)).with(&generated)
}

/// Asks spokes that other processes look after, until one serves everything.
async fn fetch_elsewhere(
    engine: &Engine,
    wanted: &BTreeSet<GroupVersionKind>,
) -> Vec<FetchedSchemas> {
    let mut read = Vec::new();
    if !engine.shares.are_shared() {
        return read;
    }
    for cluster in engine.spokes.names() {
        let entry = engine.spokes.get(&cluster);
        let Some(State::Connected(link)) = entry.map(|entry| entry.state) else {
            continue;
        };
        if engine.fleet.get(&cluster).is_some() || link.trouble().is_some() {
            continue;
        }
        let mut fetched = FetchedSchemas::default();
        let source = Source {
            dynamic: &link.for_controllers(),
            cluster: &cluster,
            scope: None,
        };
        let asked = fetch_all(source, wanted, &mut fetched);
        if tokio::time::timeout(PATIENCE, asked).await.is_err() {
            fetched.unavailable = Some(format!(
                "spoke {:?} timed out while schemas were fetched from it",
                cluster.as_str()
            ));
        }
        let is_whole = fetched.kinds.len() == wanted.len();
        read.push(fetched);
        if is_whole {
            break;
        }
    }
    read
}

/// Where schemas are read, and as whom.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) dynamic: &'a Dynamic,
    pub(crate) cluster: &'a LogicalCluster,
    pub(crate) scope: Option<&'a ClusterScope>,
}

/// Fetches what a definition names and the built-in kinds do not have from places of the hub, as somebody sees them there. Nothing is
/// read after `end`: what is missing then may be there.
pub(crate) async fn fetch_as_seen(sources: &[Source<'_>], spec: &RgdSpec, end: Instant) -> Fetched {
    let mut wanted = named(spec);
    wanted.retain(|gvk| ResolvedKind::built_in(gvk).is_none());
    let mut read: Vec<FetchedSchemas> = Vec::new();
    for sources in sources.chunks(ASKED_COUNT) {
        let is_whole = |read: &&FetchedSchemas| read.kinds.len() == wanted.len();
        if read.iter().filter(is_whole).count() >= VIEW_COUNT || wanted.is_empty() {
            break;
        }
        if Instant::now() >= end {
            let reason = "not all clusters were asked for their schemas in time".to_owned();
            read.push(FetchedSchemas {
                unavailable: Some(reason),
                ..FetchedSchemas::default()
            });
            break;
        }
        let patience = end.min(Instant::now() + PATIENCE);
        let asked = sources.iter().map(|source| async {
            let mut fetched = FetchedSchemas::default();
            let asked = fetch_all(*source, &wanted, &mut fetched);
            if tokio::time::timeout_at(patience, asked).await.is_err() {
                let cluster = source.cluster.as_str();
                let reason =
                    format!("spoke {cluster:?} timed out while schemas were fetched from it");
                fetched.unavailable = Some(reason);
            }
            fetched
        });
        read.extend(join_all(asked).await);
    }
    Fetched::of(read, None)
}

/// Returns the kinds that definitions of the hub serve in a cluster: what they are is known here first, and the cluster
/// tells of them with delay.
fn generated(
    engine: &Engine,
    home: &Target,
    wanted: &BTreeSet<GroupVersionKind>,
) -> HashMap<GroupVersionKind, Found> {
    let found = wanted.iter().filter_map(|gvk| {
        let kind = api::GroupKind {
            group: gvk.group.clone(),
            kind: gvk.kind.clone(),
        };
        let served = engine.definitions.lookup(&home.cluster, &kind)?;
        if !home.kinds.are_ours(&served) {
            return None;
        }
        let kind = ResolvedKind::defined(&served.definition, &gvk.version).ok()?;
        let mut hasher = DefaultHasher::new();
        // Not by its text: what its status is made of depends on what it was compiled by.
        let definition = serde_json::to_string(&served.definition).ok()?;
        (gvk, definition).hash(&mut hasher);
        let fingerprint = hasher.finish();
        Some((gvk.clone(), Found { kind, fingerprint }))
    });
    found.collect()
}

/// Asks one cluster. Whatever fails is in what is returned, and goes no further.
async fn ask(target: &Target, wanted: &BTreeSet<GroupVersionKind>) -> FetchedSchemas {
    let mut fetched = FetchedSchemas::default();
    let cluster = target.cluster.as_str();
    if target.reach() != Reach::Reachable {
        fetched.unavailable = Some(format!("spoke {cluster:?} is unreachable"));
        return fetched;
    }
    if !target.gives_schemas() {
        fetched.unavailable = Some(format!(
            "spoke {cluster:?} timed out while schemas were fetched from it"
        ));
        return fetched;
    }
    let asked =
        tokio::time::timeout(PATIENCE, fetch_all(source_of(target), wanted, &mut fetched)).await;
    if asked.is_err() {
        target.pause_schemas(PAUSE);
        fetched.unavailable = Some(format!(
            "spoke {cluster:?} timed out while schemas were fetched from it"
        ));
    }
    fetched
}

fn source_of(target: &Target) -> Source<'_> {
    Source {
        dynamic: &target.dynamic,
        cluster: &target.cluster,
        scope: target.scope.as_ref(),
    }
}

async fn fetch_all(
    source: Source<'_>,
    wanted: &BTreeSet<GroupVersionKind>,
    fetched: &mut FetchedSchemas,
) {
    let versions: BTreeSet<GroupVersion> =
        wanted.iter().map(GroupVersionKind::group_version).collect();
    for version in versions {
        match fetch_version(source, &version, wanted).await {
            Ok(Some(kinds)) => {
                fetched.served.insert(version);
                fetched.kinds.extend(kinds);
            }
            Ok(None) => {}
            Err(error) => {
                debug!(cluster = %source.cluster, %version, error = error.chain(), "cannot read schemas");
                let cluster = source.cluster.as_str();
                fetched.unavailable = Some(format!("spoke {cluster:?}: {}", error.chain()));
            }
        }
    }
}

/// Returns the kinds that a definition's templates and references name literally.
fn named(spec: &RgdSpec) -> BTreeSet<GroupVersionKind> {
    let mut kinds = BTreeSet::new();
    for resource in &spec.resources {
        let template = resource
            .template
            .as_ref()
            .and_then(GroupVersionKind::from_object);
        let external = resource.external_ref.as_ref().and_then(|external| {
            let version: GroupVersion = external.api_version.parse().ok()?;
            Some(version.with_kind(&external.kind))
        });
        kinds.extend(template.or(external));
    }
    kinds
}

type Kinds = Vec<(GroupVersionKind, Found)>;

fn openapi(source: Source<'_>) -> Result<Path, client::PathError> {
    let path = Path::below(source.scope);
    path.then("path", "openapi")?.then("path", "v3")
}

async fn fetch_version(
    source: Source<'_>,
    version: &GroupVersion,
    wanted: &BTreeSet<GroupVersionKind>,
) -> Result<Option<Kinds>, client::Error> {
    // What a definition's author wrote: a version that no path can name is served nowhere.
    let Ok(path) = Path::below(source.scope).version(version) else {
        return Ok(None);
    };
    let budget = source.dynamic.client().budget();
    let resources: Value = match source.dynamic.raw_get(path).await {
        Ok(bytes) => budget.parse(&bytes).await?,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let path = openapi(source)?.version(version)?;
    let bytes = source.dynamic.raw_get(path).await?;
    let document: Value = budget.parse(&bytes).await?;
    let (version, wanted) = (version.clone(), wanted.clone());
    let read = move || kinds_of(&resources, &document, &version, wanted);
    client::apart::run(bytes.len(), read).await.map(Some)
}

/// Finds the wanted kinds of a version in what a cluster says of it, each once.
fn kinds_of(
    resources: &Value,
    document: &Value,
    version: &GroupVersion,
    mut wanted: BTreeSet<GroupVersionKind>,
) -> Kinds {
    let mut kinds = Vec::new();
    for resource in resources["resources"].as_array().into_iter().flatten() {
        let (name, kind) = (text(resource, &["name"]), text(resource, &["kind"]));
        let gvk = version.with_kind(kind);
        // The name becomes a part of URLs, in this cluster and in others.
        if !is_dns1035_label(name).is_empty() || !wanted.remove(&gvk) {
            continue;
        }
        if let Some((schema, digest)) = schema_of(document, &gvk) {
            let namespaced = resource["namespaced"].as_bool().unwrap_or_default();
            let mut hasher = DefaultHasher::new();
            (&gvk, name, namespaced, digest).hash(&mut hasher);
            let kind = ResolvedKind {
                schema,
                namespaced,
                resource: name.to_owned(),
            };
            let fingerprint = hasher.finish();
            kinds.push((gvk, Found { kind, fingerprint }));
        }
    }
    kinds
}

/// Finds a kind in an OpenAPI v3 document and resolves the references to other models of it. Returns a digest of it too.
fn schema_of(document: &Value, gvk: &GroupVersionKind) -> Option<(Arc<Schema>, u64)> {
    let schemas = document["components"]["schemas"].as_object()?;
    let is_kind = |schema: &Value| {
        let named = schema["x-kubernetes-group-version-kind"]
            .as_array()
            .into_iter()
            .flatten();
        named.into_iter().any(|named| {
            text(named, &["group"]) == gvk.group
                && text(named, &["version"]) == gvk.version
                && text(named, &["kind"]) == gvk.kind
        })
    };
    let found = schemas.values().find(|schema| is_kind(schema))?;
    let mut left = Left {
        nodes: NODE_COUNT_MAX,
        bytes: SCHEMA_BYTES_MAX,
    };
    let resolved = inline(found, document, 0, &mut left);
    if left.is_used_up() {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    resolved.to_string().hash(&mut hasher);
    let schema = Schema::from_openapi(&resolved).ok()?;
    Some((schema, hasher.finish()))
}

/// References nested deeper than this are cut: a kind that contains itself (JSON schemas do). What is written without a
/// reference is as deep as the parser lets it be, and is never cut: not everything in it is a schema.
const DEPTH_MAX: usize = 24;

/// A schema with more parts, once its references are resolved, is none: each level of references can multiply it. The
/// largest built-in one, of Pods, has some 5,000.
const NODE_COUNT_MAX: usize = 200_000;

/// A schema with more bytes in its keys and texts, once its references are resolved, is none either: a reference is short, and
/// what it names is as long as the cluster likes. The largest built-in one, of Pods, has some 600,000.
const SCHEMA_BYTES_MAX: usize = 16 << 20;

/// What a schema may still come to while its references are resolved.
struct Left {
    nodes: usize,
    bytes: usize,
}

// === impl Left ===

impl Left {
    const fn is_used_up(&self) -> bool {
        self.nodes == 0 || self.bytes == 0
    }

    fn take(&mut self, nodes: usize, text: &str) {
        self.nodes = self.nodes.saturating_sub(nodes);
        self.bytes = self.bytes.saturating_sub(text.len());
    }
}

/// Returns a copy of a schema in which references are replaced by what they name. All that is copied is taken from `left`; once
/// it is used up, what is returned is of no use.
fn inline(schema: &Value, document: &Value, depth: usize, left: &mut Left) -> Value {
    let opaque = || serde_json::json!({"x-kubernetes-preserve-unknown-fields": true});
    left.take(1, schema.as_str().unwrap_or_default());
    if left.is_used_up() {
        return opaque();
    }
    match schema {
        Value::Object(fields) => {
            let reference = fields.get("$ref").or_else(|| match fields.get("allOf") {
                // How Kubernetes writes a reference that has siblings.
                Some(Value::Array(one)) if one.len() == 1 => one[0].get("$ref"),
                _ => None,
            });
            if let Some(path) = reference.and_then(Value::as_str) {
                if depth > DEPTH_MAX {
                    return opaque();
                }
                let target = path
                    .strip_prefix("#")
                    .and_then(|pointer| document.pointer(pointer))
                    .unwrap_or(&Value::Null);
                let mut inlined = inline(target, document, depth + 1, left);
                if let Some(into) = inlined.as_object_mut() {
                    for (key, value) in fields {
                        if key != "$ref" && key != "allOf" {
                            left.take(0, key);
                            into.insert(key.clone(), inline(value, document, depth + 1, left));
                        }
                    }
                }
                return inlined;
            }
            let mut inlined = serde_json::Map::new();
            for (key, value) in fields {
                left.take(0, key);
                inlined.insert(key.clone(), inline(value, document, depth + 1, left));
            }
            Value::Object(inlined)
        }
        Value::Array(items) => {
            let items = items.iter();
            Value::Array(
                items
                    .map(|item| inline(item, document, depth + 1, left))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

// === impl Fetched ===

impl Fetched {
    /// Makes views of what clusters said, the oldest in front.
    fn of(read: Vec<FetchedSchemas>, last: Option<u64>) -> Self {
        let mut union = FetchedSchemas::default();
        let mut views: Vec<(usize, View)> = Vec::new();
        for schemas in read {
            union.served.extend(schemas.served.iter().cloned());
            let mut kinds = schemas.kinds.clone();
            kinds.extend(std::mem::take(&mut union.kinds));
            union.kinds = kinds;
            union.unavailable = union.unavailable.or_else(|| schemas.unavailable.clone());
            if schemas.kinds.is_empty() {
                continue;
            }
            let fingerprint = schemas.fingerprint();
            match views
                .iter_mut()
                .find(|(_, view)| view.fingerprint == fingerprint)
            {
                Some((count, _)) => *count += 1,
                None => views.push((
                    1,
                    View {
                        fingerprint,
                        schemas,
                    },
                )),
            }
        }
        // Stable: of two that as many share, the older one stays in front.
        views.sort_by_key(|(count, view)| {
            (
                Some(view.fingerprint) != last,
                std::cmp::Reverse(view.schemas.kinds.len()),
                std::cmp::Reverse(*count),
            )
        });
        let views = views.into_iter().map(|(_, view)| view).collect();
        Self { views, union }
    }

    /// Adds kinds that are known without having been asked for, to all views.
    fn with(mut self, known: &HashMap<GroupVersionKind, Found>) -> Self {
        for schemas in self
            .views
            .iter_mut()
            .map(|view| &mut view.schemas)
            .chain([&mut self.union])
        {
            schemas.kinds.extend(known.clone());
        }
        self
    }

    /// Feeds to `digest` all by which a definition compiles.
    pub(crate) fn digest(&self, digest: &mut Sha256) {
        let views = self.views.iter().map(|view| &view.schemas);
        for schemas in views.chain([&self.union]) {
            schemas.digest(digest);
        }
    }

    /// Compiles with the first view with which it succeeds. The error is that of all clusters together, which have most
    /// of the kinds.
    pub(crate) fn compile<T, E>(
        &self,
        compile: impl Fn(&FetchedSchemas) -> Result<T, E>,
    ) -> Result<(T, Option<u64>), E> {
        for view in &self.views {
            if let Ok(compiled) = compile(&view.schemas) {
                return Ok((compiled, Some(view.fingerprint)));
            }
        }
        compile(&self.union).map(|compiled| (compiled, None))
    }
}

// === impl FetchedSchemas ===

impl FetchedSchemas {
    fn digest(&self, digest: &mut Sha256) {
        let mut kinds: Vec<_> = self.kinds.iter().collect();
        kinds.sort_by_key(|(gvk, _)| *gvk);
        let kinds = kinds.into_iter().map(|(gvk, found)| {
            let kind = &found.kind;
            (gvk, &kind.resource, kind.namespaced, found.fingerprint)
        });
        let kinds: Vec<_> = kinds.collect();
        digest.update(format!(
            "{kinds:?} {:?} {:?}\n",
            self.served, self.unavailable
        ));
    }

    fn fingerprint(&self) -> u64 {
        let mut digests: Vec<u64> = self.kinds.values().map(|found| found.fingerprint).collect();
        digests.sort_unstable();
        let mut hasher = DefaultHasher::new();
        digests.hash(&mut hasher);
        hasher.finish()
    }
}

impl SchemaResolver for FetchedSchemas {
    fn resolve(&self, gvk: &GroupVersionKind) -> Result<ResolvedKind, ResolveError> {
        let fetched = || self.kinds.get(gvk).map(|found| found.kind.clone());
        if let Some(kind) = ResolvedKind::built_in(gvk).or_else(fetched) {
            return Ok(kind);
        }
        if let Some(reason) = &self.unavailable {
            return Err(ResolveError::Unavailable(reason.clone()));
        }
        let is_version_served = self.served.contains(&gvk.group_version());
        Err(ResolveError::not_served(gvk, is_version_served))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gvk(kind: &str) -> GroupVersionKind {
        GroupVersion::new("example.com", "v1").with_kind(kind)
    }

    /// What a cluster says whose Widgets have a field of this type.
    fn says(type_: &str) -> FetchedSchemas {
        let document = json!({"components": {"schemas": {"W": {
            "type": "object", "properties": {"a": {"type": type_}},
            "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}],
        }}}});
        let (schema, fingerprint) = schema_of(&document, &gvk("Widget")).expect("it is there");
        let kind = ResolvedKind {
            schema,
            namespaced: true,
            resource: "widgets".to_owned(),
        };
        FetchedSchemas {
            kinds: HashMap::from([(gvk("Widget"), Found { kind, fingerprint })]),
            ..FetchedSchemas::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_clusters_do_not_take_longer_than_what_is_left() {
        let hub = client::in_process(tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
        }));
        let dynamic = Dynamic::new(hub);
        let spec: RgdSpec = serde_json::from_value(json!({
            "schema": {"apiVersion": "v1", "kind": "App"},
            "resources": [{"id": "w", "template": {"apiVersion": "example.com/v1", "kind": "Widget"}}],
        }))
        .expect("it is a spec");
        let cluster = "east".parse().expect("it is a name");
        let source = Source {
            dynamic: &dynamic,
            cluster: &cluster,
            scope: None,
        };
        let start = Instant::now();
        let end = start + Duration::from_secs(7);
        let fetched = fetch_as_seen(&[source; 100], &spec, end).await;
        let elapsed = start.elapsed();
        assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
        let resolved = fetched.union.resolve(&gvk("Widget"));
        assert!(matches!(resolved, Err(ResolveError::Unavailable(_))));
    }

    /// The story: a CRD of kro's examples has `required` 25 levels deep, which was cut, and its kind was not found.
    #[test]
    fn deep_schemas_and_schemas_that_contain_themselves_are_found() {
        let mut deep =
            json!({"type": "object", "oneOf": [{"not": {"anyOf": [{"required": ["a"]}]}}]});
        for _ in 0..12 {
            deep = json!({"type": "object", "properties": {"in": deep}});
        }
        let own = json!({"$ref": "#/components/schemas/W"});
        let document = json!({"components": {"schemas": {"W": {
            "type": "object", "properties": {"deep": deep, "own": own},
            "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}],
        }}}});
        assert!(schema_of(&document, &gvk("Widget")).is_some());
    }

    #[test]
    fn all_that_a_definition_compiles_by_is_in_the_digest() {
        let digest = |read: Vec<FetchedSchemas>| -> [u8; 32] {
            let mut digest = Sha256::new();
            Fetched::of(read, None).digest(&mut digest);
            digest.finalize().into()
        };
        let (strings, numbers) = (says("string"), says("integer"));
        let mut unavailable = strings.clone();
        unavailable.unavailable = Some("it did not answer".to_owned());
        let mut elsewhere = strings.clone();
        let widget = elsewhere.kinds.get_mut(&gvk("Widget"));
        widget.expect("it is there").kind.namespaced = false;
        let mut served = strings.clone();
        served.served.insert(GroupVersion::new("example.com", "v2"));
        let of_strings = || vec![strings.clone()];
        assert_eq!(digest(of_strings()), digest(of_strings()), "the same");
        for (name, read) in [
            ("another schema", vec![numbers.clone()]),
            ("another scope", vec![elsewhere]),
            ("another version served", vec![served]),
            ("a cluster that did not answer", vec![unavailable]),
            ("a second view", vec![strings.clone(), numbers]),
            ("nothing", Vec::new()),
        ] {
            assert_ne!(digest(read), digest(of_strings()), "{name}");
        }
    }

    /// Compiles for schemas that have the fingerprint of a type.
    fn compiles_for(type_: &'static str) -> impl Fn(&FetchedSchemas) -> Result<(), String> {
        let wanted = says(type_).fingerprint();
        move |schemas| {
            if schemas.fingerprint() == wanted {
                Ok(())
            } else {
                Err("another type".to_owned())
            }
        }
    }

    #[test]
    fn a_cluster_with_a_schema_of_its_own_decides_for_no_other() {
        let first = |read: Vec<FetchedSchemas>, last| Fetched::of(read, last).views[0].fingerprint;
        let (good, lie) = (says("string"), says("integer"));
        let fingerprint = good.fingerprint();
        let read = || vec![lie.clone(), good.clone(), good.clone()];
        assert_eq!(first(read(), None), fingerprint, "most say so");
        let read = || vec![lie.clone(), good.clone()];
        assert_eq!(
            first(read(), Some(fingerprint)),
            fingerprint,
            "it was so before"
        );
        let fetched = Fetched::of(read(), None);
        let compiled = fetched.compile(compiles_for("string"));
        assert_eq!(compiled, Ok(((), Some(fingerprint))), "one is enough");
        let compiled = fetched.compile(compiles_for("boolean"));
        assert!(compiled.is_err(), "nobody has it");
    }

    #[test]
    fn a_schema_that_multiplies_with_each_reference_is_none() {
        let mut schemas = serde_json::Map::new();
        for level in 0..24 {
            let below = json!({"$ref": format!("#/components/schemas/L{}", level + 1)});
            let fields = ["a", "b", "c", "d", "e", "f", "g", "h"]
                .map(|name| (name.to_owned(), below.clone()));
            let fields = serde_json::Map::from_iter(fields);
            schemas.insert(format!("L{level}"), json!({"properties": fields}));
        }
        schemas["L0"]["x-kubernetes-group-version-kind"] =
            json!([{"group": "example.com", "version": "v1", "kind": "Bomb"}]);
        let document = json!({"components": {"schemas": schemas}});
        assert!(
            schema_of(&document, &gvk("Bomb")).is_none(),
            "8 times as many with each of 8 levels"
        );
    }

    #[test]
    fn a_schema_that_repeats_long_texts_is_none() {
        let long = "x".repeat(1 << 20);
        let fields = |field: fn(&str) -> Value| -> Value {
            (0..64)
                .map(|at| (format!("f{at}"), field("#/components/schemas/Long")))
                .collect()
        };
        let references: fn(&str) -> Value = |to| json!({"$ref": to});
        let ways: [(&str, Value, fn(&str) -> Value); 3] = [
            (
                "a text",
                json!({"type": "string", "description": long}),
                references,
            ),
            (
                "a key",
                json!({"properties": {(long): {"type": "string"}}}),
                references,
            ),
            (
                "beside references",
                json!({}),
                |to| json!({"$ref": to, "description": "x".repeat(1 << 20)}),
            ),
        ];
        for (name, of, field) in ways {
            let kind = json!([{"group": "example.com", "version": "v1", "kind": "Bomb"}]);
            let top = json!({"properties": fields(field), "x-kubernetes-group-version-kind": kind});
            let document = json!({"components": {"schemas": {"Bomb": top, "Long": of}}});
            assert!(schema_of(&document, &gvk("Bomb")).is_none(), "{name}");
        }
    }

    #[test]
    fn a_kind_is_read_once_however_often_it_is_named() {
        let named = json!({"name": "bombs", "kind": "Bomb", "namespaced": true});
        let resources = json!({"resources": [named, named, {"name": "others", "kind": "Bomb"}]});
        let kind = json!([{"group": "example.com", "version": "v1", "kind": "Bomb"}]);
        let document = json!({"components": {"schemas": {
            "Bomb": {"type": "object", "x-kubernetes-group-version-kind": kind}}}});
        let wanted = BTreeSet::from([gvk("Bomb")]);
        let kinds = kinds_of(&resources, &document, &gvk("Bomb").group_version(), wanted);
        assert_eq!(kinds.len(), 1);
    }
}
