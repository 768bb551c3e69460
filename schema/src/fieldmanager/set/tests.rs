use proptest::prelude::*;

use super::*;

fn path(text: &str) -> Vec<PathElement> {
    text.split('.').map(PathElement::field).collect()
}

fn set(paths: &[&str]) -> FieldSet {
    FieldSet::from_paths(paths.iter().map(|text| path(text)))
}

#[test]
fn operations_on_sets_follow_the_table() {
    // (left, right, union, intersection, difference, recursive difference)
    type Case<'a> = [&'a [&'a str]; 6];
    let cases: &[Case<'_>] = &[
        [&[], &["a"], &["a"], &[], &[], &[]],
        [
            &["a", "b"],
            &["b", "c"],
            &["a", "b", "c"],
            &["b"],
            &["a"],
            &["a"],
        ],
        // A member does not take what lies below it, unless recursively.
        [&["a.b"], &["a"], &["a", "a.b"], &[], &["a.b"], &[]],
        [&["a"], &["a.b"], &["a", "a.b"], &[], &["a"], &["a"]],
        [&["a", "a.b"], &["a"], &["a", "a.b"], &["a"], &["a.b"], &[]],
        [
            &["a", "a.b", "a.c"],
            &["a.b"],
            &["a", "a.b", "a.c"],
            &["a.b"],
            &["a", "a.c"],
            &["a", "a.c"],
        ],
        [
            &["a.b.c", "d"],
            &["a.b"],
            &["a.b", "a.b.c", "d"],
            &[],
            &["a.b.c", "d"],
            &["d"],
        ],
    ];
    for [left, right, union, intersection, difference, recursive] in cases {
        let (l, r) = (set(left), set(right));
        assert_eq!(
            l.clone().union(r.clone()),
            set(union),
            "{left:?} ∪ {right:?}"
        );
        assert_eq!(
            r.clone().union(l.clone()),
            set(union),
            "{right:?} ∪ {left:?}"
        );
        assert_eq!(
            l.intersection(&r),
            set(intersection),
            "{left:?} ∩ {right:?}"
        );
        assert_eq!(
            l.clone().difference(&r),
            set(difference),
            "{left:?} - {right:?}"
        );
        assert_eq!(
            l.recursive_difference(&r),
            set(recursive),
            "{left:?} -- {right:?}"
        );
    }
}

#[test]
fn leaves_have_nothing_below_them() {
    assert_eq!(
        set(&["a", "a.b", "c", "d.e", "d.e.f"]).leaves(),
        set(&["a.b", "c", "d.e.f"])
    );
}

#[test]
fn the_members_of_a_level_come_before_those_below() {
    let texts: Vec<String> = set(&["a.z", "b", "a.b.c", "a"])
        .paths()
        .iter()
        .map(|path| super::super::element::path_text(path))
        .collect();
    assert_eq!(texts, [".a", ".b", ".a.z", ".a.b.c"]);
}

#[test]
fn the_empty_path_is_no_member() {
    let mut empty = FieldSet::new();
    empty.insert(&[]);
    assert!(empty.is_empty());
    assert!(!set(&["a"]).contains(&[]));
}

fn any_set() -> impl Strategy<Value = FieldSet> {
    let name = prop::sample::select(vec!["a", "b", "c", "d"]);
    let any_path = prop::collection::vec(name, 1..4);
    prop::collection::vec(any_path, 0..12).prop_map(|paths| {
        FieldSet::from_paths(
            paths
                .into_iter()
                .map(|path| path.into_iter().map(PathElement::field).collect::<Vec<_>>()),
        )
    })
}

proptest! {
    #[test]
    fn the_algebra_agrees_with_sets_of_paths(left in any_set(), right in any_set()) {
        let paths = |set: &FieldSet| set.paths().into_iter().collect::<std::collections::BTreeSet<_>>();
        let (l, r) = (paths(&left), paths(&right));
        prop_assert_eq!(l.len(), left.len());
        prop_assert_eq!(paths(&left.clone().union(right.clone())), l.union(&r).cloned().collect());
        prop_assert_eq!(paths(&left.intersection(&right)), l.intersection(&r).cloned().collect());
        prop_assert_eq!(paths(&left.clone().difference(&right)), l.difference(&r).cloned().collect());
        let outside = l
            .iter()
            .filter(|path| !(1..=path.len()).any(|depth| path.get(..depth).is_some_and(|prefix| r.contains(prefix))))
            .cloned()
            .collect();
        prop_assert_eq!(paths(&left.clone().recursive_difference(&right)), outside);
        prop_assert_eq!(left.is_subset(&right), l.is_subset(&r));
        prop_assert!(left.intersection(&right).is_subset(&left));
        prop_assert!(left.clone().difference(&left).is_empty());
        prop_assert_eq!(left.paths().iter().all(|path| left.contains(path)), true);
    }
}
