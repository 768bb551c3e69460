//! Values that are sealed on disk and plain in memory.

use super::*;

const OLD: &str = "old:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
const NEW: &str = "new:ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n";

fn sealing(keys: &str) -> Config {
    let keyring = Keyring::parse(keys).unwrap().covering("/secrets/");
    Config {
        keyring: Some(Arc::new(keyring)),
        ..small()
    }
}

fn shows(disk: &SimulatedDirectory, text: &str) -> bool {
    let shown = |bytes: &Vec<u8>| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    disk.files().values().any(shown)
}

#[test]
fn covered_values_are_plain_in_memory_alone() {
    let disk = SimulatedDirectory::default();
    let engine = open_with(&disk, sealing(OLD)).unwrap();
    put(&engine, "/secrets/a", "hunter2hunter2");
    put(&engine, "/maps/a", "anybody's");
    for n in 0..60 {
        put(&engine, &format!("/maps/{}", n % 3), &"v".repeat(700));
    }
    engine.compact(engine.revision()).wait().unwrap();
    let all = contents(&engine);
    wait_until("sweeping", || {
        disk.files().keys().any(|name| name.ends_with(".0001"))
    });
    drop(engine);
    assert!(
        !shows(&disk, "hunter2"),
        "it is sealed, in swept segments too"
    );
    assert!(shows(&disk, "/secrets/a"), "keys are not");
    // Keys are replaced by putting one on top.
    for keys in [OLD.to_owned(), format!("{NEW}{OLD}")] {
        assert_eq!(contents(&open_with(&disk, sealing(&keys)).unwrap()), all);
    }
    for (name, config) in [
        ("without keys", small()),
        ("with another key", sealing(NEW)),
    ] {
        let refused = open_with(&disk, config);
        assert!(
            matches!(refused, Err(OpenError::Sealed { .. })),
            "{name}: {refused:?}"
        );
    }
}

#[test]
fn a_store_that_was_plain_is_sealed_by_writing() {
    let disk = SimulatedDirectory::default();
    put(&open(&disk), "/secrets/a", "hunter2");
    let engine = open_with(&disk, sealing(OLD)).unwrap();
    assert_eq!(contents(&engine)[0].1, "hunter2");
    put(&engine, "/secrets/a", "hunter3");
    assert!(!shows(&disk, "hunter3"));
    drop(engine);
    assert_eq!(
        contents(&open_with(&disk, sealing(OLD)).unwrap())[0].1,
        "hunter3"
    );
}
