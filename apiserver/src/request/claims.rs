//! What a token says.
//!
//! Source: `kubernetes/pkg/serviceaccount/claims.go`.

use std::collections::BTreeMap;

use api::LogicalCluster;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::UserInfo;

/// Issuer of the tokens of root; the others have `/clusters/<name>` after it.
const ISSUER: &str = "https://wheelhouse.internal";

/// Key of the extra that names the credential.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    /// Who signed it, and for which logical cluster.
    pub(crate) issuer: String,
    /// For whom it is.
    pub(crate) audiences: Vec<String>,
    /// Namespace of the ServiceAccount.
    pub(crate) namespace: String,
    /// Name of the ServiceAccount.
    pub(crate) name: String,
    /// Uid of the ServiceAccount.
    pub(crate) uid: String,
    /// An object with which the token ends.
    pub(crate) bound: Option<BoundObject>,
    /// Seconds since 1970 at which it was issued.
    pub(crate) issued_at: i64,
    /// Seconds since 1970 at which it ends.
    pub(crate) expires_at: i64,
    /// Distinguishes tokens.
    pub(crate) id: String,
}

/// An object with which a token ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundObject {
    /// `Pod`, `Secret` or `Node`.
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
    /// Its uid.
    pub(crate) uid: String,
}

/// The issuer of a logical cluster's tokens.
pub(crate) fn issuer_of(cluster: &LogicalCluster) -> String {
    if cluster.is_root() {
        ISSUER.to_owned()
    } else {
        format!("{ISSUER}{}", cluster.path_prefix())
    }
}

// === impl Claims ===

impl Claims {
    /// The logical cluster whose ServiceAccount it is; `None` for an issuer that is not ours.
    pub(crate) fn cluster(&self) -> Option<LogicalCluster> {
        match self.issuer.strip_prefix(ISSUER)? {
            "" => Some(LogicalCluster::root()),
            path => path.strip_prefix("/clusters/")?.parse().ok(),
        }
    }

    /// Whether it has not ended.
    pub(crate) fn is_in_time(&self, now: Timestamp) -> bool {
        now.as_second() < self.expires_at
    }

    /// The user at the path of the ServiceAccount's own cluster, which alone vouches for it.
    pub(crate) fn user(&self, home: &LogicalCluster) -> UserInfo {
        let user = UserInfo::service_account(&self.namespace, &self.name);
        self.completed(user).vouched_for_by(home)
    }

    /// The user of a token of root at the path of any other cluster.
    pub(crate) fn user_abroad(&self) -> UserInfo {
        self.completed(UserInfo::service_account_abroad(
            &self.namespace,
            &self.name,
        ))
    }

    fn completed(&self, mut user: UserInfo) -> UserInfo {
        let mut extra =
            BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", self.id)])]);
        if let Some(bound) = &self.bound
            && let "Pod" | "Node" = bound.kind.as_str()
        {
            let kind = bound.kind.to_lowercase();
            let key = |what: &str| format!("authentication.kubernetes.io/{kind}-{what}");
            extra.insert(key("name"), vec![bound.name.clone()]);
            extra.insert(key("uid"), vec![bound.uid.clone()]);
        }
        user.uid.clone_from(&self.uid);
        user.extra = extra;
        user
    }

    /// The payload of a token.
    pub(crate) fn to_value(&self) -> Value {
        let mut kubernetes = json!({
            "namespace": self.namespace,
            "serviceaccount": { "name": self.name, "uid": self.uid },
        });
        if let Some(bound) = &self.bound {
            kubernetes[bound.kind.to_lowercase()] = json!({ "name": bound.name, "uid": bound.uid });
        }
        json!({
            "iss": self.issuer,
            "sub": format!("system:serviceaccount:{}:{}", self.namespace, self.name),
            "aud": self.audiences,
            "iat": self.issued_at,
            "nbf": self.issued_at,
            "exp": self.expires_at,
            "jti": self.id,
            "kubernetes.io": kubernetes,
        })
    }

    /// Reads a payload; `None` for one that is not of ours.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
        let kubernetes = value.get("kubernetes.io")?;
        let account = kubernetes.get("serviceaccount")?;
        let bound = ["Pod", "Secret", "Node"].into_iter().find_map(|kind| {
            let bound = kubernetes.get(kind.to_lowercase())?;
            Some(BoundObject {
                kind: kind.to_owned(),
                name: text(bound, "name")?,
                uid: text(bound, "uid")?,
            })
        });
        Some(Self {
            issuer: text(value, "iss")?,
            audiences: value
                .get("aud")?
                .as_array()?
                .iter()
                .filter_map(|audience| audience.as_str().map(str::to_owned))
                .collect(),
            namespace: text(kubernetes, "namespace")?,
            name: text(account, "name")?,
            uid: text(account, "uid")?,
            bound,
            issued_at: value.get("iat")?.as_i64()?,
            expires_at: value.get("exp")?.as_i64()?,
            id: text(value, "jti")?,
        })
    }
}

// === impl BoundObject ===

impl BoundObject {
    /// The resource of the object.
    pub(crate) fn resource(&self) -> &'static str {
        match self.kind.as_str() {
            "Pod" => "pods",
            "Node" => "nodes",
            _ => "secrets",
        }
    }
}
