//! Tokens of ServiceAccounts that another cluster, a spoke or the host, has signed.
//!
//! Invariant: whatever is wrong with a token is no error but no token.
//!
//! Source: `kubernetes/pkg/serviceaccount/jwt.go`, `.../legacy.go`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use api::validation::{is_dns_label, is_dns_subdomain};
use jiff::Timestamp;
use serde_json::Value;

use super::jws::Jws;
pub(crate) use super::jws::Keys;
use crate::request::SERVICE_ACCOUNT_PREFIX;

/// How far the clocks of a cluster and the hub may be apart.
const SKEW_SECONDS: i64 = 10;

/// A token of a ServiceAccount, as it says itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    jws: Jws<'a>,
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

// === impl Token ===

impl<'a> Token<'a> {
    /// Reads a token; `None` for anything but a JSON Web Token that names a ServiceAccount.
    pub(crate) fn parse(token: &'a str) -> Option<Self> {
        let jws = Jws::parse(token)?;
        let claims = &jws.claims;
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
        let audiences = jws.audiences()?;
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
        let (not_before, expires_at) = (seconds("nbf", 0)?, seconds("exp", i64::MAX)?);
        Some(Self {
            jws,
            account,
            audiences,
            ends_with,
            not_before,
            expires_at,
        })
    }

    /// Whether one of these keys has signed it.
    pub(crate) fn is_signed_by(&self, keys: &Keys) -> bool {
        keys.have_signed(&self.jws)
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

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
    use serde_json::json;

    use super::{super::jws::tests::Signer, *};

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
        assert!(token.is_signed_by(&signer.keys("a")), "its own key");
        assert!(!token.is_signed_by(&other.keys("a")), "another's key");
        let (head, signature) = text.rsplit_once('.').unwrap();
        let (header, _) = head.split_once('.').unwrap();
        let mut forged = claims();
        forged["sub"] = json!("system:serviceaccount:kube-system:admin");
        let forged = format!("{header}.{}.{signature}", BASE64.encode(forged.to_string()));
        let forged = Token::parse(&forged).unwrap();
        assert!(!forged.is_signed_by(&signer.keys("a")), "another's name");
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
    }
}
