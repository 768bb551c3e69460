//! Operations by path.

use serde_json::{Map, Value, json};

use super::{PublishedKind, PublishedSubresource, meta};
use api::GroupVersionKind;

/// Parameters of reads of many.
const LIST_PARAMETERS: [(&str, &str); 11] = [
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("pretty", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const READ_PARAMETERS: [(&str, &str); 2] = [("pretty", "string"), ("resourceVersion", "string")];
/// Parameters of writes: what the server can do shows in them.
const WRITE_PARAMETERS: [(&str, &str); 4] = [
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("pretty", "string"),
];
const PATCH_PARAMETERS: [(&str, &str); 5] = [
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
    ("pretty", "string"),
];
const DELETE_PARAMETERS: [(&str, &str); 5] = [
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("pretty", "string"),
    ("propagationPolicy", "string"),
];

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// What an operation reads or writes.
struct Subject<'k> {
    gvk: &'k GroupVersionKind,
    /// The definition of the body and the answer.
    definition: Option<String>,
    takes_strategic_merge: bool,
    /// For names of operations: `ExampleComV1NamespacedWidgetStatus`.
    name: String,
}

/// Adds the paths of a kind.
pub(super) fn add(kind: &PublishedKind, paths: &mut Map<String, Value>) {
    let GroupVersionKind { group, version, .. } = &kind.gvk;
    let root = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    let resource = &kind.resource;
    let collection = if kind.namespaced {
        format!("{root}/namespaces/{{namespace}}/{resource}")
    } else {
        format!("{root}/{resource}")
    };
    let subject = Subject::of(kind);
    let mut operations = Map::new();
    if kind.can("list") {
        operations.insert("get".to_owned(), list(kind, &subject, ""));
    }
    if kind.can("create") {
        operations.insert("post".to_owned(), create(&subject));
    }
    if kind.can("deletecollection") {
        operations.insert("delete".to_owned(), delete(&subject, "deletecollection"));
    }
    insert(paths, &collection, operations, kind.namespaced, false);
    if kind.namespaced && kind.can("list") {
        let all = list(kind, &subject, "ForAllNamespaces");
        insert(
            paths,
            &format!("{root}/{resource}"),
            Map::from_iter([("get".to_owned(), all)]),
            false,
            false,
        );
    }
    let item = format!("{collection}/{{name}}");
    insert(
        paths,
        &item,
        item_operations(&kind.verbs, &subject),
        kind.namespaced,
        true,
    );
    for subresource in &kind.subresources {
        let subject = Subject::of_subresource(kind, subresource);
        let mut operations = item_operations(&subresource.verbs, &subject);
        if subresource.verbs.iter().any(|verb| verb == "create") && subject.definition.is_some() {
            operations.insert("post".to_owned(), create(&subject));
        }
        insert(
            paths,
            &format!("{item}/{}", subresource.name),
            operations,
            kind.namespaced,
            true,
        );
    }
}

/// Reads and writes of one object, as far as the verbs and a definition permit.
fn item_operations(verbs: &[String], subject: &Subject<'_>) -> Map<String, Value> {
    let mut operations = Map::new();
    let can = |verb: &str| subject.definition.is_some() && verbs.iter().any(|it| it == verb);
    if can("get") {
        let read = operation(subject, ("get", "read"), &READ_PARAMETERS, None);
        operations.insert("get".to_owned(), read);
    }
    if can("update") {
        let body = subject.body();
        let replace = operation(subject, ("put", "replace"), &WRITE_PARAMETERS, Some(body));
        operations.insert("put".to_owned(), replace);
    }
    if can("patch") {
        operations.insert("patch".to_owned(), patch(subject));
    }
    if can("delete") {
        operations.insert("delete".to_owned(), delete(subject, "delete"));
    }
    operations
}

fn insert(
    paths: &mut Map<String, Value>,
    path: &str,
    mut operations: Map<String, Value>,
    in_namespace: bool,
    is_item: bool,
) {
    if operations.is_empty() {
        return;
    }
    let mut parameters = Vec::new();
    for (name, is_used) in [("name", is_item), ("namespace", in_namespace)] {
        if is_used {
            let schema = json!({"type": "string", "uniqueItems": true});
            parameters
                .push(json!({"name": name, "in": "path", "required": true, "schema": schema}));
        }
    }
    if !parameters.is_empty() {
        operations.insert("parameters".to_owned(), Value::Array(parameters));
    }
    paths.insert(path.to_owned(), Value::Object(operations));
}

fn list(kind: &PublishedKind, subject: &Subject<'_>, suffix: &str) -> Value {
    let mut listed = operation(subject, ("list", "list"), &LIST_PARAMETERS, None);
    if let (Some(name), Some(operation)) = (kind.list_name(), listed.as_object_mut()) {
        operation.insert("responses".to_owned(), answer(Some(&name)));
        operation.insert(
            "operationId".to_owned(),
            json!(format!("list{}{suffix}", subject.name)),
        );
    }
    listed
}

fn create(subject: &Subject<'_>) -> Value {
    operation(
        subject,
        ("post", "create"),
        &WRITE_PARAMETERS,
        Some(subject.body()),
    )
}

fn patch(subject: &Subject<'_>) -> Value {
    let mut types = vec![APPLY_PATCH, JSON_PATCH, MERGE_PATCH];
    if subject.takes_strategic_merge {
        types.push(STRATEGIC_MERGE_PATCH);
    }
    let content: Map<String, Value> = types
        .into_iter()
        .map(|name| (name.to_owned(), json!({"schema": reference(meta::PATCH)})))
        .collect();
    let body = json!({"content": content, "required": true});
    operation(subject, ("patch", "patch"), &PATCH_PARAMETERS, Some(body))
}

fn delete(subject: &Subject<'_>, action: &str) -> Value {
    let body = json!({"content": content(meta::DELETE_OPTIONS)});
    let mut deletion = operation(subject, (action, action), &DELETE_PARAMETERS, Some(body));
    if let Some(operation) = deletion.as_object_mut() {
        operation.insert("responses".to_owned(), answer(Some(meta::STATUS)));
    }
    deletion
}

fn operation(
    subject: &Subject<'_>,
    (action, verb): (&str, &str),
    parameters: &[(&str, &str)],
    body: Option<Value>,
) -> Value {
    let query = |(name, value_type): &(&str, &str)| json!({"name": name, "in": "query", "schema": {"type": value_type, "uniqueItems": true}});
    let mut operation = Map::new();
    operation.insert(
        "operationId".to_owned(),
        json!(format!("{verb}{}", subject.name)),
    );
    operation.insert(
        "parameters".to_owned(),
        parameters.iter().map(query).collect(),
    );
    operation.insert(
        "responses".to_owned(),
        answer(subject.definition.as_deref()),
    );
    operation.insert("x-kubernetes-action".to_owned(), json!(action));
    operation.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        gvk_extension(subject.gvk),
    );
    if let Some(body) = body {
        operation.insert("requestBody".to_owned(), body);
    }
    Value::Object(operation)
}

pub(super) fn gvk_extension(gvk: &GroupVersionKind) -> Value {
    json!({"group": gvk.group, "kind": gvk.kind, "version": gvk.version})
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn content(name: &str) -> Value {
    let schema = json!({"schema": reference(name)});
    json!({"application/json": schema, "application/yaml": schema})
}

fn answer(name: Option<&str>) -> Value {
    match name {
        Some(name) => json!({"200": {"description": "OK", "content": content(name)}}),
        None => json!({"200": {"description": "OK"}}),
    }
}

// === impl Subject ===

impl<'k> Subject<'k> {
    fn of(kind: &'k PublishedKind) -> Self {
        Self {
            gvk: &kind.gvk,
            definition: kind.schema_name(),
            takes_strategic_merge: kind.is_builtin(),
            name: operation_name(kind, ""),
        }
    }

    fn of_subresource(kind: &'k PublishedKind, subresource: &'k PublishedSubresource) -> Self {
        let is_same = subresource.gvk == kind.gvk;
        let own = || if is_same { kind.schema_name() } else { None };
        Self {
            gvk: &subresource.gvk,
            definition: subresource.definition.clone().or_else(own),
            takes_strategic_merge: kind.is_builtin(),
            name: operation_name(kind, &subresource.name),
        }
    }

    fn body(&self) -> Value {
        match &self.definition {
            Some(name) => json!({"content": content(name), "required": true}),
            None => json!({"content": {}, "required": true}),
        }
    }
}

/// `ExampleComV1NamespacedWidgetStatus`.
fn operation_name(kind: &PublishedKind, subresource: &str) -> String {
    let GroupVersionKind {
        group,
        version,
        kind: name,
    } = &kind.gvk;
    let group = if group.is_empty() {
        "core"
    } else {
        group.trim_end_matches(".k8s.io")
    };
    let mut joined: String = group.split(['.', '-']).map(capitalized).collect();
    joined.push_str(&capitalized(version));
    if kind.namespaced {
        joined.push_str("Namespaced");
    }
    joined.push_str(name);
    joined.push_str(&capitalized(subresource));
    joined
}

fn capitalized(word: &str) -> String {
    let mut characters = word.chars();
    let first = characters.next().map(|it| it.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}
