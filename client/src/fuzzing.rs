//! What fuzz targets need of the parsers of this crate: see `hack/fuzz-targets`.

use std::sync::Arc;

use api::TypeMeta;

use crate::{discovery, reflector};

/// Reads an answer to discovery, in each of the forms in which it may come.
pub fn discovery(data: &[u8]) {
    discovery::read_any(data);
}

/// Reads the lines of a watch, and holds them to be the same however the stream is cut.
pub fn watch(data: &[u8]) {
    let whole = lines(data, data.len().max(1));
    for size in [1, 7] {
        assert_eq!(
            lines(data, size),
            whole,
            "lines do not depend on chunks of {size}"
        );
    }
    let type_meta = Arc::new(TypeMeta::new("v1", "Pod"));
    for line in &whole {
        reflector::read_line(line, &type_meta);
    }
}

/// Reads a page of a list.
pub fn list(data: &[u8]) {
    reflector::read_page(data);
}

fn lines(data: &[u8], size: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let Ok(mut lines) = reflector::Lines::new(&Arc::default()) else {
        return found;
    };
    for chunk in data.chunks(size) {
        if lines.push(chunk).is_err() {
            break;
        }
        while let Some(line) = lines.next_line() {
            found.push(line.to_vec());
        }
    }
    found
}
