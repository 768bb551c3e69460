//! The words in which a kind says what its objects must be: places in an object, and checks of what is there.
//!
//! Most of what Kubernetes asks of its own kinds is said of one field: a port is a number up to 65535, a host is a DNS
//! name. Such [`Rules`] are tables of a path and a check. What is asked of several fields together is a check of the
//! object around them.
//!
//! Go cannot tell an empty text, an empty list or a zero from a field that is absent, so that checks of texts pass over
//! empty ones: where one is asked for, [`required`] says so.
//!
//! Source: apimachinery/pkg/util/validation/validation.go, kubernetes/pkg/apis/core/validation/validation.go.

use std::collections::HashSet;

use api::selector::LabelSelector;
use api::validation::{
    is_dns_label, is_dns_subdomain, is_label_value, is_path_segment, is_qualified_name,
};
use api::{FINDINGS_MAX, FieldError, FieldPath, TOLD_BYTES_MAX};
use dialect::Quantity;
use serde::Deserialize as _;
use serde_json::Value;

/// What is asked of the value at a place.
pub(super) type Check = fn(&Place<'_>, &mut Findings);

/// Paths with what is asked there. `a.b[].c` is the field `c` of each item of the list `b`, and an empty path the place
/// itself; what is below an absent field is not asked.
pub(super) type Rules = [(&'static str, Check)];

/// A value, null where there is none, and the way to it.
#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    pub(super) value: &'a Value,
    pub(super) path: FieldPath,
}

/// What is wrong with an object.
#[derive(Debug, Default)]
pub(super) struct Findings {
    errors: Vec<FieldError>,
    /// How much text they have.
    bytes: usize,
}

const PORT_MAX: i64 = 65_535;
const PORT_NAME_BYTES_MAX: usize = 15;
const FILE_MODE_MAX: i64 = 0o777;
const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Returns what the rules find in an object.
pub(super) fn judge(object: &Value, rules: &Rules) -> Vec<FieldError> {
    let mut findings = Findings::default();
    findings.judge(&Place::root(object), rules);
    findings.errors
}

/// Returns what a check finds in an object.
pub(super) fn found(object: &Value, check: Check) -> Vec<FieldError> {
    let mut findings = Findings::default();
    check(&Place::root(object), &mut findings);
    findings.errors
}

// === impl Place ===

impl<'a> Place<'a> {
    pub(super) fn root(object: &'a Value) -> Self {
        Self {
            value: object,
            path: FieldPath::root(),
        }
    }

    /// Goes to a field.
    pub(super) fn at(&self, name: &str) -> Self {
        Self {
            value: &self.value[name],
            path: self.path.child(name),
        }
    }

    /// Goes along several fields.
    pub(super) fn within(&self, names: &[&str]) -> Self {
        names
            .iter()
            .fold(self.clone(), |place, name| place.at(name))
    }

    /// The items of a list.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(|(index, value)| Self {
            value,
            path: self.path.index(index),
        })
    }

    /// The members of a map.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'a str, Self)> {
        let members = self.value.as_object().into_iter().flatten();
        members.map(|(key, value)| {
            let place = Self {
                value,
                path: self.path.key(key),
            };
            (key.as_str(), place)
        })
    }

    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// The text that is there; empty where there is none.
    pub(super) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub(super) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub(super) fn count(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        }
    }

    pub(super) fn quantity(&self) -> Option<Quantity> {
        Quantity::parse(self.value.as_str()?.trim()).ok()
    }
}

// === impl Findings ===

impl Findings {
    pub(super) fn judge(&mut self, place: &Place<'_>, rules: &Rules) {
        for (path, check) in rules {
            if path.is_empty() {
                check(place, self);
            } else {
                self.visit(place, path, *check);
            }
        }
    }

    fn visit(&mut self, place: &Place<'_>, path: &str, check: Check) {
        let (step, rest) = match path.split_once('.') {
            Some((step, rest)) => (step, Some(rest)),
            None => (path, None),
        };
        let (name, is_list) = match step.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (step, false),
        };
        let inner = place.at(name);
        let go = |place: &Place<'_>, findings: &mut Self| match rest {
            None => check(place, findings),
            Some(rest) if place.is_set() => findings.visit(place, rest, check),
            Some(_) => {}
        };
        if is_list {
            for item in inner.items() {
                if self.is_full() {
                    return;
                }
                go(&item, self);
            }
        } else {
            go(&inner, self);
        }
    }

    /// Whether no more is told: an object of the greatest size can break a rule a million times.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= FINDINGS_MAX || self.bytes > TOLD_BYTES_MAX
    }

    pub(super) fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            self.bytes = self.bytes.saturating_add(error.size());
            self.errors.push(error);
        }
    }

    pub(super) fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        for error in errors {
            self.push(error);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.errors.len()
    }

    pub(super) fn invalid(&mut self, place: &Place<'_>, detail: impl Into<String>) {
        if self.is_full() {
            return;
        }
        self.push(FieldError::invalid(
            &place.path,
            place.value.clone(),
            detail,
        ));
    }

    pub(super) fn forbidden(&mut self, place: &Place<'_>, detail: impl Into<String>) {
        self.push(FieldError::forbidden(&place.path, detail));
    }

    pub(super) fn required(&mut self, place: &Place<'_>, detail: impl Into<String>) {
        self.push(FieldError::required(&place.path, detail));
    }

    pub(super) fn duplicate(&mut self, place: &Place<'_>) {
        self.push(FieldError::duplicate(&place.path, place.value.clone()));
    }

    /// A text is none of the known ones.
    pub(super) fn not_supported(&mut self, place: &Place<'_>, known: &[&str]) {
        let value = place.value.clone();
        self.push(FieldError::not_supported(
            &place.path,
            value,
            known.iter().copied(),
        ));
    }

    /// Whatever a check of texts says of a text, empty or not.
    pub(super) fn text(&mut self, place: &Place<'_>, check: fn(&str) -> Vec<String>) {
        for detail in check(place.text()) {
            self.push(FieldError::invalid(&place.path, place.text(), detail));
        }
    }

    /// A text that has to be there, and whatever a check of texts says of it.
    pub(super) fn needed(&mut self, place: &Place<'_>, check: fn(&str) -> Vec<String>) {
        if place.text().is_empty() {
            self.required(place, "");
        } else {
            self.text(place, check);
        }
    }

    /// Whatever a check of texts says of a text that is not empty.
    fn text_if_any(&mut self, place: &Place<'_>, check: fn(&str) -> Vec<String>) {
        if !place.text().is_empty() {
            self.text(place, check);
        }
    }

    /// A number outside of bounds that are both allowed.
    pub(super) fn between(&mut self, place: &Place<'_>, min: i64, max: i64) {
        if place.number().is_some_and(|it| !(min..=max).contains(&it)) {
            self.invalid(place, format!("must be between {min} and {max}, inclusive"));
        }
    }

    /// An item that an earlier one has said; empty ones are none.
    pub(super) fn unique<'a>(&mut self, places: impl IntoIterator<Item = Place<'a>>) {
        let mut seen: HashSet<&Value> = HashSet::new();
        for place in places {
            if place.is_set() && place.value != "" && !seen.insert(place.value) {
                self.duplicate(&place);
            }
        }
    }
}

/// There is one: no empty text, list or map.
pub(super) fn required(place: &Place<'_>, findings: &mut Findings) {
    let is_empty = match place.value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    if is_empty {
        findings.required(place, "");
    }
}

pub(super) fn not_negative(place: &Place<'_>, findings: &mut Findings) {
    if place.number().is_some_and(|it| it < 0) {
        findings.invalid(place, NOT_NEGATIVE);
    }
}

/// A number above zero, which an absent one is not.
pub(super) fn positive(place: &Place<'_>, findings: &mut Findings) {
    let number = place.number().unwrap_or(0);
    if number <= 0 {
        findings.push(FieldError::invalid(
            &place.path,
            number,
            "must be greater than zero",
        ));
    }
}

/// A text that must be one of these, and be there.
pub(super) fn one_of(place: &Place<'_>, known: &[&str], findings: &mut Findings) {
    match place.text() {
        "" => findings.required(place, ""),
        text if known.contains(&text) => {}
        _ => findings.not_supported(place, known),
    }
}

/// A text that must be one of these where there is one, if only an empty one.
pub(super) fn one_of_if_any(place: &Place<'_>, known: &[&str], findings: &mut Findings) {
    if place.is_set() && !known.contains(&place.text()) {
        findings.not_supported(place, known);
    }
}

/// An id of a user or a group.
pub(super) fn id(place: &Place<'_>, findings: &mut Findings) {
    findings.between(place, 0, i64::from(i32::MAX));
}

/// A port that must be there; zero is an absent one.
pub(super) fn port(place: &Place<'_>, findings: &mut Findings) {
    let number = place.number().unwrap_or(0);
    if !(1..=PORT_MAX).contains(&number) {
        let detail = format!("must be between 1 and {PORT_MAX}, inclusive");
        findings.push(FieldError::invalid(&place.path, number, detail));
    }
}

/// A port that may be absent, or zero.
pub(super) fn port_if_any(place: &Place<'_>, findings: &mut Findings) {
    if place.number().is_some_and(|it| it != 0) {
        port(place, findings);
    }
}

/// A port's number, or its name.
pub(super) fn port_or_name(place: &Place<'_>, findings: &mut Findings) {
    match place.value {
        Value::String(_) => findings.text(place, is_port_name),
        _ => port(place, findings),
    }
}

/// The name of a port that may be absent.
pub(super) fn port_name(place: &Place<'_>, findings: &mut Findings) {
    findings.text_if_any(place, is_port_name);
}

/// What is wrong with the name of a port (RFC 6335).
pub(super) fn is_port_name(text: &str) -> Vec<String> {
    let known = |byte: u8| matches!(byte, b'-' | b'a'..=b'z' | b'0'..=b'9');
    let has_letter = text.bytes().any(|byte| byte.is_ascii_lowercase());
    let wrong = [
        (
            text.len() > PORT_NAME_BYTES_MAX,
            "must be no more than 15 characters",
        ),
        (
            text.is_empty() || !text.bytes().all(known),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!has_letter, "must contain at least one letter (a-z)"),
        (text.contains("--"), "must not contain consecutive hyphens"),
        (
            text.starts_with('-') || text.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    wrong
        .into_iter()
        .filter(|(is_wrong, _)| *is_wrong)
        .map(|(_, detail)| detail.to_owned())
        .collect()
}

pub(super) fn dns_label(place: &Place<'_>, findings: &mut Findings) {
    findings.text_if_any(place, is_dns_label);
}

pub(super) fn dns_subdomain(place: &Place<'_>, findings: &mut Findings) {
    findings.text_if_any(place, is_dns_subdomain);
}

/// A name with an optional prefix, also an empty one.
pub(super) fn qualified_name(place: &Place<'_>, findings: &mut Findings) {
    findings.text(place, is_qualified_name);
}

/// A name with an optional prefix, where there is one.
pub(super) fn qualified_name_if_any(place: &Place<'_>, findings: &mut Findings) {
    if place.is_set() {
        findings.text(place, is_qualified_name);
    }
}

/// Another object, by its kind and its name.
pub(super) fn reference(place: &Place<'_>, findings: &mut Findings) {
    findings.needed(&place.at("kind"), is_path_segment);
    findings.needed(&place.at("name"), is_path_segment);
}

/// Labels, or what selects by labels.
pub(super) fn labels(place: &Place<'_>, findings: &mut Findings) {
    for (key, label) in place.members() {
        let key_errors = is_qualified_name(key).into_iter();
        findings.extend(key_errors.map(|it| FieldError::invalid(&place.path, key, it)));
        let value_errors = is_label_value(label.text()).into_iter();
        findings.extend(value_errors.map(|it| FieldError::invalid(&place.path, label.text(), it)));
    }
}

/// A label selector, where there is one.
pub(super) fn selector(place: &Place<'_>, findings: &mut Findings) {
    if let Ok(selector) = LabelSelector::deserialize(place.value) {
        findings.extend(selector.validate(&place.path));
    }
}

pub(super) fn file_mode(place: &Place<'_>, findings: &mut Findings) {
    if place
        .number()
        .is_some_and(|it| !(0..=FILE_MODE_MAX).contains(&it))
    {
        findings.invalid(place, FILE_MODE);
    }
}

/// A path that leads nowhere above.
pub(super) fn no_backsteps(place: &Place<'_>, findings: &mut Findings) {
    if place.text().split('/').any(|it| it == "..") {
        findings.invalid(place, "must not contain '..'");
    }
}

/// A path below a directory.
pub(super) fn descending_path(place: &Place<'_>, findings: &mut Findings) {
    if place.text().starts_with('/') {
        findings.invalid(place, "must be a relative path");
    }
    no_backsteps(place, findings);
}

/// A path of a file below a directory, whose own names begin with two dots.
pub(super) fn file_path(place: &Place<'_>, findings: &mut Findings) {
    descending_path(place, findings);
    if place.text().starts_with("..") && !place.text().starts_with("../") {
        findings.invalid(place, "must not start with '..'");
    }
}

/// A quantity that is not negative, and is whole where its resource is counted.
pub(super) fn amount(name: &str, place: &Place<'_>, findings: &mut Findings) {
    let Some(quantity) = place.quantity() else {
        return;
    };
    if quantity.to_float() < 0.0 {
        findings.invalid(place, NOT_NEGATIVE);
    }
    let is_counted = name.starts_with("count/") || COUNTED.contains(&name) || is_extended(name);
    if is_counted && quantity.to_int().is_none() {
        findings.invalid(place, "must be an integer");
    }
}

pub(super) fn positive_quantity(place: &Place<'_>, findings: &mut Findings) {
    if place.quantity().is_some_and(|it| it.to_float() <= 0.0) {
        findings.invalid(place, "must be greater than zero");
    }
}

/// Resources that are measured.
const MEASURED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "storage"];

/// Resources of which there are only whole ones.
const COUNTED: [&str; 7] = [
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
];

/// Whether a name without a prefix is a resource of anything at all.
pub(super) fn is_standard(name: &str) -> bool {
    let bare = name
        .strip_prefix("requests.")
        .or_else(|| name.strip_prefix("limits."))
        .unwrap_or(name);
    COUNTED.contains(&bare)
        || MEASURED.contains(&bare)
        || bare.starts_with("hugepages-")
        || matches!(name, "services.loadbalancers" | "services.nodeports")
}

/// Whether a resource is one of a vendor's.
pub(super) fn is_extended(name: &str) -> bool {
    name.contains('/') && !is_native(name) && !name.starts_with("requests.")
}

/// Whether a resource is Kubernetes' own.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// A count, or a share in percent.
pub(super) fn count_or_percent(place: &Place<'_>, findings: &mut Findings) {
    match place.value {
        Value::String(text) if !is_percent(text) => findings.invalid(place, PERCENT),
        Value::Number(_) if place.number().is_none_or(|it| it > i64::from(i32::MAX)) => {
            findings.between(place, 0, i64::from(i32::MAX));
        }
        _ => not_negative(place, findings),
    }
}

/// At most all, where it is a share.
pub(super) fn at_most_all(place: &Place<'_>, findings: &mut Findings) {
    if percent(place.text()).is_some_and(|it| it > 100) {
        findings.invalid(place, "must not be greater than 100%");
    }
}

fn is_percent(text: &str) -> bool {
    text.strip_suffix('%').is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn percent(text: &str) -> Option<u64> {
    if !is_percent(text) {
        return None;
    }
    text.strip_suffix('%')?.parse().ok()
}

/// A count, or the number of a share; zero where it is neither.
pub(super) fn count_of(place: &Place<'_>) -> i64 {
    let share = percent(place.text()).and_then(|it| i64::try_from(it).ok());
    place.number().or(share).unwrap_or(0)
}
