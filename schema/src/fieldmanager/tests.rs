use serde_json::json;

use super::remove::remove_items;
use super::*;

const NOW: &str = "2024-01-01T00:00:00Z";
const LATER: &str = "2024-01-02T00:00:00Z";
const VERSION: &str = "example.com/v1";

fn schema() -> std::sync::Arc<Schema> {
    Schema::from_openapi(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "b": {"type": "string"},
            "n": {"type": "number"},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
            "list": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "items": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"},
                    "port": {"type": "integer", "default": 80},
                    "v": {"type": "string"},
                }},
            },
        }},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    }}))
    .expect("the schema is structural")
}

/// An object of one kind, and who writes to it.
struct Story {
    schema: std::sync::Arc<Schema>,
    reset: FieldSet,
    live: Option<Value>,
}

impl Story {
    fn begin() -> Self {
        Self {
            schema: schema(),
            reset: FieldSet::from_field_names(&[&["status"]]),
            live: None,
        }
    }

    fn context(&self) -> TypeContext<'_> {
        TypeContext {
            api_version: VERSION,
            kind: "Thing",
            schema: &self.schema,
            model: Model::Dynamic,
            subresource: "",
            reset: &self.reset,
            converter: None,
        }
    }

    fn object(spec: Value) -> Value {
        let mut object = json!({"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "x"}});
        if !spec.is_null() {
            object["spec"] = spec;
        }
        object
    }

    fn apply_at(
        &mut self,
        manager: &str,
        spec: Value,
        force: bool,
        now: &str,
    ) -> Result<bool, ApplyError> {
        let outcome = apply(ApplyInput {
            context: self.context(),
            live: self.live.as_ref(),
            config: Self::object(spec),
            manager,
            force,
            now,
        })?;
        let mut object = outcome.object;
        object["metadata"]["uid"] = json!("u");
        self.live = Some(object);
        Ok(outcome.changed)
    }

    fn apply(&mut self, manager: &str, spec: Value) -> Result<bool, ApplyError> {
        self.apply_at(manager, spec, false, NOW)
    }

    fn force(&mut self, manager: &str, spec: Value) {
        self.apply_at(manager, spec, true, NOW)
            .expect("force has no conflicts");
    }

    fn update(&mut self, manager: &str, spec: Value) {
        let mut new = Self::object(spec);
        if self.live.is_some() {
            new["metadata"]["uid"] = json!("u");
        }
        update(UpdateInput {
            context: self.context(),
            live: self.live.as_ref(),
            new: &mut new,
            manager,
            now: NOW,
        })
        .expect("the object is what its schema says");
        new["metadata"]["uid"] = json!("u");
        self.live = Some(new);
    }

    fn spec(&self) -> Value {
        self.live
            .as_ref()
            .map_or(Value::Null, |live| live["spec"].clone())
    }

    /// Each owner and the text of its paths.
    fn owners(&self) -> Vec<(String, Vec<String>)> {
        let live = self.live.as_ref().expect("the object was written");
        let managed = ManagedFields::decode(managed_fields(live)).expect("the owners are ours");
        let mut owners: Vec<(String, Vec<String>)> = managed
            .entries()
            .iter()
            .map(|entry| {
                let paths = entry
                    .set
                    .paths()
                    .iter()
                    .map(|path| path_text(path))
                    .collect();
                (
                    format!(
                        "{} {}",
                        entry.identity.manager,
                        entry.identity.operation.as_str()
                    ),
                    paths,
                )
            })
            .collect();
        owners.sort();
        owners
    }

    fn owner(&self, name: &str) -> Vec<String> {
        let found = self.owners().into_iter().find(|(owner, _)| owner == name);
        found.map(|(_, paths)| paths).unwrap_or_default()
    }
}

fn conflict_texts(error: ApplyError) -> Vec<String> {
    match error {
        ApplyError::Conflicts(conflicts) => conflicts
            .iter()
            .flat_map(|conflict| {
                conflict
                    .paths
                    .iter()
                    .map(move |path| format!("{} {}", conflict.manager, path_text(path)))
            })
            .collect(),
        other => panic!("not a conflict: {other}"),
    }
}

#[test]
fn a_field_goes_only_if_its_applier_drops_it_and_nobody_else_owns_it() {
    // (what the first applies, what another does in between, what the first applies then, what is left)
    let cases = [
        (
            "dropped",
            json!({"a": "1", "b": "1"}),
            None,
            json!({"a": "1"}),
            json!({"a": "1"}),
        ),
        (
            "shared",
            json!({"a": "1", "b": "1"}),
            Some(json!({"b": "1"})),
            json!({"a": "1"}),
            json!({"a": "1", "b": "1"}),
        ),
        (
            "the last of a map",
            json!({"a": "1", "map": {"k": "v"}}),
            None,
            json!({"a": "1"}),
            json!({"a": "1"}),
        ),
        (
            "another key of a map",
            json!({"map": {"k": "v"}}),
            Some(json!({"map": {"l": "w"}})),
            json!({"a": "1"}),
            json!({"a": "1", "map": {"l": "w"}}),
        ),
        (
            "an item with a field of another",
            json!({"items": [{"name": "i", "v": "1"}]}),
            Some(json!({"items": [{"name": "i", "port": 80}]})),
            json!({"a": "1"}),
            json!({"a": "1", "items": [{"name": "i", "port": 80}]}),
        ),
        (
            "an item of a set",
            json!({"set": ["x", "y"]}),
            None,
            json!({"set": ["y"]}),
            json!({"set": ["y"]}),
        ),
        (
            "a list as a whole",
            json!({"list": ["x", "y"]}),
            None,
            json!({"list": ["y"]}),
            json!({"list": ["y"]}),
        ),
    ];
    for (name, first, between, then, want) in cases {
        let mut story = Story::begin();
        story.apply("first", first).expect("nobody owns anything");
        if let Some(between) = between {
            story.apply("other", between).expect("the values are equal");
        }
        story
            .apply("first", then)
            .expect("nobody wants it otherwise");
        assert_eq!(story.spec(), want, "{name}");
    }
}

#[test]
fn an_item_goes_with_its_applier_whatever_others_added_to_it() {
    let mut story = Story::begin();
    story
        .apply("applier", json!({"items": [{"name": "i"}]}))
        .expect("nobody owns anything");
    story.update(
        "updater",
        json!({"items": [{"name": "i", "v": "1"}, {"name": "j"}]}),
    );
    story
        .apply("applier", json!({}))
        .expect("nobody wants it otherwise");
    assert_eq!(story.spec(), json!({"items": [{"name": "j"}]}));
}

#[test]
fn conflicts_name_managers_in_order_and_fields_of_a_level_first() {
    let mut story = Story::begin();
    story
        .apply("b", json!({"b": "1", "map": {"k": "1"}}))
        .expect("nobody owns anything");
    story.update(
        "a \"q\"",
        json!({"a": "1", "b": "1", "n": 1, "map": {"k": "1"}}),
    );
    let wanted = json!({"a": "2", "b": "2", "n": 1.0, "map": {"k": "2"}});
    let error = story
        .apply("c", wanted.clone())
        .expect_err("others own these");
    let status = Status::from(error);
    assert_eq!(status.code, 409);
    assert_eq!(
        status.message,
        "Apply failed with 3 conflicts: conflicts with \"a \\\"q\\\"\" using example.com/v1:\n- .spec.a\n\
         conflicts with \"b\":\n- .spec.b\n- .spec.map.k"
    );
    let causes: Vec<(String, String)> = status
        .details
        .map(|details| {
            details
                .causes
                .into_iter()
                .map(|cause| (cause.message, cause.field))
                .collect()
        })
        .unwrap_or_default();
    assert_eq!(causes.len(), 3);
    assert_eq!(
        causes[2],
        ("conflict with \"b\"".to_owned(), ".spec.map.k".to_owned())
    );
    story.force("c", wanted);
    assert_eq!(story.owner("b Apply"), [] as [&str; 0]);
    assert_eq!(
        story.owner("c Apply"),
        [".spec.a", ".spec.b", ".spec.n", ".spec.map.k"]
    );
    // Equal values are owned together: 1 and 1.0 are equal.
    assert!(
        story
            .owner("a \"q\" Update")
            .contains(&".spec.n".to_owned())
    );
}

#[test]
fn one_conflict_is_told_in_one_line() {
    let mut story = Story::begin();
    story
        .apply("owner", json!({"items": [{"name": "i", "v": "1"}]}))
        .expect("nobody owns anything");
    let error = story
        .apply("other", json!({"items": [{"name": "i", "v": "2"}]}))
        .expect_err("it is owned");
    assert_eq!(
        Status::from(error).message,
        "Apply failed with 1 conflict: conflict with \"owner\": .spec.items[name=\"i\",port=80].v"
    );
}

#[test]
fn an_apply_that_changes_nothing_keeps_its_time() {
    let mut story = Story::begin();
    assert_eq!(story.apply_at("a", json!({"a": "1"}), false, NOW), Ok(true));
    assert_eq!(
        story.apply_at("a", json!({"a": "1"}), false, LATER),
        Ok(false)
    );
    let before = story.live.clone().expect("it was written");
    assert_eq!(before["metadata"]["managedFields"][0]["time"], NOW);
    // A new owner of an equal value is a change of owners, and has no time.
    assert_eq!(
        story.apply_at("b", json!({"a": "1"}), false, LATER),
        Ok(true)
    );
    let after = story.live.clone().expect("it was written");
    assert_eq!(
        after["metadata"]["managedFields"].as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(after["metadata"]["managedFields"][0].get("time"), None);
}

#[test]
fn times_alone_are_no_change() {
    let owned = |time: &str, value: &str| json!({"metadata": {"managedFields": [{"manager": "a", "time": time}]}, "spec": {"a": value}});
    for (name, live, new, want) in [
        (
            "equal but for the time",
            owned(NOW, "1"),
            owned(LATER, "1"),
            NOW,
        ),
        ("another value", owned(NOW, "1"), owned(LATER, "2"), LATER),
    ] {
        let mut new = new;
        keep_times_if_unchanged(&live, &mut new);
        assert_eq!(new["metadata"]["managedFields"][0]["time"], want, "{name}");
    }
}

#[test]
fn who_writes_an_equal_value_gains_nothing() {
    let mut story = Story::begin();
    story.update("a", json!({"a": "1"}));
    let before = story.owners();
    story.update("b", json!({"a": "1"}));
    assert_eq!(story.owners(), before);
    story.update("b", json!({"a": "2"}));
    assert_eq!(story.owner("b Update"), [".spec.a"]);
    assert_eq!(story.owner("a Update"), [".spec"]);
    story.update("b", Value::Null);
    assert_eq!(story.owners(), []);
}

#[test]
fn an_object_without_owners_stays_so_until_it_is_applied() {
    let mut story = Story::begin();
    story.live = Some(json!({
        "apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "x", "uid": "u"}, "spec": {"a": "1"},
    }));
    story.update("u", json!({"a": "2"}));
    assert!(
        story
            .live
            .as_ref()
            .is_some_and(|live| managed_fields(live).is_none())
    );
    let error = story
        .apply("a", json!({"a": "3"}))
        .expect_err("it was there before");
    assert_eq!(
        conflict_texts(error),
        ["\"before-first-apply\" using example.com/v1 .spec.a"]
    );
    story.apply("a", json!({"b": "3"})).expect("b is free");
    assert_eq!(
        story.owner("before-first-apply Update"),
        [".spec", ".spec.a"]
    );
}

#[test]
fn an_object_that_cannot_be_typed_is_written_without_owners() {
    let mut story = Story::begin();
    story
        .apply("a", json!({"a": "1"}))
        .expect("nobody owns anything");
    let mut new = Story::object(json!({"set": [null]}));
    let result = update(UpdateInput {
        context: story.context(),
        live: story.live.as_ref(),
        new: &mut new,
        manager: "u",
        now: NOW,
    });
    let message = result.expect_err("a set has no null").to_string();
    assert_eq!(
        message,
        "failed to convert new object (/x; example.com/v1, Kind=Thing) to smd typed: .spec.set: element 0: \
         associative list without keys has an element that's an explicit null"
    );
    assert_eq!(managed_fields(&new), None);
}

#[test]
fn the_oldest_of_more_than_ten_updaters_are_merged() {
    let mut story = Story::begin();
    let mut map = Map::new();
    for index in 0..12 {
        map.insert(format!("k{index}"), json!("v"));
        story.update(&format!("m{index:02}"), json!({ "map": map }));
        // Each is a day younger.
        let live = story.live.as_mut().expect("it was written");
        for entry in live["metadata"]["managedFields"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            if entry["manager"] == json!(format!("m{index:02}")) {
                entry["time"] = json!(format!("2023-01-{:02}T00:00:00Z", index + 1));
            }
        }
    }
    let owners = story.owners();
    assert_eq!(owners.len(), 10, "{owners:?}");
    assert_eq!(
        story.owner("ancient-changes Update"),
        [
            ".spec",
            ".spec.map",
            ".spec.map.k0",
            ".spec.map.k1",
            ".spec.map.k2"
        ]
    );
    assert_eq!(story.owner("m03 Update"), [".spec.map.k3"]);
}

#[test]
fn items_take_the_order_of_the_configuration() {
    // (live, applied, merged)
    for (live, applied, want) in [
        ("abc", "b", "abc"),
        ("abc", "cb", "acb"),
        ("abc", "db", "adbc"),
        ("abc", "xca", "bxca"),
        ("abcd", "dxb", "acdxb"),
        ("", "ba", "ba"),
    ] {
        let letters = |text: &str| -> Vec<String> { text.chars().map(String::from).collect() };
        let mut story = Story::begin();
        story.update("u", json!({ "set": letters(live) }));
        story
            .apply("a", json!({ "set": letters(applied) }))
            .expect("there are no conflicts");
        assert_eq!(
            story.spec()["set"],
            json!(letters(want)),
            "{live} and {applied}"
        );
    }
}

#[test]
fn duplicates_are_one_value_until_someone_applies_them() {
    let mut story = Story::begin();
    let twice = json!([{"name": "i", "v": "1"}, {"name": "i", "v": "2"}, {"name": "j"}]);
    story.update("u", json!({ "items": twice }));
    assert!(
        story
            .owner("u Update")
            .contains(&".spec.items[name=\"i\",port=80]".to_owned())
    );
    story
        .apply("a", json!({"items": [{"name": "j", "v": "3"}]}))
        .expect("j.v is free");
    assert_eq!(story.spec()["items"].as_array().map(Vec::len), Some(3));
    story.force("a", json!({"items": [{"name": "i", "v": "4"}]}));
    assert_eq!(
        story.spec()["items"],
        json!([{"name": "i", "v": "4"}, {"name": "j"}])
    );
}

#[test]
fn what_an_endpoint_resets_is_owned_by_nobody_there() {
    let mut story = Story::begin();
    let outcome = apply(ApplyInput {
        context: story.context(),
        live: None,
        config: json!({
            "apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "x"},
            "spec": {"a": "1"}, "status": {"phase": "p"},
        }),
        manager: "a",
        force: false,
        now: NOW,
    })
    .expect("nobody owns anything");
    story.live = Some(outcome.object);
    assert_eq!(story.owner("a Apply"), [".spec.a"]);
}

#[test]
fn a_map_that_became_atomic_is_owned_as_a_whole() {
    let mut story = Story::begin();
    story.live = Some(json!({
        "apiVersion": VERSION, "kind": "Thing", "spec": {"whole": {"a": "1"}, "list": ["x"]},
        "metadata": {"name": "x", "uid": "u", "managedFields": [{
            "manager": "a", "operation": "Apply", "apiVersion": VERSION, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:whole": {".": {}, "f:a": {}}, "f:list": {"v:\"x\"": {}}}},
        }]},
    }));
    story.update("u", json!({"whole": {"a": "1"}, "list": ["x"], "b": "1"}));
    assert_eq!(story.owner("a Apply"), [".spec.list", ".spec.whole"]);
}

#[test]
fn owners_of_versions_that_are_gone_are_forgotten() {
    let mut story = Story::begin();
    story
        .apply("a", json!({"a": "1"}))
        .expect("nobody owns anything");
    if let Some(live) = &mut story.live {
        live["metadata"]["managedFields"][0]["apiVersion"] = json!("example.com/v0");
    }
    assert_eq!(story.apply("b", json!({"a": "2"})), Ok(true));
    assert_eq!(story.owners().len(), 1);
}

#[test]
fn fields_are_compared_at_the_version_of_their_owner() {
    let with_list_type = |list_type: &str| {
        let list = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": list_type});
        let spec = json!({"type": "object", "properties": {"list": list}});
        Schema::from_openapi(&json!({"type": "object", "properties": {"spec": spec}}))
            .expect("the schema is structural")
    };
    let (one, two) = (with_list_type("atomic"), with_list_type("set"));
    let versions = vec![
        ("example.com/v1".to_owned(), &*one),
        ("example.com/v2".to_owned(), &*two),
    ];
    let converter = SameObject { versions };
    let reset = FieldSet::new();
    let apply_at = |api_version: &str, live: Option<&Value>, manager: &str, list: Value| {
        let mut config = Story::object(json!({ "list": list }));
        config["apiVersion"] = json!(api_version);
        let schema = converter
            .schema(api_version)
            .expect("the version is served");
        let context = TypeContext {
            api_version,
            kind: "Thing",
            schema,
            model: Model::Dynamic,
            subresource: "",
            reset: &reset,
            converter: Some(&converter),
        };
        apply(ApplyInput {
            context,
            live,
            config,
            manager,
            force: false,
            now: NOW,
        })
    };
    let live = apply_at("example.com/v2", None, "b", json!(["x", "y"]))
        .expect("it is new")
        .object;
    let live = apply_at("example.com/v2", Some(&live), "c", json!(["z"]))
        .expect("items are own")
        .object;
    // At v1 the list is one value, but its owners own items: one of them is removed, none is changed.
    let outcome = apply_at("example.com/v1", Some(&live), "a", json!(["x", "z"]));
    let mut story = Story::begin();
    story.live = outcome.ok().map(|outcome| outcome.object);
    assert_eq!(story.owner("a Apply"), [".spec.list"]);
    assert_eq!(story.owner("b Apply"), [".spec.list[=\"x\"]"]);
    assert_eq!(story.owner("c Apply"), [".spec.list[=\"z\"]"]);
    let error = apply_at("example.com/v1", story.live.as_ref(), "d", json!(["w"]))
        .expect_err("it is owned");
    assert_eq!(conflict_texts(error), ["\"a\" .spec.list"]);
}

#[test]
fn fields_are_removed_and_extracted_by_schema() {
    let schema = schema();
    let place = Place::Root(&schema);
    let object = Story::object(json!({
        "a": "1", "map": {"k": "v"}, "whole": {"a": "1"}, "set": ["x", "y"],
        "items": [{"name": "i", "v": "1"}, {"name": "j", "v": "2"}],
    }));
    let fields = |fields: Value| FieldSet::decode(&fields).expect("the fields are well formed");
    let chosen = fields(json!({"f:spec": {
        "f:map": {"f:k": {}},
        "f:set": {"v:\"x\"": {}},
        "f:whole": {},
        "f:items": {"k:{\"name\":\"i\",\"port\":80}": {".": {}, "f:v": {}}, "k:{\"name\":\"j\",\"port\":80}": {"f:v": {}}},
    }}));
    assert_eq!(
        remove_items(place, &object, &chosen)["spec"],
        json!({"a": "1", "map": null, "set": ["y"], "items": [{"name": "j"}]})
    );
    assert_eq!(
        extract(&schema, &object, &chosen),
        json!({"spec": {"map": {"k": "v"}, "set": ["x"], "whole": {"a": "1"}, "items": [{"v": "1"}, {"v": "2"}]}})
    );
    assert_eq!(remove_items(place, &object, &FieldSet::new()), object);
}

#[test]
fn configurations_that_cannot_be_applied_say_why() {
    let config = |api_version: &str, metadata: Value, spec: Value| json!({"apiVersion": api_version, "kind": "Thing", "metadata": metadata, "spec": spec});
    let story = Story::begin();
    for (config, code, message) in [
        (
            config("v1", json!({"name": "x"}), json!({})),
            400,
            "invalid object type: /v1, Kind=Thing",
        ),
        (
            config(VERSION, json!({"managedFields": []}), json!({})),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            config(
                VERSION,
                json!({"name": "x", "namespace": "n"}),
                json!({"c": 1}),
            ),
            500,
            "failed to create typed patch object (n/x; example.com/v1, Kind=Thing): \
             .spec.c: field not declared in schema",
        ),
        (
            config(VERSION, json!({"name": "x"}), json!({"a": 1, "n": "x"})),
            500,
            "failed to create typed patch object (/x; example.com/v1, Kind=Thing): errors:\n  \
             .spec.a: expected string, got &value.valueUnstructured{Value:1}\n  \
             .spec.n: expected numeric (int or float), got string",
        ),
    ] {
        let context = story.context();
        let input = ApplyInput {
            context,
            live: None,
            config,
            manager: "a",
            force: true,
            now: NOW,
        };
        let status = Status::from(apply(input).expect_err("it cannot be applied"));
        assert_eq!((status.code, status.message.as_str()), (code, message));
    }
}

#[test]
fn writes_to_the_scale_move_the_replicas_only() {
    let entry = |manager: &str,
                 operation: &str,
                 version: &str,
                 subresource: &str,
                 fields: Value| {
        let mut entry = json!({
            "manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields,
        });
        if !subresource.is_empty() {
            entry["subresource"] = json!(subresource);
        }
        entry
    };
    let size = || json!({"f:spec": {"f:size": {}}});
    let replicas = || json!({"f:spec": {"f:replicas": {}}});
    let path = vec![PathElement::field("spec"), PathElement::field("size")];
    let paths = [ReplicasPath {
        api_version: VERSION.to_owned(),
        path: Some(path),
    }];
    let parent = json!([
        entry(
            "a",
            "Apply",
            VERSION,
            "",
            json!({"f:spec": {"f:a": {}, "f:size": {}}})
        ),
        entry("u", "Update", VERSION, "", size()),
        entry("v", "Update", "gone/v1", "", size()),
    ]);
    let scale = scale_from_parent(Some(&parent), &paths).expect("the owners are well formed");
    assert_eq!(
        scale,
        [
            entry("a", "Apply", "autoscaling/v1", "", replicas()),
            entry("u", "Update", "autoscaling/v1", "", replicas()),
        ]
    );
    // A write that changed nothing leaves the owners as they are, but for versions that are gone.
    let unchanged = scale_to_parent(Some(&parent), Some(&json!(scale)), VERSION, &paths);
    assert_eq!(unchanged.map(|owners| owners.len()), Ok(2));
    let taken = json!([entry("s", "Update", "autoscaling/v1", "scale", replicas())]);
    assert_eq!(
        scale_to_parent(Some(&parent), Some(&taken), VERSION, &paths)
            .expect("they are well formed"),
        [
            entry("a", "Apply", VERSION, "", json!({"f:spec": {"f:a": {}}})),
            entry("s", "Update", VERSION, "scale", size()),
        ]
    );
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    /// Any value, with names that the schema knows among others.
    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let name = prop::sample::select(vec![
                "spec",
                "metadata",
                "labels",
                "finalizers",
                "managedFields",
                "items",
                "set",
                "map",
                "name",
                "port",
                "whole",
                "f:a",
                "k:{}",
                ".",
                "fieldsV1",
            ]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name, inner, 0..4).prop_map(|fields| {
                    fields
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_object_makes_it_panic(live in any_value(), new in any_value(), config in any_value()) {
            let story = Story::begin();
            let mut tracked = new.clone();
            let _untracked = update(UpdateInput {
                context: story.context(),
                live: Some(&live),
                new: &mut tracked,
                manager: "u",
                now: NOW,
            });
            let mut created = new;
            let _untracked = update(UpdateInput {
                context: story.context(),
                live: None,
                new: &mut created,
                manager: "u",
                now: NOW,
            });
            let mut config = config;
            if let Value::Object(fields) = &mut config {
                fields.insert("apiVersion".to_owned(), json!(VERSION));
                fields.insert("kind".to_owned(), json!("Thing"));
            }
            let apply_to = |live: Option<&Value>| {
                apply(ApplyInput {
                    context: story.context(),
                    live,
                    config: config.clone(),
                    manager: "a",
                    force: true,
                    now: NOW,
                })
            };
            let _refused = apply_to(Some(&live));
            if let Ok(first) = apply_to(None) {
                prop_assert_eq!(apply_to(Some(&first.object)).map(|second| second.changed), Ok(false));
            }
        }

        #[test]
        fn whatever_is_decoded_encodes_to_something_that_decodes_to_it(fields in any_value()) {
            if let Ok(set) = FieldSet::decode(&fields) {
                prop_assert_eq!(FieldSet::decode(&set.encode()), Ok(set.clone()));
                let text: Value = serde_json::from_str(&set.to_json()).expect("the text is JSON");
                prop_assert_eq!(text, set.encode());
            }
        }
    }
}
