//! Bytes to the parts that a target wants.

use serde_json::Value;

/// What stands between two parts of an input.
pub const SEPARATOR: &str = "\n====\n";

/// Splits an input; parts that are not there are empty.
pub fn parts<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut rest = data;
    std::array::from_fn(|index| {
        let end = (index + 1 < N)
            .then(|| find(rest, SEPARATOR.as_bytes()))
            .flatten();
        let Some(end) = end else {
            return std::mem::take(&mut rest);
        };
        let (part, after) = rest.split_at(end);
        rest = after.get(SEPARATOR.len()..).unwrap_or_default();
        part
    })
}

fn find(data: &[u8], wanted: &[u8]) -> Option<usize> {
    data.windows(wanted.len())
        .position(|window| window == wanted)
}

/// Reads bytes as text; what is no text is left out.
pub fn text(data: &[u8]) -> &str {
    match std::str::from_utf8(data) {
        Ok(text) => text,
        Err(error) => data
            .get(..error.valid_up_to())
            .and_then(|valid| std::str::from_utf8(valid).ok())
            .unwrap_or_default(),
    }
}

/// Reads bytes as a document in JSON or YAML. As in a body of a request, aliases are refused: four hundred bytes of them
/// would cost seconds, and the search would learn of the YAML parser alone.
pub fn document(data: &[u8]) -> Option<Value> {
    let mut options = serde_saphyr::Options::default();
    options.alias_limits.max_total_replayed_events = 0;
    options.with_snippet = false;
    api::json::parse(data)
        .ok()
        .or_else(|| serde_saphyr::from_slice_with_options(data, options).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_falls_into_as_many_parts_as_are_wanted() {
        let [one, two, three] = parts::<3>(b"a\n====\nb\n====\nc\n====\nd");
        assert_eq!(
            (one, two, three),
            (&b"a"[..], &b"b"[..], &b"c\n====\nd"[..])
        );
        let [one, two] = parts::<2>(b"a");
        assert_eq!((one, two), (&b"a"[..], &b""[..]));
    }
}
