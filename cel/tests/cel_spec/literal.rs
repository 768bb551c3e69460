//! The values of the simple tests as CEL literals, and their types as the checker prints them.

use super::textproto::{Field, Message};

/// Writes a `cel.expr.Value`; nothing for messages that have no CEL literal here.
pub(crate) fn value(value: &Message) -> Option<String> {
    let (kind, field) = value.fields().first()?;
    Some(match (kind.as_str(), field) {
        ("null_value", _) => "null".to_owned(),
        ("bool_value" | "int64_value", Field::Word(word)) => word.clone(),
        ("uint64_value", Field::Word(word)) => format!("{word}u"),
        ("double_value", Field::Word(word)) => double(word),
        ("string_value", field) => text(&field.text()?),
        ("bytes_value", Field::Text(bytes)) => bytes_literal(bytes),
        ("type_value", field) => type_name(&field.text()?)?,
        ("list_value", Field::Message(list)) => {
            let items: Option<Vec<String>> = list
                .all("values")
                .map(|item| self::value(item.message()?))
                .collect();
            format!("[{}]", items?.join(", "))
        }
        ("map_value", Field::Message(map)) => {
            let entries: Option<Vec<String>> = map
                .all("entries")
                .map(|entry| {
                    let entry = entry.message()?;
                    let key = self::value(entry.message("key")?)?;
                    Some(format!("{key}: {}", self::value(entry.message("value")?)?))
                })
                .collect();
            format!("{{{}}}", entries?.join(", "))
        }
        ("object_value", Field::Message(object)) => well_known(object)?,
        _ => return None,
    })
}

fn double(word: &str) -> String {
    match word.trim_start_matches('-').to_ascii_lowercase().as_str() {
        "inf" | "infinity" | "nan" => format!("double('{word}')"),
        _ if word.contains(['.', 'e', 'E']) => {
            let number: f64 = word.parse().expect("a number");
            format!("{number:?}")
        }
        _ => format!("{word}.0"),
    }
}

fn text(text: &str) -> String {
    let escaped: Vec<String> = text
        .chars()
        .map(|c| format!("\\U{:08x}", u32::from(c)))
        .collect();
    format!("'{}'", escaped.concat())
}

fn bytes_literal(bytes: &[u8]) -> String {
    let escaped: Vec<String> = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("b'{}'", escaped.concat())
}

fn type_name(name: &str) -> Option<String> {
    let known = [
        "bool",
        "bytes",
        "double",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "type",
        "uint",
        "google.protobuf.Timestamp",
        "google.protobuf.Duration",
        "optional_type",
        "net.IP",
        "net.CIDR",
    ];
    known.contains(&name).then(|| name.to_owned())
}

fn well_known(object: &Message) -> Option<String> {
    let (name, field) = object.fields().first()?;
    let number = |name| {
        let word = field.message()?.text(name).unwrap_or("0".to_owned());
        word.parse::<i64>().ok()
    };
    match name.as_str() {
        "type.googleapis.com/google.protobuf.Timestamp" => Some(format!(
            "(timestamp({}) + duration('{}ns'))",
            number("seconds")?,
            number("nanos")?
        )),
        "type.googleapis.com/google.protobuf.Duration" => Some(format!(
            "(duration('{}s') + duration('{}ns'))",
            number("seconds")?,
            number("nanos")?
        )),
        _ => None,
    }
}

/// Writes a `cel.expr.Type`; nothing for message types.
pub(crate) fn type_text(ty: &Message) -> Option<String> {
    let (kind, field) = ty.fields().first()?;
    let inner = |name| type_text(field.message()?.message(name)?);
    Some(match (kind.as_str(), field) {
        ("dyn", _) => "dyn".to_owned(),
        ("null", _) => "null".to_owned(),
        ("primitive", Field::Word(word)) => match word.as_str() {
            "INT64" => "int".to_owned(),
            "UINT64" => "uint".to_owned(),
            word => word.to_ascii_lowercase(),
        },
        ("well_known", Field::Word(word)) => match word.as_str() {
            "TIMESTAMP" => "timestamp".to_owned(),
            "DURATION" => "duration".to_owned(),
            _ => return None,
        },
        ("list_type", _) => format!("list({})", inner("elem_type")?),
        ("map_type", _) => format!("map({}, {})", inner("key_type")?, inner("value_type")?),
        ("type", Field::Message(of)) => format!("type({})", type_text(of)?),
        ("abstract_type", Field::Message(of)) => {
            let name = of.text("name")?;
            let params: Option<Vec<String>> = of
                .all("parameter_types")
                .map(|param| type_text(param.message()?))
                .collect();
            let params = params?;
            if params.is_empty() {
                name
            } else {
                format!("{name}({})", params.join(", "))
            }
        }
        _ => return None,
    })
}
