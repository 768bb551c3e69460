//! The tables of field numbers: `data/protobuf_fields.txt`, parsed once.
//!
//! The file is part of the program; its lines are described at the top of `hack/protobuf-fields/main.go`.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// Field numbers of all messages, and which message a kind is.
#[derive(Debug)]
pub(super) struct Tables {
    roots: HashMap<(&'static str, &'static str), &'static str>,
    messages: HashMap<&'static str, Message>,
}

/// One message: its fields by number.
pub(super) type Message = BTreeMap<u32, FieldRule>;

/// How a field is shown in JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldRule {
    pub(super) name: &'static str,
    pub(super) kind: FieldKind,
    pub(super) shape: Shape,
    /// A zero value is left out.
    pub(super) omit_zero: bool,
    /// Go has no pointer there: a zero value is written where there is none.
    pub(super) always: bool,
}

/// How often a field occurs, and where its value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Once.
    Single,
    /// A list.
    Repeated,
    /// Entries of a map with string keys.
    Map,
    /// Once, its fields being those of the parent.
    Inline,
}

/// The type of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    Text,
    Bytes,
    Integer,
    Boolean,
    Double,
    Float,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    RawJson,
    StringList,
    FieldsV1,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
    Message(&'static str),
}

/// A type whose lists have a name in Go.
pub(super) const VALIDATION_RULE: &str = "apiextensions.v1.ValidationRule";

static TEXT: &str = include_str!("../../data/protobuf_fields.txt");
static TABLES: LazyLock<Tables> =
    LazyLock::new(|| Tables::parse(TEXT).expect("the committed tables are well formed (tested)"));

// === impl Tables ===

impl Tables {
    pub(super) fn get() -> &'static Self {
        &TABLES
    }

    /// The message of a kind. `DeleteOptions` is the same in every group.
    pub(super) fn root(&self, api_version: &str, kind: &str) -> Option<&Message> {
        let api_version = if kind == "DeleteOptions" {
            "v1"
        } else {
            api_version
        };
        self.message(self.roots.get(&(api_version, kind))?)
    }

    /// The name of the message of a kind.
    pub(super) fn root_name(&self, api_version: &str, kind: &str) -> Option<&'static str> {
        self.roots.get(&(api_version, kind)).copied()
    }

    /// The struct that holds a field with the path to it, and the type of the value, as Go names them.
    pub(super) fn go_names(
        &self,
        api_version: &str,
        kind: &str,
        path: &[&str],
    ) -> Option<(String, String)> {
        let mut message = *self.roots.get(&(api_version, kind))?;
        let mut in_map = false;
        let mut found: Option<(String, String)> = None;
        let mut names = Vec::new();
        for name in path {
            if in_map {
                // A key of a map is no field; what is wrong is its value.
                in_map = false;
                if let Some((_, go_type)) = found.as_mut() {
                    *go_type = go_type.trim_start_matches("map[string]").to_owned();
                }
                continue;
            }
            names.push(*name);
            let rule = self.field(message, name)?;
            let owner = message.rsplit('.').next().unwrap_or(message).to_owned();
            found = Some((owner, rule.go_type()));
            in_map = rule.shape == Shape::Map;
            if let FieldKind::Message(inner) = rule.kind {
                message = inner;
            }
        }
        found.map(|(owner, go_type)| (format!("{owner}.{}", names.join(".")), go_type))
    }

    /// A field by its name in JSON, inlined messages included.
    pub(super) fn field(&self, message: &str, name: &str) -> Option<&FieldRule> {
        let fields = self.messages.get(message)?;
        if let Some(rule) = fields.values().find(|rule| rule.name == name) {
            return Some(rule);
        }
        fields
            .values()
            .filter(|rule| rule.shape == Shape::Inline)
            .find_map(|rule| match rule.kind {
                FieldKind::Message(inner) => self.field(inner, name),
                _ => None,
            })
    }

    pub(super) fn message(&self, name: &str) -> Option<&Message> {
        self.messages.get(name)
    }

    fn parse(text: &'static str) -> Option<Self> {
        let mut tables = Self {
            roots: HashMap::new(),
            messages: HashMap::new(),
        };
        for line in text.lines().filter(|line| !line.is_empty()) {
            let mut columns = line.split('\t');
            let first = columns.next()?;
            if let (Some(kind), Some(message)) = (columns.next(), columns.next()) {
                tables.roots.insert((first, kind), message);
                continue;
            }
            let mut words = line.split(' ');
            let name = words.next()?;
            let fields = words.filter(|word| !word.is_empty()).map(parse_field);
            tables.messages.insert(name, fields.collect::<Option<_>>()?);
        }
        Some(tables)
    }
}

// === impl FieldKind ===

impl FieldKind {
    /// Whether values are schemas or something else.
    pub(super) const fn is_union(self) -> bool {
        matches!(
            self,
            Self::SchemaOrArray | Self::SchemaOrBool | Self::SchemaOrStrings
        )
    }
}

// === impl FieldRule ===

impl FieldRule {
    /// The type of a field as Go's decoder names it. Integers are taken for `int32`, which most of them are.
    pub(super) fn go_type(&self) -> String {
        if let (FieldKind::Message(VALIDATION_RULE), Shape::Repeated) = (self.kind, self.shape) {
            return "v1.ValidationRules".to_owned();
        }
        let scalar = self.element_type();
        match self.shape {
            Shape::Repeated => format!("[]{scalar}"),
            Shape::Map => format!("map[string]{scalar}"),
            Shape::Single | Shape::Inline => scalar,
        }
    }

    /// The type of one of the values that a field holds.
    pub(super) fn element_type(&self) -> String {
        match self.kind {
            FieldKind::Integer => "int32".to_owned(),
            FieldKind::Boolean => "bool".to_owned(),
            FieldKind::Double | FieldKind::Float => "float64".to_owned(),
            FieldKind::Bytes => "[]uint8".to_owned(),
            FieldKind::Time => "v1.Time".to_owned(),
            FieldKind::MicroTime => "v1.MicroTime".to_owned(),
            FieldKind::RawJson => "v1.JSON".to_owned(),
            FieldKind::Message(name) => {
                let mut parts = name.rsplit('.');
                let (kind, version, group) = (parts.next(), parts.next(), parts.next());
                let package = match version {
                    Some("v1") if group == Some("meta") => "v1",
                    Some(version) => version,
                    None => "",
                };
                format!("{package}.{}", kind.unwrap_or_default())
            }
            _ => "string".to_owned(),
        }
    }
}

fn parse_field(text: &'static str) -> Option<(u32, FieldRule)> {
    let mut parts = text.split(':');
    let (number, name, kind, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let shape = if flags.contains('l') {
        Shape::Inline
    } else if flags.contains('r') {
        Shape::Repeated
    } else if flags.contains('p') {
        Shape::Map
    } else {
        Shape::Single
    };
    let rule = FieldRule {
        name,
        kind: parse_kind(kind)?,
        shape,
        omit_zero: flags.contains('o'),
        always: flags.contains(['o', 'z']),
    };
    Some((number.parse().ok()?, rule))
}

fn parse_kind(text: &'static str) -> Option<FieldKind> {
    if let Some(message) = text.strip_prefix('m') {
        return Some(FieldKind::Message(message));
    }
    Some(match text {
        "s" => FieldKind::Text,
        "b" => FieldKind::Bytes,
        "i" => FieldKind::Integer,
        "B" => FieldKind::Boolean,
        "d" => FieldKind::Double,
        "f" => FieldKind::Float,
        "T" => FieldKind::Time,
        "M" => FieldKind::MicroTime,
        "D" => FieldKind::Duration,
        "Q" => FieldKind::Quantity,
        "I" => FieldKind::IntOrString,
        "J" => FieldKind::RawJson,
        "S" => FieldKind::StringList,
        "F" => FieldKind::FieldsV1,
        "A" => FieldKind::SchemaOrArray,
        "L" => FieldKind::SchemaOrBool,
        "N" => FieldKind::SchemaOrStrings,
        _ => return None,
    })
}

#[cfg(test)]
impl Tables {
    /// Every message that a table names and no table defines.
    pub(super) fn dangling(&self) -> Vec<&'static str> {
        let named = self
            .messages
            .values()
            .flat_map(BTreeMap::values)
            .filter_map(|rule| {
                if let FieldKind::Message(name) = rule.kind {
                    Some(name)
                } else {
                    None
                }
            });
        named
            .chain(self.roots.values().copied())
            .filter(|name| !self.messages.contains_key(name))
            .collect()
    }
}
