use serde_json::json;

use super::*;

fn schema() -> std::sync::Arc<Schema> {
    let merged = |key: &str, items: Value| {
        let mut list =
            json!({"type": "array", "x-kubernetes-patch-strategy": "merge", "items": items});
        if !key.is_empty() {
            list["x-kubernetes-patch-merge-key"] = json!(key);
        }
        list
    };
    let text = json!({"type": "string"});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    Schema::from_openapi(&object(json!({
        "spec": object(json!({
            "containers": merged("name", object(json!({"name": text, "image": text, "args": {"type": "array", "items": text}}))),
            "names": merged("", text.clone()),
            "plain": {"type": "array", "items": text},
            "keyless": merged("", object(json!({"a": text}))),
            "replaced": {"type": "object", "x-kubernetes-patch-strategy": "replace", "properties": {"a": text, "b": text}},
            "strategy": {"type": "object", "default": {}, "properties": {"type": text, "rolling": {"type": "object"}}},
            "sub": object(json!({"a": text, "b": text})),
            "labels": {"type": "object", "additionalProperties": text},
        })),
    })))
    .expect("the schema is structural")
}

fn patched(original: &Value, patch: &Value) -> Result<Value, PatchError> {
    let object = json!({ "spec": original });
    strategic_merge(object, json!({ "spec": patch }), &schema(), "Thing")
        .map(|mut merged| merged["spec"].take())
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn patches_merge_as_the_schema_says() {
    let cases = [
        (
            "a null removes",
            json!({"sub": {"a": "1", "b": "2"}}),
            json!({"sub": {"a": null}}),
            json!({"sub": {"b": "2"}}),
        ),
        (
            "a null in something new is dropped",
            json!({}),
            json!({"sub": {"a": null, "b": "2"}}),
            json!({"sub": {"b": "2"}}),
        ),
        (
            "a map is replaced by strategy",
            json!({"replaced": {"a": "1"}}),
            json!({"replaced": {"b": "2"}}),
            json!({"replaced": {"b": "2"}}),
        ),
        (
            "a map is replaced by directive",
            json!({"sub": {"a": "1"}}),
            json!({"sub": {"$patch": "replace", "b": "2"}}),
            json!({"sub": {"b": "2"}}),
        ),
        (
            "a map is emptied by directive",
            json!({"sub": {"a": "1"}}),
            json!({"sub": {"$patch": "delete", "b": "2"}}),
            json!({"sub": {}}),
        ),
        (
            "a list without strategy is replaced",
            json!({"plain": ["a"]}),
            json!({"plain": ["b"]}),
            json!({"plain": ["b"]}),
        ),
        (
            "items merge by key",
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a", "image": "2"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a", "image": "2"}, {"name": "b"}]}),
        ),
        (
            "an item is deleted",
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b"}]}),
        ),
        (
            "a list is replaced by directive",
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
            json!({"containers": [{"name": "c"}]}),
        ),
        (
            "items are ordered",
            json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}]}),
        ),
        (
            "a new item takes the place of a deleted one",
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({
                "$setElementOrder/containers": [{"name": "n"}],
                "containers": [{"name": "a", "$patch": "delete"}, {"name": "n"}],
            }),
            json!({"containers": [{"name": "b"}, {"name": "n"}]}),
        ),
        (
            "scalars are joined",
            json!({"names": ["a", "b"]}),
            json!({"names": ["c", "b"]}),
            json!({"names": ["c", "a", "b"]}),
        ),
        (
            "scalars are deleted",
            json!({"names": ["a", "b"]}),
            json!({"$deleteFromPrimitiveList/names": ["a"]}),
            json!({"names": ["b"]}),
        ),
        (
            "scalars are deleted and ordered",
            json!({"names": ["a", "b", "c"]}),
            json!({"$deleteFromPrimitiveList/names": ["a"], "$setElementOrder/names": ["d", "c"], "names": ["d"]}),
            json!({"names": ["d", "b", "c"]}),
        ),
        (
            "only named keys are retained",
            json!({"strategy": {"type": "R", "rolling": {}}}),
            json!({"strategy": {"$retainKeys": ["type"], "type": "S"}}),
            json!({"strategy": {"type": "S"}}),
        ),
        (
            "a struct that was never written takes directives too",
            json!({}),
            json!({"strategy": {"$retainKeys": ["type"], "type": "S"}}),
            json!({"strategy": {"type": "S"}}),
        ),
        (
            "labels merge",
            json!({"labels": {"a": "1"}}),
            json!({"labels": {"b": "2"}}),
            json!({"labels": {"a": "1", "b": "2"}}),
        ),
    ];
    for (name, original, patch, want) in cases {
        assert_eq!(patched(&original, &patch), Ok(want), "{name}");
    }
}

#[test]
fn metadata_merges_as_in_every_kind() {
    let metadata =
        json!({"metadata": {"finalizers": ["a"], "ownerReferences": [{"uid": "1", "name": "x"}]}});
    let patch = json!({"metadata": {
        "finalizers": ["b"],
        "$setElementOrder/ownerReferences": [{"uid": "1"}],
        "ownerReferences": [{"uid": "1", "name": "y"}],
    }});
    let merged = strategic_merge(metadata, patch, &schema(), "Thing");
    assert_eq!(
        merged,
        Ok(
            json!({"metadata": {"finalizers": ["b", "a"], "ownerReferences": [{"uid": "1", "name": "y"}]}})
        )
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn malformed_patches_are_refused_in_the_words_of_kubernetes() {
    let containers = || json!({"containers": [{"name": "a"}]});
    for (original, patch, code, message) in [
        (
            containers(),
            json!({"$patch": "bogus"}),
            500,
            "unknown patch type: bogus in map: map[$patch:bogus]",
        ),
        (
            containers(),
            json!({"containers": [{"image": "i"}]}),
            500,
            "map: map[image:i] does not contain declared merge key: name",
        ),
        (
            containers(),
            json!({"containers": [{"name": "a", "$patch": "merge"}]}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            containers(),
            json!({"containers": ["a"]}),
            500,
            "list element types are not identical: [[map[name:a]] [a]]",
        ),
        (
            json!({"keyless": [{"a": "1"}]}),
            json!({"keyless": [{"a": "2"}]}),
            500,
            "cannot merge lists without merge key for struct",
        ),
        (
            json!({}),
            json!({"$setElementOrder/nope": []}),
            500,
            "unable to find api field in struct spec for the json field \"nope\"",
        ),
        (
            json!({}),
            json!({"$setElementOrder/names": {}}),
            500,
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (
            containers(),
            json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}),
            500,
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
        (
            json!({}),
            json!({"strategy": {"$retainKeys": "type"}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            json!({}),
            json!({"strategy": {"$retainKeys": [], "type": "x"}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            json!({}),
            json!({"$setElementOrder": []}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            json!({}),
            json!({"$deleteFromPrimitiveList": []}),
            400,
            "invalid patch format of primitive list",
        ),
        (
            json!({"names": [["a"]]}),
            json!({"names": [["b"]]}),
            422,
            "the server rejected our request due to an error in our request",
        ),
    ] {
        let error = patched(&original, &patch).expect_err("the patch is malformed");
        let status = Status::from(error);
        assert_eq!(
            (status.code, status.message.as_str()),
            (code, message),
            "{patch}"
        );
    }
}

#[test]
fn lists_of_very_many_items_are_not_compared_each_with_each() {
    let schema = schema();
    let containers = |count: usize, image: &str| -> Value {
        let items = (0..count).map(|index| json!({"name": format!("c{index}"), "image": image}));
        json!({"spec": {"containers": items.collect::<Vec<_>>()}})
    };
    let merged = strategic_merge(containers(500, "a"), containers(500, "b"), &schema, "Pod");
    assert_eq!(
        merged,
        Ok(containers(500, "b")),
        "a list as people write it"
    );
    let refused = strategic_merge(
        containers(20_000, "a"),
        containers(20_000, "b"),
        &schema,
        "Pod",
    );
    assert_eq!(refused, Err(PatchError::TooManyItems));
    let names = |count: usize| -> Value {
        let items = (0..count).map(|index| format!("n{index}"));
        json!({"spec": {"names": items.collect::<Vec<_>>()}})
    };
    let refused = strategic_merge(names(20_000), names(20_000), &schema, "Pod");
    assert_eq!(refused, Err(PatchError::TooManyItems));
}
