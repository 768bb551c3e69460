//! The keys that another cluster, a spoke or the host, signs tokens of ServiceAccounts with, and what a signed token says.
//!
//! Invariant: whatever is wrong with a token or a key is no error but no token, no key. Both come from people and clusters that may want harm.
//!
//! Source: RFC 7515 (JWS), RFC 7517 (JWK), RFC 7518 sections 3.3 and 3.4; `kubernetes/pkg/serviceaccount/jwt.go`, `.../legacy.go`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use api::validation::{is_dns_label, is_dns_subdomain};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jiff::Timestamp;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

use crate::request::SERVICE_ACCOUNT_PREFIX;

/// Longer tokens are not looked at.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Keys of one cluster; it has one, and a few more while it changes them.
const KEY_COUNT_MAX: usize = 16;
/// Bytes of each coordinate of a point on P-256.
const COORDINATE_BYTES: usize = 32;
/// How far the clocks of a cluster and the hub may be apart.
const SKEW_SECONDS: i64 = 10;

/// A token of a ServiceAccount, as it says itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    signed: &'a [u8],
    signature: Vec<u8>,
    algorithm: Algorithm,
    key_id: Option<String>,
    /// Whose it is.
    pub(crate) account: Account,
    /// For whom it is. Empty for a token that lies in a Secret, which is for the API server.
    pub(crate) audiences: Vec<String>,
    /// The objects that it ends with, the ServiceAccount first.
    pub(crate) ends_with: Vec<Object>,
    not_before: i64,
    expires_at: i64,
}

/// An object of the core group with which a token ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) resource: &'static str,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// A ServiceAccount, as its cluster's tokens name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    pub(crate) issuer: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// The public keys of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Keys(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    public: Public,
}

#[derive(Debug)]
enum Public {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Algorithm {
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "ES256")]
    Es256,
}

#[derive(Deserialize)]
struct Header {
    alg: Algorithm,
    kid: Option<String>,
}

// === impl Token ===

impl<'a> Token<'a> {
    /// Reads a token; `None` for anything but a JSON Web Token that names a ServiceAccount.
    pub(crate) fn parse(token: &'a str) -> Option<Self> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let header: Header = serde_json::from_slice(&BASE64.decode(header).ok()?).ok()?;
        let claims: Value = serde_json::from_slice(&BASE64.decode(payload).ok()?).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let subject = claims.get("sub")?.as_str()?;
        let (namespace, name) = subject
            .strip_prefix(SERVICE_ACCOUNT_PREFIX)?
            .split_once(':')?;
        if !is_dns_label(namespace).is_empty() || !is_dns_subdomain(name).is_empty() {
            return None;
        }
        let uid = claims.pointer("/kubernetes.io/serviceaccount/uid");
        let uid = uid.or_else(|| claims.get("kubernetes.io/serviceaccount/service-account.uid"));
        let audiences = match claims.get("aud") {
            None => Vec::new(),
            Some(Value::String(one)) => vec![one.clone()],
            Some(several) => several.as_array()?.iter().filter_map(text).collect(),
        };
        let account = Account {
            issuer: text(claims.get("iss")?)?,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.and_then(text)?,
        };
        let mut ends_with = vec![Object {
            resource: "serviceaccounts",
            namespace: Some(account.namespace.clone()),
            name: account.name.clone(),
            uid: account.uid.clone(),
        }];
        for (kind, resource) in [("pod", "pods"), ("secret", "secrets"), ("node", "nodes")] {
            let Some(bound) = claims.get("kubernetes.io").and_then(|it| it.get(kind)) else {
                continue;
            };
            let name = text(bound.get("name")?)?;
            if !is_dns_subdomain(&name).is_empty() {
                return None;
            }
            ends_with.push(Object {
                resource,
                namespace: (kind != "node").then(|| account.namespace.clone()),
                name,
                uid: text(bound.get("uid")?)?,
            });
        }
        let seconds = |claim: &str, absent: i64| match claims.get(claim) {
            None => Some(absent),
            Some(seconds) => seconds.as_i64(),
        };
        Some(Self {
            signed: signed.as_bytes(),
            signature: BASE64.decode(signature).ok()?,
            algorithm: header.alg,
            key_id: header.kid,
            account,
            audiences,
            ends_with,
            not_before: seconds("nbf", 0)?,
            expires_at: seconds("exp", i64::MAX)?,
        })
    }

    /// The name of the user that the token is of.
    pub(crate) fn username(&self) -> String {
        let Account {
            namespace, name, ..
        } = &self.account;
        format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
    }

    /// Whether it has begun and not ended.
    pub(crate) fn is_in_time(&self, now: Timestamp) -> bool {
        let now = now.as_second();
        now.saturating_add(SKEW_SECONDS) >= self.not_before && now < self.expires_at
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

    /// Whether one of them has signed a token.
    pub(crate) fn have_signed(&self, token: &Token<'_>) -> bool {
        self.0.iter().any(|key| key.has_signed(token))
    }
}

// === impl Key ===

impl Key {
    fn parse(value: &Value) -> Option<Self> {
        let number = |name: &str| BASE64.decode(value.get(name)?.as_str()?).ok();
        let public = match value.get("kty")?.as_str()? {
            "RSA" => Public::Rsa {
                modulus: number("n")?,
                exponent: number("e")?,
            },
            "EC" if value.get("crv")?.as_str()? == "P-256" => {
                let (x, y) = (number("x")?, number("y")?);
                if x.len() != COORDINATE_BYTES || y.len() != COORDINATE_BYTES {
                    return None;
                }
                // A point that is not compressed. Source: SEC 1 section 2.3.3.
                Public::P256([vec![4], x, y].concat())
            }
            _ => return None,
        };
        let id = value.get("kid").and_then(Value::as_str).map(str::to_owned);
        Some(Self { id, public })
    }

    fn has_signed(&self, token: &Token<'_>) -> bool {
        if token.key_id.is_some() && self.id != token.key_id {
            return false;
        }
        let (signed, signature) = (token.signed, &token.signature);
        match (&self.public, token.algorithm) {
            (Public::Rsa { modulus, exponent }, Algorithm::Rs256) => {
                let key = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
                    .is_ok()
            }
            (Public::P256(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                    .verify(signed, signature)
                    .is_ok()
            }
            (Public::Rsa { .. } | Public::P256(_), _) => false,
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test may panic"
)]
mod tests {
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
    };
    use serde_json::json;

    use super::*;

    struct Signer(EcdsaKeyPair);

    impl Signer {
        fn new() -> Self {
            let random = SystemRandom::new();
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            Self(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
        }

        fn keys(&self, id: &str) -> Keys {
            let point = self.0.public_key().as_ref();
            let number = |from: usize| BASE64.encode(&point[from..from + 32]);
            let (x, y) = (number(1), number(33));
            let key = json!({"kty": "EC", "crv": "P-256", "kid": id, "x": x, "y": y});
            Keys::parse(
                json!({"keys": [{"kty": "oct"}, key]})
                    .to_string()
                    .as_bytes(),
            )
        }

        fn sign(&self, header: &Value, claims: &Value) -> String {
            let encoded = |value: &Value| BASE64.encode(value.to_string());
            let signed = format!("{}.{}", encoded(header), encoded(claims));
            let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes());
            let signature = BASE64.encode(signature.unwrap().as_ref());
            format!("{signed}.{signature}")
        }
    }

    fn claims() -> Value {
        json!({"iss": "https://spoke", "sub": "system:serviceaccount:ns:bot", "aud": ["https://spoke"], "nbf": 100, "exp": 200,
            "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "bot", "uid": "u1"}}})
    }

    #[test]
    fn a_token_is_its_signers_alone_and_has_its_time() {
        let (signer, other) = (Signer::new(), Signer::new());
        let header = json!({"alg": "ES256", "kid": "a"});
        let text = signer.sign(&header, &claims());
        let token = Token::parse(&text).unwrap();
        assert_eq!(token.username(), "system:serviceaccount:ns:bot");
        assert_eq!(token.account.uid, "u1");
        assert!(signer.keys("a").have_signed(&token), "its own key");
        for (name, keys) in [
            ("another key of the same name", other.keys("a")),
            ("the key under another name", signer.keys("b")),
            ("no key", Keys::default()),
            ("no key set", Keys::parse(b"{{{")),
        ] {
            assert!(!keys.have_signed(&token), "{name}");
        }
        let (head, signature) = text.rsplit_once('.').unwrap();
        let (header, _) = head.split_once('.').unwrap();
        let mut forged = claims();
        forged["sub"] = json!("system:serviceaccount:kube-system:admin");
        let forged = format!("{header}.{}.{signature}", BASE64.encode(forged.to_string()));
        assert!(
            !signer
                .keys("a")
                .have_signed(&Token::parse(&forged).unwrap())
        );
        for (second, want) in [(89, false), (90, true), (199, true), (200, false)] {
            let now = Timestamp::from_second(second).unwrap();
            assert_eq!(token.is_in_time(now), want, "{second}");
        }
    }

    #[test]
    fn what_names_no_service_account_is_no_token() {
        let signer = Signer::new();
        let header = json!({"alg": "ES256"});
        for (name, pointer, value) in [
            ("an administrator", "/sub", json!("admin")),
            ("a system user", "/sub", json!("system:masters")),
            ("no namespace", "/sub", json!("system:serviceaccount::bot")),
            ("no name", "/sub", json!("system:serviceaccount:ns:")),
            ("a path", "/sub", json!("system:serviceaccount:../ns:bot")),
            (
                "three parts",
                "/sub",
                json!("system:serviceaccount:ns:bot:x"),
            ),
            ("capitals", "/sub", json!("system:serviceaccount:ns:Bot")),
            ("no issuer", "/iss", json!(1)),
            ("no time", "/exp", json!("tomorrow")),
            ("no uid", "/kubernetes.io/serviceaccount/uid", json!(null)),
            ("a pod of no name", "/kubernetes.io/namespace", json!("ns")),
        ] {
            let mut changed = claims();
            *changed.pointer_mut(pointer).unwrap() = value;
            if name == "a pod of no name" {
                changed["kubernetes.io"]["pod"] = json!({"name": "../pod", "uid": "u2"});
            }
            let token = signer.sign(&header, &changed);
            assert_eq!(Token::parse(&token), None, "{name}");
        }
        for algorithm in ["none", "HS256", "RS512", ""] {
            let token = signer.sign(&json!({"alg": algorithm}), &claims());
            assert_eq!(Token::parse(&token), None, "{algorithm}");
        }
        for text in ["", ".", "..", "a.b.c", "a.b", "é.é.é", "e30.e30.e30"] {
            assert_eq!(Token::parse(text), None, "{text}");
        }
    }
}
