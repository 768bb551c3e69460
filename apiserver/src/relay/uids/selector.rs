//! Swaps uids in the field selectors of requests to a spoke: `kubectl describe` looks for events by the uid that it knows.

use std::borrow::Cow;

use uuid::Uuid;

use super::{Pairs, canonical};

/// The parameter of a query.
const PARAMETER: &str = "fieldSelector=";
/// The fields that name another object by its uid: in events of the core group, and of `events.k8s.io`.
const FIELDS: [&str; 2] = ["involvedObject.uid", "regarding.uid"];
/// What stands between a field and its value: `=`, `==` and `!=`, as they are written in a query.
const OPERATORS: [&str; 5] = ["=", "%3D", "%3d", "!", "%21"];
/// The length of a uid.
const UID_BYTES: usize = 36;

/// Returns a query in which the field selectors name mirrors where they named instances of the hub.
pub(in crate::relay) fn swapped<'q>(query: &'q str, pairs: &Pairs) -> Cow<'q, str> {
    let is_concerned = |part: &str| part.starts_with(PARAMETER);
    if !query.split('&').any(is_concerned) {
        return Cow::Borrowed(query);
    }
    let parts: Vec<Cow<'_, str>> = query
        .split('&')
        .map(|part| {
            if is_concerned(part) {
                Cow::Owned(swapped_part(part, pairs))
            } else {
                Cow::Borrowed(part)
            }
        })
        .collect();
    Cow::Owned(parts.join("&"))
}

fn swapped_part(part: &str, pairs: &Pairs) -> String {
    let mut swapped = String::with_capacity(part.len());
    let mut rest = part;
    while let Some((at, field)) = first_field(rest) {
        let (before, behind) = rest.split_at(at + field.len());
        swapped.push_str(before);
        rest = behind;
        while let Some(operator) = OPERATORS.iter().find(|it| rest.starts_with(**it)) {
            swapped.push_str(operator);
            rest = rest.get(operator.len()..).unwrap_or_default();
        }
        let uid = rest.get(..UID_BYTES);
        if let Some(mirror) = uid.and_then(|uid| pairs.mirror_of(uid)) {
            let mut buffer = Uuid::encode_buffer();
            swapped.push_str(mirror.hyphenated().encode_lower(&mut buffer));
            rest = rest.get(UID_BYTES..).unwrap_or_default();
        }
    }
    swapped.push_str(rest);
    swapped
}

/// Finds the first field that names a uid.
fn first_field(text: &str) -> Option<(usize, &'static str)> {
    let found = FIELDS.iter();
    let found = found.filter_map(|field| Some((text.find(field)?, *field)));
    found.min()
}

impl Pairs {
    fn mirror_of(&self, uid: &str) -> Option<Uuid> {
        let uid = canonical(uid.as_bytes())?;
        self.known.read().mirrors.get(&uid).copied()
    }
}
