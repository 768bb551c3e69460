//! Where in its file a definition is wrong: the line, and a mark below it.
//!
//! kro's words for a refusal are fixed ([`graph::CompileError`]), and name the resource, the path in its template, the field of the
//! instance's schema or the expression. What they name is looked up in the file.

use std::cmp::Reverse;

use dialect::yaml::{Placed, Step};

/// Longest line that is shown. A longer one tells a person nothing.
const LINE_CHARS_MAX: usize = 200;

/// Returns the lines that show where the definition at `placed` is wrong, in the text of its file: none where the reason names nothing
/// that stands there.
pub(super) fn shown(file: &str, text: &str, placed: &Placed, reason: &str) -> Vec<String> {
    let way = way_of_field(reason).or_else(|| way_of(placed, reason));
    let place = way
        .map(|way| placed.place_of(&way))
        .map(|place| (place.line, place.column));
    let own = placed.place_of(&[]).line;
    let Some((line, column)) = place.or_else(|| place_of_unknown(text, own, reason)) else {
        return Vec::new();
    };
    let Some(source) = text.lines().nth(line.saturating_sub(1)) else {
        return Vec::new();
    };
    if source.chars().count() > LINE_CHARS_MAX {
        return vec![format!("  --> {file}:{line}:{column}")];
    }
    let start = column.saturating_sub(1);
    let (start, width) = marked(source, start, reason);
    // Tabs stay, so that the mark stands where the text does.
    let before: String = source
        .chars()
        .take(start)
        .map(|it| if it == '\t' { '\t' } else { ' ' })
        .collect();
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    vec![
        format!("{margin} --> {file}:{number}:{}", start.saturating_add(1)),
        format!("{margin} |"),
        format!("{number} | {source}"),
        format!("{margin} | {before}{}", "^".repeat(width)),
    ]
}

/// Which characters of a line are marked: an expression that the reason quotes, or else the word at the place.
fn marked(source: &str, start: usize, reason: &str) -> (usize, usize) {
    let tail: String = source.chars().skip(start).collect();
    if let Some(key) = unknown_key(source, start, reason) {
        return key;
    }
    if let Some((name, at)) =
        unknown_identifier(reason).and_then(|it| Some((it, word_at(&tail, it)?)))
    {
        return (start.saturating_add(at), name.chars().count());
    }
    for quoted in quoted(reason) {
        if let Some(before) = tail.find(&quoted).and_then(|at| tail.get(..at)) {
            let width = quoted.chars().count();
            if width > 1 {
                return (start.saturating_add(before.chars().count()), width);
            }
        }
    }
    let is_of_word = |it: &char| !it.is_whitespace() && *it != ':';
    let width = tail.chars().take_while(is_of_word).count();
    (start, width.max(1))
}

/// Where a line has the field before `start` that the reason says there is no schema for.
fn unknown_key(source: &str, start: usize, reason: &str) -> Option<(usize, usize)> {
    let (_, name) = reason.rsplit_once("schema not found for field ")?;
    let before: String = source.chars().take(start).collect();
    let at = before.rfind(&format!("{name}:"))?;
    let column = before.get(..at)?.chars().count();
    Some((column, name.chars().count()))
}

/// Returns the first identifier that the reason says nothing is known by.
fn unknown_identifier(reason: &str) -> Option<&str> {
    let (_, names) = reason.split_once("references unknown identifiers: [")?;
    let name = names.split([' ', ',', ']']).next()?;
    Some(name).filter(|it| !it.is_empty())
}

/// Returns after how many characters a line has a name as a word of its own.
fn word_at(line: &str, name: &str) -> Option<usize> {
    let is_of_name = |it: char| it.is_alphanumeric() || it == '_';
    let (at, _) = line.match_indices(name).find(|(at, _)| {
        let before = line.get(..*at).and_then(|it| it.chars().next_back());
        let after = line.get(at.saturating_add(name.len())..);
        let after = after.and_then(|it| it.chars().next());
        !before.is_some_and(|it| is_of_name(it) || it == '.') && !after.is_some_and(is_of_name)
    })?;
    Some(line.get(..at)?.chars().count())
}

/// Where the text has the expression with an unknown identifier, from a line on, for a reason that names nothing else.
fn place_of_unknown(text: &str, from: usize, reason: &str) -> Option<(usize, usize)> {
    let name = unknown_identifier(reason)?;
    let lines = text.lines().enumerate().skip(from.saturating_sub(1));
    lines.into_iter().find_map(|(index, line)| {
        let begin = line.find("${")?;
        let at = word_at(line.get(begin..)?, name)?;
        let before = line.get(..begin)?.chars().count();
        Some((
            index.saturating_add(1),
            before.saturating_add(at).saturating_add(1),
        ))
    })
}

/// What may help, where the reason is not the whole of it.
pub(super) fn help(reason: &str) -> Option<&'static str> {
    if reason.contains("cannot resolve group version") {
        return Some(
            "if the kind is a CustomResourceDefinition's, pass its file too, its directory with --schemas, or with --kubeconfig a cluster that \
             has it",
        );
    }
    reason
        .contains("status fields without expressions are not supported")
        .then_some("a status field is an expression: \"${\", the expression, and \"}\"")
}

/// The way to what a reason names, in a definition.
fn way_of(placed: &Placed, reason: &str) -> Option<Vec<Step>> {
    let spec = || vec![field("spec")];
    let resources = placed.field("spec")?.field("resources");
    let items = resources.map(Placed::items).unwrap_or_default();
    let id_of = |item: &Placed| item.field("id").and_then(Placed::text).map(str::to_owned);
    let named = items.iter().enumerate().find_map(|(index, item)| {
        let id = id_of(item)?;
        let quoted = format!("resource {id:?}");
        let names = [
            quoted.as_str(),
            &format!("resource {id}:"),
            &format!("resource {id}."),
        ];
        let is_named = names.iter().any(|name| reason.contains(name));
        is_named.then_some((index, item))
    });
    if let Some((index, item)) = named {
        let mut way = spec();
        way.extend([field("resources"), Step::Item(index)]);
        match path_of(reason) {
            Some(path) => {
                way.push(field("template"));
                way.extend(path);
            }
            None => match part_of(item, reason) {
                Some(part) => way.extend(part),
                None => way.push(field("id")),
            },
        }
        return Some(way);
    }
    if reason.contains("status") {
        let mut way = spec();
        way.extend([field("schema"), field("status")]);
        way.extend(
            path_of(reason)
                .or_else(|| status_path_of(reason))
                .unwrap_or_default(),
        );
        return Some(way);
    }
    let fields: Vec<Step> = reason
        .split(": ")
        .filter_map(|part| part.strip_prefix("field "))
        .map(field)
        .collect();
    if !fields.is_empty() {
        let mut way = spec();
        way.extend([field("schema"), field("spec")]);
        way.extend(fields);
        return Some(way);
    }
    if let Some(kind) = reason.contains("kind").then(|| field("kind")) {
        let mut way = spec();
        way.extend([field("schema"), kind]);
        return Some(way);
    }
    // The ids of resources that are wrong by themselves, or begin a circle.
    let first = reason.split_once("cycle: ");
    let first = first.and_then(|(_, ids)| ids.split(" -> ").next());
    let index = items.iter().position(|item| {
        id_of(item).is_some_and(|id| {
            first == Some(&id)
                || quoted(reason).contains(&id)
                || reason.contains(&format!("id {id} "))
        })
    })?;
    let mut way = spec();
    way.extend([field("resources"), Step::Item(index), field("id")]);
    Some(way)
}

/// The way to the first field of which a hub says what is wrong with it: `spec.a[0]: Required value`, or several in brackets.
fn way_of_field(reason: &str) -> Option<Vec<Step>> {
    let first = reason.strip_prefix('[').unwrap_or(reason);
    let (path, _) = first.split_once(": ")?;
    path.starts_with("spec.").then(|| steps(path))
}

/// The part of a resource beside its template that a reason names.
fn part_of(item: &Placed, reason: &str) -> Option<Vec<Step>> {
    for name in ["readyWhen", "includeWhen", "forEach", "externalRef"] {
        let Some(part) = item.field(name).filter(|_| reason.contains(name)) else {
            continue;
        };
        let expressions = quoted(reason);
        let has = |it: &Placed, one: &String| it.text().is_some_and(|text| text.contains(one));
        let index = expressions
            .iter()
            .find_map(|one| part.items().iter().position(|it| has(it, one)));
        let mut way = vec![field(name)];
        way.extend(index.map(Step::Item));
        return Some(way);
    }
    reason.contains("group version").then(|| {
        let template = if item.field("template").is_some() {
            "template"
        } else {
            "externalRef"
        };
        let part = if reason.contains("Kind=") {
            "kind"
        } else {
            "apiVersion"
        };
        vec![field(template), field(part)]
    })
}

fn field(name: &str) -> Step {
    Step::Field(name.to_owned())
}

/// The path that a reason names: `at path "spec.a[0]"`, or `for path spec.a: schema not found for field a`.
fn path_of(reason: &str) -> Option<Vec<Step>> {
    if let Some((_, rest)) = reason.split_once("at path ") {
        return first_quoted(rest).map(|path| steps(&path));
    }
    let (_, rest) = reason.split_once("for path ")?;
    let (path, _) = rest.split_once(": ")?;
    Some(steps(path))
}

/// The path of a status field that a reason names: `status field "a.b" expression`, or the first of `not supported: [a.b c]`.
fn status_path_of(reason: &str) -> Option<Vec<Step>> {
    if let Some((_, rest)) = reason.split_once("status field ") {
        return first_quoted(rest).map(|path| steps(&path));
    }
    let (_, rest) = reason.split_once(": [")?;
    let end = rest.find([' ', ',', ']'])?;
    rest.get(..end).map(steps)
}

/// The steps of a path as kro writes it: `spec.containers[0].args`, `metadata.annotations["a.b/c"]`.
fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let is_key = inside.starts_with('"');
            let end = if is_key { "\"]" } else { "]" };
            let Some((part, after)) = inside.trim_start_matches('"').split_once(end) else {
                return steps;
            };
            steps.push(match part.parse() {
                Ok(index) if !is_key => Step::Item(index),
                _ => field(part),
            });
            rest = after;
            continue;
        }
        rest = rest.trim_start_matches('.');
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        if !part.is_empty() {
            steps.push(field(part));
        }
        rest = after;
    }
    steps
}

/// The text that a reason quotes first.
fn first_quoted(reason: &str) -> Option<String> {
    let (_, rest) = reason.split_once('"')?;
    let mut escaped = false;
    let end = rest.find(|it| {
        let ends = it == '"' && !escaped;
        escaped = it == '\\' && !escaped;
        ends
    })?;
    quoted(&format!("\"{}\"", rest.get(..end)?)).pop()
}

/// The texts that a reason quotes as Go does, the longest first: an expression says more than the id in it. Those with other escapes than of quotes and backslashes stand in no file as they are.
fn quoted(reason: &str) -> Vec<String> {
    let (mut found, mut current) = (Vec::new(), None::<String>);
    let mut characters = reason.chars();
    while let Some(character) = characters.next() {
        match (&mut current, character) {
            (None, '"') => current = Some(String::new()),
            (None, _) => {}
            (Some(_), '"') => found.extend(current.take()),
            (Some(text), '\\') => text.extend(characters.next()),
            (Some(text), other) => text.push(other),
        }
    }
    found.sort_by_key(|text| Reverse(text.len()));
    found
}

#[cfg(test)]
mod tests {
    use dialect::yaml::placed_documents;

    use super::*;

    const FILE: &str = r#"apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: app}
spec:
  schema:
    apiVersion: v1alpha1
    kind: App
    spec:
      image: string | nope=1
      nested: {deep: strin}
    status:
      url: ${service.status.nothing}
  resources:
  - id: deployment
    readyWhen:
    - ${deployment.status.ok}
    - ${deployment.status.nope == 1}
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: "${schema.spec.image}", annotations: {"a.b/c": "${schema.spec.nope}"}}
      spec:
        template: {spec: {containers: [{name: web, args: ["--x", "v-${schema.spec.on}"]}]}}
  - id: service
    template: {apiVersion: v1, kind: Servise, metadata: {name: x}}
"#;

    /// The line and what is marked in it.
    fn mark(reason: &str) -> Option<(usize, String)> {
        let placed = placed_documents(FILE).expect("it is YAML");
        let shown = shown("app.yaml", FILE, &placed[0], reason);
        let [head, _, source, below] = shown.as_slice() else {
            return None;
        };
        let line = head.rsplit(':').nth(1)?.parse().ok()?;
        let start = below.find('^')?;
        Some((line, source.get(start..below.len())?.to_owned()))
    }

    #[test]
    fn what_a_reason_names_is_marked_in_the_file() {
        for (reason, want) in [
            (
                r#"failed to validate resource "deployment": failed to compile template expression "schema.spec.nope" at path "metadata.annotations[\"a.b/c\"]": ERROR: <input>:1:12: undefined field 'nope'"#,
                Some((21, "schema.spec.nope")),
            ),
            (
                "failed to extract dependencies: references unknown identifiers: [service]",
                Some((12, "service")),
            ),
            (
                r#"failed to validate resource "deployment": resource "deployment" readyWhen: references unknown identifiers: [nope]"#,
                Some((16, "deployment")),
            ),
            (
                "spec.resources[1].id: Required value",
                Some((24, "service")),
            ),
            (
                r#"failed to validate resource "deployment": failed to compile template expression "v-${schema.spec.on}" at path "spec.template.spec.containers[0].args[1]": ERROR"#,
                Some((23, "v-${schema.spec.on}")),
            ),
            (
                r#"failed to validate resource "deployment": failed to type-check readyWhen expression "deployment.status.nope == 1" in resource deployment: ERROR"#,
                Some((17, "deployment.status.nope == 1")),
            ),
            (
                r#"failed to build resource "deployment": failed to extract CEL expressions from schema for resource deployment: error getting field schema for path spec.replica: schema not found for field replica"#,
                Some((22, "spec")),
            ),
            (
                r#"failed to build resource "service": failed to get schema for resource service: cannot resolve group version kind "/v1, Kind=Servise": schema not found"#,
                Some((25, "Servise,")),
            ),
            (
                r#"failed to build resourcegraphdefinition "app": failed to build OpenAPI schema for instance: field nested: field deep: unknown type: strin"#,
                Some((10, "strin}")),
            ),
            (
                r#"failed to build resourcegraphdefinition "app": failed to build OpenAPI schema for instance: field image: unknown marker: nope"#,
                Some((9, "string")),
            ),
            (
                r#"failed to build instance status schema: failed to type-check status expression "service.status.nothing" at path "url": ERROR"#,
                Some((12, "service.status.nothing")),
            ),
            (
                r#"failed to build instance status schema: status field "url" expression "servce.x": references unknown identifiers: [servce]"#,
                Some((12, "${service.status.nothing}")),
            ),
            (
                "failed to build instance status schema: status fields without expressions are not supported: [url]",
                Some((12, "${service.status.nothing}")),
            ),
            (
                r#"failed to build resource "deployment": failed to extract CEL expressions from schema for resource deployment: error getting field schema for path spec.template: schema not found for field template"#,
                Some((23, "template")),
            ),
            (
                "failed to build dependency graph: graph contains a cycle: service -> deployment -> service",
                Some((24, "service")),
            ),
            ("something else", None),
        ] {
            let want = want.map(|(line, text)| (line, text.to_owned()));
            assert_eq!(mark(reason), want, "{reason}");
        }
    }

    #[test]
    fn what_reasons_say_breaks_nothing() {
        for reason in [
            "at path \"",
            "at path \"[[[\"",
            "resource \"deployment\" at path \"[99999999999999999999]..[\\\"\"",
            "for path a",
            "field : field ",
            "\\",
            "\"\\",
            "resource \"deployment\": at path \"spec.template.\u{1F980}\"",
        ] {
            drop(mark(reason));
        }
    }
}
