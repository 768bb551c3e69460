use serde_json::json;

use super::*;

#[test]
fn keys_of_fields_v1_are_read_and_written_back() {
    for (encoded, want_text) in [
        ("f:", "."),
        ("f:spec", ".spec"),
        ("f:a.b/c", ".a.b/c"),
        (r#"k:{"name":"a"}"#, r#"[name="a"]"#),
        (
            r#"k:{"containerPort":80,"protocol":"TCP"}"#,
            r#"[containerPort=80,protocol="TCP"]"#,
        ),
        (r#"k:{"a":true,"b":null}"#, "[a=true,b=null]"),
        (r#"v:"x""#, r#"[="x"]"#),
        ("v:1", "[=1]"),
        ("v:1.5", "[=1.5]"),
        ("v:true", "[=true]"),
        ("i:3", "[3]"),
        (r#"v:"\u003ca\u003e""#, r#"[="<a>"]"#),
    ] {
        let element = PathElement::parse(encoded)
            .expect("the key is well formed")
            .expect("the prefix is known");
        assert_eq!(element.encode(), encoded);
        assert_eq!(element.to_string(), want_text);
    }
}

#[test]
fn malformed_keys_are_refused_and_unknown_prefixes_dropped() {
    for encoded in [
        "", "f", "fx", "f;a", "é", "k:[]", "k:{", "v:", "v:x", "i:x", "i:1.5",
    ] {
        assert!(PathElement::parse(encoded).is_err(), "{encoded}");
    }
    assert_eq!(PathElement::parse("x:a"), Ok(None));
}

#[test]
fn elements_are_ordered_by_kind_and_then_by_content() {
    let ordered: Vec<PathElement> = [
        "f:A",
        "f:a",
        "f:b",
        r#"k:{"a":1}"#,
        r#"k:{"a":1,"b":1}"#,
        r#"k:{"a":2}"#,
        r#"k:{"a":"1"}"#,
        r#"k:{"b":1}"#,
        "v:1",
        "v:1.5",
        "v:2",
        r#"v:"1""#,
        "v:false",
        "v:true",
        "i:1",
        "i:2",
    ]
    .iter()
    .map(|encoded| {
        PathElement::parse(encoded)
            .expect("the key is well formed")
            .expect("the prefix is known")
    })
    .collect();
    for (index, left) in ordered.iter().enumerate() {
        for (other, right) in ordered.iter().enumerate() {
            assert_eq!(left.cmp(right), index.cmp(&other), "{left:?} {right:?}");
        }
    }
}

#[test]
fn integers_and_floats_of_equal_value_are_one_item() {
    assert_eq!(PathElement::Value(json!(1)), PathElement::Value(json!(1.0)));
    assert!(values_equal(
        &json!({"a": [1, 2.0]}),
        &json!({"a": [1.0, 2]})
    ));
    assert!(!values_equal(&json!({"a": null}), &json!({})));
    assert!(!values_equal(&json!({"a": 1}), &json!({"b": 1})));
}
