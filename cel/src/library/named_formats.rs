//! Kubernetes' `format` library: named checks of text that return what is wrong.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/format.go`.

use dialect::formats;
use dialect::names::{self, NameRule};

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

    /// How long the pattern is for which Kubernetes counts it.
    ///
    /// Source: `MaxRegexSize` of `ConstantFormats` in `apiserver/pkg/cel/library/format.go`.
    pub(crate) fn pattern_length(self) -> u64 {
        match self {
            Self::Dns1123Label
            | Self::Dns1035Label
            | Self::Dns1123LabelPrefix
            | Self::Dns1035LabelPrefix => 30,
            Self::LabelValue => 40,
            Self::Dns1123Subdomain | Self::Dns1123SubdomainPrefix | Self::QualifiedName => 60,
            Self::Uuid => 70,
            Self::Date | Self::DateTime => 71,
            Self::Byte => 84,
            Self::Uri => 1103,
        }
    }

    /// Returns what is wrong with a text; empty where nothing is.
    fn check(self, text: &str) -> Vec<String> {
        match self {
            Self::Dns1123Label => NameRule::DnsLabel.check(text),
            Self::Dns1123LabelPrefix => NameRule::DnsLabel.check_prefix(text),
            Self::Dns1123Subdomain => NameRule::DnsSubdomain.check(text),
            Self::Dns1123SubdomainPrefix => NameRule::DnsSubdomain.check_prefix(text),
            Self::Dns1035Label => NameRule::Dns1035Label.check(text),
            Self::Dns1035LabelPrefix => NameRule::Dns1035Label.check_prefix(text),
            Self::QualifiedName => names::is_qualified_name(text),
            Self::LabelValue => names::is_label_value(text),
            Self::Uri => Url::parse(text).err().into_iter().collect(),
            Self::Uuid => unless(formats::is_uuid(text), "does not match the UUID format"),
            Self::Byte => unless(formats::is_base64(text), "invalid base64"),
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
