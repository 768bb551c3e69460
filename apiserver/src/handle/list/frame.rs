//! The bytes of a list: a head, the items, an end; made in chunks as the connection takes them.

use std::vec;

use api::ListMeta;
use bytes::{Bytes, BytesMut};

/// A chunk is at least this large, unless it is the last: small frames cost more than copying does.
const CHUNK_BYTES: usize = 32 * 1024;

/// A list that is written chunk by chunk.
pub(super) struct Framed {
    head: Bytes,
    items: vec::IntoIter<Bytes>,
    state: State,
    length: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Items,
    Done,
}

const END: &[u8] = b"]}\n";

// === impl Framed ===

impl Framed {
    pub(super) fn new(
        kind: &str,
        api_version: &str,
        metadata: &ListMeta,
        items: Vec<Bytes>,
    ) -> Self {
        let metadata = serde_json::to_string(metadata).expect("list metadata is plain text");
        let head = format!(
            r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#
        );
        let separators = items.len().saturating_sub(1);
        let length =
            head.len() + items.iter().map(Bytes::len).sum::<usize>() + separators + END.len();
        Self {
            head: head.into(),
            items: items.into_iter(),
            state: State::Head,
            length: length as u64,
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }
}

impl Iterator for Framed {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.state == State::Done {
            return None;
        }
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4);
        let mut first = self.state == State::Head;
        if first {
            chunk.extend_from_slice(&self.head);
            self.state = State::Items;
        }
        while chunk.len() < CHUNK_BYTES {
            let Some(item) = self.items.next() else {
                chunk.extend_from_slice(END);
                self.state = State::Done;
                break;
            };
            if !first {
                chunk.extend_from_slice(b",");
            }
            first = false;
            chunk.extend_from_slice(&item);
        }
        Some(chunk.freeze())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

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
            let framed = Framed::new("WidgetList", "example.com/v1", &metadata, items);
            let length = framed.length();
            let bytes: Vec<u8> = framed.flatten().collect();
            assert_eq!(bytes.len() as u64, length, "{count} items");
            let list: Value = serde_json::from_slice(&bytes).expect("JSON");
            assert_eq!(list["items"].as_array().expect("items").len(), count);
            assert_eq!(list["metadata"]["resourceVersion"], "7");
        }
    }
}
