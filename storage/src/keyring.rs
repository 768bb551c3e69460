//! Encryption at rest: the keys, and how one value is sealed.
//!
//! A key file has one key per line, `name:base64 of 32 bytes`; empty lines and lines that begin with `#` say
//! nothing. The first key seals, every key opens, so a key is replaced by putting a new line on top, letting the records
//! of the old one be rewritten, and taking its line out when `store check` finds none any more.
//!
//! ```text
//!   offset 0        4        16                       n - 16     n
//!          +--------+--------+------------------------+----------+
//!          | key id | nonce  | ciphertext             | tag      |   AES-256-GCM
//!          | u32 LE | 12     | as long as the value   | 16       |
//!          +--------+--------+------------------------+----------+
//! ```
//!
//! # Invariants
//! - A key's id comes from the key itself, so renaming a key changes nothing, and another key under
//!   an old name is noticed as another key.
//! - What names a record (its header and its key) is authenticated with its value: a sealed value that is moved to
//!   another key or another revision does not open.
//! - Nonces are random, 96 bits: a key may seal 2^32 values (NIST SP 800-38D, 8.3). At 1,000 writes of covered
//!   records a second that is seven weeks; at one a second, 136 years.
//! - No key is ever shown: not by `Debug`, not by an error. The text of a file is wiped when it has been
//!   read; `ring` does not wipe a key's schedule when it is dropped.
//!
//! Which keys of the store are covered is the caller's to say: this crate knows no Secrets.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// Bytes of a key's id.
const ID_BYTES: usize = 4;
/// Bytes of the tag behind the ciphertext.
const TAG_BYTES: usize = 16;
/// What a sealed value is longer by than its plain one.
const OVERHEAD_BYTES: usize = ID_BYTES + NONCE_LEN + TAG_BYTES;
/// The longest name of a key.
const NAME_BYTES_MAX: usize = 64;
/// Others may neither read nor write a key file, and its group may not write it. Its group may read it: so a
/// Kubernetes Secret is mounted for a process that is not root.
const MODE_REFUSED: u32 = 0o027;

/// Identifies the key that sealed a value: the beginning of a hash of the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(u32);

/// The keys of a store, and which of its records they are for.
pub struct Keyring {
    /// The first one seals; never empty.
    keys: Vec<NamedKey>,
    /// What a key of the store begins with that is covered.
    prefixes: Vec<Vec<u8>>,
    random: SystemRandom,
}

struct NamedKey {
    name: String,
    id: KeyId,
    key: LessSafeKey,
}

/// Why there is no keyring, or why it cannot seal or open a value.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// The file cannot be read.
    #[error("cannot read the key file {}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Others may read or change the file.
    #[error("the key file {} has mode {mode:04o}: others must not read it, nor its group write it (chmod 600)", path.display())]
    Mode {
        /// Which file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A line is not `name:key`.
    #[error("line {line}: {reason}")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it. Never what it holds.
        reason: &'static str,
    },
    /// There is no key.
    #[error("there is no key, want lines of `name:base64 of 32 bytes`")]
    Empty,
    /// A value was sealed with a key that is not in the keyring.
    #[error("it is sealed with key {id}, which the keyring does not hold")]
    UnknownKey {
        /// The key's id.
        id: KeyId,
    },
    /// A sealed value was cut off.
    #[error("it is sealed and shorter than any sealed value")]
    Truncated,
    /// A sealed value, or what names its record, is not what was sealed.
    #[error("it does not open with key {id}: it was altered, or belongs to another record")]
    Altered {
        /// The key's id.
        id: KeyId,
    },
    /// The operating system gave no random bytes, or the value is too long for the cipher.
    #[error("it cannot be sealed")]
    Seal,
}

// === impl Keyring ===

impl Keyring {
    /// Reads a keyring from the text of a key file. It covers nothing yet.
    ///
    /// # Errors
    /// [`KeyringError::Line`] for the first line that makes no sense, [`KeyringError::Empty`] where there is no key.
    pub fn parse(text: &str) -> Result<Self, KeyringError> {
        let mut keys: Vec<NamedKey> = Vec::new();
        for (line, text) in (1_usize..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let refuse = |reason| KeyringError::Line { line, reason };
            let key = NamedKey::parse(text).map_err(refuse)?;
            if keys.iter().any(|known| known.name == key.name) {
                return Err(refuse("another key has this name"));
            }
            if keys.iter().any(|known| known.id == key.id) {
                return Err(refuse("this key is there already, under another name"));
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(KeyringError::Empty);
        }
        Ok(Self {
            keys,
            prefixes: Vec::new(),
            random: SystemRandom::new(),
        })
    }

    /// Reads a keyring from a key file that only its owner, and those its group has, may read.
    ///
    /// # Errors
    /// As [`Keyring::parse`]; [`KeyringError::File`] and [`KeyringError::Mode`] for the file itself.
    pub fn read(path: &Path) -> Result<Self, KeyringError> {
        let failed = |source| KeyringError::File {
            path: path.to_owned(),
            source,
        };
        let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
        if mode & MODE_REFUSED != 0 {
            return Err(KeyringError::Mode {
                path: path.to_owned(),
                mode,
            });
        }
        let text = Zeroizing::new(fs::read_to_string(path).map_err(failed)?);
        Self::parse(&text)
    }

    /// The same keyring, for records whose key begins with `prefix` too.
    #[must_use]
    pub fn covering(mut self, prefix: impl Into<Vec<u8>>) -> Self {
        self.prefixes.push(prefix.into());
        self
    }

    /// Whether the value of this key of the store is to be sealed.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }

    /// The key that seals.
    pub(crate) fn sealing_key(&self) -> KeyId {
        // `parse` makes no keyring without keys.
        self.keys.first().map_or(KeyId(0), |key| key.id)
    }

    /// All keys with their names, the sealing one first.
    pub fn keys(&self) -> impl Iterator<Item = (KeyId, &str)> {
        self.keys.iter().map(|key| (key.id, key.name.as_str()))
    }

    /// Seals a value. `aad` is what names its record, and is needed again to open it.
    ///
    /// # Errors
    /// [`KeyringError::Seal`].
    pub fn seal(&self, aad: &[u8], plain: &[u8]) -> Result<Vec<u8>, KeyringError> {
        let key = self.keys.first().ok_or(KeyringError::Seal)?;
        let mut nonce = [0_u8; NONCE_LEN];
        self.random
            .fill(&mut nonce)
            .map_err(|_unspecified| KeyringError::Seal)?;
        let mut sealed = Vec::with_capacity(plain.len().saturating_add(OVERHEAD_BYTES));
        sealed.extend_from_slice(&key.id.0.to_le_bytes());
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        let body = sealed
            .get_mut(ID_BYTES.saturating_add(NONCE_LEN)..)
            .ok_or(KeyringError::Seal)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(aad), body)
            .map_err(|_unspecified| KeyringError::Seal)?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed)
    }

    /// Opens a sealed value.
    ///
    /// # Errors
    /// [`KeyringError::UnknownKey`], [`KeyringError::Truncated`], and [`KeyringError::Altered`] for anything but what
    /// was sealed with this `aad`.
    pub fn open(&self, aad: &[u8], sealed: &[u8]) -> Result<Vec<u8>, KeyringError> {
        let id = KeyId::of_sealed(sealed).ok_or(KeyringError::Truncated)?;
        let rest = sealed.get(ID_BYTES..).ok_or(KeyringError::Truncated)?;
        let (nonce, body) = rest
            .split_first_chunk::<NONCE_LEN>()
            .ok_or(KeyringError::Truncated)?;
        let key = self.keys.iter().find(|key| key.id == id);
        let key = key.ok_or(KeyringError::UnknownKey { id })?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let mut body = body.to_vec();
        let plain = key
            .key
            .open_in_place(nonce, Aad::from(aad), &mut body)
            .map_err(|_unspecified| KeyringError::Altered { id })?
            .len();
        body.truncate(plain);
        Ok(body)
    }
}

impl fmt::Debug for Keyring {
    /// Shows which keys there are, not what they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("keys", &self.keys().collect::<Vec<_>>())
            .field("prefix_count", &self.prefixes.len())
            .finish_non_exhaustive()
    }
}

// === impl NamedKey ===

impl NamedKey {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (name, encoded) = text.split_once(':').ok_or("want `name:key`")?;
        let is_allowed =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_allowed) {
            return Err("a name has 1 to 64 letters, digits, dots, dashes and underscores");
        }
        let decoded = STANDARD.decode(encoded.trim());
        let bytes = Zeroizing::new(decoded.map_err(|_source| "the key is not base64")?);
        if bytes.len() != KEY_BYTES {
            return Err("a key has 32 bytes, 44 characters of base64");
        }
        if bytes.iter().all(|byte| *byte == 0) {
            return Err("a key of zeros is no key");
        }
        let unbound = UnboundKey::new(&AES_256_GCM, &bytes)
            .map_err(|_unspecified| "the cipher refuses the key")?;
        Ok(Self {
            name: name.to_owned(),
            id: KeyId::of_key(&bytes),
            key: LessSafeKey::new(unbound),
        })
    }
}

// === impl KeyId ===

impl KeyId {
    /// The key that sealed a value; `None` for what is too short to be one.
    pub(crate) fn of_sealed(sealed: &[u8]) -> Option<Self> {
        if sealed.len() < OVERHEAD_BYTES {
            return None;
        }
        sealed
            .first_chunk::<ID_BYTES>()
            .map(|id| Self(u32::from_le_bytes(*id)))
    }

    fn of_key(key: &[u8]) -> Self {
        let mut text = Zeroizing::new(b"wheelhouse keyring id\n".to_vec());
        text.extend_from_slice(key);
        let hash = digest(&SHA256, &text);
        let id = hash.as_ref().first_chunk::<ID_BYTES>();
        Self(u32::from_le_bytes(id.copied().unwrap_or_default()))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
