//! What a pass says: a token that the hub signs for somebody who is known by another credential.

use std::sync::Arc;

use api::LogicalCluster;
use serde_json::{Value, json};

use super::{
    UserInfo,
    claims::{CREDENTIAL_ID, Claims, issuer_of},
};

/// What the issuer of passes is, after that of root's ServiceAccounts.
const ISSUER_SUFFIX: &str = "/passes";
/// The claim that only passes have.
const CLAIM: &str = "wheelhouse.dev";

/// What a pass says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// Where it is good.
    pub(crate) cluster: LogicalCluster,
    /// The uid of the Spoke of that cluster.
    pub(crate) spoke_uid: String,
    /// Who its bearer is there.
    pub(crate) user: UserInfo,
    /// By what the bearer was known.
    pub(crate) origin: Origin,
    /// Seconds since 1970 at which it was made.
    pub(crate) issued_at: i64,
    /// Seconds since 1970 at which it ends.
    pub(crate) expires_at: i64,
    /// Distinguishes passes.
    pub(crate) id: String,
}

/// By what somebody is known to whom a pass is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A certificate, which ends by its time alone.
    Certificate,
    /// A certificate of the operator's authorities, by the mark of those.
    Authorities(Arc<str>),
    /// A line of the token file, by its mark.
    Line(Arc<str>),
    /// A ServiceAccount of root.
    Account(Arc<Claims>),
    /// A token of an issuer, and a digest of what the configuration said of that.
    Issuer {
        /// The issuer.
        url: String,
        /// The digest.
        rules: String,
    },
}

// === impl Pass ===

impl Pass {
    /// The payload of the token.
    pub(crate) fn to_value(&self) -> Value {
        let origin = match &self.origin {
            Origin::Certificate => json!({"kind": "Certificate"}),
            Origin::Authorities(mark) => json!({"kind": "Authorities", "mark": &**mark}),
            Origin::Line(mark) => json!({"kind": "Line", "mark": &**mark}),
            Origin::Account(claims) => json!({"kind": "Account", "claims": claims.to_value()}),
            Origin::Issuer { url, rules } => {
                json!({"kind": "Issuer", "url": url, "rules": rules})
            }
        };
        json!({
            "iss": issuer(),
            "sub": self.user.username,
            "aud": [issuer_of(&self.cluster)],
            "iat": self.issued_at,
            "nbf": self.issued_at,
            "exp": self.expires_at,
            "jti": self.id,
            CLAIM: {
                "cluster": self.cluster.as_str(), "spokeUid": self.spoke_uid,
                "user": self.user.to_value(), "origin": origin,
            },
        })
    }

    /// Reads the payload of a pass; `None` for anything else that the hub has signed.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if value["iss"] != issuer() {
            return None;
        }
        let own = value.get(CLAIM)?;
        let origin = &own["origin"];
        let origin = match origin["kind"].as_str()? {
            "Certificate" => Origin::Certificate,
            "Authorities" => Origin::Authorities(origin["mark"].as_str()?.into()),
            "Line" => Origin::Line(origin["mark"].as_str()?.into()),
            "Account" => Origin::Account(Arc::new(Claims::from_value(&origin["claims"])?)),
            "Issuer" => Origin::Issuer {
                url: text(&origin["url"])?,
                rules: text(&origin["rules"])?,
            },
            _ => return None,
        };
        Some(Self {
            cluster: own["cluster"].as_str()?.parse().ok()?,
            spoke_uid: text(&own["spokeUid"])?,
            user: UserInfo::of_review(&own["user"]),
            origin,
            issued_at: value["iat"].as_i64()?,
            expires_at: value["exp"].as_i64()?,
            id: text(&value["jti"])?,
        })
    }

    /// Who the bearer is.
    pub(crate) fn bearer(&self) -> UserInfo {
        let mut user = match &self.origin {
            Origin::Account(claims) => claims.user_abroad(),
            Origin::Certificate
            | Origin::Authorities(_)
            | Origin::Line(_)
            | Origin::Issuer { .. } => self.user.clone(),
        };
        let id = vec![format!("JTI={}", self.id)];
        user.extra.insert(CREDENTIAL_ID.to_owned(), id);
        user
    }
}

fn issuer() -> String {
    format!("{}{ISSUER_SUFFIX}", issuer_of(&LogicalCluster::root()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(origin: Origin) -> Pass {
        Pass {
            cluster: "east".parse().unwrap(),
            spoke_uid: "u1".to_owned(),
            user: UserInfo::authenticated("bob", ["team"]),
            origin,
            issued_at: 1,
            expires_at: 2,
            id: "7".to_owned(),
        }
    }

    fn claims() -> Claims {
        Claims {
            issuer: issuer_of(&LogicalCluster::root()),
            audiences: vec!["a".to_owned()],
            namespace: "default".to_owned(),
            name: "bot".to_owned(),
            uid: "u2".to_owned(),
            bound: None,
            issued_at: 1,
            expires_at: 2,
            id: "8".to_owned(),
        }
    }

    #[test]
    fn a_pass_is_read_as_it_was_written_and_is_no_token_of_an_account() {
        for origin in [
            Origin::Certificate,
            Origin::Authorities("a".into()),
            Origin::Line("m".into()),
            Origin::Account(Arc::new(claims())),
            Origin::Issuer {
                url: "https://issuer".to_owned(),
                rules: "r".to_owned(),
            },
        ] {
            let pass = pass(origin);
            let value = pass.to_value();
            assert_eq!(Pass::from_value(&value), Some(pass), "{value}");
            assert_eq!(Claims::from_value(&value), None, "{value}");
        }
        assert_eq!(Pass::from_value(&claims().to_value()), None);
        let mut other = pass(Origin::Line("m".into())).to_value();
        other["iss"] = json!(issuer_of(&LogicalCluster::root()));
        assert_eq!(Pass::from_value(&other), None, "another issuer");
    }

    #[test]
    fn an_account_of_root_has_its_other_name_in_a_cluster() {
        let bearer = pass(Origin::Account(Arc::new(claims()))).bearer();
        assert_eq!(bearer.username, "wheelhouse:root:default:bot");
        let bearer = pass(Origin::Line("m".into())).bearer();
        assert_eq!(bearer.username, "bob");
        assert_eq!(bearer.extra[CREDENTIAL_ID], ["JTI=7"]);
    }
}
