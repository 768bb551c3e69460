//! Tokens of ServiceAccounts: JSON Web Tokens that the hub signs and checks itself.
//!
//! A token belongs to the logical cluster whose ServiceAccount it is for; its issuer says which. It is good at that
//! cluster's path and, for those of root, wherever root's users are let in.
//!
//! # Invariants
//! - A token counts only while its ServiceAccount, and the object that it is bound to, exist with the uids in it.
//! - A signature that was found good is remembered by the token's hash; whether the objects exist is asked every time.
//!
//! Source: `kubernetes/pkg/serviceaccount`, RFC 7515, RFC 7518 section 3.4.

mod jwt;

use std::{collections::HashMap, fmt, path::Path, sync::Arc};

use api::{GroupResource, LogicalCluster};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use storage::Store;

use crate::{
    objects::ResourcePrefix,
    request::{Claims, UserInfo, issuer_of},
    tls,
};
use jwt::Signer;

/// Tokens whose signatures are remembered. Full: all are forgotten, and checked again, which takes 100 microseconds each.
const CHECKED_COUNT_MAX: usize = 4096;

/// Where a cluster serves the keys that check its tokens.
pub(crate) const KEY_SET_PATH: &str = "/openid/v1/jwks";

/// Issues and checks tokens.
pub struct ServiceAccounts {
    signer: Signer,
    store: Arc<dyn Store>,
    /// Guards claims by the hash of the token that they were read from. A leaf of the lock order.
    checked: Mutex<HashMap<[u8; 32], Arc<Claims>>>,
}

/// Whose a token is.
#[derive(Debug)]
pub(crate) struct FoundAccount {
    /// The ServiceAccount.
    pub(crate) user: Arc<UserInfo>,
    /// For whom the token is, of those who were asked for.
    pub(crate) audiences: Vec<String>,
    /// What the token says.
    pub(crate) claims: Arc<Claims>,
}

/// Why a token is nobody's. The texts are kube-apiserver's, and only a TokenReview tells them.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// It is not known here, or not good any more.
    #[error("invalid bearer token")]
    Invalid,
    /// It is for somebody else.
    #[error(
        "[invalid bearer token, token audiences {found:?} is invalid for the target audiences {wanted:?}]"
    )]
    Audience {
        /// For whom it is.
        found: Vec<String>,
        /// Who was asked for.
        wanted: Vec<String>,
    },
}

/// What is looked at of a stored object.
#[derive(Deserialize)]
struct Identity {
    metadata: IdentityMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IdentityMetadata {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

// === impl ServiceAccounts ===

impl ServiceAccounts {
    /// Takes the signing key from below `data_dir`, or makes one.
    ///
    /// # Errors
    /// As [`tls::Pki::open`].
    pub fn open(data_dir: &Path, store: Arc<dyn Store>) -> Result<Self, tls::Error> {
        Ok(Self {
            signer: Signer::new(&tls::service_account_key(data_dir)?)?,
            store,
            checked: Mutex::default(),
        })
    }

    /// Returns the keys that check tokens, as a JSON Web Key Set: one for all clusters of the hub, since the issuer says whose a token is.
    pub(crate) fn key_set(&self) -> Value {
        self.signer.key_set()
    }

    /// Returns what OpenID Connect calls the configuration of the issuer of a cluster's tokens. `base` is the URL at which the cluster is
    /// served.
    ///
    /// Source: `kubernetes/pkg/serviceaccount/openidmetadata.go`.
    pub(crate) fn issuer_configuration(cluster: &LogicalCluster, base: &str) -> Value {
        json!({
            "issuer": issuer_of(cluster),
            "jwks_uri": format!("{base}{KEY_SET_PATH}"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [jwt::ALGORITHM],
        })
    }

    /// Signs a token.
    pub(crate) fn sign(&self, claims: &Claims) -> Result<String, tls::Error> {
        self.signer.sign(&claims.to_value())
    }

    /// Finds whose token this is, presented at the path of `cluster`. `wanted` are the audiences that it must be for one of;
    /// without any, the API server itself is asked for.
    ///
    /// # Errors
    /// Why it is nobody's.
    pub(crate) fn find(
        &self,
        token: &str,
        cluster: Option<&LogicalCluster>,
        wanted: Option<&[String]>,
        now: Timestamp,
    ) -> Result<FoundAccount, TokenError> {
        let claims = self.checked(token).ok_or(TokenError::Invalid)?;
        let home = claims.cluster().ok_or(TokenError::Invalid)?;
        if !home.is_root() && cluster != Some(&home) {
            return Err(TokenError::Invalid);
        }
        let own = [issuer_of(&home)];
        let wanted = wanted.unwrap_or(&own);
        let audiences = in_both(&claims.audiences, wanted);
        if audiences.is_empty() {
            return Err(TokenError::Audience {
                found: claims.audiences.clone(),
                wanted: wanted.to_vec(),
            });
        }
        if !self.still_counts(&claims, now) {
            return Err(TokenError::Invalid);
        }
        let user = match cluster {
            Some(cluster) if *cluster == home => claims.user(&home),
            _ => claims.user_abroad(),
        };
        Ok(FoundAccount {
            user: Arc::new(user),
            audiences,
            claims,
        })
    }

    /// Whether a token with these claims, whose signature was good, is good now.
    pub(crate) fn still_counts(&self, claims: &Claims, now: Timestamp) -> bool {
        let home = claims.cluster();
        claims.is_in_time(now) && home.is_some_and(|home| self.subjects_exist(claims, &home))
    }

    /// The claims of a token whose signature is good.
    fn checked(&self, token: &str) -> Option<Arc<Claims>> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(claims) = self.checked.lock().get(&hash) {
            return Some(Arc::clone(claims));
        }
        let claims = Arc::new(Claims::from_value(&self.signer.check(token)?)?);
        let mut checked = self.checked.lock();
        if checked.len() >= CHECKED_COUNT_MAX {
            checked.clear();
        }
        checked.insert(hash, Arc::clone(&claims));
        Some(claims)
    }

    fn subjects_exist(&self, claims: &Claims, cluster: &LogicalCluster) -> bool {
        let account = self.uid_of(cluster, "serviceaccounts", &claims.namespace, &claims.name);
        if account.as_deref() != Some(claims.uid.as_str()) {
            return false;
        }
        claims.bound.as_ref().is_none_or(|bound| {
            let namespace = if bound.kind == "Node" {
                ""
            } else {
                &claims.namespace
            };
            self.uid_of(cluster, bound.resource(), namespace, &bound.name)
                == Some(bound.uid.clone())
        })
    }

    /// Signs what is no token of a ServiceAccount.
    pub(super) fn sign_value(&self, payload: &Value) -> Result<String, tls::Error> {
        self.signer.sign(payload)
    }

    /// The payload of whatever the hub has signed.
    pub(super) fn checked_value(&self, token: &str) -> Option<Value> {
        self.signer.check(token)
    }

    /// The uid of a core object that is there and is not going.
    pub(crate) fn uid_of(
        &self,
        cluster: &LogicalCluster,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Option<String> {
        let resource = GroupResource {
            group: String::new(),
            resource: resource.to_owned(),
        };
        self.uid_of_resource(cluster, &resource, namespace, name)
    }

    /// The same for an object of any group.
    pub(super) fn uid_of_resource(
        &self,
        cluster: &LogicalCluster,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
    ) -> Option<String> {
        if namespace.contains('/') || name.contains('/') {
            return None;
        }
        let key = ResourcePrefix::new(resource).key(cluster, namespace, name);
        let entry = self.store.get(key.as_bytes())?;
        let identity: Identity = serde_json::from_slice(entry.value()).ok()?;
        let metadata = identity.metadata;
        metadata
            .deletion_timestamp
            .is_none()
            .then_some(metadata.uid)
    }
}

/// The values that stand in both lists, in the order of the second.
pub(crate) fn in_both(some: &[String], others: &[String]) -> Vec<String> {
    let both = others.iter().filter(|other| some.contains(other));
    both.cloned().collect()
}

impl fmt::Debug for ServiceAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccounts").finish_non_exhaustive()
    }
}

/// Checks tokens with a key of its own; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub(crate) struct TestSigner(Signer);

#[cfg(feature = "fuzzing")]
impl TestSigner {
    pub(crate) fn new() -> Self {
        let key = rcgen::KeyPair::generate().expect("a key can be made");
        Self(Signer::new(&key.serialize_pem()).expect("a key of ours can be used"))
    }

    /// Whether a token is good. The rest of it is tried behind our own header and signature too.
    pub(crate) fn check(&self, token: &str) -> bool {
        drop(Claims::from_value(
            &serde_json::from_str(token).unwrap_or_default(),
        ));
        let claims = serde_json::from_str(token).unwrap_or_default();
        let signed = self.0.sign(&claims).expect("a payload can be signed");
        let read = self.0.check(&signed);
        assert_eq!(read, Some(claims), "what was signed is read");
        if let Some((head, signature)) = signed.rsplit_once('.') {
            assert!(
                token == signature || self.0.check(&format!("{head}.{token}")).is_none(),
                "another signature is not good"
            );
        }
        self.0.check(token).is_some()
    }
}

#[cfg(test)]
mod tests;
