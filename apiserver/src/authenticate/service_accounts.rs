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

mod claims;
mod jwt;
mod request;

use std::{collections::HashMap, fmt, path::Path, sync::Arc};

use api::{GroupResource, LogicalCluster};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use storage::Store;

pub(crate) use claims::{BoundObject, Claims};
pub(crate) use request::serve as serve_token_request;

use super::UserInfo;
use crate::{objects::ResourcePrefix, tls};
use jwt::Signer;

/// Tokens whose signatures are remembered. Full: all are forgotten, and checked again, which takes 100 microseconds each.
const CHECKED_COUNT_MAX: usize = 4096;

/// Issues and checks tokens.
pub struct ServiceAccounts {
    signer: Signer,
    store: Arc<dyn Store>,
    /// Guards claims by the hash of the token that they were read from. A leaf of the lock order.
    checked: Mutex<HashMap<[u8; 32], Arc<Claims>>>,
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

    /// Signs a token.
    pub(crate) fn sign(&self, claims: &Claims) -> Result<String, tls::Error> {
        self.signer.sign(&claims.to_value())
    }

    /// The user of a token that is presented at the path of `cluster`; `None` where the token is not ours or not good.
    pub(crate) fn user(
        &self,
        token: &str,
        cluster: Option<&LogicalCluster>,
        now: Timestamp,
    ) -> Option<Arc<UserInfo>> {
        let claims = self.checked(token)?;
        let home = claims.cluster()?;
        let is_for_us = claims
            .audiences
            .iter()
            .any(|audience| *audience == claims.issuer);
        if !is_for_us || !claims.is_in_time(now) || !self.subjects_exist(&claims, &home) {
            return None;
        }
        match cluster {
            Some(cluster) if *cluster == home => Some(Arc::new(claims.user())),
            _ if home.is_root() => Some(Arc::new(claims.user_abroad())),
            _ => None,
        }
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
        if namespace.contains('/') || name.contains('/') {
            return None;
        }
        let key = ResourcePrefix::new(&resource).key(cluster, namespace, name);
        let entry = self.store.get(key.as_bytes())?;
        let identity: Identity = serde_json::from_slice(entry.value()).ok()?;
        let metadata = identity.metadata;
        metadata
            .deletion_timestamp
            .is_none()
            .then_some(metadata.uid)
    }
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
