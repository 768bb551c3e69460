//! JSON Web Tokens that others have signed: what stands in one, and the keys that check its signature.
//!
//! Invariant: whatever is wrong with a token or a key is no error but no token, no key. Both come from people and clusters that may want harm.
//! Invariant: only public keys check a signature, and each only by algorithms of its own type, so that no public key is ever taken for a secret.
//!
//! Source: RFC 7515 (JWS), RFC 7517 (JWK), RFC 7518 sections 3.3 to 3.5 and 6.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, EcdsaVerificationAlgorithm,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

/// Longer tokens are not looked at.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Keys of one signer; it has one, and a few more while it changes them.
const KEY_COUNT_MAX: usize = 16;

/// A token: its claims, which are nobody's word before the signature is checked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Jws<'a> {
    signed: &'a [u8],
    signature: Vec<u8>,
    algorithm: Algorithm,
    key_id: Option<String>,
    /// What stands in it.
    pub(crate) claims: Value,
}

/// How a token is signed. `none` and those with a shared secret are no such way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
}

/// The public keys of a signer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys(Vec<Key>);

#[derive(Debug, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    /// The one way in which it is used, where it says so.
    algorithm: Option<Algorithm>,
    public: Public,
}

#[derive(Debug, PartialEq, Eq)]
enum Public {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point that is not compressed.
    P256(Vec<u8>),
    P384(Vec<u8>),
}

#[derive(Deserialize)]
struct Header {
    alg: Algorithm,
    kid: Option<String>,
    /// Extensions that must be understood, of which none is.
    crit: Option<Value>,
}

/// How a key of some type checks a signature.
enum Check {
    Rsa(&'static RsaParameters),
    Ecdsa(&'static EcdsaVerificationAlgorithm),
}

// === impl Jws ===

impl<'a> Jws<'a> {
    /// Reads a token in compact form; `None` for anything else.
    pub(crate) fn parse(token: &'a str) -> Option<Self> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let header: Header = serde_json::from_slice(&BASE64.decode(header).ok()?).ok()?;
        let claims: Value = serde_json::from_slice(&BASE64.decode(payload).ok()?).ok()?;
        if header.crit.is_some() || !claims.is_object() {
            return None;
        }
        Some(Self {
            signed: signed.as_bytes(),
            signature: BASE64.decode(signature).ok()?,
            algorithm: header.alg,
            key_id: header.kid,
            claims,
        })
    }

    /// What stands in a token, however it is signed: enough to know who must not be shown it.
    pub(crate) fn claims_of(token: &str) -> Option<Value> {
        let payload = token.split('.').nth(1)?;
        let payload = payload.trim_end_matches('=');
        serde_json::from_slice(&BASE64.decode(payload).ok()?).ok()
    }

    /// How it says that it is signed.
    pub(crate) const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// For whom it is; empty where it does not say so, `None` where that makes no sense.
    pub(crate) fn audiences(&self) -> Option<Vec<String>> {
        match self.claims.get("aud") {
            None => Some(Vec::new()),
            Some(Value::String(one)) => Some(vec![one.clone()]),
            Some(several) => {
                let several = several.as_array()?.iter();
                several.map(|it| it.as_str().map(str::to_owned)).collect()
            }
        }
    }
}

// === impl Algorithm ===

impl Algorithm {
    /// Finds an algorithm by its name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        serde_json::from_value(Value::from(name)).ok()
    }

    const fn check(self) -> Check {
        match self {
            Self::Rs256 => Check::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Check::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Check::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Check::Rsa(&RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => Check::Rsa(&RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => Check::Rsa(&RSA_PSS_2048_8192_SHA512),
            Self::Es256 => Check::Ecdsa(&ECDSA_P256_SHA256_FIXED),
            Self::Es384 => Check::Ecdsa(&ECDSA_P384_SHA384_FIXED),
        }
    }
}

// === impl Keys ===

impl Keys {
    /// Reads a JSON Web Key Set; keys that cannot be used are left out.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let set: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let keys = set.get("keys").and_then(Value::as_array);
        let keys = keys.into_iter().flatten();
        Self(keys.filter_map(Key::parse).take(KEY_COUNT_MAX).collect())
    }

    /// Whether there is none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them has signed a token.
    pub(crate) fn have_signed(&self, token: &Jws<'_>) -> bool {
        self.0.iter().any(|key| key.has_signed(token))
    }
}

// === impl Key ===

impl Key {
    fn parse(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let number = |name: &str| BASE64.decode(text(name)?).ok();
        if text("use").is_some_and(|it| it != "sig") {
            return None;
        }
        // Source: SEC 1 section 2.3.3.
        let point = |bytes: usize| {
            let (x, y) = (number("x")?, number("y")?);
            let is_point = x.len() == bytes && y.len() == bytes;
            is_point.then(|| [vec![4], x, y].concat())
        };
        let public = match (text("kty")?, text("crv")) {
            ("RSA", _) => Public::Rsa {
                modulus: number("n")?,
                exponent: number("e")?,
            },
            ("EC", Some("P-256")) => Public::P256(point(32)?),
            ("EC", Some("P-384")) => Public::P384(point(48)?),
            _ => return None,
        };
        let algorithm = match text("alg") {
            None => None,
            Some(name) => Some(Algorithm::parse(name)?),
        };
        Some(Self {
            id: text("kid").map(str::to_owned),
            algorithm,
            public,
        })
    }

    fn has_signed(&self, token: &Jws<'_>) -> bool {
        if token.key_id.is_some() && self.id != token.key_id {
            return false;
        }
        if self.algorithm.is_some_and(|own| own != token.algorithm) {
            return false;
        }
        let (signed, signature) = (token.signed, &token.signature);
        let verified = match (&self.public, token.algorithm, token.algorithm.check()) {
            (Public::Rsa { modulus, exponent }, _, Check::Rsa(parameters)) => {
                let key = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                key.verify(parameters, signed, signature)
            }
            (Public::P256(point), Algorithm::Es256, Check::Ecdsa(algorithm))
            | (Public::P384(point), Algorithm::Es384, Check::Ecdsa(algorithm)) => {
                UnparsedPublicKey::new(algorithm, point).verify(signed, signature)
            }
            _ => return false,
        };
        verified.is_ok()
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
pub(crate) mod tests {
    use ring::{
        rand::SystemRandom,
        signature::{
            ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
            EcdsaSigningAlgorithm, KeyPair as _,
        },
    };
    use serde_json::json;

    use super::*;

    /// Signs tokens as an issuer does.
    pub(crate) struct Signer {
        key: EcdsaKeyPair,
        number_bytes: usize,
    }

    impl Signer {
        pub(crate) fn new() -> Self {
            Self::of(&ECDSA_P256_SHA256_FIXED_SIGNING, 32)
        }

        fn of(algorithm: &'static EcdsaSigningAlgorithm, number_bytes: usize) -> Self {
            let random = SystemRandom::new();
            let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            let key = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap();
            Self { key, number_bytes }
        }

        pub(crate) fn key(&self, id: &str) -> Value {
            let point = self.key.public_key().as_ref();
            let (x, y) = point[1..].split_at(self.number_bytes);
            let curve = if self.number_bytes == 32 {
                "P-256"
            } else {
                "P-384"
            };
            json!({"kty": "EC", "crv": curve, "kid": id, "x": BASE64.encode(x), "y": BASE64.encode(y)})
        }

        pub(crate) fn keys(&self, id: &str) -> Keys {
            let set = json!({"keys": [{"kty": "oct"}, self.key(id)]});
            Keys::parse(set.to_string().as_bytes())
        }

        pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
            let encoded = |value: &Value| BASE64.encode(value.to_string());
            let signed = format!("{}.{}", encoded(header), encoded(claims));
            let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes());
            let signature = BASE64.encode(signature.unwrap().as_ref());
            format!("{signed}.{signature}")
        }
    }

    #[test]
    fn a_signature_is_its_signers_alone() {
        let (signer, other) = (Signer::new(), Signer::new());
        let large = Signer::of(&ECDSA_P384_SHA384_FIXED_SIGNING, 48);
        let header = json!({"alg": "ES256", "kid": "a"});
        let text = signer.sign(&header, &json!({"sub": "bob"}));
        let token = Jws::parse(&text).unwrap();
        assert!(signer.keys("a").have_signed(&token), "its own key");
        let with = |name: &str, value: &str| {
            let mut key = signer.key("a");
            key[name] = json!(value);
            Keys::parse(json!({"keys": [key]}).to_string().as_bytes())
        };
        assert!(with("use", "sig").have_signed(&token), "for signatures");
        assert!(with("alg", "ES256").have_signed(&token), "of its algorithm");
        for (name, keys) in [
            ("another key of the same name", other.keys("a")),
            ("the key under another name", signer.keys("b")),
            ("for encryption", with("use", "enc")),
            ("of another algorithm", with("alg", "ES384")),
            ("of an unknown algorithm", with("alg", "HS256")),
            ("of another curve", with("crv", "P-384")),
            ("of another type", with("kty", "oct")),
            ("no key", Keys::default()),
            ("no key set", Keys::parse(b"{{{")),
        ] {
            assert!(!keys.have_signed(&token), "{name}");
        }
        let text = large.sign(&json!({"alg": "ES384"}), &json!({}));
        assert!(large.keys("a").have_signed(&Jws::parse(&text).unwrap()));
        let text = large.sign(&json!({"alg": "ES256"}), &json!({}));
        assert!(!large.keys("a").have_signed(&Jws::parse(&text).unwrap()));
    }

    #[test]
    fn what_is_not_signed_with_a_private_key_is_no_token() {
        let signer = Signer::new();
        for algorithm in [
            "none", "None", "HS256", "hs256", "es256", "ES512", "EdDSA", "",
        ] {
            let token = signer.sign(&json!({"alg": algorithm}), &json!({}));
            assert_eq!(Jws::parse(&token), None, "{algorithm}");
        }
        let critical = signer.sign(&json!({"alg": "ES256", "crit": ["b64"]}), &json!({}));
        assert_eq!(Jws::parse(&critical), None, "what must be understood");
        let list = signer.sign(&json!({"alg": "ES256"}), &json!([]));
        assert_eq!(Jws::parse(&list), None, "no claims");
        for text in ["", ".", "..", "a.b.c", "a.b", "é.é.é", "e30.e30.e30"] {
            assert_eq!(Jws::parse(text), None, "{text}");
        }
    }

    #[test]
    fn audiences_are_texts() {
        for (claims, want) in [
            (json!({}), Some(vec![])),
            (json!({"aud": "a"}), Some(vec!["a"])),
            (json!({"aud": ["a", "b"]}), Some(vec!["a", "b"])),
            (json!({"aud": ["a", 1]}), None),
            (json!({"aud": {"a": 1}}), None),
        ] {
            let token = Signer::new().sign(&json!({"alg": "ES256"}), &claims);
            let audiences = Jws::parse(&token).unwrap().audiences();
            let want = want.map(|it| it.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(audiences, want, "{claims}");
        }
    }

    /// The modulus of a key on which nothing depends, and tokens signed with it by another implementation (OpenSSL).
    const MODULUS: &str = "yZbXLKQMPXB-S0n_AJqcLZ3Vr-ZtxC7tnlonVX3lbEMBBMzDU6AsYrGAqCzrxKuzcyUYCcR59eL9-H_WChoFtDCM6Ynb8gSJgMP1R7zy2EDkA6Cw94Z8NZ7hDliZE-X-hSeYMt5SoX64EXsE6zZw5nKXBrQ4mKddG-t-Bs56EBoEbSn4C8sHgziRRiG0dys4IcAq7qRVIWmmorhRHs9Yx-ZrXjbgYh9OXK-ZzI0kNROzAghP23RYnhuaAbuDoK34ebBLToJcxOkvbyx4_IIxE2exweV4wAAHezYapFb64y0E8ixgut-8vHzFmlbL7dGAsFtUiJ8DM_N-g_iY3Ck-kw";
    const OF_RSA: [&str; 2] = [
        "eyJhbGciOiJSUzI1NiIsImtpZCI6InIifQ.eyJzdWIiOiJib2IifQ.o2uAcIn_mnwdEJwkxcA8GQF1-Zdyk9wp_n_j4z0vTG4K9Ow4NDBQPqTpI7zoD6ZRjioDjwir0lnDDl0nWyJKyNn0hqEMVpxRXIlUEHyfMjzdOPJY_livpi0fY1r_43nioVdE-MmLjl0liStiBpKK_6xgxrOOZF5lC6j3ZjEch_n8RcUKTIaG_kWTh8p1qa5ylmSyg-mYBz-ZShKoaYiazw3k3Euwd1KbCIbZyXWXl5r0JKD1slYTIPvdbmm4Fz_5eX5lCdRXECBN62Zuz3u5bke9W8UwoG3ymxzZw4ZOmN9qYpymy6CyvxkJ0uy2QlQ5k0A_72L2x0tHlQ2DWOBdeQ",
        "eyJhbGciOiJQUzM4NCIsImtpZCI6InIifQ.eyJzdWIiOiJib2IifQ.Jy4muprIxJlTCEij0QcjnrtJ5ErLkZlXNeJkw7sKdpB_GABAj1HxPm2zqtTwUzYDn2A77OKBJuOKg3EgA3iugGskwPocC0KhfOUBdvGC7u7-qtAHifimQCJLhySoz38sCgJ-ekHiU1bVNrw1gvAC2xqBwiSRnWamJPcZCs5vhjH3FHkVOQVY0etU4cIsraxSoaaRSDxoj9lpMEgzgdBHMi1VOdGUyCaxBnFjXoXuzhj4LimIYoyS1UgWQmb5zL3WTwnxSpvZlRlIFF8wbZaDIAphInt55aveV9CQoJad7U8HYHk4JWpIDeCnS1W9EGfQEwkhTPOAO4spUd1TBo49AA",
    ];

    #[test]
    fn signatures_of_rsa_are_those_of_others_too() {
        let key = |changes: Value| {
            let mut key = json!({"kty": "RSA", "kid": "r", "n": MODULUS, "e": "AQAB"});
            for (field, value) in changes.as_object().into_iter().flatten() {
                key[field] = value.clone();
            }
            Keys::parse(json!({"keys": [key]}).to_string().as_bytes())
        };
        for text in OF_RSA {
            let token = Jws::parse(text).unwrap();
            assert!(key(json!({})).have_signed(&token), "{text}");
            for changes in [
                json!({"kid": "s"}),
                json!({"alg": "RS512"}),
                json!({"use": "enc"}),
                json!({"e": "Aw"}),
                json!({"n": "AQAB"}),
            ] {
                assert!(!key(changes.clone()).have_signed(&token), "{changes}");
            }
            let (head, signature) = text.rsplit_once('.').unwrap();
            let other = head.replace("eyJzdWIiOiJib2IifQ", "eyJzdWIiOiJldmUifQ");
            assert_ne!(head, other, "another name");
            let forged = format!("{other}.{signature}");
            assert!(!key(json!({})).have_signed(&Jws::parse(&forged).unwrap()));
        }
        // The public key is no secret that a token could be signed with.
        let (ours, theirs) = (OF_RSA[0], Signer::new().keys("r"));
        assert!(!theirs.have_signed(&Jws::parse(ours).unwrap()));
    }
}
