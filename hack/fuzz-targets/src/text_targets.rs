//! JSON, YAML, selectors and queries.

use api::query::{
    CreateOptions, DeleteOptions, ListOptions, PatchKind, PatchOptions, Query, UpdateOptions,
};
use api::selector::{FieldSelector, Selector};
use api::{GroupVersionKind, json};
use apiserver::negotiate::MediaType;
use serde_json::Value;

use crate::{Target, input};

/// Strict JSON: what is read is what is written and read again, and what serde_json reads.
pub(crate) const JSON: Target = Target {
    name: "json",
    run: |data| {
        let Ok((value, duplicates)) = json::parse_strict(data) else {
            return;
        };
        let again = json::parse_strict(value.to_string().as_bytes());
        let (again, none) = again.expect("what was written can be read");
        assert!(none.is_empty(), "a value has no duplicates");
        assert_eq!(again, value, "a round trip changes nothing");
        let mut reference: Value =
            serde_json::from_slice(data).expect("the reference reads what is read here");
        json::normalize_numbers(&mut reference);
        if duplicates.is_empty() {
            assert_eq!(zeroed(reference), value, "the reference reads the same");
        }
    },
    seeds: &[
        r#"{"a":1,"a":2,"b":[1.5,-0,1e30,18446744073709551615,"\u00e9\ud83d\ude00"],"c":{"d":null,"e":true}}"#,
        "[[[[[[]]]]]]",
        "-0.0",
    ],
    corpus: Some(("json", "")),
    made: None,
    words: &[
        "null",
        "true",
        "false",
        "\\u0000",
        "\\ud800",
        "1e999",
        "-0",
        "9223372036854775808",
    ],
};

/// Minus zero is zero here.
fn zeroed(value: Value) -> Value {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) && number.is_f64() => {
            let minus = number.as_f64().is_some_and(f64::is_sign_negative);
            if minus {
                Value::from(0)
            } else {
                Value::Number(number)
            }
        }
        Value::Array(items) => items.into_iter().map(zeroed).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, zeroed(value)))
            .collect(),
        other => other,
    }
}

/// YAML bodies: what is read can be written as JSON and read as YAML again.
pub(crate) const YAML: Target = Target {
    name: "yaml",
    run: |data| {
        let expected = GroupVersionKind::new("", "v1", "ConfigMap");
        let Ok(value) = apiserver::handle::decode(MediaType::Yaml, data, &expected) else {
            return;
        };
        let text = value.to_string();
        if text.contains("null") && text.contains('.') {
            // A number that is none in JSON became null; it does not come back.
            return;
        }
        let again = apiserver::handle::decode(MediaType::Yaml, text.as_bytes(), &expected);
        assert!(
            again.is_ok_and(|again| again == value),
            "JSON is YAML: {text}"
        );
    },
    seeds: &[
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: |\n    x\n  b: \"1\"\n",
        "a: &x [1]\nb: *x\n",
        "---\na: !!str 1\n? b\n: {c: [1, 2.5, ~, yes, 0x1f, 0o17, 1_000, .inf, .nan, 2001-01-01]}\n...\n",
        "a: >-\n  folded\n  text\na: again\n<<: {b: 1}\n",
    ],
    corpus: Some(("kro-examples", ".yaml")),
    made: None,
    words: &[
        "&a ",
        "*a",
        "<<: ",
        "!!binary ",
        "|\n  ",
        ">-\n  ",
        "---\n",
        "...\n",
        "? ",
        "%YAML 1.2\n",
        "\t",
    ],
};

/// Label selectors: written and read again they are the same.
pub(crate) const LABEL_SELECTOR: Target = Target {
    name: "label-selector",
    run: |data| {
        let text = input::text(data);
        let Ok(selector) = Selector::parse(text) else {
            return;
        };
        let again = Selector::parse(&selector.to_string());
        assert!(
            again.as_ref().is_ok_and(|again| *again == selector),
            "{text:?} is written as {:?}, which is {again:?}",
            selector.to_string()
        );
    },
    seeds: &[
        "a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2",
        "a.b/c==d",
        "x in ( , a )",
        "a=",
    ],
    corpus: None,
    made: None,
    words: &[" in (", " notin (", "!=", "==", "a.b/c", "!", "<", ">"],
};

/// Field selectors: written and read again they are the same.
pub(crate) const FIELD_SELECTOR: Target = Target {
    name: "field-selector",
    run: |data| {
        let text = input::text(data);
        let Ok(selector) = FieldSelector::parse(text) else {
            return;
        };
        let again = FieldSelector::parse(&selector.to_string());
        assert!(
            again
                .as_ref()
                .is_ok_and(|again| sorted(again) == sorted(&selector)),
            "{text:?} is written as {:?}, which is {again:?}",
            selector.to_string()
        );
    },
    seeds: &[
        "metadata.name=a,status.phase!=Running,b==c",
        "a=b\\,c\\=d\\\\",
        "a=",
    ],
    corpus: None,
    made: None,
    words: &["metadata.name", "!=", "==", "\\,", "\\=", "\\\\"],
};

/// The requirements; their order says nothing.
fn sorted(selector: &FieldSelector) -> Vec<String> {
    let mut texts: Vec<String> = selector
        .requirements()
        .iter()
        .map(|requirement| format!("{requirement:?}"))
        .collect();
    texts.sort();
    texts
}

/// The headers by which a stranger names a trace.
pub(crate) const TRACE_HEADERS: Target = Target {
    name: "trace-headers",
    run: |data| {
        let [parent, state] = input::parts(data);
        telemetry::fuzz_trace_headers(parent, state);
    },
    seeds: &[
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n====\nrojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
        "00-00000000000000000000000000000000-0000000000000000-00\n====\n",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what\n====\na@b=c;d=e, ,x=",
    ],
    corpus: None,
    made: None,
    words: &["00-", "ff-", "-01", "=", ",", "@"],
};

/// Query options of every verb.
pub(crate) const QUERY: Target = Target {
    name: "query",
    run: |data| {
        let query = Query::parse(input::text(data));
        if let Ok(options) = ListOptions::from_query(&query) {
            drop(options.watch_from());
        }
        drop(CreateOptions::from_query(&query));
        drop(UpdateOptions::from_query(&query));
        drop(DeleteOptions::from_query(&query));
        for kind in [
            PatchKind::Json,
            PatchKind::Merge,
            PatchKind::Strategic,
            PatchKind::Apply,
        ] {
            drop(PatchOptions::from_query(&query, kind));
        }
    },
    seeds: &[
        "labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&limit=5&continue=abc&watch=1&timeoutSeconds=3",
        "resourceVersion=1000000000000001&resourceVersionMatch=Exact&sendInitialEvents=true&allowWatchBookmarks=t",
        "dryRun=All&fieldManager=m&fieldValidation=Strict&force=true&propagationPolicy=Foreground&gracePeriodSeconds=0",
    ],
    corpus: None,
    made: None,
    words: &[
        "labelSelector=",
        "fieldSelector=",
        "limit=",
        "continue=",
        "watch=",
        "dryRun=All",
        "force=",
        "%2",
        "%00",
        "resourceVersionMatch=",
        "sendInitialEvents=",
        "orphanDependents=",
        "-9223372036854775808",
    ],
};
