//! The part of one spoke: its list as it came, taken apart.
//!
//! # Invariants
//! - Bytes of a spoke never make this panic, and what they become is bounded by [`OBJECT_COUNT_MAX`] and [`OBJECT_PARSED_BYTES_MAX`].
//! - A part is whole: one that says that it goes on is none.

use std::fmt;

use api::{LogicalCluster, cluster::ANNOTATION, meta};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use crate::call::SpokeList;

/// Objects of one spoke: what they cost beside their bytes is bounded by it.
const OBJECT_COUNT_MAX: usize = 20_000;
/// One object, as it is taken apart: braces and commas make that many times as long as its text. One of 1 MiB with 40,000 fields has its place.
const OBJECT_PARSED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The kind of an object or of a list: longer ones are none. Source: `apiextensions/validation` (each is a DNS label).
const KIND_BYTES_MAX: usize = 63;

/// Takes a list apart and gives each object the annotation of its cluster. Names that stand twice in an object are settled by that.
pub(crate) fn parse(
    cluster: &LogicalCluster,
    api_version: &str,
    bytes: &[u8],
) -> Result<SpokeList, serde_json::Error> {
    let list: List<'_> = serde_json::from_slice(bytes)?;
    // Any other answer has no items.
    if !is_kind(&list.kind) {
        return Err(serde_json::Error::custom("its kind is none"));
    }
    let kind = list.kind.strip_suffix("List").unwrap_or_default();
    if list.api_version != api_version {
        return Err(serde_json::Error::custom("it is of another version"));
    }
    if !list.metadata.unwrap_or_default().continue_token.is_empty() {
        return Err(serde_json::Error::custom("it is only a page"));
    }
    let mut items = Vec::with_capacity(list.items.0.len());
    for item in list.items.0 {
        if client::parsed_bytes(item.get().as_bytes()) > OBJECT_PARSED_BYTES_MAX {
            return Err(serde_json::Error::custom("an object is too large"));
        }
        let mut object: Value = serde_json::from_str(item.get())?;
        if !object["metadata"].is_object() {
            return Err(serde_json::Error::custom("an object has no metadata"));
        }
        // Objects of Kubernetes' own kinds do not say what they are in a list; of others, the list may be called anything.
        let own = meta::kind(&object);
        let kind = if own.is_empty() { kind } else { own }.to_owned();
        if !is_kind(&kind) {
            return Err(serde_json::Error::custom("the kind of an object is none"));
        }
        meta::set_type(&mut object, api_version, &kind);
        let annotations = meta::metadata_mut(&mut object)
            .entry("annotations")
            .or_insert(Value::Null);
        if !annotations.is_object() {
            *annotations = serde_json::json!({});
        }
        annotations[ANNOTATION] = Value::from(cluster.as_str());
        items.push(object.to_string().into());
    }
    Ok(SpokeList {
        cluster: cluster.clone(),
        kind: kind.to_owned(),
        list_kind: list.kind,
        items,
    })
}

fn is_kind(text: &str) -> bool {
    let mut bytes = text.bytes();
    let is_plain = bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_plain && !text.is_empty() && text.len() <= KIND_BYTES_MAX
}

/// A list as a spoke answers it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    kind: String,
    api_version: String,
    #[serde(default)]
    metadata: Option<Metadata>,
    #[serde(borrow)]
    items: Items<'a>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(rename = "continue", default)]
    continue_token: String,
}

/// At most [`OBJECT_COUNT_MAX`] of them.
struct Items<'a>(Vec<&'a RawValue>);

struct ItemsVisitor;

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemsVisitor).map(Items)
    }
}

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            if items.len() == OBJECT_COUNT_MAX {
                return Err(A::Error::custom("there are too many objects"));
            }
            items.push(item);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(text: &str) -> Result<Vec<Value>, String> {
        let east = "east".parse().expect("a name");
        let list = parse(&east, "v1", text.as_bytes()).map_err(|error| error.to_string())?;
        let items = list.items.iter().map(|item| serde_json::from_slice(item));
        items
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())
    }

    #[test]
    fn every_object_says_which_cluster_it_came_from() {
        let list = r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [
            {"metadata": {"name": "a"}},
            {"metadata": {"name": "b", "annotations": { }}},
            {"metadata": {"name": "c", "annotations": {"x": "y", "kcp.io/cluster": "west"}}},
            {"metadata": {"name": "d", "annotations": "west"}},
            {"kind": "Pod", "apiVersion": "v2", "metadata": {"name": "e"}, "metadata": {"name": "f", "annotations": {"kcp.io/cluster": "west"}}}
        ]}"#;
        let objects = parsed(list).expect("it is a list");
        let names: Vec<_> = objects.iter().map(meta::name).collect();
        assert_eq!(names, ["a", "b", "c", "d", "f"]);
        for object in &objects {
            assert_eq!(
                object["metadata"]["annotations"][ANNOTATION], "east",
                "{object}"
            );
            assert_eq!(
                (&object["kind"], &object["apiVersion"]),
                (&json!("Pod"), &json!("v1"))
            );
        }
        let other =
            r#"{"kind": "Herd", "apiVersion": "v1", "items": [{"kind": "Cow", "metadata": {}}]}"#;
        assert_eq!(parsed(other).expect("it is a list")[0]["kind"], "Cow");
        let empty = r#"{"kind": "PodList", "apiVersion": "v1", "items": null}"#;
        assert_eq!(parsed(empty), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_list_is_none() {
        let many = "1,".repeat(OBJECT_COUNT_MAX);
        let dense = "[],".repeat(OBJECT_PARSED_BYTES_MAX / 192);
        for text in [
            String::new(),
            "[]".to_owned(),
            r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure"}"#.to_owned(),
            r#"{"kind": "PodList", "apiVersion": "v1"}"#.to_owned(),
            r#"{"kind": "Pods", "apiVersion": "v1", "items": [{"metadata": {}}]}"#.to_owned(),
            r#"{"kind": "PodList", "apiVersion": "v1", "items": [{"kind": "a/b", "metadata": {}}]}"#.to_owned(),
            r#"{"kind": "PodList", "apiVersion": "v1", "items": [1]}"#.to_owned(),
            r#"{"kind": "PodList", "apiVersion": "v2", "items": []}"#.to_owned(),
            r#"{"kind": "P\"List", "apiVersion": "v1", "items": []}"#.to_owned(),
            r#"{"kind": "PodList", "apiVersion": "v1", "items": [{}]}"#.to_owned(),
            r#"{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {}}"#.to_owned(),
            format!(r#"{{"kind": "PodList", "apiVersion": "v1", "items": [{many}1]}}"#),
            format!(
                r#"{{"kind": "PodList", "apiVersion": "v1", "items": [{{"metadata": {{}}, "spec": [{dense}1]}}]}}"#
            ),
            r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": "x"}, "items": []}"#.to_owned(),
            r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": 1}, "items": []}"#.to_owned(),
            format!(r#"{{"kind": "PodList", "apiVersion": "v1", "items": [{{"metadata": {{}}, "spec": {}}}]}}"#, "[".repeat(1000)),
        ] {
            assert!(
                parsed(&text).is_err(),
                "{}",
                text.chars().take(80).collect::<String>()
            );
        }
    }
}
