//! Which kinds a logical cluster serves from the hub's store: what discovery and OpenAPI are made from.
//!
//! # Invariants
//! - A [`ServedKinds`] never changes; a change of what is served is another one with another hash.
//! - Equal hashes mean equal discovery and OpenAPI documents, so these are cached under the hash alone.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use api::group::{GroupVersionKind, GroupVersionResource};
use bytes::Bytes;
use sha2::{Digest, Sha256};

/// One kind in one version, as it is published.
#[derive(Clone, Debug)]
pub struct ServedKind {
    /// Where it is served.
    pub gvr: GroupVersionResource,
    /// The kind of its objects.
    pub gvk: GroupVersionKind,
    /// The kind of its lists.
    pub list_kind: String,
    /// Singular name.
    pub singular: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Short names for kubectl.
    pub short_names: Vec<String>,
    /// Categories for kubectl (`all`).
    pub categories: Vec<String>,
    /// Verbs, in the order in which discovery lists them.
    pub verbs: Vec<String>,
    /// What is served below an object.
    pub subresources: Vec<ServedSubresource>,
    /// Base64 of the first 8 bytes of SHA-256 over `group/version/kind` of the storage version; empty for kinds that are not stored.
    pub storage_version_hash: String,
    /// The schema of a definition's version as it was written, as JSON: what OpenAPI shows. `None` for a built-in kind, whose schema the
    /// catalogue has.
    pub definition_schema: Option<Bytes>,
    /// Identifies a schema: equal hashes mean equal schemas. Zero where there is none.
    pub schema_hash: u64,
    /// JSON paths that field selectors may use beside metadata's, for `x-kubernetes-selectable-fields`.
    pub selectable_fields: Vec<String>,
    /// Where the kind comes from; decides its OpenAPI names and its patch types.
    pub source: KindSource,
    /// The digest of all this, once somebody has asked for it.
    pub digest: KindDigest,
}

/// The digest of a [`ServedKind`], which is asked for whenever a cluster serves another set of kinds. A clone has none: it may be changed.
#[derive(Debug, Default)]
pub struct KindDigest(OnceLock<[u8; 32]>);

/// What is served below an object, `status` for instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedSubresource {
    /// The name in the path.
    pub name: String,
    /// The kind of its objects: the parent's for `status`, `autoscaling/v1 Scale` for `scale`.
    pub gvk: GroupVersionKind,
    /// Verbs, in the order in which discovery lists them.
    pub verbs: Vec<String>,
}

/// Where a kind comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KindSource {
    /// The catalogue that is compiled in: strategic merge patch, Kubernetes' own OpenAPI names.
    BuiltIn,
    /// A CustomResourceDefinition, or one of our own kinds that is served like one.
    Definition,
}

/// Identifies a set of served kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentHash([u8; 32]);

/// All kinds that a logical cluster serves from the hub's store, sorted by group, version and resource.
#[derive(Clone, Debug)]
pub struct ServedKinds {
    hash: ContentHash,
    kinds: Vec<Arc<ServedKind>>,
}

// === impl KindDigest ===

impl Clone for KindDigest {
    fn clone(&self) -> Self {
        Self::default()
    }
}

// === impl ContentHash ===

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl ServedKinds ===

impl ServedKinds {
    /// Sorts and hashes `kinds`.
    pub fn new(mut kinds: Vec<Arc<ServedKind>>) -> Self {
        kinds.sort_by(|a, b| a.gvr.cmp(&b.gvr));
        let mut digest = Sha256::new();
        for kind in &kinds {
            digest.update(kind.digest());
        }
        Self {
            hash: ContentHash(digest.finalize().into()),
            kinds,
        }
    }

    /// Returns a mark that differs from that of any other set.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// The kinds, sorted by group, version and resource.
    pub fn kinds(&self) -> &[Arc<ServedKind>] {
        &self.kinds
    }

    /// Returns those of some groups alone.
    pub(crate) fn of_groups(&self, groups: &[String]) -> Self {
        let kinds = self.kinds.iter();
        let of_groups = kinds.filter(|kind| groups.contains(&kind.gvr.group));
        Self::new(of_groups.map(Arc::clone).collect())
    }

    /// The kinds of one group and version, in order of resource.
    pub fn of_group_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<ServedKind>> {
        self.kinds
            .iter()
            .filter(move |kind| kind.gvr.group == group && kind.gvr.version == version)
    }
}

// === impl ServedKind ===

impl ServedKind {
    /// What an answer over several clusters calls a kind that they serve; `None` without any.
    ///
    /// Where all have the same definition, it is that. Where they differ, nobody's schema, short names or categories are shown,
    /// and the kind is the one that most of them have: a single cluster does not name it for the others.
    pub(crate) fn common(kinds: &[&Arc<Self>]) -> Option<Self> {
        let first = kinds.first()?;
        let same = |kind: &&Arc<Self>| Arc::ptr_eq(kind, first) || kind.digest() == first.digest();
        if kinds.iter().skip(1).all(same) {
            return Some(Self::clone(first));
        }
        let count = |wanted: &Arc<Self>| {
            let same = kinds.iter().filter(|kind| kind.gvk == wanted.gvk);
            same.count()
        };
        // Of kinds that equally many have, the first: `max_by_key` takes the last.
        let named = kinds.iter().rev().max_by_key(|kind| count(kind))?;
        Some(Self {
            gvk: named.gvk.clone(),
            list_kind: named.list_kind.clone(),
            singular: named.singular.clone(),
            namespaced: kinds.iter().any(|kind| kind.namespaced),
            ..Self::unknown(&named.gvr)
        })
    }

    /// A kind of which only the endpoint is known: it can be listed and watched over all clusters.
    pub(crate) fn unknown(gvr: &GroupVersionResource) -> Self {
        Self {
            gvr: gvr.clone(),
            gvk: GroupVersionKind::new(gvr.group.as_str(), gvr.version.as_str(), "Object"),
            list_kind: "ObjectList".to_owned(),
            singular: String::new(),
            namespaced: true,
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: vec!["list".to_owned(), "watch".to_owned()],
            subresources: Vec::new(),
            storage_version_hash: String::new(),
            definition_schema: None,
            schema_hash: 0,
            selectable_fields: Vec::new(),
            source: KindSource::Definition,
            digest: KindDigest::default(),
        }
    }

    /// The digest of everything that discovery or OpenAPI shows.
    fn digest(&self) -> &[u8; 32] {
        self.digest.0.get_or_init(|| {
            let mut digest = Sha256::new();
            self.feed(&mut digest);
            digest.finalize().into()
        })
    }

    /// Feeds everything that discovery or OpenAPI shows to `digest`, each part with its length before it.
    fn feed(&self, digest: &mut Sha256) {
        let mut text = |part: &str| {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part.as_bytes());
        };
        for part in [
            &self.gvr.group,
            &self.gvr.version,
            &self.gvr.resource,
            &self.gvk.kind,
            &self.list_kind,
            &self.singular,
            &self.storage_version_hash,
        ] {
            text(part);
        }
        for parts in [
            &self.short_names,
            &self.categories,
            &self.verbs,
            &self.selectable_fields,
        ] {
            text(&parts.len().to_string());
            for part in parts {
                text(part);
            }
        }
        for subresource in &self.subresources {
            text(&subresource.name);
            text(&subresource.gvk.group);
            text(&subresource.gvk.version);
            text(&subresource.gvk.kind);
            text(&subresource.verbs.join(","));
        }
        text(match (self.namespaced, self.source) {
            (true, KindSource::BuiltIn) => "namespaced built-in",
            (false, KindSource::BuiltIn) => "cluster built-in",
            (true, KindSource::Definition) => "namespaced definition",
            (false, KindSource::Definition) => "cluster definition",
        });
        text_of_schema(digest, self.definition_schema.as_deref());
        digest.update(self.schema_hash.to_le_bytes());
    }
}

/// Feeds a schema to `digest`, and whether there is one.
fn text_of_schema(digest: &mut Sha256, schema: Option<&[u8]>) {
    let length = schema.map_or(u64::MAX, |schema| schema.len() as u64);
    digest.update(length.to_le_bytes());
    digest.update(schema.unwrap_or_default());
}
