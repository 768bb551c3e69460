//! What fuzzing looks at of this engine: the values and small texts that others may have written.

pub(crate) use super::envelope::{Envelope, Sealing, encode_last, last_of};

use super::identity::Identity;
use super::memory;

/// Reads text as an identity, and as what was seen of one: what is read is written as it was.
pub(crate) fn texts(text: &str) {
    if let Ok(identity) = Identity::decode(text.as_bytes()) {
        let again = Identity::decode(identity.encode().as_bytes());
        assert_eq!(again, Ok(identity), "an identity reads back");
    }
    if let Some(known) = memory::decode(text) {
        let again = memory::decode(&memory::encode(&known));
        assert_eq!(again, Some(known), "what was seen reads back");
    }
}
