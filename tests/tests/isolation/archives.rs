//! S18: what was planted where a backup is written or a hub is restored is neither followed nor written to.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::Path,
};

use wheelhouse_tests::process::Scratch;

use super::support::Fixture;

#[tokio::test(flavor = "multi_thread")]
async fn s18_nothing_planted_is_followed() {
    let fixture = Fixture::start(&[]).await;
    let scratch = Scratch::new("archives");
    let victim = scratch.write("victim", "precious");
    let shown = |path: &Path| path.display().to_string();
    let backup = async |out: &Path| {
        let out = shown(out);
        let arguments = ["store", "backup", "--out", &out];
        fixture.hub.wheelhouse(&arguments).await
    };
    let untouched = |what: &str| {
        let text = fs::read_to_string(&victim).expect("the victim");
        assert_eq!(text, "precious", "{what}");
        let mode = fs::metadata(&victim).expect("the victim").mode();
        assert_ne!(mode & 0o777, 0o600, "{what}");
    };
    fs::set_permissions(&victim, std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .expect("its mode");

    // In the place of the part, and of the file itself.
    let out = scratch.file("hub.backup");
    let part = scratch.file("hub.backup.part");
    symlink(&victim, &part).expect("a link");
    let refused = backup(&out).await;
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    assert!(refused.stderr.contains("link"), "{}", refused.stderr);
    untouched("a link for the part");
    fs::remove_file(&part).expect("the link");
    let nowhere = scratch.file("nowhere");
    symlink(&nowhere, &part).expect("a link");
    assert_ne!(backup(&out).await.code, 0, "a link to nowhere");
    assert!(!nowhere.exists(), "a link to nowhere");
    fs::remove_file(&part).expect("the link");
    symlink(&victim, &out).expect("a link");
    backup(&out).await.succeeded("store backup");
    untouched("a link for the file");
    let written = fs::symlink_metadata(&out).expect("the backup");
    assert!(written.is_file(), "the link was replaced");
    assert_eq!(written.mode() & 0o777, 0o600, "for its owner alone");

    // Where a hub is restored.
    let folder = scratch.file("victims");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("file"), "precious").expect("a file");
    let data = scratch.file("restored");
    fs::create_dir(&data).expect("a folder");
    for name in ["store.restoring", "hub-id.new"] {
        let target = if name == "hub-id.new" {
            &victim
        } else {
            &folder
        };
        symlink(target, data.join(name)).expect("a link");
    }
    let (from, into) = (shown(&out), shown(&data));
    let restore = ["store", "restore", "--from", &from, "--data-dir", &into];
    let restored = fixture.hub.wheelhouse(&restore).await;
    untouched("a link for the name");
    let left = fs::read_to_string(folder.join("file")).expect("the victim");
    assert_eq!(left, "precious", "a link for the store");
    let count = fs::read_dir(&folder).expect("the folder").count();
    assert_eq!(count, 1, "nothing was written behind the link");
    // It may be refused; if it is not, the store is no link.
    let store = fs::symlink_metadata(data.join("store"));
    assert_eq!(
        restored.code == 0,
        store.is_ok_and(|store| store.is_dir()),
        "{}",
        restored.stderr
    );
}
