//! The canonical encoding, with a place for the revision.

use std::io;

use serde::Serialize as _;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Map, Number, Value};

/// What `metadata.resourceVersion` of the encoded object is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevisionSlot {
    /// 16 digits for the store to write over.
    Reserve,
    /// Absent, as in the answer to a dry-run create.
    Omit,
    /// What the object says.
    Keep,
}

/// An object in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where the 16 digits of the revision are, if they were reserved.
    pub stamp: Option<usize>,
}

/// The width of the revision: hub revisions lie in 10^15..10^16 (epoch x 10^13 + n, epoch >= 100).
pub(super) const SLOT: &[u8; 16] = b"0000000000000000";

/// Writes an object in canonical form.
pub fn encode(object: &Value, slot: RevisionSlot) -> Encoded {
    let mut writer = Writer {
        bytes: Vec::with_capacity(1024),
        stamp: None,
        slot,
    };
    match object {
        Value::Object(fields) => writer.object(fields),
        other => writer.value(other),
    }
    Encoded {
        bytes: writer.bytes,
        stamp: writer.stamp,
    }
}

/// Writes a revision over the reserved digits, as the store does when it commits.
pub fn stamp_bytes(bytes: &mut [u8], at: usize, revision: u64) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(revision).as_bytes();
    let place = bytes.get_mut(at..at.saturating_add(SLOT.len()));
    let place = place.expect("the slot lies inside the object that it was reserved in");
    assert_eq!(digits.len(), SLOT.len(), "a revision has 16 digits");
    place.copy_from_slice(digits);
}

/// Writes one object.
struct Writer {
    bytes: Vec<u8>,
    stamp: Option<usize>,
    slot: RevisionSlot,
}

/// Writes floats as Go does: an integral one is an integer to whoever reads it.
struct GoNumbers;

// === impl GoNumbers ===

impl Formatter for GoNumbers {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let mut text = String::new();
        if let Some(number) = Number::from_f64(value) {
            dialect::json::push_number(&mut text, &number);
        }
        writer.write_all(text.as_bytes())
    }
}

/// The fields that come first, in this order.
const LEADING: [&str; 3] = ["apiVersion", "kind", "metadata"];

// === impl Writer ===

impl Writer {
    fn object(&mut self, fields: &Map<String, Value>) {
        self.bytes.push(b'{');
        let mut first = true;
        for name in LEADING {
            match (name, fields.get(name)) {
                ("metadata", Some(Value::Object(metadata))) => {
                    self.name(name, &mut first);
                    self.metadata(metadata);
                }
                (_, Some(value)) => {
                    self.name(name, &mut first);
                    self.value(value);
                }
                (_, None) => {}
            }
        }
        for (name, value) in fields {
            if !LEADING.contains(&name.as_str()) {
                self.name(name, &mut first);
                self.value(value);
            }
        }
        self.bytes.push(b'}');
    }

    fn metadata(&mut self, fields: &Map<String, Value>) {
        self.bytes.push(b'{');
        let mut first = true;
        let mut slot_due = self.slot == RevisionSlot::Reserve;
        for (name, value) in fields {
            if slot_due && name.as_str() >= "resourceVersion" {
                self.reserve(&mut first);
                slot_due = false;
            }
            match (name.as_str(), self.slot) {
                ("managedFields", _)
                | ("resourceVersion", RevisionSlot::Reserve | RevisionSlot::Omit) => {}
                _ => {
                    self.name(name, &mut first);
                    self.value(value);
                }
            }
        }
        if slot_due {
            self.reserve(&mut first);
        }
        if let Some(managed_fields) = fields.get("managedFields") {
            self.name("managedFields", &mut first);
            self.value(managed_fields);
        }
        self.bytes.push(b'}');
    }

    fn reserve(&mut self, first: &mut bool) {
        self.name("resourceVersion", first);
        self.bytes.push(b'"');
        self.stamp = Some(self.bytes.len());
        self.bytes.extend_from_slice(SLOT);
        self.bytes.push(b'"');
    }

    fn name(&mut self, name: &str, first: &mut bool) {
        if !*first {
            self.bytes.push(b',');
        }
        *first = false;
        serde_json::to_writer(&mut self.bytes, name).expect("a string is written to memory");
        self.bytes.push(b':');
    }

    fn value(&mut self, value: &Value) {
        let mut serializer = Serializer::with_formatter(&mut self.bytes, GoNumbers);
        let written = value.serialize(&mut serializer);
        written.expect("a JSON value is written to memory");
    }
}
