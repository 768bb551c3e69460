//! Restores, whole and refused, and what is checked of the result.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use storage::{
    KeyRange, Revision, Store, WatchQuery,
    backup::{Record, Writer},
    embedded,
};

use super::*;

const KEY: &str = "k:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const OTHER_KEY: &str = "k:AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";
const MODIFIED: Revision = Revision(1_000_000_000_000_007);

fn keyring() -> Keyring {
    let keyring = Keyring::parse(KEY).expect("a keyring");
    keyring.covering(objects::prefix("", "secrets"))
}

fn record(key: &str, value: &[u8]) -> Record {
    Record {
        key: key.as_bytes().to_vec(),
        value: value.to_vec(),
        created: Revision(1_000_000_000_000_003),
        modified: MODIFIED,
        tag: 9,
    }
}

fn backup(directory: &Path, keyring: Option<&Keyring>) -> PathBuf {
    let records = [
        record("/core/configmaps/root/default/a", b"{}"),
        record("/core/secrets/root/default/s", b"hunter2"),
    ];
    backup_of(directory, keyring, records)
}

fn backup_of(
    directory: &Path,
    keyring: Option<&Keyring>,
    records: impl IntoIterator<Item = Record>,
) -> PathBuf {
    let path = directory.join("hub.backup");
    let header = Header {
        version: HEADER_VERSION,
        hub_id: "hub-a".to_owned(),
        revision: MODIFIED.0,
        taken_at: "2026-01-02T03:04:05Z".to_owned(),
    };
    let file = File::create(&path).unwrap();
    let mut writer = Writer::begin(file, keyring, &header.to_json()).unwrap();
    for record in records {
        writer.record(&record).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn asked<'a>(from: &'a Path, data_dir: &'a Path) -> Restore<'a> {
    Restore {
        from,
        data_dir,
        keyring: None,
        epoch: None,
        now: "2026-01-02T03:05:00Z".parse().expect("a time"),
        spokes: Spokes::Connected,
    }
}

/// Where a store begins that is restored by [`asked`]: 97,500 seconds into 2026, ten numbers each millisecond.
const START: Revision = Revision(1_010_000_975_000_000);

fn config(keyring: Option<Keyring>) -> embedded::Config {
    embedded::Config {
        keyring: keyring.map(std::sync::Arc::new),
        ..embedded::Config::default()
    }
}

/// Every file below a directory that holds some bytes.
fn files_with(directory: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(
                fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if fs::read(&path)
            .unwrap()
            .windows(bytes.len())
            .any(|window| window == bytes)
        {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_restored_store_has_every_record_a_new_epoch_and_the_marker() {
    let directory = tempfile::tempdir().unwrap();
    let from = backup(directory.path(), None);
    let data_dir = directory.path().join("new");
    let restored = restore(asked(&from, &data_dir)).expect("restored");
    assert_eq!(restored.count, 2);
    assert_eq!(restored.revision, START);
    assert_eq!(
        fs::read_to_string(data_dir.join(HUB_ID_FILE)).unwrap(),
        "hub-a"
    );

    let store = embedded::Engine::open(&data_dir.join(STORE_DIRECTORY), config(None)).unwrap();
    let secret = store
        .get(b"/core/secrets/root/default/s")
        .expect("the secret");
    assert_eq!(
        (secret.value(), secret.tag(), secret.modified()),
        (&b"hunter2"[..], 9, MODIFIED)
    );
    assert!(store.revision() >= restored.revision, "a new epoch");
    let marker = store.get(b"/core/configmaps/root/kube-system/wheelhouse-restore");
    let marker: serde_json::Value =
        serde_json::from_slice(marker.expect("the marker").value()).unwrap();
    assert_eq!(marker["data"]["id"], START.to_string());
    assert_eq!(marker["data"]["backupTakenAt"], "2026-01-02T03:04:05Z");
    let old = WatchQuery {
        range: KeyRange::prefix("/"),
        after: MODIFIED,
    };
    assert!(
        matches!(store.watch(old), Err(storage::Error::Compacted { .. })),
        "410 for who watched"
    );
}

#[test]
fn what_cannot_be_restored_leaves_no_store() {
    let directory = tempfile::tempdir().unwrap();
    let from = backup(directory.path(), None);
    let bytes = fs::read(&from).unwrap();
    let variant = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let part = variant("part", &bytes[..bytes.len() - 1]);
    let mut flipped = bytes;
    flipped[200] ^= 1;
    let flipped = variant("flipped", &flipped);
    let other = variant("other", b"#!/bin/sh");
    fs::create_dir(directory.path().join("sealed")).unwrap();
    let sealed = backup(&directory.path().join("sealed"), Some(&keyring()));
    let absent = directory.path().join("absent");
    for (name, from, epoch, want) in [
        ("a part", &part, None, "it is incomplete"),
        ("an altered one", &flipped, None, "corrupt"),
        ("another file", &other, None, "no backup"),
        ("a file that is not there", &absent, None, "No such file"),
        (
            "one that is sealed, without its key",
            &sealed,
            None,
            "pass the key file",
        ),
        ("the same epoch", &from, Some(100), "cannot follow"),
        (
            "an epoch behind the last",
            &from,
            Some(900),
            "cannot follow",
        ),
    ] {
        let data_dir = directory.path().join("new");
        let refused = restore(Restore {
            epoch,
            ..asked(from, &data_dir)
        });
        let error = refused.expect_err(name);
        let told = dialect::error_chain(&error);
        assert!(told.contains(want), "{name}: {told}");
        assert!(!data_dir.join(STORE_DIRECTORY).exists(), "{name}");
    }
}

#[test]
fn spokes_are_suspended_where_that_is_asked_for_and_nothing_else_is() {
    let directory = tempfile::tempdir().unwrap();
    let spoke = br#"{"apiVersion":"wheelhouse.dev/v1alpha1","kind":"Spoke","metadata":{"generation":3,"name":"east","resourceVersion":"1000000000000007"},"spec":{"provider":"Kubeconfig"}}"#;
    let key = "/wheelhouse.dev/spokes/root//east";
    let of_another = "/wheelhouse.dev/spokes/inner//east";
    let from = backup_of(
        directory.path(),
        None,
        [
            record("/core/configmaps/root/default/a", b"{}"),
            record(of_another, spoke),
            record(key, spoke),
        ],
    );
    for (name, spokes, want) in [
        ("connected", Spokes::Connected, false),
        ("suspended", Spokes::Suspended, true),
    ] {
        let data_dir = directory.path().join(name);
        let request = Restore {
            spokes,
            ..asked(&from, &data_dir)
        };
        restore(request).expect(name);
        let store = embedded::Engine::open(&data_dir.join(STORE_DIRECTORY), config(None)).unwrap();
        let found = store.get(key.as_bytes()).expect("the spoke");
        let value: serde_json::Value = serde_json::from_slice(found.value()).unwrap();
        assert_eq!(value["spec"]["suspended"] == true, want, "{name}");
        assert_eq!(value["spec"]["provider"], "Kubeconfig", "{name}");
        let (generation, revision) = if want { (4, START) } else { (3, MODIFIED) };
        assert_eq!(value["metadata"]["generation"], generation, "{name}");
        assert_eq!(
            value["metadata"]["resourceVersion"],
            revision.to_string(),
            "{name}: other bytes have another version"
        );
        assert_eq!(found.modified(), revision, "{name}");
        let other = store
            .get(of_another.as_bytes())
            .expect("no spoke of the hub");
        assert_eq!(other.value(), spoke, "{name}");
        drop(store);
        let checked = check(&data_dir, None).expect("a check");
        assert_eq!(checked.report.findings, [], "{name}");
    }
}

/// The story: a hub was restored, ran for a day and was lost too. The same backup was restored again, and a client went on
/// watching from a revision that the second hub gave to another object.
#[test]
fn a_second_restore_of_a_backup_begins_behind_everything_that_the_first_gave() {
    let directory = tempfile::tempdir().unwrap();
    let from = backup(directory.path(), None);
    let at = |name: &str, now: &str, epoch| {
        restore(Restore {
            now: now.parse().unwrap(),
            epoch,
            ..asked(&from, &directory.path().join(name))
        })
    };
    let first = at("first", "2026-01-02T03:05:00Z", None).expect("restored");
    let soon = at("soon", "2026-01-02T03:05:01Z", None).expect("again");
    let second = soon.revision.0 - first.revision.0;
    assert_eq!(second, 10_000, "what it may have given in a second");
    assert_eq!(first.revision.epoch(), soon.revision.epoch());

    let late = at("late", "2090-01-01T00:00:00Z", None).expect("late");
    assert_eq!(late.revision, Revision(1_019_000_000_000_000), "with room");

    // A clock that was set back could choose a place before the first restore.
    let back = at("back", "2026-01-01T00:00:00Z", None);
    assert!(matches!(back, Err(RestoreError::Clock { .. })), "{back:?}");
    let named = at("named", "1999-01-01T00:00:00Z", Some(102)).expect("an epoch of its own");
    assert_eq!(named.revision, Revision::start_of_epoch(102).unwrap());
    let behind = at("behind", "2026-01-02T03:01:00Z", None);
    assert!(behind.is_ok(), "two machines' clocks: {behind:?}");
}

#[test]
fn nothing_is_restored_over_a_store_or_into_another_hub() {
    let directory = tempfile::tempdir().unwrap();
    let from = backup(directory.path(), None);
    let data_dir = directory.path().join("new");
    restore(asked(&from, &data_dir)).expect("the first time");
    let again = restore(asked(&from, &data_dir));
    assert!(
        matches!(again, Err(RestoreError::Exists { .. })),
        "{again:?}"
    );

    let data_dir = directory.path().join("other");
    fs::create_dir(&data_dir).unwrap();
    fs::write(data_dir.join(HUB_ID_FILE), "hub-b").unwrap();
    let other = restore(asked(&from, &data_dir));
    assert!(
        matches!(other, Err(RestoreError::OtherHub { .. })),
        "{other:?}"
    );
}

#[tokio::test]
async fn an_interrupted_restore_is_no_hub_and_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    let from = backup(directory.path(), None);
    let data_dir = directory.path().join("new");
    let making = data_dir.join(RESTORING_DIRECTORY);
    // A kill leaves what was written, and no name.
    fs::create_dir_all(making.join("log")).unwrap();
    fs::write(making.join("log/0000000001.0000"), "half").unwrap();
    let tasks = tasks::Tasks::new();
    let opened = crate::Hub::open(crate::Config::new(&data_dir), &tasks).await;
    assert!(
        matches!(
            opened,
            Err(crate::hub::OpenError::RestoreInterrupted { .. })
        ),
        "{opened:?}"
    );

    let other = embedded::Engine::open(&making, config(None));
    drop(fs::remove_dir_all(making.join("log")));
    let other = other.or_else(|_| embedded::Engine::open(&making, config(None)));
    let busy = restore(asked(&from, &data_dir));
    assert!(matches!(busy, Err(RestoreError::Busy { .. })), "{busy:?}");
    drop(other);

    restore(asked(&from, &data_dir)).expect("restored");
    assert!(!making.exists() && data_dir.join(HUB_ID_FILE).exists());
    embedded::Engine::open(&data_dir.join(STORE_DIRECTORY), config(None)).expect("a store");
}

#[test]
fn with_a_key_file_secrets_are_plain_nowhere_and_the_check_is_sound() {
    let directory = tempfile::tempdir().unwrap();
    let from = backup(directory.path(), Some(&keyring()));
    let data_dir = directory.path().join("new");
    let request = Restore {
        keyring: Some(keyring()),
        ..asked(&from, &data_dir)
    };
    restore(request).expect("restored");
    assert_eq!(
        files_with(directory.path(), b"hunter2"),
        Vec::<PathBuf>::new()
    );

    let ring = keyring();
    let checked = check(&data_dir, Some(&ring)).expect("a check");
    assert_eq!(checked.report.findings, []);
    let other = Keyring::parse(OTHER_KEY).expect("a keyring");
    let unusable = check(&data_dir, Some(&other)).expect_err("it cannot be told");
    assert!(
        matches!(unusable, storage::check::CheckError::MissingKeys { .. }),
        "{unusable:?}"
    );
    assert!(checked.compared, "with the engine's index");
    assert_eq!(checked.report.keys, 3, "two records and the marker");
    let [sealed] = checked.sealed.as_slice() else {
        panic!("{:?}", checked.sealed);
    };
    assert_eq!(
        (sealed.name.as_str(), sealed.seals, sealed.records),
        ("k", true, 1)
    );

    let store = data_dir.join(STORE_DIRECTORY);
    assert!(
        embedded::Engine::open(&store, config(None)).is_err(),
        "not without the key"
    );
    let engine = embedded::Engine::open(&store, config(Some(keyring()))).unwrap();
    let secret = engine
        .get(b"/core/secrets/root/default/s")
        .expect("the secret");
    assert_eq!(secret.value(), b"hunter2", "in memory it is plain");
}

#[test]
fn a_closed_directory_is_backed_up_and_restored() {
    let directory = tempfile::tempdir().unwrap();
    let from = backup(directory.path(), None);
    let data_dir = directory.path().join("new");
    restore(asked(&from, &data_dir)).expect("restored");
    let store = data_dir.join(STORE_DIRECTORY);
    let engine = embedded::Engine::open(&store, config(None)).unwrap();
    let in_use = backup_closed(&data_dir, tempfile::tempfile().unwrap(), None);
    assert!(
        matches!(in_use, Err(ClosedBackupError::Check(_))),
        "{in_use:?}"
    );
    drop(engine);

    let path = directory.path().join("closed.backup");
    let (header, count) = backup_closed(&data_dir, File::create(&path).unwrap(), None).unwrap();
    assert_eq!((header.hub_id.as_str(), count), ("hub-a", 3));
    let second = directory.path().join("second");
    let request = Restore {
        now: jiff::Timestamp::now(), // the clock that dated the backup
        ..asked(&path, &second)
    };
    let restored = restore(request).expect("restored again");
    assert_eq!(restored.revision.epoch(), 102, "an epoch of its own");
}
