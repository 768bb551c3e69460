//! Circles that are planted in a small crate, and arrows that make none.

use super::*;

/// Returns the circles of a crate of these files, as lines.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder for the crate");
    for (file, text) in files {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("in the folder")).expect("can be created");
        std::fs::write(path, text).expect("can be written");
    }
    let arrows = modules::arrows(folder.path(), &folder.path().join("lib.rs")).expect("it parses");
    circles(&arrows).iter().map(join).collect()
}

#[test]
fn a_circle_is_found_however_it_is_named() {
    let root = "mod a; mod b; mod c;";
    let cases = [
        (
            "by use",
            "use crate::b::B; pub struct A;",
            "use crate::a::A; pub struct B;",
        ),
        (
            "by a path",
            "pub fn a() { crate::b::b() }",
            "pub fn b() { super::a::a() }",
        ),
        (
            "by a glob",
            "use crate::b::*; pub struct A(B);",
            "pub struct B(crate::a::A);",
        ),
        (
            "in a macro",
            "pub fn a() { println!(\"{}\", crate::b::b()) }",
            "pub fn b() { crate::a::a() }",
        ),
        (
            "in an attribute",
            "#[serde(with = \"crate::b::b\")] pub struct A;",
            "pub fn b(_: crate::a::A) {}",
        ),
        (
            "by a module",
            "use crate::b; pub fn a() { b::b() }",
            "use super::a as x; pub fn b() { x::a() }",
        ),
        (
            "by a variant",
            "pub enum A { X } type B = crate::b::B;",
            "pub type B = u8; use crate::a::A::X;",
        ),
        (
            "re-exported",
            "use crate::c::B; pub struct A;",
            "use crate::a::A; pub struct B;",
        ),
    ];
    for (name, a, b) in cases {
        let files = [
            ("lib.rs", root),
            ("a.rs", a),
            ("b.rs", b),
            ("c.rs", "pub use crate::b::B;"),
        ];
        assert_eq!(circles_of(&files), ["a.rs b.rs"], "{name}");
    }
}

#[test]
fn a_parent_and_its_children_are_no_circle_and_siblings_are() {
    let parent = "pub struct State; mod leaf; mod other; pub fn run() { leaf::leaf(State) }";
    let leaf = "use super::State; pub fn leaf(_: State) { super::other::other() }";
    let mut files = [
        (
            "lib.rs",
            "mod parent; pub struct Error; pub use parent::run;",
        ),
        ("parent.rs", parent),
        ("parent/leaf.rs", leaf),
        (
            "parent/other.rs",
            "pub fn other() -> crate::Error { crate::run() }",
        ),
    ];
    assert_eq!(
        circles_of(&files),
        [""; 0],
        "children name what is above them"
    );
    files[3].1 = "pub fn other() { super::leaf::leaf(super::State) }";
    assert_eq!(
        circles_of(&files),
        ["parent/leaf.rs parent/other.rs"],
        "two leaves"
    );
}

#[test]
fn a_folder_that_needs_one_that_needs_it_is_a_circle() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub mod leaf; pub struct A;"),
        ("a/leaf.rs", "pub fn leaf(_: crate::b::B) {}"),
        (
            "b.rs",
            "mod leaf; pub struct B; pub fn b() { leaf::leaf() }",
        ),
        (
            "b/leaf.rs",
            "pub fn leaf() { crate::a::leaf::leaf(super::B) }",
        ),
    ];
    assert_eq!(
        circles_of(&files),
        ["a/leaf.rs b.rs b/leaf.rs"],
        "a needs b, b needs a"
    );
}

#[test]
fn tests_and_mere_declarations_make_no_arrow() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
        ),
        (
            "b.rs",
            "use crate::a::A; pub struct B; #[cfg(test)] use crate::a; mod sub { pub struct S; }",
        ),
    ];
    assert_eq!(circles_of(&files), [""; 0], "only b names a");
}

#[test]
fn the_list_allows_exactly_the_circles_that_exist() {
    let folder = tempfile::tempdir().expect("a folder for the workspace");
    let root = folder.path();
    std::fs::create_dir_all(root.join("hack/xtask")).expect("can be created");
    for (file, text) in [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ] {
        std::fs::write(root.join(file), text).expect("can be written");
    }
    let target = serde_json::json!({"kind": ["lib"], "src_path": root.join("lib.rs")});
    let metadata = serde_json::json!({"packages": [{"targets": [target]}]});
    let cases = [
        ("not listed", "", 1),
        ("listed", "a.rs b.rs: they are one state machine", 0),
        (
            "one that is gone",
            "a.rs b.rs: so it is\nb.rs c.rs: so it was",
            1,
        ),
        ("other files", "a.rs b.rs c.rs: it was larger", 2),
    ];
    for (name, list, count) in cases {
        std::fs::write(root.join(LIST), list).expect("can be written");
        let findings = check(root, &metadata).expect("it parses");
        assert_eq!(findings.len(), count, "{name}: {findings:?}");
    }
    std::fs::write(root.join(LIST), "a.rs b.rs").expect("can be written");
    assert!(check(root, &metadata).is_err(), "a line without a reason");
}
