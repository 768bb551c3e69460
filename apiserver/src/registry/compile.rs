//! From a definition to the scopes of its versions; each content is compiled once and shared by all clusters.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use api::crd::{ConversionWebhook, DefinitionSpec, DefinitionVersion, Names};
use api::{GroupVersionKind, kro};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use schema::Schema;
use schema::columns::Columns;
use serde::Deserialize as _;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::scope::{Conversion, End, Life, Phase, ResourceRules, ResourceScope};
use crate::objects::ResourcePrefix;
use crate::served::{KindDigest, KindSource, ServedKind, ServedSubresource};
use crate::strategy::rules::AuthorStamp;
use crate::strategy::version::{ScalePaths, SelectableField, StatusMode, VersionRules};
use crate::strategy::{self, Strategy};

/// What a definition says, apart from where it is.
#[derive(Debug, Clone)]
pub(super) struct Blueprint {
    /// The spec.
    pub(super) spec: DefinitionSpec,
    /// The names under which it is served.
    pub(super) names: Names,
    /// The rules of its instances.
    pub(super) strategy: &'static Strategy,
    /// Whether it is going away.
    pub(super) phase: Phase,
    /// Whether writes are tried in the spoke first.
    pub(super) is_judged: bool,
}

/// A compiled definition.
#[derive(Debug)]
pub(super) struct Compiled {
    content: u64,
    versions: Vec<(Arc<ServedKind>, Arc<VersionRules>)>,
    rules: Arc<ResourceRules>,
    phase: Phase,
    is_judged: bool,
}

/// What a definition adds to a cluster: one scope per served version.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    /// Identifies the content.
    pub(super) content: u64,
    /// Identifies how objects are read.
    reading: u64,
    /// The scopes by version.
    pub(super) versions: BTreeMap<String, Arc<ResourceScope>>,
    /// The life of all of them.
    pub(super) life: Life,
    /// Keeps the compiled form in the pool for others.
    pub(super) _compiled: Arc<Compiled>,
}

/// Marks of a blueprint, which are made of all its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// By which contents can be told apart.
    pub(super) content: u64,
    /// By which it can be told whether objects are read alike: the content without what concerns writes alone. While they are
    /// imported, they are read from the spoke.
    reading: u64,
}

/// Compiled definitions that are in use somewhere, by content.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Leaf lock; held while a definition is compiled, so that equal ones are compiled once.
    compiled: Mutex<HashMap<u64, Weak<Compiled>>>,
}

/// Why a definition cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    /// No version is the stored one.
    #[error("no storage version")]
    NoStorageVersion,
    /// A schema cannot be read.
    #[error("version {version}: {reason}")]
    Schema {
        /// The version.
        version: String,
        /// What is wrong.
        reason: String,
    },
}

const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
/// What is left while the definition goes.
const VERBS_TERMINATING: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
const VERBS_SUBRESOURCE: [&str; 3] = ["get", "patch", "update"];

/// Installs a blueprint in a cluster. Its life begins anew unless objects are read as they were `before`: a definition that
/// only began to go ends no watch, which is to see how its objects are deleted.
pub(super) fn install(
    pool: &Pool,
    (blueprint, marks): (&Blueprint, &Marks),
    before: Option<&Installed>,
) -> Result<Installed, CompileError> {
    let compiled = pool.compile(blueprint, marks.content)?;
    let reading = marks.reading;
    let before = before.filter(|before| before.reading == reading);
    let life = Life {
        phase: compiled.phase,
        is_judged: compiled.is_judged,
        end: before.map_or_else(End::default, |before| before.life.end.clone()),
    };
    let versions = compiled.versions.iter().map(|(kind, version)| {
        let scope = ResourceScope {
            kind: Arc::clone(kind),
            version: Arc::clone(version),
            rules: Arc::clone(&compiled.rules),
            life: life.clone(),
        };
        (kind.gvr.version.clone(), Arc::new(scope))
    });
    let versions: BTreeMap<_, _> = versions.collect();
    Ok(Installed {
        content: compiled.content,
        reading,
        versions,
        life,
        _compiled: compiled,
    })
}

// === impl Pool ===

impl Pool {
    fn compile(&self, blueprint: &Blueprint, content: u64) -> Result<Arc<Compiled>, CompileError> {
        let mut compiled = self.compiled.lock();
        if let Some(known) = compiled.get(&content).and_then(Weak::upgrade) {
            return Ok(known);
        }
        compiled.retain(|_, known| known.strong_count() > 0);
        let fresh = Arc::new(compile(blueprint, content)?);
        compiled.insert(content, Arc::downgrade(&fresh));
        Ok(fresh)
    }
}

// === impl Blueprint ===

impl Blueprint {
    /// A blueprint of a definition whose names were accepted.
    pub(super) fn new(
        spec: DefinitionSpec,
        names: Names,
        labels: &BTreeMap<String, String>,
        phase: Phase,
    ) -> Self {
        // kro labels what it generates; instances of other definitions are nobody's intent but their own.
        let generated = labels.contains_key(kro::keys::LABEL_RGD_NAME)
            || labels
                .get(kro::keys::LABEL_OWNED)
                .is_some_and(|owned| owned == "true");
        let author = if generated {
            AuthorStamp::Stamped
        } else {
            AuthorStamp::Absent
        };
        Self {
            spec,
            names,
            strategy: strategy::custom(author),
            phase,
            is_judged: false,
        }
    }

    /// Returns the marks of what it says.
    pub(super) fn marks(&self) -> Marks {
        let reading = self.reading();
        let terminating = self.phase == Phase::Terminating;
        let content = hash_of(&json!([reading, terminating, self.is_judged]));
        Marks { content, reading }
    }

    fn reading(&self) -> u64 {
        let spec = serde_json::to_value(&self.spec).unwrap_or_default();
        let names = serde_json::to_value(&self.names).unwrap_or_default();
        let author = self.strategy.author == AuthorStamp::Stamped;
        let importing = self.phase == Phase::Importing;
        hash_of(&json!([spec, names, author, importing]))
    }
}

/// The first eight bytes of SHA-256 over the canonical text of a value.
pub(crate) fn hash_of(value: &Value) -> u64 {
    let digest = Sha256::digest(value.to_string());
    let bytes = digest.first_chunk::<8>().copied().unwrap_or_default();
    u64::from_le_bytes(bytes)
}

/// What discovery shows of the version in which objects are stored.
pub(crate) fn storage_version_hash(gvk: &GroupVersionKind) -> String {
    let digest = Sha256::digest(format!("{}/{}/{}", gvk.group, gvk.version, gvk.kind));
    STANDARD.encode(digest.get(..8).unwrap_or_default())
}

fn compile(blueprint: &Blueprint, content: u64) -> Result<Compiled, CompileError> {
    let spec = &blueprint.spec;
    let storage = spec
        .storage_version()
        .ok_or(CompileError::NoStorageVersion)?;
    let mut rules = Vec::new();
    let mut stored = None;
    for version in &spec.versions {
        if !version.served && !version.storage {
            continue;
        }
        let compiled = Arc::new(version_rules(spec, version)?);
        if version.name == storage.name {
            stored = Some(Arc::clone(&compiled));
        }
        if version.served {
            rules.push((version, compiled));
        }
    }
    let stored = stored.ok_or(CompileError::NoStorageVersion)?;
    let conversion = match &spec.conversion {
        Some(conversion) if conversion.strategy == "Webhook" => {
            // One that cannot be read has no address, and converts nothing.
            let webhook = conversion
                .webhook
                .as_ref()
                .map(ConversionWebhook::deserialize);
            let webhook = webhook.and_then(Result::ok).unwrap_or_default();
            Conversion::Webhook(Arc::new(webhook))
        }
        _ => Conversion::None,
    };
    let resource = spec.group_resource();
    let versions = rules.iter().map(|(version, rules)| {
        let hash = storage_version_hash(&spec.gvk(&storage.name));
        (
            Arc::new(served_kind(blueprint, version, rules, hash)),
            Arc::clone(rules),
        )
    });
    Ok(Compiled {
        content,
        versions: versions.collect(),
        rules: Arc::new(ResourceRules {
            prefix: ResourcePrefix::new(&resource),
            resource,
            strategy: blueprint.strategy,
            storage: stored,
            versions: rules.iter().map(|(_, rules)| Arc::clone(rules)).collect(),
            conversion,
        }),
        phase: blueprint.phase,
        is_judged: blueprint.is_judged,
    })
}

/// Source: `apiextensions-apiserver/pkg/apiserver/customresource_handler.go` (`defaultDeprecationWarning`).
fn standard_deprecation(spec: &DefinitionSpec, version: &DefinitionVersion) -> String {
    let name = |version: &DefinitionVersion| {
        let gvk = spec.gvk(&version.name);
        format!("{} {}", gvk.api_version(), gvk.kind)
    };
    let is_better = |other: &&DefinitionVersion| {
        let order = api::version::compare(&other.name, &version.name);
        other.served && !other.deprecated && order == Ordering::Less
    };
    let better = spec.versions.iter().filter(is_better);
    match better.min_by(|a, b| api::version::compare(&a.name, &b.name)) {
        Some(better) => format!("{} is deprecated; use {}", name(version), name(better)),
        None => format!("{} is deprecated", name(version)),
    }
}

fn version_rules(
    spec: &DefinitionSpec,
    version: &DefinitionVersion,
) -> Result<VersionRules, CompileError> {
    let failed = |reason: String| CompileError::Schema {
        version: version.name.clone(),
        reason,
    };
    let text = version.open_api_schema().cloned();
    let (schema, hash) = match &text {
        Some(text) => {
            let schema = Schema::from_openapi(text).map_err(|error| failed(error.to_string()))?;
            (schema, hash_of(text))
        }
        None => (Arc::new(Schema::any()), 0),
    };
    let columns = Columns::of_version(&version.additional_printer_columns)
        .map_err(|error| failed(error.to_string()))?;
    let gvk = spec.gvk(&version.name);
    let api_version = gvk.api_version();
    let deprecation = version.deprecated.then(|| {
        let own = version.deprecation_warning.clone();
        own.unwrap_or_else(|| standard_deprecation(spec, version))
    });
    let selectable = version.selectable_fields.iter().map(|field| {
        let path = field.json_path.trim_start_matches('.');
        SelectableField::new(path, path)
    });
    Ok(VersionRules {
        number: VersionRules::next_number(),
        lead: VersionRules::lead_of(&api_version, &gvk.kind),
        gvk,
        api_version,
        schema,
        // Zero stands for "no schema" elsewhere; a tag is never that.
        hash: hash.max(1),
        columns: Arc::new(columns),
        selectable: selectable.collect(),
        status: if version.has_status() {
            StatusMode::Subresource
        } else {
            StatusMode::Inline
        },
        scale: version.scale().map(|scale| ScalePaths {
            spec_replicas: scale.spec_replicas_path.clone(),
            status_replicas: scale.status_replicas_path.clone(),
            label_selector: scale.label_selector_path.clone(),
        }),
        deprecation,
    })
}

fn served_kind(
    blueprint: &Blueprint,
    version: &DefinitionVersion,
    rules: &VersionRules,
    storage_version_hash: String,
) -> ServedKind {
    let (spec, names) = (&blueprint.spec, &blueprint.names);
    let gvk = spec.gvk(&version.name);
    let texts = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    let mut subresources = Vec::new();
    if version.has_status() {
        subresources.push(ServedSubresource {
            name: "status".into(),
            gvk: gvk.clone(),
            verbs: texts(&VERBS_SUBRESOURCE),
        });
    }
    if version.scale().is_some() {
        subresources.push(ServedSubresource {
            name: "scale".into(),
            gvk: GroupVersionKind::new("autoscaling", "v1", "Scale"),
            verbs: texts(&VERBS_SUBRESOURCE),
        });
    }
    let verbs = match blueprint.phase {
        Phase::Served | Phase::Importing => texts(&VERBS),
        Phase::Terminating => texts(&VERBS_TERMINATING),
    };
    ServedKind {
        gvr: spec.gvr(&version.name),
        gvk,
        list_kind: names.list_kind.clone(),
        singular: names.singular.clone(),
        namespaced: spec.scope.is_namespaced(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        verbs,
        subresources,
        storage_version_hash,
        definition_schema: version
            .open_api_schema()
            .map(|schema| schema.to_string().into()),
        schema_hash: rules.hash,
        selectable_fields: version
            .selectable_fields
            .iter()
            .map(|it| it.json_path.clone())
            .collect(),
        source: KindSource::Definition,
        digest: KindDigest::default(),
    }
}
