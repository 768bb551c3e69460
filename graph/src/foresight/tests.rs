//! Foretelling, against what then happens.

use api::kro::RgdSpec;
use api::wheelhouse::keys::ANNOTATION_DELETION_POLICY;
use serde_json::json;

use super::*;
use crate::compile;
use crate::resolve::builtin_kinds::BuiltinKinds;

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn compiled(resources: &Value) -> Arc<CompiledGraph> {
    let schema = json!({"kind": "Web", "apiVersion": "v1", "spec": {"color": "string", "items": "[]string"}});
    let definition = json!({"schema": schema, "resources": resources});
    let spec: RgdSpec = serde_json::from_value(definition).expect("is a spec");
    compile(&spec, "web", &BuiltinKinds).unwrap_or_else(|error| panic!("{error}"))
}

fn before() -> Arc<CompiledGraph> {
    compiled(&json!([
        {"id": "first", "template": map("first", &json!({"color": "${schema.spec.color}", "a.b": "x"}))},
        {"id": "old", "template": map("old", &json!({"a": "b"}))},
        {"id": "many", "forEach": [{"one": "${schema.spec.items}"}], "template": map("${'m-' + one}", &json!({"a": "b"}))},
    ]))
}

/// Another color, a new child that reads the first, one that waits for a status, fewer of the collection, and none of the old one.
fn after() -> Arc<CompiledGraph> {
    compiled(&json!([
        {"id": "first", "template": map("first", &json!({"color": "${schema.spec.color + '!'}"}))},
        {"id": "new", "template": map("new", &json!({"of": "${first.data.color}"}))},
        {"id": "later", "template": map("later", &json!({"of": "${string(first.metadata.generation)}"}))},
        {"id": "many", "forEach": [{"one": "${schema.spec.items.filter(x, x != 'b')}"}],
         "template": map("${'m-' + one}", &json!({"a": "b"}))},
    ]))
}

fn instance() -> Value {
    json!({
        "apiVersion": "kro.run/v1", "kind": "Web",
        "metadata": {"name": "demo", "namespace": "shop", "uid": "u", "generation": 1},
        "spec": {"color": "red", "items": ["a", "b"]},
    })
}

/// Applies what a definition plans, as a cluster would, until it plans nothing more.
fn settle(graph: &CompiledGraph, instance: &Value, observed: &mut Observed) -> Vec<String> {
    let settings = Settings::default();
    let mut done = Vec::new();
    loop {
        let plan = graph.plan(&PlanInput {
            instance,
            observed,
            settings: &settings,
        });
        let changes: Vec<Apply> = plan.changes().cloned().collect();
        if changes.is_empty() {
            done.sort();
            done.dedup();
            return done;
        }
        for apply in changes {
            let live = observed
                .get_child(&apply.reference)
                .map(|live| (**live).clone());
            let word = if live.is_some() { "Update" } else { "Create" };
            done.push(format!("{word} {}", apply.reference.name));
            let mut live = applied(live, &apply.object);
            // What the server adds.
            live["metadata"]["resourceVersion"] = json!("7");
            observed.applied(&apply.reference, Applied::of(&apply.object, &live));
            observed.child(Arc::new(live));
        }
    }
}

fn children_of(observed: &Observed, names: &[&str]) -> Vec<Arc<Value>> {
    let find = |name: &&str| {
        let reference = ObjectRef {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: "shop".to_owned(),
            name: (*name).to_owned(),
        };
        Arc::clone(observed.get_child(&reference).expect("it is there"))
    };
    names.iter().map(find).collect()
}

fn words(foreseen: &Foreseen) -> Vec<String> {
    let word = |it: &ChildChange| format!("{} {}", it.action.as_str(), it.reference.name);
    foreseen.children.iter().map(word).collect()
}

#[test]
fn what_is_foretold_is_what_happens() {
    let (before, after, instance) = (before(), after(), instance());
    let settings = Settings::default();
    let mut observed = Observed::new();
    settle(&before, &instance, &mut observed);
    let children = children_of(&observed, &["first", "old", "m-a", "m-b"]);
    // As who reads it from outside: nothing is remembered of earlier applies.
    let mut seen = Observed::new();
    for child in &children {
        seen.child(Arc::clone(child));
    }
    let foreseen = after.foresee(
        Some(&before),
        &Subject {
            instance: &instance,
            renewed: &instance,
            observed: &seen,
            owner: None,
            owner_before: None,
            children: &children,
            settings: &settings,
        },
    );
    assert_eq!(
        words(&foreseen),
        [
            "Update first",
            "Create new",
            "Update m-a",
            "Delete m-b",
            "Delete old"
        ]
    );
    let fields: Vec<(&str, Option<&Value>, Option<&Value>)> = foreseen.children[0]
        .fields
        .iter()
        .map(|it| (it.path.as_str(), it.from.as_ref(), it.to.as_ref()))
        .collect();
    assert_eq!(
        fields,
        [
            (".data[\"a.b\"]", Some(&json!("x")), None),
            (".data.color", Some(&json!("red")), Some(&json!("red!"))),
        ]
    );
    let waiting: Vec<&str> = foreseen.waiting.iter().map(|it| &*it.id).collect();
    assert_eq!(
        waiting,
        ["later"],
        "nobody can tell what the server will say"
    );
    assert!(foreseen.prune_waits);
    let mut happens = settle(&after, &instance, &mut observed);
    // It is made of what the first was, and changed when that has changed.
    happens.retain(|word| word != "Update new");
    let new = children_of(&observed, &["new"]);
    assert_eq!(new[0]["data"]["of"], "red!");
    let mut told = words(&foreseen);
    told.retain(|word| !word.starts_with("Delete"));
    told.sort();
    assert_eq!(happens, told);
}

#[test]
fn what_stays_is_not_told_to_go_where_policies_count() {
    let kept = |name: &str, policy: Option<&str>| {
        let mut object = map(name, &json!({}));
        object["metadata"]["annotations"] = json!({ANNOTATION_DELETION_POLICY: policy});
        json!({"id": name, "template": object})
    };
    let before = compiled(&json!([
        kept("plain", Some("Delete")),
        kept("retained", Some("Retain")),
        kept("orphaned", Some("Orphan"))
    ]));
    let (after, instance) = (compiled(&json!([])), instance());
    let mut observed = Observed::new();
    settle(&before, &instance, &mut observed);
    let children = children_of(&observed, &["plain", "retained", "orphaned"]);
    let mut settings = Settings::default();
    let mut told = |is_open: bool, before: Option<&CompiledGraph>| {
        settings.compile.deletion_policy = is_open;
        let foreseen = after.foresee(
            before,
            &Subject {
                instance: &instance,
                renewed: &instance,
                observed: &observed,
                owner: None,
                owner_before: None,
                children: &children,
                settings: &settings,
            },
        );
        words(&foreseen)
    };
    let all = ["Delete orphaned", "Delete plain", "Delete retained"];
    assert_eq!(told(false, Some(&before)), all, "a closed gate is kro's");
    let open = ["Orphan orphaned", "Delete plain", "Retain retained"];
    assert_eq!(told(true, Some(&before)), open);
    assert_eq!(
        told(true, None),
        open[..2],
        "it may have been retained long ago"
    );
}

#[test]
fn a_definition_that_stays_does_nothing_whatever_a_cluster_made_of_it() {
    let (before, instance, settings) = (before(), instance(), Settings::default());
    let mut observed = Observed::new();
    settle(&before, &instance, &mut observed);
    let mut children = children_of(&observed, &["first", "old", "m-a", "m-b"]);
    let mut odd = (*children[0]).clone();
    odd["data"]["color"] = json!("what the cluster made of it");
    children[0] = Arc::new(odd);
    let mut seen = Observed::new();
    for child in &children {
        seen.child(Arc::clone(child));
    }
    let subject = Subject {
        instance: &instance,
        renewed: &instance,
        observed: &seen,
        owner: None,
        owner_before: None,
        children: &children,
        settings: &settings,
    };
    let foreseen = before.foresee(Some(&before), &subject);
    assert_eq!(words(&foreseen), [""; 0]);
    assert!(!foreseen.prune_waits && foreseen.failure.is_none());
    let foreseen = before.foresee(None, &subject);
    assert_eq!(words(&foreseen), ["Update first"], "against what is there");
}

#[test]
fn a_failure_is_told_instead_of_changes() {
    let (before, instance, settings) = (before(), instance(), Settings::default());
    let after = compiled(&json!([
        {"id": "first", "template": map("first", &json!({"color": "${string(1 / (size(schema.spec.items) - 2))}"}))},
    ]));
    let foreseen = after.foresee(
        Some(&before),
        &Subject {
            instance: &instance,
            renewed: &instance,
            observed: &Observed::new(),
            owner: None,
            owner_before: None,
            children: &[],
            settings: &settings,
        },
    );
    assert_eq!(words(&foreseen), [""; 0]);
    assert!(
        foreseen
            .failure
            .is_some_and(|why| why.contains("division by zero"))
    );
}
