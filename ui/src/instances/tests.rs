use serde_json::{Value, json};

use super::*;

fn instance(cluster: &str, name: &str, status: &Value) -> Value {
    json!({
        "kind": "WebApp",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("{cluster}-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"kcp.io/cluster": cluster},
        },
        "status": status,
    })
}

fn found(query: &str, items: &[Value]) -> Value {
    let query = format!("kind=webapps.v1alpha1.kro.run&{query}");
    let mut finder = Finder::new(Search::parse(&query).unwrap());
    let list = json!({"metadata": {"resourceVersion": "7"}, "items": items});
    let more = finder.take(0, list.to_string().as_bytes()).unwrap();
    assert_eq!(more, More::Done);
    finder.answer()
}

fn names(answer: &Value) -> Vec<String> {
    let rows = answer["rows"].as_array().unwrap();
    let name = |row: &Value| {
        let (cluster, name) = (row["cluster"].as_str(), row["name"].as_str());
        format!("{}/{}", cluster.unwrap(), name.unwrap())
    };
    rows.iter().map(name).collect()
}

fn fleet() -> Vec<Value> {
    vec![
        instance("east", "b", &json!({"state": "ACTIVE"})),
        instance(
            "west",
            "a",
            &json!({"state": "ERROR", "conditions": [
                {"type": "Ready", "status": "False", "reason": "NotReady", "message": "no"},
                {"type": "ResourcesReady", "status": "False", "reason": "Refused", "message": "quota exceeded"},
            ]}),
        ),
        instance("east", "c", &json!({"state": "IN_PROGRESS"})),
        instance("north", "d", &json!({"state": "ACTIVE"})),
    ]
}

#[test]
fn trouble_comes_first_and_says_why() {
    let answer = found("", &fleet());
    assert_eq!(names(&answer), ["west/a", "east/c", "east/b", "north/d"]);
    assert_eq!(answer["rows"][0]["reason"], "Refused");
    assert_eq!(answer["rows"][0]["message"], "quota exceeded");
    assert_eq!(answer["rows"][0]["resource"], "webapps.v1alpha1.kro.run");
    assert_eq!(
        answer["states"],
        json!({"total": 4, "ready": 2, "inProgress": 1, "error": 1, "deleting": 0})
    );
    let versions = json!({"webapps.v1alpha1.kro.run": "7"});
    assert_eq!(answer["resourceVersions"], versions);
}

#[test]
fn words_states_columns_and_pages_choose_the_rows() {
    for (query, want) in [
        ("sort=name", vec!["west/a", "east/b", "east/c", "north/d"]),
        ("sort=-name", vec!["north/d", "east/c", "east/b", "west/a"]),
        (
            "sort=cluster",
            vec!["east/b", "east/c", "north/d", "west/a"],
        ),
        ("state=ready", vec!["east/b", "north/d"]),
        ("q=EAST", vec!["east/c", "east/b"]),
        ("q=quota+west", vec!["west/a"]),
        ("q=progress", vec!["east/c"]),
        ("q=absent", vec![]),
        ("sort=name&offset=1&limit=2", vec!["east/b", "east/c"]),
        ("offset=9", vec![]),
    ] {
        let answer = found(query, &fleet());
        assert_eq!(names(&answer), want, "{query}");
    }
    let answer = found("sort=name&offset=1&limit=2", &fleet());
    assert_eq!(answer["total"], 4);
    let answer = found("q=east&state=ready", &fleet());
    assert_eq!(
        answer["states"]["total"], 2,
        "states count what the words leave"
    );
    assert_eq!(
        answer["cells"].as_array().unwrap().len(),
        3,
        "cells count all"
    );
}

#[test]
fn a_cell_says_which_revisions_its_instances_have() {
    let of = |cluster: &str, name: &str, revision: Value| {
        let status = json!({"state": "ACTIVE", "graphRevision": revision});
        let mut instance = instance(cluster, name, &Value::Null);
        instance["status"] = status;
        instance
    };
    let fleet = [
        of("east", "a", json!(3)),
        of("east", "b", json!(7)),
        of("east", "c", json!(5)),
        of("west", "a", json!(7)),
        // What is no number of a revision says none.
        of("west", "b", json!("12")),
        of("north", "a", json!(-1)),
        of("north", "b", json!({"first": 1})),
        of("north", "c", json!(1.5)),
    ];
    let answer = found("", &fleet);
    let cells = answer["cells"].as_array().unwrap();
    let revisions: BTreeMap<&str, &Value> = cells
        .iter()
        .map(|cell| (cell["cluster"].as_str().unwrap(), &cell["revisions"]))
        .collect();
    let want = [
        ("east", json!({"first": 3, "last": 7})),
        ("north", Value::Null),
        ("west", json!({"first": 7, "last": 7})),
    ];
    for (cluster, want) in want {
        assert_eq!(*revisions[cluster], want, "{cluster}");
    }
}

#[test]
fn a_page_of_many_rows_is_found_without_holding_them_all() {
    let items: Vec<Value> = (0..5_000)
        .map(|n| instance("east", &format!("i{:04}", (n * 7919) % 5_000), &Value::Null))
        .collect();
    let search = "kind=webapps.v1alpha1.kro.run&sort=name&offset=40&limit=2";
    let mut finder = Finder::new(Search::parse(search).unwrap());
    for page in items.chunks(500) {
        let list = json!({"items": page});
        finder.take(0, list.to_string().as_bytes()).unwrap();
        assert!(finder.rows.len() <= 42 + SPARE_ROW_COUNT);
    }
    let answer = finder.answer();
    assert_eq!(names(&answer), ["east/i0040", "east/i0041"]);
    assert_eq!(
        (&answer["total"], &answer["states"]["inProgress"]),
        (&json!(5_000), &json!(5_000))
    );
}

#[test]
fn what_an_object_says_of_itself_does_not_fail_the_list() {
    let mut leaving = instance("east", "leaving", &json!({"state": "ACTIVE"}));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let long = "ä".repeat(512);
    let items = [
        instance("east", "text", &json!("a text")),
        instance(
            "east",
            "number",
            &json!({"state": 7, "conditions": {"a": 1}}),
        ),
        instance(
            "east",
            "mixed",
            &json!({"state": "ACTIVE", "conditions": [1, null, {"type": 2}]}),
        ),
        instance("east", "none", &Value::Null),
        instance(
            "east",
            "long",
            &json!({"state": "ERROR", "conditions": [{"type": "A", "status": "False", "message": long}]}),
        ),
        leaving,
        json!({"metadata": {}}),
        json!("no object"),
    ];
    let answer = found("sort=name", &items);
    let states: Vec<&str> = answer["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["state"].as_str().unwrap())
        .collect();
    let want = [
        "deleting",
        "error",
        "ready",
        "inProgress",
        "inProgress",
        "inProgress",
    ];
    assert_eq!(states, want);
    let message = answer["rows"][1]["message"].as_str().unwrap();
    assert!(message.len() < 520 && message.ends_with('…'));
}

#[test]
fn a_search_that_cannot_be_meant_is_refused() {
    for query in [
        "",
        "kind=webapps",
        "kind=webapps.v1",
        "kind=a/b.v1.kro.run",
        "kind=..v1.kro.run",
        "kind=webapps.v1.kro.run%2f..",
        "kind=webapps.v1.kro.run@",
        "kind=webapps.v1.kro.run@*",
        "kind=webapps.v1.kro.run@a@b",
        "cluster=*",
        "cluster=a/b",
        "cluster=%2e%2e",
        "sort=uid",
        "state=all",
        "offset=-1",
        "limit=x",
    ] {
        let whole = format!("kind=webapps.v1alpha1.kro.run&{query}");
        let query = if query.contains("kind") || query.is_empty() {
            query
        } else {
            &whole
        };
        Search::parse(query).expect_err(query);
    }
    let kinds: String = (0..=KIND_COUNT_MAX)
        .flat_map(|n| {
            [
                "kind=k".to_owned(),
                n.to_string(),
                ".v1.kro.run&".to_owned(),
            ]
        })
        .collect();
    Search::parse(&kinds).expect_err("too many kinds");
}

#[test]
fn a_kind_is_listed_at_one_path_of_validated_segments() {
    let path = |query: &str| Search::parse(query).unwrap().path(0);
    let path = |query: &str| path(&format!("kind=webapps.v1alpha1.kro.run{query}"));
    for (query, want) in [
        ("", Some("*")),
        ("&kind=webapps.v1alpha1.kro.run", Some("*")),
        ("&cluster=a", Some("a")),
        // Its definition is local: nobody else is asked for it.
        ("@a", Some("a")),
        ("@a&cluster=a", Some("a")),
        ("@a&cluster=b", None),
    ] {
        let want = want.map(|it| format!("/clusters/{it}/apis/kro.run/v1alpha1/webapps"));
        assert_eq!(path(query), want, "{query}");
    }
    let twice = "kind=webapps.v1alpha1.kro.run&kind=webapps.v1alpha1.kro.run";
    assert_eq!(Search::parse(twice).unwrap().kinds.len(), 1);
}

/// Kinds of one name that two clusters define are two kinds.
#[test]
fn a_kind_of_one_cluster_has_rows_of_that_cluster_alone() {
    let search = "kind=webapps.v1alpha1.kro.run@a&kind=webapps.v1alpha1.kro.run@b&sort=cluster";
    let mut finder = Finder::new(Search::parse(search).unwrap());
    for kind in 0..2 {
        // What it says of its cluster does not count where one was asked.
        let items = [instance("root", "one", &Value::Null)];
        let list = json!({"metadata": {"resourceVersion": kind.to_string()}, "items": items});
        finder.take(kind, list.to_string().as_bytes()).unwrap();
    }
    let answer = finder.answer();
    assert_eq!(names(&answer), ["a/one", "b/one"]);
    assert_eq!(answer["rows"][0]["resource"], "webapps.v1alpha1.kro.run");
    let versions = json!({"webapps.v1alpha1.kro.run@a": "0", "webapps.v1alpha1.kro.run@b": "1"});
    assert_eq!(answer["resourceVersions"], versions);
}

#[test]
fn what_is_held_of_hostile_objects_is_bounded_in_bytes() {
    let long = "x".repeat(20_000);
    let mut items = Vec::new();
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "annotations",
    ] {
        let mut object = instance("east", "long", &Value::Null);
        object["metadata"][field] = match field {
            "annotations" => json!({"kcp.io/cluster": long}),
            _ => json!(long),
        };
        items.push(object);
    }
    let texts = json!({"state": long, "conditions": [
        {"type": "A", "status": "False", "reason": long, "message": long}]});
    let mut object = instance("east", "texts", &texts);
    object["kind"] = json!(long);
    items.push(object);
    let page = json!({"metadata": {"resourceVersion": long}, "items": items});
    let page = page.to_string();
    let search = "kind=webapps.v1alpha1.kro.run&sort=name&limit=1";
    let mut finder = Finder::new(Search::parse(search).unwrap());
    for _ in 0..2_000 {
        finder.take(0, page.as_bytes()).unwrap();
        for number in 0..4 {
            finder.fail(0, 503, &format!("{number}{long}"));
            finder.warn(0, &long);
        }
    }
    let of_row = |row: &Row| {
        let texts = [
            &row.cluster,
            &row.namespace,
            &row.name,
            &row.kind,
            &row.uid,
            &row.reason,
            &row.message,
            &row.created,
        ];
        texts.iter().map(|text| text.capacity()).sum::<usize>()
    };
    let rows: usize = finder.rows.iter().map(of_row).sum();
    assert!(rows <= (SPARE_ROW_COUNT + 1) * 2 * 1024, "{rows} bytes");
    assert_eq!(finder.total, 2_000, "names that cannot be are left out");
    let bytes = finder.answer().to_string().len();
    assert!(bytes < 16 * 1024, "{bytes} bytes");
}

/// 2 bytes each, which would take 16 as references, and much more as a map of the annotations of one object.
#[test]
fn a_page_of_many_small_things_is_read() {
    let zeros = format!(r#"{{"items":[0{}]}}"#, ",0".repeat(2_000_000));
    let dense = r#","a":"""#.repeat(500_000);
    let annotations = format!(
        r#"{{"items":[{{"metadata":{{"name":"a","annotations":{{"kcp.io/cluster":"east"{dense}}}}}}}]}}"#
    );
    for (page, count) in [(zeros, 0), (annotations, 1)] {
        let search = Search::parse("kind=webapps.v1alpha1.kro.run").unwrap();
        let mut finder = Finder::new(search);
        assert_eq!(finder.take(0, page.as_bytes()).unwrap(), More::Done);
        assert_eq!(finder.rows.len(), count);
    }
}

#[test]
fn what_is_no_list_is_told_from_an_empty_one() {
    for (page, is_list) in [
        (r#"{"items": []}"#, true),
        (r#"{"items": null}"#, true),
        (r#"{"items": {}}"#, false),
        (r#"{"kind": "Status"}"#, false),
        ("[]", false),
        ("<html>", false),
        (r#"{"items": []} and more"#, false),
        (r#"{"items": [], "metadata": {"continue": 7}}"#, false),
    ] {
        let read = list::read(page.as_bytes(), |_| panic!("there is no object"));
        assert_eq!(read.is_ok(), is_list, "{page}");
    }
    let token = "t".repeat(10_000);
    let page = json!({"metadata": {"continue": token}, "items": []}).to_string();
    list::read(page.as_bytes(), |_| {}).expect_err("no token is as long");
}

#[test]
fn a_note_is_told_once_and_some_of_all_kinds() {
    let kinds: Vec<String> = (0..20).map(|n| format!("kind=k{n}.v1.kro.run")).collect();
    let mut finder = Finder::new(Search::parse(&kinds.join("&")).unwrap());
    for kind in 0..20 {
        for number in 0..10 {
            finder.fail(kind, 503, "away");
            finder.warn(kind, &format!("warning {number}"));
        }
    }
    assert_eq!(finder.notes.len(), NOTE_COUNT_MAX);
    let answer = finder.answer();
    let count = |name: &str| answer[name].as_array().unwrap().len();
    assert_eq!(count("failures") + count("warnings"), NOTE_COUNT_MAX);
    assert_eq!(answer["failures"][0]["code"], 503);
    assert_eq!(answer["warnings"][0]["message"], "warning 0");
    assert!(answer["omitted"].as_u64().is_some_and(|count| count > 100));
}

#[test]
fn a_kind_that_fails_is_named_and_leaves_the_others() {
    let search = Search::parse("kind=as.v1.kro.run&kind=bs.v1.kro.run").unwrap();
    let mut finder = Finder::new(search);
    finder.fail(0, 403, "forbidden");
    let list =
        json!({"metadata": {"continue": "t"}, "items": [instance("east", "b", &Value::Null)]});
    let more = finder.take(1, list.to_string().as_bytes()).unwrap();
    assert_eq!(more, More::Continue("t".to_owned()));
    finder.take(1, b"<html>").expect_err("no list");
    let answer = finder.answer();
    assert_eq!(names(&answer), ["east/b"]);
    assert_eq!(answer["failures"][0]["resource"], "as.v1.kro.run");
    assert_eq!(answer["failures"][0]["code"], 403);
}
