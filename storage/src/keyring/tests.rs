//! The keyring through its public surface.

#![expect(
    clippy::indexing_slicing,
    reason = "the tests cut and flip what they made"
)]

use super::*;

const OLD: &str = "old:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const NEW: &str = "new:AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";
const AAD: &[u8] = b"header|/core/secrets/root/default/s";

fn keyring(lines: &[&str]) -> Keyring {
    Keyring::parse(&lines.join("\n")).expect("a keyring")
}

#[test]
fn what_was_sealed_opens_again() {
    let keyring = keyring(&[OLD]);
    let large = vec![7; 100_000];
    for plain in [&b""[..], b"x", &large] {
        let sealed = keyring.seal(AAD, plain).expect("sealed");
        assert_eq!(sealed.len(), plain.len() + OVERHEAD_BYTES);
        assert_eq!(keyring.open(AAD, &sealed).expect("opened"), plain);
        assert!(
            plain.len() < 2 || !sealed.windows(plain.len()).any(|window| window == plain),
            "the value stands nowhere in plain"
        );
    }
}

#[test]
fn the_same_value_never_looks_the_same() {
    let keyring = keyring(&[OLD]);
    let [one, other] = [0, 1].map(|_| keyring.seal(AAD, b"value").expect("sealed"));
    assert_ne!(one, other, "a nonce was used twice");
}

#[test]
fn a_sealed_value_opens_for_its_own_record_only() {
    let keyring = keyring(&[OLD]);
    let sealed = keyring.seal(AAD, b"value").expect("sealed");
    let other = b"header|/core/secrets/root/default/t";
    assert!(matches!(
        keyring.open(other, &sealed),
        Err(KeyringError::Altered { .. })
    ));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let keyring = keyring(&[OLD]);
    let sealed = keyring.seal(AAD, b"value").expect("sealed");
    for bit in 0..sealed.len() * 8 {
        let mut flipped = sealed.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(keyring.open(AAD, &flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn every_cut_is_noticed() {
    let keyring = keyring(&[OLD]);
    let sealed = keyring.seal(AAD, b"value").expect("sealed");
    for len in 0..sealed.len() {
        let error = keyring.open(AAD, &sealed[..len]).expect_err("cut");
        let is_too_short = len < OVERHEAD_BYTES;
        assert_eq!(
            matches!(error, KeyringError::Truncated),
            is_too_short,
            "{len} bytes"
        );
    }
}

#[test]
fn another_key_is_named_and_does_not_open() {
    let (old, new) = (keyring(&[OLD]), keyring(&[NEW]));
    let sealed = old.seal(AAD, b"value").expect("sealed");
    let error = new.open(AAD, &sealed).expect_err("another key");
    let id = old.sealing_key().to_string();
    assert!(error.to_string().contains(&id), "{error} names {id}");
}

#[test]
fn after_a_rotation_the_new_key_seals_and_both_open() {
    let before = keyring(&[OLD]).seal(AAD, b"before").expect("sealed");
    let rotated = keyring(&[NEW, OLD]);
    let after = rotated.seal(AAD, b"after").expect("sealed");
    assert_eq!(rotated.open(AAD, &before).expect("old"), b"before");
    assert_eq!(rotated.open(AAD, &after).expect("new"), b"after");
    assert_eq!(KeyId::of_sealed(&after), Some(rotated.sealing_key()));
    assert!(
        keyring(&[NEW]).open(AAD, &after).is_ok(),
        "needs no old key"
    );
    assert!(
        keyring(&[OLD]).open(AAD, &after).is_err(),
        "not the old key"
    );
}

#[test]
fn a_key_keeps_its_id_under_another_name() {
    let renamed = OLD.replace("old:", "other-name:");
    assert_eq!(
        keyring(&[OLD]).sealing_key(),
        keyring(&[&renamed]).sealing_key()
    );
}

#[test]
fn key_files_are_read_line_by_line() {
    let long_name = format!("{}{}", "n".repeat(64), OLD.trim_start_matches("old"));
    let too_long = format!("n{long_name}");
    let twice = format!("{OLD}\n{}", OLD.replace("old:", "twin:"));
    let same_name = format!("{OLD}\n{}", NEW.replace("new:", "old:"));
    for (name, text, want) in [
        ("one key", OLD, Ok(1)),
        ("a long name", &long_name, Ok(1)),
        (
            "comments, blanks and line ends of another world",
            &format!("# ours\r\n\r\n  {NEW}  \r\n#old one\r\n{OLD}\r\n"),
            Ok(2),
        ),
        ("nothing", "", Err("no key")),
        ("only a comment", "# key", Err("no key")),
        ("no name", NEW.trim_start_matches("new:"), Err("line 1")),
        (
            "an empty name",
            NEW.trim_start_matches("new"),
            Err("line 1"),
        ),
        ("a name too long", &too_long, Err("letters")),
        ("a name with a space", "a b:AA==", Err("letters")),
        (
            "no base64",
            "# c\nk:!!!!",
            Err("line 2: the key is not base64"),
        ),
        (
            "sixteen bytes",
            "k:AQEBAQEBAQEBAQEBAQEBAQ==",
            Err("32 bytes"),
        ),
        ("zeros", &format!("k:{}=", "A".repeat(43)), Err("zeros")),
        (
            "a key twice",
            &twice,
            Err("line 2: this key is there already"),
        ),
        (
            "a name twice",
            &same_name,
            Err("line 2: another key has this name"),
        ),
    ] {
        let parsed = Keyring::parse(text);
        match (parsed, want) {
            (Ok(keyring), Ok(count)) => assert_eq!(keyring.keys().count(), count, "{name}"),
            (Err(error), Err(want)) => {
                assert!(error.to_string().contains(want), "{name}: {error}");
            }
            (got, want) => panic!("{name}: {got:?}, want {want:?}"),
        }
    }
}

#[test]
fn only_the_prefixes_that_were_named_are_covered() {
    let keyring = keyring(&[OLD]);
    assert!(!keyring.covers(b"/core/secrets/root/default/s"), "none yet");
    let keyring = keyring.covering("/core/secrets/");
    for (key, want) in [
        (&b"/core/secrets/root/default/s"[..], true),
        (b"/core/secretsx/root/default/s", false),
        (b"/core/secrets", false),
        (b"/other/core/secrets/", false),
        (b"", false),
    ] {
        assert_eq!(keyring.covers(key), want, "{}", key.escape_ascii());
    }
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("keys");
    fs::write(&path, OLD).expect("written");
    for (mode, want) in [
        (0o600, true),
        (0o400, true),
        (0o440, true),
        (0o444, false),
        (0o660, false),
        (0o602, false),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode");
        let read = Keyring::read(&path);
        assert_eq!(read.is_ok(), want, "{mode:o}: {read:?}");
    }
    let absent = Keyring::read(&directory.path().join("absent"));
    assert!(matches!(absent, Err(KeyringError::File { .. })));
}

#[test]
fn no_key_is_shown() {
    let shown = format!("{:?}", keyring(&[OLD, NEW]));
    assert!(shown.contains("old") && shown.contains("new"), "{shown}");
    assert!(
        !shown.contains("AQEB") && !shown.contains("1, 1"),
        "{shown}"
    );
    let error = Keyring::parse(&OLD.replace('=', "")).expect_err("no padding");
    assert!(!format!("{error:?} {error}").contains("AQEB"), "{error:?}");
}
