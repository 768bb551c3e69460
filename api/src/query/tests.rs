use proptest::prelude::*;
use serde_json::json;

use super::*;

fn list(query: &str) -> Result<ListOptions, Status> {
    ListOptions::from_query(&Query::parse(query))
}

#[test]
fn a_query_is_decoded_and_drops_what_it_cannot() {
    let query = Query::parse("a=1&b=x%20y+z&c&a=2&%zz=1&d=%ff&e;f=1&=g");
    assert_eq!(query.first("a"), Some("1"));
    assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(query.text("b"), "x y z");
    assert!(query.contains("c"));
    assert_eq!(query.text("d"), "\u{fffd}");
    assert_eq!(query.pairs().len(), 6);
    for (text, want) in [
        ("", None),
        ("w", Some(true)),
        ("w=", Some(true)),
        ("w=1", Some(true)),
        ("w=no", Some(true)),
        ("w=0", Some(false)),
        ("w=FALSE", Some(false)),
    ] {
        assert_eq!(Query::parse(text).optional_flag("w"), want, "{text}");
    }
    for (text, want) in [
        ("n=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("n=", "strconv.ParseInt: parsing \"\": invalid syntax"),
        (
            "n=99999999999999999999",
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
        ),
    ] {
        let status = Query::parse(text).integer("n").unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (400, want));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn list_options_follow_the_table_of_versions_and_matches() {
    for (query, want) in [
        ("", None),
        ("resourceVersion=0", None),
        ("resourceVersion=5&resourceVersionMatch=Exact", None),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan", None),
        ("continue=x&resourceVersion=0", None),
        (
            "resourceVersionMatch=Exact",
            Some((
                422,
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            )),
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            Some((
                422,
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            )),
        ),
        (
            "resourceVersion=1&resourceVersionMatch=foo",
            Some((
                422,
                "resourceVersionMatch: Unsupported value: \"foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            )),
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
            Some((
                422,
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            )),
        ),
        (
            "sendInitialEvents=true",
            Some((
                422,
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            )),
        ),
        (
            "continue=x&resourceVersion=1",
            Some((
                400,
                "specifying resource version is not allowed when using continue",
            )),
        ),
        (
            "limit=x",
            Some((400, "strconv.ParseInt: parsing \"x\": invalid syntax")),
        ),
        (
            "labelSelector=a,",
            Some((400, "found '', expected: identifier after ','")),
        ),
        (
            "fieldSelector=a",
            Some((400, "invalid selector: 'a'; can't understand 'a'")),
        ),
        (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            None,
        ),
        (
            "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
            None,
        ),
        (
            "watch=1&sendInitialEvents=true",
            Some((
                422,
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )),
        ),
        (
            "watch=1&resourceVersionMatch=NotOlderThan",
            Some((
                422,
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )),
        ),
        (
            "watch=1&resourceVersionMatch=Exact&sendInitialEvents=true",
            Some((
                422,
                "[resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]",
            )),
        ),
    ] {
        let got = list(query).err().map(|status| {
            let prefix = "ListOptions.meta.k8s.io \"\" is invalid: ";
            let message = status
                .message
                .strip_prefix(prefix)
                .unwrap_or(&status.message);
            (status.code, message.to_owned())
        });
        assert_eq!(
            got,
            want.map(|(code, text)| (code, text.to_owned())),
            "{query}"
        );
    }
    let options =
        list("labelSelector=a%3Db&limit=5&continue=c&allowWatchBookmarks&timeoutSeconds=3")
            .unwrap();
    assert_eq!(options.label_selector.to_string(), "a=b");
    assert_eq!((options.limit, options.timeout_seconds), (5, Some(3)));
    assert!(options.allow_watch_bookmarks);
}

#[test]
fn a_resource_version_is_a_number_or_a_refusal_of_its_verb() {
    for (text, want) in [("", Ok(None)), ("0", Ok(None)), ("12", Ok(Some(12)))] {
        assert_eq!(parse_resource_version(text), want, "{text}");
        assert_eq!(
            list(&format!("watch=1&resourceVersion={text}"))
                .unwrap()
                .watch_from(),
            want
        );
    }
    for text in ["x", "-1", "+1", "99999999999999999999"] {
        assert_eq!(
            parse_resource_version(text).unwrap_err().code,
            400,
            "{text}"
        );
        let query = format!("watch=1&resourceVersion={}", text.replace('+', "%2B"));
        assert_eq!(
            list(&query).unwrap().watch_from().unwrap_err().code,
            422,
            "{text}"
        );
    }
}

#[test]
fn write_options_are_refused_on_their_own_kind() {
    let long = "a".repeat(129);
    for (query, kind, want) in [
        ("fieldManager=a", PatchKind::Apply, None),
        ("fieldManager=a&force=true", PatchKind::Apply, None),
        ("", PatchKind::Merge, None),
        (
            "",
            PatchKind::Apply,
            Some("fieldManager: Required value: is required for apply patch"),
        ),
        (
            "force=false",
            PatchKind::Json,
            Some("force: Forbidden: may not be specified for non-apply patch"),
        ),
        (
            "dryRun=x",
            PatchKind::Json,
            Some("dryRun: Unsupported value: [\"x\"]: supported values: \"All\""),
        ),
        (
            "fieldValidation=x",
            PatchKind::Json,
            Some(
                "fieldValidation: Unsupported value: \"x\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
            ),
        ),
        (
            &format!("fieldManager={long}"),
            PatchKind::Json,
            Some("fieldManager: Too long: may not be more than 128 bytes"),
        ),
        (
            "fieldManager=a%09",
            PatchKind::Json,
            Some("fieldManager: Invalid value: \"a\\t\": invalid character U+0009 (at position 1)"),
        ),
    ] {
        let got = PatchOptions::from_query(&Query::parse(query), kind)
            .err()
            .map(|it| it.message);
        let want = want.map(|text| format!("PatchOptions.meta.k8s.io \"\" is invalid: {text}"));
        assert_eq!(got, want, "{query}");
    }
    let query = Query::parse("dryRun=All&fieldManager=m&fieldValidation=Strict");
    let options = CreateOptions::from_query(&query).unwrap();
    assert_eq!(
        options,
        CreateOptions {
            dry_run: true,
            field_manager: "m".to_owned(),
            field_validation: FieldValidation::Strict
        }
    );
    assert!(UpdateOptions::from_query(&Query::parse("dryRun=")).is_err());
}

#[test]
fn delete_options_are_the_same_from_body_and_query() {
    let query = "gracePeriodSeconds=3&propagationPolicy=Foreground&dryRun=All";
    let options = DeleteOptions::from_query(&Query::parse(query)).unwrap();
    assert_eq!(
        DeleteOptions::from_value(&options.to_value()).unwrap(),
        options
    );
    let body = json!({"kind": "DeleteOptions", "apiVersion": "example.com/v1", "preconditions": {"uid": "u"}});
    let options = DeleteOptions::from_value(&body).unwrap();
    assert_eq!(options.preconditions.uid.as_deref(), Some("u"));
    assert_eq!(
        DeleteOptions::from_value(&options.to_value()).unwrap(),
        options
    );
    for (body, code, want) in [
        (
            json!({"kind": "Pod"}),
            400,
            "no kind \"Pod\" is registered for version \"\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
        (
            json!({"propagationPolicy": "x"}),
            422,
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"x\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
        ),
        (
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
            422,
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set",
        ),
    ] {
        let status = DeleteOptions::from_value(&body).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (code, want));
    }
    for (body, want) in [
        (
            json!({"gracePeriodSeconds": "x"}),
            "string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            json!({"gracePeriodSeconds": 1.5}),
            "number 1.5 into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            json!({"preconditions": {"uid": []}}),
            "array into Go struct field Preconditions.preconditions.uid of type types.UID",
        ),
        (
            json!({"preconditions": 1}),
            "number into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
        ),
        (
            json!({"dryRun": ["All", true]}),
            "bool into Go struct field DeleteOptions.dryRun of type string",
        ),
    ] {
        let status = DeleteOptions::from_value(&body).unwrap_err();
        let want = format!("json: cannot unmarshal {want}");
        assert_eq!((status.code, status.message), (400, want));
    }
}

proptest! {
    #[test]
    fn no_query_makes_the_parsers_panic(raw in ".{0,64}|[a-z&=%+0-9;]{0,64}") {
        let query = Query::parse(&raw);
        prop_assert!(query.pairs().len() <= raw.split('&').count());
        let watch = ListOptions::from_query(&query);
        prop_assert!(watch.is_ok() || watch.unwrap_err().code >= 400);
    }
}
