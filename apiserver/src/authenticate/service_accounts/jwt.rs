//! JSON Web Tokens signed with ECDSA on P-256 (`ES256`).
//!
//! Source: RFC 7515, RFC 7518 section 3.4: the signature is `r` and `s`, 32 bytes each, where X.509 has them as DER.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use rcgen::{KeyPair, SigningKey};
use rustls::crypto::ring;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::tls::Error;

/// Bytes of each of the two numbers of a signature, and of each coordinate of the key.
const NUMBER_BYTES: usize = 32;
/// How tokens are signed.
pub(super) const ALGORITHM: &str = "ES256";
/// No token of ours is longer; longer ones are not looked at.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Signs tokens and checks them.
pub(super) struct Signer {
    key: KeyPair,
    key_id: String,
    header: String,
}

// === impl Signer ===

impl Signer {
    /// Makes a signer of a private key on P-256, as PEM.
    pub(super) fn new(key_pem: &str) -> Result<Self, Error> {
        let key = KeyPair::from_pem(key_pem).map_err(|error| failed("use", error))?;
        let key_id = BASE64.encode(Sha256::digest(key.public_key_raw()));
        let header = json!({ "alg": ALGORITHM, "kid": key_id, "typ": "JWT" });
        Ok(Self {
            header: BASE64.encode(header.to_string()),
            key_id,
            key,
        })
    }

    /// The key that checks signatures, as a JSON Web Key Set.
    ///
    /// Source: RFC 7517 section 5, RFC 7518 section 6.2.
    pub(super) fn key_set(&self) -> Value {
        // An uncompressed point: 4, and two coordinates.
        let (_, coordinates) = self
            .key
            .public_key_raw()
            .split_at_checked(1)
            .unwrap_or_default();
        let (x, y) = coordinates
            .split_at_checked(NUMBER_BYTES)
            .unwrap_or_default();
        json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": ALGORITHM,
            "x": BASE64.encode(x), "y": BASE64.encode(y),
        }]})
    }

    /// Signs a payload.
    pub(super) fn sign(&self, payload: &Value) -> Result<String, Error> {
        let mut token = format!("{}.{}", self.header, BASE64.encode(payload.to_string()));
        let der = self
            .key
            .sign(token.as_bytes())
            .map_err(|error| failed("sign with", error))?;
        let signature = numbers_of(&der).ok_or_else(|| {
            failed(
                "sign with",
                std::io::Error::other("the signature is no ECDSA signature"),
            )
        })?;
        token.push('.');
        token.push_str(&BASE64.encode(signature));
        Ok(token)
    }

    /// The payload of a token whose signature is good.
    pub(super) fn check(&self, token: &str) -> Option<Value> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        // Ours to the letter: no other algorithm or key is ever looked at.
        if header != self.header {
            return None;
        }
        let der = der_of(&BASE64.decode(signature).ok()?)?;
        let algorithm = ring::default_provider().signature_verification_algorithms;
        let verified = algorithm.mapping.iter().any(|(scheme, candidates)| {
            *scheme == rustls::SignatureScheme::ECDSA_NISTP256_SHA256
                && candidates.first().is_some_and(|candidate| {
                    candidate
                        .verify_signature(self.key.public_key_raw(), signed.as_bytes(), &der)
                        .is_ok()
                })
        });
        if !verified {
            return None;
        }
        serde_json::from_slice(&BASE64.decode(payload).ok()?).ok()
    }
}

/// `SEQUENCE { INTEGER r, INTEGER s }` as the two numbers.
fn numbers_of(der: &[u8]) -> Option<[u8; 2 * NUMBER_BYTES]> {
    let (content, rest) = element(der, 0x30)?;
    let (r, content) = element(content, 0x02)?;
    let (s, content) = element(content, 0x02)?;
    if !rest.is_empty() || !content.is_empty() {
        return None;
    }
    let mut numbers = [0; 2 * NUMBER_BYTES];
    let (left, right) = numbers.split_at_mut_checked(NUMBER_BYTES)?;
    for (place, number) in [(left, r), (right, s)] {
        let number = match number {
            [0, rest @ ..] => rest,
            all => all,
        };
        let start = NUMBER_BYTES.checked_sub(number.len())?;
        place.get_mut(start..)?.copy_from_slice(number);
    }
    Some(numbers)
}

/// The content of a DER element of less than 128 bytes, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let [found, length, rest @ ..] = der else {
        return None;
    };
    if *found != tag || *length >= 0x80 {
        return None;
    }
    rest.split_at_checked(usize::from(*length))
}

/// The two numbers as `SEQUENCE { INTEGER r, INTEGER s }`.
fn der_of(numbers: &[u8]) -> Option<Vec<u8>> {
    if numbers.len() != NUMBER_BYTES.checked_mul(2)? {
        return None;
    }
    let mut content = Vec::new();
    for number in numbers.chunks(NUMBER_BYTES) {
        let significant = number
            .iter()
            .position(|byte| *byte != 0)
            .unwrap_or(NUMBER_BYTES);
        let mut digits = number.get(significant..)?.to_vec();
        if digits.first().is_none_or(|first| *first >= 0x80) {
            digits.insert(0, 0);
        }
        content.extend([0x02, u8::try_from(digits.len()).ok()?]);
        content.extend(digits);
    }
    let mut der = vec![0x30, u8::try_from(content.len()).ok()?];
    der.extend(content);
    Some(der)
}

fn failed(action: &'static str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Certificate {
        action,
        what: "key of the service account tokens",
        source: source.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_convert_both_ways() {
        let mut small = [0; 64];
        small[31] = 1;
        small[63] = 0x80;
        let mut large = [0xff; 64];
        large[32] = 0;
        for numbers in [small, large, [0x7f; 64]] {
            assert_eq!(numbers_of(&der_of(&numbers).unwrap()), Some(numbers));
        }
        for broken in [&[][..], &[0x30], &[0x30, 3, 2, 1, 1], &[0x30, 0x80, 1]] {
            assert_eq!(numbers_of(broken), None, "{broken:?}");
        }
    }
}
