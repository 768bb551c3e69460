//! Records, keys and sealed values.

use storage::{Keyring, fuzzing};

use crate::{Target, input};

/// Records: what is read is what stands there.
pub(crate) const RECORD: Target = Target {
    name: "record",
    run: fuzzing::record,
    seeds: &[
        "\0\0\0\0\x01\0\x03\0\0\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0/a/value",
    ],
    corpus: None,
    words: &["\x01\0\0\0", "\0\0\0\0", "\x7f\x7f"],
};

/// Key files.
pub(crate) const KEYRING: Target = Target {
    name: "keyring",
    run: |data| {
        let Ok(keyring) = Keyring::parse(input::text(data)) else {
            return;
        };
        let sealed = keyring
            .seal(b"where", data)
            .expect("a parsed keyring seals");
        assert_eq!(
            keyring.open(b"where", &sealed).ok().as_deref(),
            Some(data),
            "and opens what it sealed"
        );
        assert!(
            keyring.open(b"elsewhere", &sealed).is_err(),
            "at its own place alone"
        );
    },
    seeds: &[
        "# the key\nfirst:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n\nold:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
    ],
    corpus: None,
    words: &[
        "\n",
        ":",
        "#",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    ],
};

/// Sealed values that nobody sealed.
pub(crate) const SEALED: Target = Target {
    name: "sealed",
    run: |data| {
        let keyring = Keyring::parse("a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n");
        let keyring = keyring.expect("this is a key");
        assert!(
            keyring.open(b"where", data).is_err(),
            "a value that was not sealed does not open"
        );
        let mut sealed = keyring.seal(b"where", data).expect("it seals");
        if let Some(byte) = sealed.get_mut(data.len() % 4) {
            *byte ^= 1;
        }
        assert!(
            keyring.open(b"where", &sealed).is_err(),
            "nor one with another key's id"
        );
    },
    seeds: &["0123456789abcdef0123456789abcdef0123"],
    corpus: None,
    words: &[],
};

/// Backup files, and pages of them.
pub(crate) const BACKUP: Target = Target {
    name: "backup",
    run: fuzzing::backup,
    seeds: &["WHBACKUP\x05\0\0\0\0\0\0\0\x01{}", "WHBACKUP"],
    corpus: None,
    words: &["WHBACKUP", "\x01", "\x02\x01", "\x03", "\0\0\0\0"],
};
