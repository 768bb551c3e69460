//! Records, keys and sealed values.

use std::{collections::BTreeMap, sync::Arc};

use apiserver::offline::Header;
use storage::{Keyring, backup::Reader, embedded::Directory, fuzzing};
use storage_conformance::simulated::SimulatedDirectory;

use crate::{Target, input};

/// Records: what is read is what stands there.
pub(crate) const RECORD: Target = Target {
    name: "record",
    run: fuzzing::record,
    seeds: &[
        "\0\0\0\0\x01\0\x03\0\0\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0/a/value",
    ],
    corpus: None,
    made: Some(|| fuzzing::records(&directory(BTreeMap::new()))),
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
    made: None,
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
    made: None,
    words: &[],
};

/// Backup files, and pages of them.
pub(crate) const BACKUP: Target = Target {
    name: "backup",
    run: |data| {
        fuzzing::backup(data);
        let beginning = Reader::begin(data, None);
        if let Some(header) = beginning
            .ok()
            .and_then(|(_, header)| Header::parse(&header))
        {
            assert_eq!(
                Header::parse(&header.to_json()).map(|header| header.revision),
                Some(header.revision),
                "a header reads back"
            );
        }
    },
    seeds: &["WHBACKUP\x05\0\0\0\0\0\0\0\x01{}", "WHBACKUP"],
    corpus: None,
    made: Some(|| fuzzing::backups(&directory(BTreeMap::new()))),
    words: &["WHBACKUP", "\x01", "\x02\x01", "\x03", "\0\0\0\0"],
};

/// Manifests of a store: what the engine reads is one layout, and the second reader reads the same.
pub(crate) const MANIFEST: Target = Target {
    name: "manifest",
    run: fuzzing::manifest,
    seeds: &["WHMANIF\n"],
    corpus: None,
    made: Some(|| fuzzing::manifests(&directory(BTreeMap::new()))),
    words: &["WHMANIF\n", "\0\0\0\0", "\x01\0\0\0", "\x02\0\0\0"],
};

/// Segments of a store: headers, frames and the records in them.
pub(crate) const SEGMENT: Target = Target {
    name: "segment",
    run: fuzzing::segment,
    seeds: &["WHSEGMT\n"],
    corpus: None,
    made: Some(|| fuzzing::segments(&directory(BTreeMap::new()))),
    words: FRAME_WORDS,
};

/// A log of one segment: the engine and `store check` say the same of it, and a start leaves what the next one finds.
pub(crate) const LOG: Target = Target {
    name: "log",
    run: |data| fuzzing::log(data, directory),
    seeds: &["WHSEGMT\n"],
    corpus: None,
    made: Some(|| fuzzing::segments(&directory(BTreeMap::new()))),
    words: FRAME_WORDS,
};

const FRAME_WORDS: &[&str] = &[
    "WHSEGMT\n",
    "WHF2",
    "HEAD",
    "END2",
    "\x01\0\0\0",
    "\x02\0\0\0",
    "\0\0\0\0\0\0\0\0",
];

/// Values as etcd keeps them, and the last states of keys that were deleted.
pub(crate) const ENVELOPE: Target = Target {
    name: "envelope",
    run: fuzzing::envelope,
    seeds: &["\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0................"],
    corpus: None,
    made: Some(fuzzing::envelopes),
    words: &["\x01\x01\0\0", "\x01\0\0\0", "\0\0\0\0", "\x02\0\0\0/a"],
};

/// The small texts of a store: `FORMAT`, names of segments, its identity in etcd, and what was seen of that.
pub(crate) const STORE_TEXTS: Target = Target {
    name: "store-texts",
    run: |data| fuzzing::texts(input::text(data)),
    seeds: &[
        "wheelhouse-store\nformat 2\n",
        "log/0000000002.0003",
        "wheelhouse-store 1\nid 8f14e45fceea167a5a36dedd4bea2543\nepoch 100\nchange 1c9f3a70b2d84e55\n",
        "wheelhouse-etcd-seen 1\nseen 41\nwitness 40 7 2f61\nidentity\nwheelhouse-store 1\nid a\nepoch 117\nchange b\n",
    ],
    corpus: None,
    made: None,
    words: &[
        "\n",
        "format ",
        "witness ",
        "identity\n",
        "log/",
        "epoch ",
        "900",
    ],
};

fn directory(files: BTreeMap<String, Vec<u8>>) -> Arc<dyn Directory> {
    Arc::new(SimulatedDirectory::with_files(files))
}
