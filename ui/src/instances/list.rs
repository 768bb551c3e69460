//! One page of a list, read object by object: none is kept longer than it is looked at.
//!
//! # Invariants
//! - What an object says of itself never fails the list that it is in: a status of another shape counts as none, and what is no object, or has
//!   a name that Kubernetes does not allow, is left out.
//! - An [`Object`] takes [`OBJECT_BYTES_MAX`] at most. Beside it, reading takes no more memory than the page has bytes.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer as _,
    de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// Bytes of a message of a condition that are kept.
pub(super) const MESSAGE_BYTES_MAX: usize = 512;
/// Bytes of a word that are kept: a kind, a state, a reason.
const WORD_BYTES_MAX: usize = 128;
/// Bytes of names of objects and clusters. Source: `apimachinery/pkg/util/validation/validation.go` (`DNS1123SubdomainMaxLength`).
const NAME_BYTES_MAX: usize = 253;
/// Bytes of names of namespaces. Source: the same (`DNS1123LabelMaxLength`).
const NAMESPACE_BYTES_MAX: usize = 63;
/// Bytes of a uid, of a time, of a resource version: those that Kubernetes makes have 36 at most.
const MARK_BYTES_MAX: usize = 64;
/// Bytes of the token of a next page. Those of Kubernetes hold a key, in Base64.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// What a cut text ends with.
const CUT: char = '…';

/// Bytes of all texts of an [`Object`].
const OBJECT_BYTES_MAX: usize = MESSAGE_BYTES_MAX
    + 3 * WORD_BYTES_MAX
    + 4 * CUT.len_utf8()
    + 2 * NAME_BYTES_MAX
    + NAMESPACE_BYTES_MAX
    + 2 * MARK_BYTES_MAX;
const _: () = assert!(OBJECT_BYTES_MAX < 2 * 1024, "a row takes 2 KiB at most");

/// What is kept of an object.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) cluster: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) uid: String,
    pub(super) created: String,
    pub(super) is_leaving: bool,
    pub(super) state: String,
    /// Why it is not ready.
    pub(super) reason: String,
    pub(super) message: String,
    /// By which revision of its definition it was reconciled last, where it says so.
    pub(super) revision: Option<u32>,
}

/// What a page says of the list.
#[derive(Debug, Default)]
pub(super) struct End {
    pub(super) resource_version: String,
    /// That of the next page; empty for the last one.
    pub(super) token: String,
}

/// Reads a page.
struct Page<F> {
    each: F,
    end: End,
    has_items: bool,
}

/// Reads the items of a page.
struct Items<'f, F>(&'f mut F);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Metadata,
    Items,
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow)]
    r#continue: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    creation_timestamp: Cow<'a, str>,
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

/// The annotation of an object that names its cluster.
#[derive(Default)]
struct OfCluster<'a>(Cow<'a, str>);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow)]
    state: Option<&'a RawValue>,
    #[serde(borrow)]
    conditions: Option<&'a RawValue>,
    #[serde(borrow, rename = "graphRevision")]
    revision: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
}

/// Why an instance is not ready: what the first condition says that does not hold, `Ready` last, because it repeats another.
#[derive(Default)]
struct Trouble<'a>(Option<Condition<'a>>);

/// A text, whatever it says.
#[derive(Default, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads a page of a list, and calls `each` for each object of it.
///
/// # Errors
/// The page is not a list. `each` may have been called for what stands before the place that shows it.
pub(super) fn read(page: &[u8], each: impl FnMut(Object)) -> Result<End, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(page);
    let whole = Page {
        each,
        end: End::default(),
        has_items: false,
    };
    let end = reader.deserialize_map(whole)?;
    reader.end()?;
    Ok(end)
}

/// Cuts a text that is longer than `bytes_max`.
pub(super) fn shortened(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let cut = text.floor_char_boundary(bytes_max);
    let mut short = String::with_capacity(cut.saturating_add(CUT.len_utf8()));
    short.push_str(text.get(..cut).unwrap_or_default());
    short.push(CUT);
    short
}

/// Reads a part of an object whose shape its kind does not promise.
fn lenient<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

// === impl Object ===

impl Object {
    fn read(raw: &RawValue) -> Option<Self> {
        let item: Item<'_> = serde_json::from_str(raw.get()).ok()?;
        let metadata = item.metadata;
        let OfCluster(cluster) = lenient(metadata.annotations);
        for (text, bytes_max) in [
            (&cluster, NAME_BYTES_MAX),
            (&metadata.name, NAME_BYTES_MAX),
            (&metadata.namespace, NAMESPACE_BYTES_MAX),
            (&metadata.uid, MARK_BYTES_MAX),
            (&metadata.creation_timestamp, MARK_BYTES_MAX),
        ] {
            if text.len() > bytes_max {
                return None;
            }
        }
        if metadata.name.is_empty() {
            return None;
        }
        let status: Status<'_> = lenient(item.status);
        let Text(state) = lenient(status.state);
        let Trouble(trouble) = lenient(status.conditions);
        let trouble = trouble.unwrap_or_default();
        Some(Self {
            cluster: cluster.into_owned(),
            namespace: metadata.namespace.into_owned(),
            name: metadata.name.into_owned(),
            kind: shortened(&item.kind, WORD_BYTES_MAX),
            uid: metadata.uid.into_owned(),
            created: metadata.creation_timestamp.into_owned(),
            is_leaving: metadata.deletion_timestamp.is_some(),
            state: shortened(&state, WORD_BYTES_MAX),
            reason: shortened(&trouble.reason, WORD_BYTES_MAX),
            message: shortened(&trouble.message, MESSAGE_BYTES_MAX),
            revision: lenient(status.revision),
        })
    }
}

// === impl Page ===

impl<'de, F: FnMut(Object)> Visitor<'de> for Page<F> {
    type Value = End;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<End, A::Error> {
        while let Some(field) = map.next_key()? {
            match field {
                Field::Metadata => {
                    let metadata: ListMetadata<'_> = map.next_value()?;
                    if metadata.r#continue.len() > TOKEN_BYTES_MAX {
                        return Err(A::Error::custom("the continue token is too long"));
                    }
                    let version = metadata.resource_version;
                    let is_plain = version.len() <= MARK_BYTES_MAX;
                    self.end = End {
                        resource_version: if is_plain {
                            version.into_owned()
                        } else {
                            String::new()
                        },
                        token: metadata.r#continue.into_owned(),
                    };
                }
                Field::Items => {
                    map.next_value_seed(Items(&mut self.each))?;
                    self.has_items = true;
                }
                Field::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if !self.has_items {
            return Err(A::Error::missing_field("items"));
        }
        Ok(self.end)
    }
}

// === impl Items ===

impl<'de, F: FnMut(Object)> serde::de::DeserializeSeed<'de> for Items<'_, F> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Object)> Visitor<'de> for Items<'_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("items")
    }

    /// Servers that are written in Go say so where there are none.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(raw) = seq.next_element::<&RawValue>()? {
            if let Some(object) = Object::read(raw) {
                (self.0)(object);
            }
        }
        Ok(())
    }
}

// === impl OfCluster ===

impl<'de> Deserialize<'de> for OfCluster<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = OfCluster<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found = OfCluster::default();
                while let Some(Text(key)) = map.next_key()? {
                    if key == api::cluster::ANNOTATION {
                        let Text(cluster) = map.next_value()?;
                        found = OfCluster(cluster);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(found)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

// === impl Condition ===

impl Condition<'_> {
    fn is_open(&self) -> bool {
        self.status != "True" && !self.r#type.is_empty()
    }

    /// The smallest one says most.
    fn order(&self) -> (bool, bool, bool, bool) {
        let is_unknown = self.status != "False";
        let is_awaited = self.reason == api::kro::keys::REASON_AWAITING;
        let is_last = self.r#type == "Ready";
        (is_awaited, is_last, is_unknown, self.message.is_empty())
    }
}

// === impl Trouble ===

impl<'de> Deserialize<'de> for Trouble<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Trouble<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("conditions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut first: Option<Condition<'de>> = None;
                while let Some(raw) = seq.next_element::<&RawValue>()? {
                    let condition: Condition<'de> = lenient(Some(raw));
                    let known = first.as_ref().map(Condition::order);
                    if condition.is_open() && known.is_none_or(|known| condition.order() < known) {
                        first = Some(condition);
                    }
                }
                Ok(Trouble(first))
            }
        }
        deserializer.deserialize_seq(Reader)
    }
}
