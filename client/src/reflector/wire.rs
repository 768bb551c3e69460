//! What a server sends: lists, and the lines of a watch.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use api::{ListMeta, Status, TypeMeta};
use serde::de::{DeserializeSeed, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::decode_error::DecodeError;
use super::raw_object::RawObject;
use crate::apart;
use crate::bounds::{Answered, Budget};
use crate::error::Error;

/// One page of a collection.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<RawObject>>,
    pub(crate) metadata: ListMeta,
}

/// One line of a watch.
#[derive(Debug)]
pub(super) enum Line {
    Applied(RawObject),
    Deleted(RawObject),
    Bookmark { resource_version: String },
    Error(Box<Status>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireList<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ListMeta,
    // Must be there: without it this is no list. May be null, as old servers say "empty".
    #[serde(borrow)]
    items: &'a RawValue,
}

/// Decodes the items of a list one by one, so that what they need is known before the next one.
struct Items<'b> {
    type_meta: Arc<TypeMeta>,
    budget: &'b Arc<Budget>,
    /// Why the last item was not taken.
    refused: &'b mut Option<DecodeError>,
}

#[derive(Deserialize)]
struct WireLine<'a> {
    #[serde(rename = "type", borrow)]
    type_: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

// === impl Items ===

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = Vec<Arc<RawObject>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = Vec<Arc<RawObject>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(raw) = seq.next_element::<&RawValue>()? {
            match RawObject::from_cluster(raw, &self.type_meta, self.budget) {
                Ok(object) => {
                    // Kinds of one list are the same but for lists of lists; the last one seen is the likeliest.
                    self.type_meta = Arc::clone(&object.type_meta);
                    items.push(Arc::new(object));
                }
                Err(error) => {
                    *self.refused = Some(error);
                    return Err(serde::de::Error::custom("an item is refused"));
                }
            }
        }
        Ok(items)
    }
}

/// Reads a page, within what its cluster may make this client hold; a large one apart from the threads that serve.
pub(crate) async fn decode_page(answered: Answered, budget: &Arc<Budget>) -> Result<Page, Error> {
    let own = Arc::clone(budget);
    let length = answered.bytes.len();
    // The answer is counted until it is decoded.
    let decode = move || decode_bytes(&answered.bytes, &own);
    let page = apart::run(length, decode).await??;
    budget.pace_objects(0, page.items.len()).await;
    Ok(page)
}

fn decode_bytes(bytes: &[u8], budget: &Arc<Budget>) -> Result<Page, DecodeError> {
    let list: WireList<'_> = serde_json::from_slice(bytes)?;
    let Some(kind) = list.kind.strip_suffix("List") else {
        return Err(DecodeError::NotAList { kind: list.kind });
    };
    let mut refused = None;
    let seed = Items {
        type_meta: Arc::new(TypeMeta::new(list.api_version, kind)),
        budget,
        refused: &mut refused,
    };
    let mut items = serde_json::Deserializer::from_str(list.items.get());
    let decoded = seed.deserialize(&mut items);
    match (decoded, refused) {
        (_, Some(error)) => Err(error),
        (Err(error), None) => Err(error.into()),
        (Ok(items), None) => Ok(Page {
            items,
            metadata: list.metadata,
        }),
    }
}

/// Reads a line; `type_meta` is the type of the last object, shared by those that have the same.
pub(super) fn decode_line(
    bytes: &[u8],
    type_meta: &Arc<TypeMeta>,
    budget: &Arc<Budget>,
) -> Result<Line, DecodeError> {
    let line: WireLine<'_> = serde_json::from_slice(bytes)?;
    let object = || RawObject::from_cluster(line.object, type_meta, budget);
    match line.type_.as_ref() {
        "ADDED" | "MODIFIED" => Ok(Line::Applied(object()?)),
        "DELETED" => Ok(Line::Deleted(object()?)),
        "BOOKMARK" => Ok(Line::Bookmark {
            resource_version: object()?.resource_version,
        }),
        "ERROR" => Ok(Line::Error(Box::new(serde_json::from_str(
            line.object.get(),
        )?))),
        other => Err(DecodeError::UnknownEvent {
            type_: other.to_owned(),
        }),
    }
}

/// Returns whether a resource version comes before another of the same source. Versions that are not decimal numbers
/// cannot be compared, so that none of them is.
///
/// Source: `apimachinery/pkg/util/resourceversion`.
pub(super) fn is_older(version: &str, than: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number(version) && is_number(than) && (version.len(), version) < (than.len(), than)
}

/// Returns whether two resource versions are of one history of a hub: epoch × 10^13 + n, with an epoch of at least 100 that
/// every restore raises.
pub(super) fn is_of_same_epoch(version: &str, other: &str) -> bool {
    const EPOCH: u64 = 10_u64.pow(13);
    let epoch = |text: &str| {
        let epoch = text.parse::<u64>().ok()?.checked_div(EPOCH)?;
        (epoch >= 100).then_some(epoch)
    };
    epoch(version).is_some_and(|its| epoch(other) == Some(its))
}

/// Reads a line, and holds what was read to what stands there; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_line(bytes: &[u8], type_meta: &Arc<TypeMeta>) {
    if let Ok(Line::Applied(object) | Line::Deleted(object)) =
        decode_line(bytes, type_meta, &Arc::default())
    {
        hold(&object);
    }
}

/// Reads a page, and holds what was read to what stands there; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_page(bytes: &[u8]) {
    for object in decode_bytes(bytes, &Arc::default())
        .into_iter()
        .flat_map(|page| page.items)
    {
        hold(&object);
    }
}

#[cfg(feature = "fuzzing")]
fn hold(object: &RawObject) {
    let Ok(value) = object.value() else { return };
    assert_eq!(
        api::meta::name(&value),
        object.name,
        "the name is the one that stands there"
    );
    assert_eq!(
        api::meta::uid(&value),
        object.uid,
        "the uid is the one that stands there"
    );
    assert_eq!(
        api::meta::resource_version(&value),
        object.resource_version,
        "the version is the one that stands there"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gives_its_items_the_type_that_they_lack() {
        let text = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"c"},
            "items":[{"metadata":{"name":"a"}},{"kind":"Pod","apiVersion":"v1","metadata":{"name":"b"}}]}"#;
        let page = decode_bytes(text, &Arc::default()).unwrap();
        assert_eq!(
            (page.metadata.resource_version.as_str(), page.items.len()),
            ("7", 2)
        );
        assert_eq!(page.metadata.continue_token, "c");
        assert!(
            page.items
                .iter()
                .all(|item| *item.type_meta == TypeMeta::new("v1", "Pod"))
        );
        assert!(Arc::ptr_eq(
            &page.items[0].type_meta,
            &page.items[1].type_meta
        ));
    }

    #[test]
    fn what_is_no_whole_list_is_refused() {
        for (text, want) in [
            (r#"{"kind":"PodList","items":null}"#, Ok(0)),
            (
                r#"{"kind":"PodList"}"#,
                Err("unreadable: missing field `items`"),
            ),
            (
                r#"{"kind":"Status","items":[]}"#,
                Err("a Status came in place of a list"),
            ),
            (
                r#"{"kind":"PodList","items":[{"metadata":{"name":"a"}},{}]}"#,
                Err("unreadable: missing field `metadata`"),
            ),
            (
                r#"{"kind":"PodList","items":[{"metadata":{}}"#,
                Err("unreadable: EOF"),
            ),
            ("", Err("unreadable: EOF")),
        ] {
            match (decode_bytes(text.as_bytes(), &Arc::default()), want) {
                (Ok(page), Ok(count)) => assert_eq!(page.items.len(), count, "{text}"),
                (Err(error), Err(want)) => {
                    assert!(error.to_string().starts_with(want), "{text}: {error}");
                }
                (got, want) => panic!("{text}: {got:?}, wanted {want:?}"),
            }
        }
    }

    #[test]
    fn lines_are_read_whatever_comes_first_in_them() {
        let last = Arc::new(TypeMeta::new("v1", "A"));
        let object =
            r#"{"kind":"A","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"3"}}"#;
        for (type_, want) in [
            ("ADDED", "Applied"),
            ("MODIFIED", "Applied"),
            ("DELETED", "Deleted"),
        ] {
            for text in [
                format!(r#"{{"type":"{type_}","object":{object}}}"#),
                format!(r#"{{"object":{object},"type":"{type_}"}}"#),
            ] {
                let line = decode_line(text.as_bytes(), &last, &Arc::default()).unwrap();
                assert!(format!("{line:?}").starts_with(want), "{text}");
            }
        }
        let bookmark = format!(r#"{{"type":"BOOKMARK","object":{object}}}"#);
        assert!(matches!(
            decode_line(bookmark.as_bytes(), &last, &Arc::default()).unwrap(),
            Line::Bookmark { resource_version } if resource_version == "3"
        ));
        let error = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"m"}}"#;
        assert!(
            matches!(decode_line(error, &last, &Arc::default()).unwrap(), Line::Error(status) if status.is_expired())
        );
        for bad in [
            r#"{"type":"X","object":{}}"#,
            r#"{"type":"ADDED"}"#,
            r#"{"type":"ADDED","object":1}"#,
            "{",
        ] {
            assert!(
                decode_line(bad.as_bytes(), &last, &Arc::default()).is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn versions_compare_as_numbers_of_any_length() {
        for (left, right, want) in [
            ("9", "10", true),
            ("10", "9", false),
            ("10", "10", false),
            ("1000000000000001", "1000000000000002", true),
            ("x", "10", false),
            ("", "10", false),
        ] {
            assert_eq!(is_older(left, right), want, "{left} {right}");
        }
    }
}
