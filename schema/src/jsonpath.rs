//! The JSONPath of kubectl, as printer columns use it: one path, without the braces.
//!
//! `.a.b`, `['a']`, `[0]`, `[-1]`, `[1:3:2]`, `[*]`, `.*`, `..a`, `[0,2]`, `[?(@.type=="Ready")]`. A field that is missing
//! yields nothing; an index that is missing is an error, and so is a comparison of different types.
//!
//! Invariant: a walk visits at most [`RESULTS_MAX`] values per step, whatever the path and the value.
//!
//! Source: `client-go/util/jsonpath/{parser,jsonpath}.go`, `client-go/third_party/forked/golang/template`.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

/// How many values a step may select. More are of no use in a cell, and several `..` multiply.
const RESULTS_MAX: usize = 10_000;

/// How deep filters may contain filters. Each level of text is parsed anew.
const DEPTH_MAX: usize = 16;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    nodes: Vec<Node>,
}

/// Why a path does not parse, or does not apply to a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonPathError(String);

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Field(String),
    Wildcard,
    Recursive,
    Slice {
        start: Option<i64>,
        end: SliceEnd,
        step: Option<i64>,
    },
    Union(Vec<JsonPath>),
    Filter {
        left: JsonPath,
        operator: String,
        right: JsonPath,
    },
    Literal(Value),
}

/// Where a slice ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SliceEnd {
    /// `[n]`: after the one item.
    AfterStart,
    /// `[n:]`: at the end of the list.
    Last,
    /// `[n:m]`.
    At(i64),
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
    nodes: Vec<Node>,
}

// === impl JsonPath ===

impl JsonPath {
    /// Parses a path.
    ///
    /// # Errors
    /// The text is not a path, in the parser's words.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        Self::parse_at(text, 0)
    }

    fn parse_at(text: &str, depth: usize) -> Result<Self, JsonPathError> {
        if depth > DEPTH_MAX {
            return Err(JsonPathError("filters are nested too deep".to_owned()));
        }
        let mut parser = Parser {
            rest: text,
            depth,
            nodes: Vec::new(),
        };
        parser.run()?;
        Ok(Self {
            nodes: parser.nodes,
        })
    }

    /// The values that the path selects in `value`, in order.
    ///
    /// # Errors
    /// An index is out of bounds, something other than a list is indexed, or different types are compared.
    pub fn evaluate<'v>(&self, value: &'v Value) -> Result<Vec<Cow<'v, Value>>, JsonPathError> {
        self.walk(vec![Cow::Borrowed(value)])
    }

    /// The names of a path that is fields alone, such as `.spec.color`.
    pub fn simple_fields(&self) -> Option<Vec<&str>> {
        let mut names = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            match node {
                Node::Field(name) if !name.is_empty() => names.push(name.as_str()),
                _ => return None,
            }
        }
        Some(names)
    }

    fn walk<'v>(&self, start: Vec<Cow<'v, Value>>) -> Result<Vec<Cow<'v, Value>>, JsonPathError> {
        let mut current = start;
        for node in &self.nodes {
            current = node.step(current)?;
            if current.len() > RESULTS_MAX {
                return Err(JsonPathError(format!("more than {RESULTS_MAX} values")));
            }
        }
        Ok(current)
    }
}

/// What kubectl prints for a value: texts bare, lists and maps as JSON.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => dialect::float(float),
            _ => number.to_string(),
        },
        other => dialect::json::to_string(other),
    }
}

// === impl Node ===

impl Node {
    fn step<'v>(&self, current: Vec<Cow<'v, Value>>) -> Result<Vec<Cow<'v, Value>>, JsonPathError> {
        let mut found = Vec::new();
        match self {
            Self::Field(name) => found.extend(current.into_iter().filter_map(|it| field(it, name))),
            Self::Wildcard => current
                .into_iter()
                .for_each(|it| found.extend(children(it))),
            Self::Recursive => {
                for value in current {
                    descend(value, &mut found)?;
                }
            }
            Self::Slice { start, end, step } => {
                for value in current.into_iter().filter(|it| !it.is_null()) {
                    slice(value, (*start, *end, *step), &mut found)?;
                }
            }
            Self::Union(paths) => {
                for path in paths {
                    found.extend(path.walk(current.clone())?);
                }
            }
            Self::Filter {
                left,
                operator,
                right,
            } => {
                for value in current {
                    filter(value, left, operator, right, &mut found)?;
                }
            }
            Self::Literal(literal) => found.push(Cow::Owned(literal.clone())),
        }
        Ok(found)
    }
}

fn field<'v>(value: Cow<'v, Value>, name: &str) -> Option<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(value) => value.as_object()?.get(name).map(Cow::Borrowed),
        Cow::Owned(Value::Object(mut fields)) => fields.remove(name).map(Cow::Owned),
        Cow::Owned(_) => None,
    }
}

fn children(value: Cow<'_, Value>) -> Vec<Cow<'_, Value>> {
    match value {
        Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Object(fields)) => {
            fields.into_iter().map(|(_, it)| Cow::Owned(it)).collect()
        }
        Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
        _ => Vec::new(),
    }
}

/// Lists and maps that are not empty, from the outside in.
fn descend<'v>(
    value: Cow<'v, Value>,
    found: &mut Vec<Cow<'v, Value>>,
) -> Result<(), JsonPathError> {
    let inner = children(value.clone());
    if inner.is_empty() {
        return Ok(());
    }
    if found.len() >= RESULTS_MAX {
        return Err(JsonPathError(format!("more than {RESULTS_MAX} values")));
    }
    found.push(value);
    inner.into_iter().try_for_each(|it| descend(it, found))
}

fn slice<'v>(
    value: Cow<'v, Value>,
    (start, end, step): (Option<i64>, SliceEnd, Option<i64>),
    found: &mut Vec<Cow<'v, Value>>,
) -> Result<(), JsonPathError> {
    if !value.is_array() {
        return Err(JsonPathError(format!(
            "{} is not array or slice",
            go_type(&value)
        )));
    }
    let items = children(value);
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| {
        if index < 0 {
            index.saturating_add(length)
        } else {
            index
        }
    };
    let first = from_end(start.unwrap_or(0));
    let last = match end {
        SliceEnd::AfterStart => match start.unwrap_or(0).saturating_add(1) {
            0 => length,
            after => from_end(after),
        },
        SliceEnd::Last => length,
        SliceEnd::At(index) => from_end(index),
    };
    if first == last {
        return Ok(());
    }
    let out_of_bounds = |index: i64| {
        JsonPathError(format!(
            "array index out of bounds: index {index}, length {length}"
        ))
    };
    if first >= length || first < 0 {
        return Err(out_of_bounds(first));
    }
    if last > length || last < 0 {
        return Err(out_of_bounds(last.saturating_sub(1)));
    }
    if first > last {
        let text = format!("starting index {first} is greater than ending index {last}");
        return Err(JsonPathError(text));
    }
    let step = step.unwrap_or(1);
    let (Ok(step), true) = (usize::try_from(step), step > 0) else {
        return Err(JsonPathError("step must be > 0".to_owned()));
    };
    let (skip, take) = (usize::try_from(first), usize::try_from(last - first));
    let (skip, take) = (skip.unwrap_or(0), take.unwrap_or(0));
    found.extend(items.into_iter().skip(skip).take(take).step_by(step));
    Ok(())
}

fn filter<'v>(
    value: Cow<'v, Value>,
    left: &JsonPath,
    operator: &str,
    right: &JsonPath,
    found: &mut Vec<Cow<'v, Value>>,
) -> Result<(), JsonPathError> {
    if !value.is_array() {
        let shown = text(&value);
        return Err(JsonPathError(format!(
            "{shown} is not array or slice and cannot be filtered"
        )));
    }
    for item in children(value) {
        let lefts = left.walk(vec![item.clone()]);
        if operator == "exists" {
            if lefts.is_ok_and(|it| !it.is_empty()) {
                found.push(item);
            }
            continue;
        }
        let rights = right.walk(vec![item.clone()])?;
        match (lefts?.as_slice(), rights.as_slice()) {
            ([left], [right]) => {
                if compares(left, operator, right)? {
                    found.push(item);
                }
            }
            ([], _) | (_, []) => {}
            _ => {
                return Err(JsonPathError(
                    "can only compare one element at a time".to_owned(),
                ));
            }
        }
    }
    Ok(())
}

/// Compares values of one basic type.
fn compares(left: &Value, operator: &str, right: &Value) -> Result<bool, JsonPathError> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => {
            return match operator {
                "==" => Ok(left == right),
                "!=" => Ok(left != right),
                "<" | ">" | "<=" | ">=" => Err(incomparable()),
                other => Err(unknown_operator(other)),
            };
        }
        (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
            match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => Some(left.cmp(&right)),
                _ => left
                    .as_f64()
                    .zip(right.as_f64())
                    .and_then(|(l, r)| l.partial_cmp(&r)),
            }
        }
        _ => return Err(incomparable()),
    };
    Ok(match operator {
        "==" => order == Some(Ordering::Equal),
        "!=" => order != Some(Ordering::Equal),
        "<" => order == Some(Ordering::Less),
        ">" => order == Some(Ordering::Greater),
        "<=" => order.is_some_and(Ordering::is_le),
        ">=" => order.is_some_and(Ordering::is_ge),
        other => return Err(unknown_operator(other)),
    })
}

fn incomparable() -> JsonPathError {
    JsonPathError("incompatible types for comparison".to_owned())
}

fn unknown_operator(operator: &str) -> JsonPathError {
    JsonPathError(format!("unrecognized filter operator {operator}"))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

// === impl Parser ===

impl<'a> Parser<'a> {
    fn run(&mut self) -> Result<(), JsonPathError> {
        while let Some(next) = self.rest.chars().next() {
            if self.rest.starts_with("[?(") {
                self.filter()?;
            } else if self.rest.starts_with("..") {
                self.recursive()?;
            } else {
                self.plain(next)?;
            }
        }
        Ok(())
    }

    fn plain(&mut self, next: char) -> Result<(), JsonPathError> {
        match next {
            ' ' | '@' | '$' => drop(self.take(1)),
            '[' => self.array()?,
            '"' | '\'' => self.quote(next)?,
            '.' => {
                self.take(1);
                self.field();
            }
            '+' | '-' => self.number()?,
            digit if digit.is_numeric() => self.number()?,
            letter if letter == '_' || letter.is_alphabetic() => self.identifier()?,
            '\r' | '\n' => return Err(JsonPathError("unclosed action".to_owned())),
            other => {
                let code = u32::from(other);
                let text = format!("unrecognized character in action: U+{code:04X} '{other}'");
                return Err(JsonPathError(text));
            }
        }
        Ok(())
    }

    /// Takes the first `length` bytes, which must end at a border of a character.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Takes what comes before a terminator that is not escaped.
    fn take_name(&mut self) -> &'a str {
        let mut escaped = false;
        let end = self.rest.find(|next: char| {
            if std::mem::take(&mut escaped) {
                return false;
            }
            escaped = next == '\\';
            is_terminator(next)
        });
        self.take(end.unwrap_or(self.rest.len()))
    }

    fn field(&mut self) {
        let name = self.take_name();
        self.nodes.push(match name {
            "*" => Node::Wildcard,
            name => Node::Field(name.replace('\\', "")),
        });
    }

    fn recursive(&mut self) -> Result<(), JsonPathError> {
        if self.nodes.last() == Some(&Node::Recursive) {
            return Err(JsonPathError(
                "invalid multiple recursive descent".to_owned(),
            ));
        }
        self.take(2);
        self.nodes.push(Node::Recursive);
        if self
            .rest
            .starts_with(|next: char| next == '_' || next.is_alphanumeric())
        {
            self.field();
        }
        Ok(())
    }

    fn identifier(&mut self) -> Result<(), JsonPathError> {
        match self.take_name() {
            "true" => self.nodes.push(Node::Literal(Value::Bool(true))),
            "false" => self.nodes.push(Node::Literal(Value::Bool(false))),
            // `range` and `end` belong to templates, of which a column has none.
            other => return Err(JsonPathError(format!("unrecognized identifier {other}"))),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonPathError> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest.get(sign..).unwrap_or_default();
        let length = digits.find(|it: char| !it.is_ascii_digit() && it != '.');
        let text = self.take(sign + length.unwrap_or(digits.len()));
        let literal = match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(integer), _) => Value::from(integer),
            (_, Ok(float)) => Value::from(float),
            _ => return Err(JsonPathError(format!("cannot parse number {text}"))),
        };
        self.nodes.push(Node::Literal(literal));
        Ok(())
    }

    fn quote(&mut self, quote: char) -> Result<(), JsonPathError> {
        let mut escaped = false;
        let body = self.rest.get(1..).unwrap_or_default();
        let end = body.find(|next: char| {
            let ends = next == quote && !escaped;
            escaped = next == '\\' && !escaped;
            ends
        });
        let Some(end) = end else {
            return Err(JsonPathError("unterminated quoted string".to_owned()));
        };
        let text = body.get(..end).unwrap_or_default().to_owned();
        self.take(end + 2);
        self.nodes
            .push(Node::Literal(Value::String(unescape(&text))));
        Ok(())
    }

    fn array(&mut self) -> Result<(), JsonPathError> {
        let line = self.rest.lines().next().unwrap_or_default();
        let Some(end) = line.find(']') else {
            return Err(JsonPathError("unterminated array".to_owned()));
        };
        let text = self.take(end + 1).get(1..end).unwrap_or_default();
        let parts: Vec<&str> = text.split(',').collect();
        if parts.len() > 1 {
            let branch = |part: &&str| {
                JsonPath::parse_at(&format!("[{}]", part.trim_matches(' ')), self.depth + 1)
            };
            let branches = parts.iter().map(branch).collect::<Result<_, _>>()?;
            self.nodes.push(Node::Union(branches));
            return Ok(());
        }
        if let Some(name) = quoted_key(text) {
            let inner = JsonPath::parse_at(&format!(".{name}"), self.depth + 1)?;
            self.nodes.extend(inner.nodes);
            return Ok(());
        }
        self.nodes
            .push(slice_node(if text == "*" { ":" } else { text })?);
        Ok(())
    }

    fn filter(&mut self) -> Result<(), JsonPathError> {
        self.take("[?(".len());
        let Some(end) = filter_end(self.rest) else {
            return Err(JsonPathError("unterminated filter".to_owned()));
        };
        let text = self.take(end);
        self.take(1);
        if !self.rest.starts_with(']') {
            return Err(JsonPathError("unclosed array expect ]".to_owned()));
        }
        self.take(1);
        let parse = |text: &str| JsonPath::parse_at(text, self.depth + 1);
        let node = match comparison(text) {
            None => Node::Filter {
                left: parse(text)?,
                operator: "exists".to_owned(),
                right: JsonPath { nodes: Vec::new() },
            },
            Some((left, operator, right)) => Node::Filter {
                left: parse(left)?,
                operator: operator.to_owned(),
                right: parse(right)?,
            },
        };
        self.nodes.push(node);
        Ok(())
    }
}

fn is_terminator(character: char) -> bool {
    matches!(
        character,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

/// `'name'` without quotes inside.
fn quoted_key(text: &str) -> Option<&str> {
    let name = text.strip_prefix('\'')?.strip_suffix('\'')?;
    (!name.contains('\'')).then_some(name)
}

/// Where the parenthesis of a filter closes: quotes may hide one.
fn filter_end(text: &str) -> Option<usize> {
    let mut quote: Option<char> = None;
    let mut previous = ' ';
    for (index, next) in text.char_indices() {
        match (next, quote) {
            ('\n', _) => return None,
            (')', None) => return Some(index),
            ('"' | '\'', None) => quote = Some(next),
            (_, Some(open)) if next == open && previous != '\\' => quote = None,
            _ => {}
        }
        previous = next;
    }
    None
}

/// `left`, operator, `right`, where there is an operator between two sides.
fn comparison(text: &str) -> Option<(&str, &str, &str)> {
    let is_operator = |it: char| matches!(it, '!' | '<' | '>' | '=');
    let start = text.find(is_operator).filter(|start| *start > 0)?;
    let (left, rest) = text.split_at_checked(start)?;
    let end = rest.find(|it| !is_operator(it))?;
    let (operator, right) = rest.split_at_checked(end)?;
    Some((left, operator, right))
}

fn slice_node(text: &str) -> Result<Node, JsonPathError> {
    let invalid = || JsonPathError(format!("invalid array index {text}"));
    let parts: Vec<&str> = text.split(':').collect();
    let number = |part: Option<&&str>| match part {
        None | Some(&"") => Ok(None),
        Some(part) => {
            let digits = part.strip_prefix('-').unwrap_or(part);
            if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
                return Err(invalid());
            }
            let parsed = part.parse().map(Some);
            parsed.map_err(|_overflow| JsonPathError(format!("array index {part} is not a number")))
        }
    };
    if text.is_empty() || parts.len() > 3 {
        return Err(invalid());
    }
    let end = match (parts.get(1), number(parts.get(1))?) {
        (None, _) => SliceEnd::AfterStart,
        (Some(_), None) => SliceEnd::Last,
        (Some(_), Some(end)) => SliceEnd::At(end),
    };
    Ok(Node::Slice {
        start: number(parts.first())?,
        end,
        step: number(parts.get(2))?,
    })
}

/// The escapes of Go that appear in practice; an unknown one stands for its character.
fn unescape(text: &str) -> String {
    let mut unescaped = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(next) = characters.next() {
        let literal = match next {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        unescaped.push(literal);
    }
    unescaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_select_what_kubectl_selects() {
        let object = json!({
            "a": {"b.c": 1, "d": [1, 2, 3], "e": null},
            "conditions": [
                {"type": "Ready", "status": "True", "n": 1, "ok": true},
                {"type": "A)b", "status": "False", "n": 2},
            ],
        });
        let cases = [
            (".a.d", json!([[1, 2, 3]])),
            ("a", json!("unrecognized identifier a")),
            (".a.missing.deep", json!([])),
            (".a.e", json!([null])),
            (".a.e.f", json!([])),
            (r".a.b\.c", json!([1])),
            (r".a['b\.c']", json!([1])),
            (".a['d']", json!([[1, 2, 3]])),
            (".a.d[0]", json!([1])),
            (".a.d[-1]", json!([3])),
            (".a.d[-2]", json!([2])),
            (".a.d[*]", json!([1, 2, 3])),
            (".a.d[1:]", json!([2, 3])),
            (".a.d[:2]", json!([1, 2])),
            (".a.d[::2]", json!([1, 3])),
            (".a.d[0,2]", json!([1, 3])),
            (
                ".a.d[5]",
                json!("array index out of bounds: index 5, length 3"),
            ),
            (".a.d[x]", json!("invalid array index x")),
            (".a.d[0", json!("unterminated array")),
            (
                ".a[0]",
                json!("map[string]interface {} is not array or slice"),
            ),
            (".missing[0]", json!([])),
            (".conditions[?(@.type==\"Ready\")].status", json!(["True"])),
            (".conditions[?(@.type=='Ready')].status", json!(["True"])),
            (
                ".conditions[?(@.type == \"Ready\")].status",
                json!(["True"]),
            ),
            (".conditions[?(@.type==\"A)b\")].status", json!(["False"])),
            (".conditions[?(@.type!=\"Ready\")].n", json!([2])),
            (".conditions[?(@.n>1)].n", json!([2])),
            (".conditions[?(@.n<=1)].n", json!([1])),
            (".conditions[?(@.ok==true)].n", json!([1])),
            (".conditions[?(@.ok)].n", json!([1])),
            (
                ".conditions[?(@.n==\"1\")].n",
                json!("incompatible types for comparison"),
            ),
            (
                ".conditions[?(@.type==Ready)].n",
                json!("unrecognized identifier Ready"),
            ),
            (".conditions[*].type", json!(["Ready", "A)b"])),
            ("..type", json!(["Ready", "A)b"])),
            (".a....b", json!("invalid multiple recursive descent")),
            ("$.a.d[0]", json!([1])),
            ("}", json!("unrecognized character in action: U+007D '}'")),
        ];
        for (path, want) in cases {
            let found = JsonPath::parse(path).and_then(|path| path.evaluate(&object));
            let found = match found {
                Ok(values) => Value::Array(values.into_iter().map(Cow::into_owned).collect()),
                Err(error) => Value::String(error.to_string()),
            };
            assert_eq!(found, want, "{path}");
        }
    }

    #[test]
    fn values_print_as_kubectl_prints_them() {
        let cases = [
            (json!("a"), "a"),
            (json!(1), "1"),
            (json!(1.5), "1.5"),
            (json!(true), "true"),
            (json!({"b": [1]}), "{\"b\":[1]}"),
            (json!(null), "null"),
        ];
        for (value, want) in cases {
            assert_eq!(text(&value), want);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_path_panics(path in "[.\\[\\]?()@=<>!*:,'\"\\\\a-c0-9é -]{0,24}") {
            let object = json!({"a": [{"b": 1}, {"b": "c"}], "b": {"a": [[1, 2], [3]]}, "c": null});
            if let Ok(path) = JsonPath::parse(&path) {
                drop(path.evaluate(&object));
            }
        }
    }
}
