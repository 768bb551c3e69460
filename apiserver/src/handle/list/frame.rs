//! The bytes of a list: a head, the items, an end; made in chunks as the connection takes them.

use std::vec;

use api::{ListMeta, table::Table};
use bytes::{Bytes, BytesMut};

/// What an HTTP/2 frame holds that is one TLS record: the largest record is 2^14 bytes (RFC 8446, 5.1), and nine of
/// them are the frame's head (RFC 9113, 4.1). A frame of 2^14 bytes is two records, the second of nine bytes.
const FRAME_BYTES: usize = (16 << 10) - 9;
/// A chunk has this size, unless it is the last: small frames cost more than copying does.
const CHUNK_BYTES: usize = 4 * FRAME_BYTES;

/// A list that is written chunk by chunk.
pub(super) struct Framed {
    head: Bytes,
    items: vec::IntoIter<Bytes>,
    comma: &'static [u8],
    /// What did not fit into the last chunk.
    rest: Bytes,
    /// Bytes that are not in any chunk yet.
    left: usize,
    state: State,
    length: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Item,
    Comma,
    End,
    Done,
}

const END: &[u8] = b"]}\n";
/// What an object begins with.
const OPENING: &str = "{";

fn head((kind, api_version): (&str, &str), metadata: &str) -> String {
    format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#)
}

fn to_text(metadata: &ListMeta) -> String {
    serde_json::to_string(metadata).expect("list metadata is plain text")
}

// === impl Framed ===

impl Framed {
    /// A list whose items are as they are given.
    pub(super) fn new(of: (&str, &str), metadata: &ListMeta, items: Vec<Bytes>) -> Self {
        Self::behind(head(of, &to_text(metadata)), items, b",")
    }

    /// [`Framed::new`], with a `continue` on the last page too.
    ///
    /// Source: `UnstructuredList.SetContinue` of apimachinery.
    pub(super) fn untyped(of: (&str, &str), metadata: &ListMeta, items: Vec<Bytes>) -> Self {
        let mut text = to_text(metadata);
        if metadata.continue_token.is_empty() {
            text.truncate(text.len().saturating_sub("}".len()));
            let comma = if text.ends_with('{') { "" } else { "," };
            text.push_str(comma);
            text.push_str(r#""continue":""}"#);
        }
        Self::behind(head(of, &text), items, b",")
    }

    /// [`Framed::new`], of items that begin with `lead`, their type, which is left out.
    pub(super) fn typed(
        of: (&str, &str),
        metadata: &ListMeta,
        mut items: Vec<Bytes>,
        lead: &[u8],
    ) -> Self {
        let mut head = head(of, &to_text(metadata));
        for item in &mut items {
            let left_out = if item.starts_with(lead) {
                lead.len()
            } else {
                OPENING.len()
            };
            let _type = item.split_to(left_out.min(item.len()));
        }
        if !items.is_empty() {
            head.push_str(OPENING);
        }
        Self::behind(head, items, b",{")
    }

    /// Puts rows into a table that has none.
    pub(super) fn table(table: &Table, rows: Vec<Bytes>) -> Self {
        debug_assert!(table.rows.is_empty(), "the rows come apart from it");
        let mut head = serde_json::to_string(table).expect("a table is plain text and numbers");
        // The rows are its last field.
        head.truncate(head.len().saturating_sub("]}".len()));
        Self::behind(head, rows, b",")
    }

    fn behind(head: String, items: Vec<Bytes>, comma: &'static [u8]) -> Self {
        let commas = items.len().saturating_sub(1) * comma.len();
        let length = head.len() + items.iter().map(Bytes::len).sum::<usize>() + commas + END.len();
        Self {
            head: head.into(),
            items: items.into_iter(),
            comma,
            rest: Bytes::new(),
            left: length,
            state: State::Head,
            length: length as u64,
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// What comes next: the head, an item, a comma between two of them, or the end.
    fn piece(&mut self) -> Option<Bytes> {
        match self.state {
            State::Head => {
                self.state = State::Item;
                Some(self.head.clone())
            }
            State::Item => {
                let item = self.items.next();
                self.state = if item.is_some() {
                    State::Comma
                } else {
                    State::End
                };
                item.or(Some(Bytes::from_static(END)))
            }
            State::Comma if self.items.as_slice().is_empty() => {
                self.state = State::End;
                Some(Bytes::from_static(END))
            }
            State::Comma => {
                self.state = State::Item;
                Some(Bytes::from_static(self.comma))
            }
            State::End | State::Done => None,
        }
    }
}

impl Iterator for Framed {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.state == State::Done {
            return None;
        }
        let mut chunk = BytesMut::with_capacity(self.left.min(CHUNK_BYTES));
        let mut next = std::mem::take(&mut self.rest);
        loop {
            let room = CHUNK_BYTES - chunk.len();
            if next.len() > room {
                chunk.extend_from_slice(&next.split_to(room));
                self.rest = next;
                break;
            }
            chunk.extend_from_slice(&next);
            let Some(piece) = self.piece() else {
                self.state = State::Done;
                break;
            };
            next = piece;
        }
        self.left = self.left.saturating_sub(chunk.len());
        Some(chunk.freeze())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_list_of_any_size_is_whole_and_as_long_as_announced() {
        for count in [0_usize, 1, 2, 100, 3000] {
            let items: Vec<_> = (0..count)
                .map(|index| Bytes::from(format!(r#"{{"name":"item-{index}"}}"#)))
                .collect();
            let metadata = ListMeta {
                resource_version: "7".into(),
                ..ListMeta::default()
            };
            let framed = Framed::new(("WidgetList", "example.com/v1"), &metadata, items);
            let length = framed.length();
            let chunks: Vec<Bytes> = framed.collect();
            let (_, full) = chunks.split_last().expect("a chunk");
            assert!(full.iter().all(|chunk| chunk.len() == CHUNK_BYTES));
            let bytes: Vec<u8> = chunks.concat();
            assert_eq!(bytes.len() as u64, length, "{count} items");
            let list: Value = serde_json::from_slice(&bytes).expect("JSON");
            assert_eq!(list["items"].as_array().expect("items").len(), count);
            assert_eq!(list["metadata"]["resourceVersion"], "7");
        }
    }

    #[test]
    fn rows_stand_where_a_table_has_them() {
        let table = Table::new("meta.k8s.io/v1");
        let rows = vec![
            Bytes::from(r#"{"cells":["a"]}"#),
            Bytes::from(r#"{"cells":[1]}"#),
        ];
        let framed = Framed::table(&table, rows);
        let bytes: Vec<u8> = framed.collect::<Vec<Bytes>>().concat();
        let table: Table = serde_json::from_slice(&bytes).expect("a table");
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[1].cells, [1]);
    }

    #[test]
    fn a_typed_list_leaves_out_the_types_of_its_items_and_an_untyped_one_says_where_it_ends() {
        const OF: (&str, &str) = ("WidgetList", "v1");
        let lead = br#"{"apiVersion":"v1","kind":"Widget","#;
        let metadata = |continue_token: &str| ListMeta {
            resource_version: "7".into(),
            continue_token: continue_token.into(),
            ..ListMeta::default()
        };
        for count in 0..3 {
            let items = || -> Vec<Bytes> {
                let item = |index| format!(r#"{{"apiVersion":"v1","kind":"Widget","n":{index}}}"#);
                (0..count).map(|index| item(index).into()).collect()
            };
            let typed: Vec<Value> = (0..count).map(|index| json!({"n": index})).collect();
            let whole: Vec<Value> = (0..count)
                .map(|index| json!({"apiVersion": "v1", "kind": "Widget", "n": index}))
                .collect();
            for (framed, want) in [
                (
                    Framed::typed(OF, &metadata(""), items(), lead),
                    json!({"metadata": {"resourceVersion": "7"}, "items": typed}),
                ),
                (
                    Framed::untyped(OF, &metadata(""), items()),
                    json!({"metadata": {"resourceVersion": "7", "continue": ""}, "items": whole}),
                ),
                (
                    Framed::untyped(OF, &metadata("x"), items()),
                    json!({"metadata": {"resourceVersion": "7", "continue": "x"}, "items": whole}),
                ),
            ] {
                let length = framed.length();
                let bytes: Vec<u8> = framed.flatten().collect();
                assert_eq!(bytes.len() as u64, length, "{count} items");
                let mut list: Value = serde_json::from_slice(&bytes).expect("JSON");
                let types = ["kind", "apiVersion"].map(|field| list[field].take());
                assert_eq!(types, [json!("WidgetList"), json!("v1")], "{count} items");
                let mut want = want;
                want["kind"] = Value::Null;
                want["apiVersion"] = Value::Null;
                assert_eq!(list, want, "{count} items");
            }
        }
    }
}
