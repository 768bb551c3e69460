use super::*;

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web","tier":""},"name":"a","namespace":"b"},"spec":{"hostNetwork":false,"nodeName":"n\u0031","priority":0},"status":{"phase":"Running"}}"#;

fn terms_of(key: &str, value: &str) -> Vec<u64> {
    let mut terms = Vec::new();
    of_stored(key.as_bytes(), value.as_bytes(), &mut terms);
    terms
}

#[test]
fn an_object_is_found_by_its_labels_and_declared_fields() {
    let found = terms_of("/core/pods/east/b/a", POD);
    let pods = ("", "pods", "east");
    let want = [
        Said::Label(b"app", b"web"),
        Said::Label(b"tier", b""),
        Said::Field("spec.nodeName", "n1"),
        Said::Field("status.phase", "Running"),
    ];
    let want: Vec<u64> = want.iter().map(|said| term(pods, said)).collect();
    assert_eq!(found, want);
}

/// The story: the syncer looks for the revisions of one definition, and every revision of all definitions was read for it.
#[test]
fn a_revision_is_found_by_its_definition() {
    let revision =
        r#"{"metadata":{"name":"site-r1"},"spec":{"snapshot":{"name":"site","spec":{}}}}"#;
    let found = terms_of("/internal.kro.run/graphrevisions/root//site-r1", revision);
    let revisions = ("internal.kro.run", "graphrevisions", "root");
    let want = term(revisions, &Said::Field("spec.snapshot.name", "site"));
    assert_eq!(found, [want]);
}

#[test]
fn collections_share_no_term() {
    let here = terms_of("/core/pods/east/b/a", POD);
    for other in [
        "/core/pods/west/b/a",
        "/core/secrets/east/b/a",
        "/x/pods/east/b/a",
    ] {
        let there = terms_of(other, POD);
        assert!(here.iter().all(|term| !there.contains(term)), "{other}");
    }
}

#[test]
fn what_is_no_object_has_no_terms() {
    for (key, value) in [
        ("/internal/thing", POD),
        ("/core/pods/east/b/a", "counter 7"),
        ("/core/pods/east/b/a", "{}"),
        ("/core/pods/east/b/a", r#"{"metadata":{"labels":[1]}"#),
    ] {
        assert!(terms_of(key, value).is_empty(), "{key} {value}");
    }
}

#[test]
fn fields_are_read_as_the_parsed_object_has_them() {
    let object = r#"{"a":{"b":{"c":"x","d":1.50},"e":null,"bb":{"c":"no"}},"f":true,"g":{"b":"y"},"h":["z"]}"#;
    let paths = [
        ("", "a.b.c"),
        ("", "a.b.d"),
        ("", "a.e"),
        ("", "f"),
        ("", "g.b.c"),
        ("", "h"),
        ("", "a"),
        ("", "g.b"),
        ("", "absent.field"),
    ];
    let mut found = Vec::new();
    fields(object.as_bytes(), &paths, &mut |place, text| {
        found.push((paths[place].1, text.to_owned()));
    });
    let want = [
        ("a.b.c", "x"),
        ("a.b.d", "1.50"),
        ("f", "true"),
        ("g.b", "y"),
    ];
    assert_eq!(found, want.map(|(path, text)| (path, text.to_owned())));
}
