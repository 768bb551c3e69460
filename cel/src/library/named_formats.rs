//! Kubernetes' `format` library: named checks of text that tell what is wrong.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/format.go`, `apimachinery/pkg/util/validation`.

use super::opaque::Opaque;
use super::urls::Url;
use super::{Entry, Returned, global, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::time::Timestamp;
use crate::value::{Kind, Value};

const FORMAT: &[&str] = &["() -> format"];

pub(super) const FUNCTIONS: &[Entry] = &[
    global("format.named", &["(string) -> optional(format)"], named),
    member(
        "validate",
        &["(format, string) -> optional(list(string))"],
        validate,
    ),
    global("format.dns1123Label", FORMAT, |_, _| {
        Ok(constant(NamedFormat::Dns1123Label))
    }),
    global("format.dns1123Subdomain", FORMAT, |_, _| {
        Ok(constant(NamedFormat::Dns1123Subdomain))
    }),
    global("format.dns1035Label", FORMAT, |_, _| {
        Ok(constant(NamedFormat::Dns1035Label))
    }),
    global("format.qualifiedName", FORMAT, |_, _| {
        Ok(constant(NamedFormat::QualifiedName))
    }),
    global("format.dns1123LabelPrefix", FORMAT, |_, _| {
        Ok(constant(NamedFormat::Dns1123LabelPrefix))
    }),
    global("format.dns1123SubdomainPrefix", FORMAT, |_, _| {
        Ok(constant(NamedFormat::Dns1123SubdomainPrefix))
    }),
    global("format.dns1035LabelPrefix", FORMAT, |_, _| {
        Ok(constant(NamedFormat::Dns1035LabelPrefix))
    }),
    global("format.labelValue", FORMAT, |_, _| {
        Ok(constant(NamedFormat::LabelValue))
    }),
    global("format.uri", FORMAT, |_, _| Ok(constant(NamedFormat::Uri))),
    global("format.uuid", FORMAT, |_, _| {
        Ok(constant(NamedFormat::Uuid))
    }),
    global("format.byte", FORMAT, |_, _| {
        Ok(constant(NamedFormat::Byte))
    }),
    global("format.date", FORMAT, |_, _| {
        Ok(constant(NamedFormat::Date))
    }),
    global("format.datetime", FORMAT, |_, _| {
        Ok(constant(NamedFormat::DateTime))
    }),
];

/// A named check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedFormat {
    Dns1123Label,
    Dns1123Subdomain,
    Dns1035Label,
    QualifiedName,
    Dns1123LabelPrefix,
    Dns1123SubdomainPrefix,
    Dns1035LabelPrefix,
    LabelValue,
    Uri,
    Uuid,
    Byte,
    Date,
    DateTime,
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
    characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
    '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or \
    '-', start with an alphabetic character, and end with an alphanumeric character (e.g. \
    'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
    and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
    used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
    'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

// === impl NamedFormat ===

impl NamedFormat {
    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "dns1123Label" => Self::Dns1123Label,
            "dns1123Subdomain" => Self::Dns1123Subdomain,
            "dns1035Label" => Self::Dns1035Label,
            "qualifiedName" => Self::QualifiedName,
            "dns1123LabelPrefix" => Self::Dns1123LabelPrefix,
            "dns1123SubdomainPrefix" => Self::Dns1123SubdomainPrefix,
            "dns1035LabelPrefix" => Self::Dns1035LabelPrefix,
            "labelValue" => Self::LabelValue,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid,
            "byte" => Self::Byte,
            "date" => Self::Date,
            "datetime" => Self::DateTime,
            _ => return None,
        })
    }

    /// What is wrong with a text; empty where nothing is.
    fn check(self, text: &str) -> Vec<String> {
        match self {
            Self::Dns1123Label => label(text),
            Self::Dns1123LabelPrefix => label(&mask_trailing_dash(text)),
            Self::Dns1123Subdomain => subdomain(text, "characters"),
            Self::Dns1123SubdomainPrefix => subdomain(&mask_trailing_dash(text), "characters"),
            Self::Dns1035Label => label_1035(text),
            Self::Dns1035LabelPrefix => label_1035(&mask_trailing_dash(text)),
            Self::QualifiedName => qualified_name(text),
            Self::LabelValue => {
                let mut wrong = too_long(text, 63, "bytes");
                wrong.extend(unless(text.is_empty() || is_qualified(text), LABEL_VALUE));
                wrong
            }
            Self::Uri => Url::parse(text).err().into_iter().collect(),
            Self::Uuid => unless(is_uuid(text), "does not match the UUID format"),
            Self::Byte => unless(is_base64(text), "invalid base64"),
            Self::Date => unless(Timestamp::parse_date(text).is_some(), "invalid date"),
            Self::DateTime => {
                let valid = !text.is_empty() && Timestamp::parse_date_time(text).is_some();
                unless(valid, "invalid datetime")
            }
        }
    }
}

fn unless(valid: bool, message: &str) -> Vec<String> {
    if valid {
        Vec::new()
    } else {
        vec![message.to_owned()]
    }
}

fn too_long(text: &str, max: usize, unit: &str) -> Vec<String> {
    unless(
        text.len() <= max,
        &format!("must be no more than {max} {unit}"),
    )
}

/// A prefix may end in the dash that the generated part follows: the last two characters are
/// judged as one letter.
fn mask_trailing_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(before) if !before.is_empty() => {
            let mut masked = before.to_owned();
            masked.pop();
            masked.push('a');
            masked
        }
        _ => text.to_owned(),
    }
}

fn label(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 63, "characters");
    if !is_label(text) {
        // A subdomain that is no label has dots.
        let message = if is_subdomain(text) {
            "must not contain dots"
        } else {
            LABEL
        };
        wrong.push(message.to_owned());
    }
    wrong
}

fn label_1035(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 63, "characters");
    wrong.extend(unless(is_label_1035(text), LABEL_1035));
    wrong
}

fn subdomain(text: &str, unit: &str) -> Vec<String> {
    let mut wrong = too_long(text, 253, unit);
    wrong.extend(unless(is_subdomain(text), SUBDOMAIN));
    wrong
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(inner) && text.ends_with(inner) && text.chars().all(|c| inner(c) || c == '-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_label_1035(text: &str) -> bool {
    is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

fn is_qualified(text: &str) -> bool {
    let outer = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(outer)
        && text.ends_with(outer)
        && text.chars().all(|c| outer(c) || "-_.".contains(c))
}

fn qualified_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                let errors = subdomain(prefix, "bytes");
                wrong.extend(
                    errors
                        .into_iter()
                        .map(|error| format!("prefix part {error}")),
                );
            }
            name
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(name) {
        wrong.push(format!("name part {QUALIFIED}"));
    }
    wrong
}

/// `strfmt` takes a UUID with or without its dashes.
fn is_uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    digits.len() == 32
        && digits.chars().all(|c| c.is_ascii_hexdigit())
        && (lengths == [32] || lengths == [8, 4, 4, 4, 12])
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '+' || c == '/')
}

fn constant<'v>(format: NamedFormat) -> Value<'v> {
    Value::opaque(Opaque::Format(format))
}

fn named<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [Value(Kind::String(name))] = args else {
        return Err(Failure::NoOverload);
    };
    Ok(match NamedFormat::of_name(name) {
        Some(format) => Value::some(Value::opaque(Opaque::Format(format))),
        None => Value::NONE,
    })
}

fn validate<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [
        Value(Kind::Opaque(Opaque::Format(format))),
        Value(Kind::String(text)),
    ] = args
    else {
        return Err(Failure::NoOverload);
    };
    let wrong = format.check(text);
    meter.charge_bytes(wrong.iter().map(String::len).sum())?;
    if wrong.is_empty() {
        return Ok(Value::NONE);
    }
    let wrong = wrong.into_iter().map(Value::string).collect();
    Ok(Value::some(Value::list(wrong)))
}
