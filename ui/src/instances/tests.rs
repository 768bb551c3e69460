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
    assert_eq!(answer["resourceVersion"], "7");
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
fn a_page_of_many_rows_is_found_without_holding_them_all() {
    let items: Vec<Value> = (0..5_000)
        .map(|n| instance("east", &format!("i{:04}", (n * 7919) % 5_000), &Value::Null))
        .collect();
    let search = "kind=webapps.v1alpha1.kro.run&sort=name&offset=40&limit=2";
    let mut finder = Finder::new(Search::parse(search).unwrap());
    for page in items.chunks(500) {
        let list = json!({"items": page});
        finder.take(0, list.to_string().as_bytes()).unwrap();
        assert!(finder.rows.len() <= 84);
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
    let long = "ä".repeat(TEXT_BYTES_MAX);
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
    assert!(message.len() < TEXT_BYTES_MAX + 8 && message.ends_with('…'));
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
    let kinds: String = (0..65)
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
    let search = Search::parse("kind=webapps.v1alpha1.kro.run&kind=webapps.v1alpha1.kro.run");
    let search = search.unwrap();
    assert_eq!(search.kinds.len(), 1);
    let path = |cluster| search.kinds[0].path(cluster);
    assert_eq!(path(None), "/clusters/*/apis/kro.run/v1alpha1/webapps");
    assert_eq!(path(Some("a")), "/clusters/a/apis/kro.run/v1alpha1/webapps");
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
