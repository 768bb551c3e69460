//! Every example of kro, compiled against the kinds it needs and held against kro's own verdict: whether it is accepted, in
//! which words it is refused, the order of its resources, and the definition that comes of it.
//!
//! The corpus is not part of the tree: it is looked for beside it, or where `WHEELHOUSE_CORPUS` says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::crd::CustomResourceDefinition;
use api::kro::RgdSpec;
use api::{GroupVersion, GroupVersionKind};
use schema::Schema;
use serde_json::{Value, json};
use serde_saphyr::DuplicateKeyPolicy;
use wheelhouse_graph::{
    CompiledGraph, ResolveError, ResolvedKind, SchemaResolver, compile, spec_hash,
};

/// Examples whose verdict is not the compiler's business.
const ELSEWHERE: [(&str, &str); 1] = [(
    "gcp-gemma-on-tpu",
    "refused by the API server's strict decoding, before it is compiled",
)];

/// Examples with another verdict than kro's, each with the reason why that is right for now.
const DIFFERENT: [(&str, &str); 0] = [];

/// Finds the corpus, or says that it is not there.
#[expect(clippy::print_stdout, reason = "a test that is left out must be seen")]
fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let path = std::env::var_os("WHEELHOUSE_CORPUS").map_or(beside, PathBuf::from);
    if path.join("kro-examples/verdicts.json").is_file() {
        return Some(path);
    }
    println!("skipped: corpus absent");
    None
}

/// A cluster with the built-in kinds, and definitions that were put there.
#[derive(Clone, Default)]
struct Cluster {
    kinds: BTreeMap<GroupVersionKind, ResolvedKind>,
    group_versions: BTreeSet<GroupVersion>,
}

impl SchemaResolver for Cluster {
    fn resolve(&self, gvk: &GroupVersionKind) -> Result<ResolvedKind, ResolveError> {
        if let Some(kind) = self.kinds.get(gvk) {
            return Ok(kind.clone());
        }
        let is_version_served = self.group_versions.contains(&gvk.group_version());
        ResolvedKind::built_in(gvk).ok_or_else(|| ResolveError::not_served(gvk, is_version_served))
    }
}

impl Cluster {
    /// A cluster with kro's own kinds and those of the corpus.
    fn with_definitions_of(corpus: &Path) -> Self {
        let mut cluster = Self::default();
        cluster
            .group_versions
            .insert(GroupVersion::new("kro.run", "v1alpha1"));
        for file in files_below(&corpus.join("crds")) {
            let text = fs::read_to_string(&file).expect("is readable");
            let definition: Value = serde_saphyr::from_str(&text).expect("is YAML");
            cluster.define(
                &CustomResourceDefinition::from_value(&definition).expect("is a definition"),
            );
        }
        cluster
    }

    fn define(&mut self, definition: &CustomResourceDefinition) {
        let spec = &definition.spec;
        for version in spec.versions.iter().filter(|version| version.served) {
            let openapi = version
                .schema
                .as_ref()
                .and_then(|schema| schema.open_api_v3_schema.as_ref());
            let schema =
                Schema::from_openapi(openapi.expect("has a schema")).expect("is structural");
            let gvk = GroupVersionKind::new(&spec.group, &version.name, &spec.names.kind);
            self.group_versions.insert(gvk.group_version());
            let namespaced = spec.scope.is_namespaced();
            let kind = ResolvedKind {
                schema,
                namespaced,
                resource: spec.names.plural.clone(),
            };
            self.kinds.insert(gvk, kind);
        }
    }
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("is a directory") {
        let path = entry.expect("is readable").path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

struct Corpus {
    path: PathBuf,
    verdicts: Value,
    cluster: Cluster,
}

impl Corpus {
    fn open() -> Option<Self> {
        let path = corpus()?;
        let text =
            fs::read_to_string(path.join("kro-examples/verdicts.json")).expect("is readable");
        let verdicts = serde_json::from_str(&text).expect("is JSON");
        let cluster = Cluster::with_definitions_of(&path);
        Some(Self {
            path,
            verdicts,
            cluster,
        })
    }

    fn names(&self) -> Vec<String> {
        self.verdicts
            .as_object()
            .expect("a map")
            .keys()
            .cloned()
            .collect()
    }

    /// Compiles an example in a cluster that has the definitions which it needs.
    fn compile(&self, name: &str) -> Result<Arc<CompiledGraph>, String> {
        let mut cluster = self.cluster.clone();
        let needs = self.verdicts[name]["needs"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        for needed in needs.iter().filter_map(Value::as_str) {
            // What kro refused, it did not define either.
            if let Ok(graph) = self.compile(needed) {
                cluster.define(graph.definition());
            }
        }
        let file = self.path.join("kro-examples").join(name).join("rgd.yaml");
        let text = fs::read_to_string(&file).expect("is readable");
        let object = read_yaml(&text);
        let spec = RgdSpec::from_value(&object["spec"]).map_err(|status| status.message)?;
        let rgd_name = object["metadata"]["name"].as_str().expect("has a name");
        compile(&spec, rgd_name, &cluster).map_err(|error| error.to_string())
    }
}

/// Reads YAML as kubectl does: of two equal keys (one example has some) the last one counts.
fn read_yaml(text: &str) -> Value {
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    serde_saphyr::from_str_with_options(text, options).expect("is YAML")
}

fn skipped(name: &str) -> bool {
    ELSEWHERE
        .iter()
        .chain(&DIFFERENT)
        .any(|(skipped, _)| *skipped == name)
}

#[test]
fn every_example_gets_kros_verdict_in_kros_words() {
    let Some(corpus) = Corpus::open() else { return };
    let mut wrong = Vec::new();
    for name in corpus.names().iter().filter(|name| !skipped(name)) {
        let verdict = &corpus.verdicts[name];
        let accepted = verdict["accepted"].as_bool().expect("says so");
        let want = verdict
            .pointer("/conditions/GraphAccepted/message")
            .and_then(Value::as_str)
            .unwrap_or_default();
        match corpus.compile(name) {
            Ok(_) if accepted => {}
            Err(error) if !accepted && error == want => {}
            Ok(_) => wrong.push(format!("{name}: accepted, kro says {want}")),
            Err(error) => wrong.push(format!("{name}: {error}\n    kro says: {want}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_kubernetes_examples_are_all_accepted() {
    let Some(corpus) = Corpus::open() else { return };
    let names: Vec<String> = corpus
        .names()
        .into_iter()
        .filter(|name| name.starts_with("kubernetes-"))
        .collect();
    assert_eq!(names.len(), 12);
    for name in names {
        assert_eq!(corpus.compile(&name).err(), None, "{name}");
    }
}

#[test]
fn orders_and_dependencies_are_kros() {
    let Some(corpus) = Corpus::open() else { return };
    for name in corpus.names() {
        let verdict = &corpus.verdicts[&name];
        let Some(want) = verdict
            .get("topologicalOrder")
            .filter(|order| order.is_array())
        else {
            continue;
        };
        let Ok(graph) = corpus.compile(&name) else {
            continue;
        };
        assert_eq!(json!(graph.topological_order()), *want, "{name}");
        // kro lists the dependencies of one resource in no particular order.
        let sorted = |list: &Value| {
            let mut resources = list.as_array().cloned().unwrap_or_default();
            for resource in &mut resources {
                if let Some(dependencies) = resource["dependencies"].as_array_mut() {
                    dependencies.sort_by_key(|dependency| dependency["id"].to_string());
                }
            }
            resources
        };
        let got = json!(graph.resources_status());
        assert_eq!(sorted(&got), sorted(&verdict["resources"]), "{name}");
    }
}

#[test]
fn generated_definitions_are_kros() {
    let Some(corpus) = Corpus::open() else { return };
    let mut wrong = Vec::new();
    let mut count = 0;
    for name in corpus.names() {
        let Some(want) = corpus.verdicts[&name]
            .get("crd")
            .filter(|crd| crd.is_object())
        else {
            continue;
        };
        let Ok(graph) = corpus.compile(&name) else {
            continue;
        };
        count += 1;
        let mut got = graph.definition().to_value();
        // The API server's own default, and the owner's labels.
        got["spec"]["conversion"] = json!({"strategy": "None"});
        let mut want = want.clone();
        let labels = want["metadata"]["labels"].as_object_mut().expect("a map");
        labels.retain(|key, _| !key.starts_with("kro.run/"));
        if labels.is_empty() {
            want["metadata"]
                .as_object_mut()
                .expect("a map")
                .remove("labels");
        }
        if got != want {
            wrong.push(format!("{name}: {}", difference("", &got, &want)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(count > 30, "kro's definitions are in the corpus");
}

/// Returns where two values differ first.
fn difference(path: &str, got: &Value, want: &Value) -> String {
    match (got, want) {
        (Value::Object(got), Value::Object(want)) => {
            let keys: BTreeSet<&String> = got.keys().chain(want.keys()).collect();
            for key in keys {
                let (got, want) = (got.get(key), want.get(key));
                if got != want {
                    let null = Value::Null;
                    return difference(
                        &format!("{path}.{key}"),
                        got.unwrap_or(&null),
                        want.unwrap_or(&null),
                    );
                }
            }
            String::new()
        }
        (Value::Array(got), Value::Array(want)) if got.len() == want.len() => {
            let differs = got
                .iter()
                .zip(want)
                .enumerate()
                .find(|(_, (got, want))| got != want);
            differs.map_or(String::new(), |(index, (got, want))| {
                difference(&format!("{path}[{index}]"), got, want)
            })
        }
        (got, want) => format!("{path}: got {got}, want {want}"),
    }
}

#[test]
fn hashes_of_the_examples_do_not_depend_on_the_order_of_resources() {
    let Some(corpus) = Corpus::open() else { return };
    for name in corpus.names().iter().filter(|name| !skipped(name)) {
        let text = fs::read_to_string(corpus.path.join("kro-examples").join(name).join("rgd.yaml"))
            .expect("is readable");
        let object = read_yaml(&text);
        let mut spec = RgdSpec::from_value(&object["spec"]).expect("is a spec");
        let hash = spec_hash(&spec);
        spec.resources.reverse();
        assert_eq!(spec_hash(&spec), hash, "{name}");
    }
}
