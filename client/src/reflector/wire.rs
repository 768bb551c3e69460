//! What a server sends: lists, and the lines of a watch.

use std::borrow::Cow;
use std::sync::Arc;

use api::{ListMeta, Status, TypeMeta, meta};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::raw_object::RawObject;

/// An answer that is not what was asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    /// It is no JSON, or not of the shape.
    #[error("unreadable: {0}")]
    Json(#[from] serde_json::Error),
    /// It is an object, but no list.
    #[error("a {kind} came in place of a list")]
    NotAList { kind: String },
    /// It is a line of a watch of an unknown type.
    #[error("a watch event of the unknown type {type_:?} came")]
    UnknownEvent { type_: String },
}

/// One page of a collection.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) items: Vec<Arc<RawObject>>,
    pub(super) metadata: ListMeta,
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
    #[serde(borrow, deserialize_with = "nullable_items")]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireLine<'a> {
    #[serde(rename = "type", borrow)]
    type_: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

fn nullable_items<'de, D>(deserializer: D) -> Result<Vec<&'de RawValue>, D::Error>
where
    D: Deserializer<'de>,
{
    Option::<Vec<&'de RawValue>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads a page.
pub(super) fn decode_page(bytes: &[u8]) -> Result<Page, DecodeError> {
    let list: WireList<'_> = serde_json::from_slice(bytes)?;
    let Some(kind) = list.kind.strip_suffix("List") else {
        return Err(DecodeError::NotAList { kind: list.kind });
    };
    let mut type_meta = Arc::new(TypeMeta::new(list.api_version, kind));
    let mut items = Vec::with_capacity(list.items.len());
    for raw in list.items {
        let object = RawObject::from_raw(raw, &type_meta)?;
        // Kinds of one list are the same but for lists of lists; the last one seen is the likeliest.
        type_meta = Arc::clone(&object.type_meta);
        items.push(Arc::new(object));
    }
    Ok(Page {
        items,
        metadata: list.metadata,
    })
}

/// Reads a line; `type_meta` is the type of the last object, shared by those that have the same.
pub(super) fn decode_line(bytes: &[u8], type_meta: &Arc<TypeMeta>) -> Result<Line, DecodeError> {
    let line: WireLine<'_> = serde_json::from_slice(bytes)?;
    match line.type_.as_ref() {
        "ADDED" | "MODIFIED" => Ok(Line::Applied(RawObject::from_raw(line.object, type_meta)?)),
        "DELETED" => Ok(Line::Deleted(RawObject::from_raw(line.object, type_meta)?)),
        "BOOKMARK" => {
            let object: serde_json::Value = serde_json::from_str(line.object.get())?;
            Ok(Line::Bookmark {
                resource_version: meta::resource_version(&object).to_owned(),
            })
        }
        "ERROR" => Ok(Line::Error(Box::new(serde_json::from_str(
            line.object.get(),
        )?))),
        other => Err(DecodeError::UnknownEvent {
            type_: other.to_owned(),
        }),
    }
}

/// Tells whether a resource version comes before another of the same source. Versions that are not decimal numbers
/// cannot be compared, so that none of them is.
///
/// Source: `apimachinery/pkg/util/resourceversion`.
pub(super) fn is_older(version: &str, than: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number(version) && is_number(than) && (version.len(), version) < (than.len(), than)
}

/// Tells whether two resource versions are of one history of a hub: epoch × 10^13 + n, with an epoch of at least 100 that
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
    if let Ok(Line::Applied(object) | Line::Deleted(object)) = decode_line(bytes, type_meta) {
        hold(&object);
    }
}

/// Reads a page, and holds what was read to what stands there; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_page(bytes: &[u8]) {
    for object in decode_page(bytes).into_iter().flat_map(|page| page.items) {
        hold(&object);
    }
}

#[cfg(feature = "fuzzing")]
fn hold(object: &RawObject) {
    let Ok(value) = object.value() else { return };
    assert_eq!(
        meta::name(&value),
        object.name,
        "the name is the one that stands there"
    );
    assert_eq!(
        meta::uid(&value),
        object.uid,
        "the uid is the one that stands there"
    );
    assert_eq!(
        meta::resource_version(&value),
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
        let page = decode_page(text).unwrap();
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
            match (decode_page(text.as_bytes()), want) {
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
                let line = decode_line(text.as_bytes(), &last).unwrap();
                assert!(format!("{line:?}").starts_with(want), "{text}");
            }
        }
        let bookmark = format!(r#"{{"type":"BOOKMARK","object":{object}}}"#);
        assert!(matches!(
            decode_line(bookmark.as_bytes(), &last).unwrap(),
            Line::Bookmark { resource_version } if resource_version == "3"
        ));
        let error = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"m"}}"#;
        assert!(
            matches!(decode_line(error, &last).unwrap(), Line::Error(status) if status.is_expired())
        );
        for bad in [
            r#"{"type":"X","object":{}}"#,
            r#"{"type":"ADDED"}"#,
            r#"{"type":"ADDED","object":1}"#,
            "{",
        ] {
            assert!(decode_line(bad.as_bytes(), &last).is_err(), "{bad}");
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
