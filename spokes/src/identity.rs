//! Which cluster is behind a Spoke: the uid of its `kube-system` namespace, which no two Spokes share.
//!
//! A uid is held by the Spoke that had it first. It stands in that Spoke's status, so that a restart changes nothing.
//!
//! The syncer asks each cluster and decides by [`Identities`], because it alone sees every cluster; it writes the verdict
//! into the Spoke's condition `Identified`, and [`refusal`] reads it there for the path, in each replica.
//!
//! # Invariants
//!
//! A newcomer never displaces a holder, whatever it says of itself. A cluster that says another's uid is therefore refused
//! itself and harms nobody else; one whose uid changes is not written to until a person says that this is meant.

use std::collections::HashMap;

use api::{Condition, LogicalCluster, meta, wheelhouse::keys};
use client::reflector::RawObject;
use parking_lot::Mutex;

use crate::fault::Fault;

/// A uid is text of the spoke's: nothing longer or of other characters is one. Source: RFC 9562, with room.
const UID_BYTES_MAX: usize = 64;

/// Which uid each Spoke has, as one syncer has found.
#[derive(Debug, Default)]
pub struct Identities {
    // Guards the map; never held across an await.
    held: Mutex<HashMap<LogicalCluster, Held>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Held {
    /// The uid of the Spoke: another one of the same name begins anew.
    spoke_uid: String,
    /// The uid of the cluster; empty until it was read.
    cluster_uid: String,
    /// The uid that a person says the cluster has.
    confirmed: Option<String>,
}

/// Why a cluster is not the one that its Spoke is for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityFault {
    /// It is another Spoke's.
    #[error(
        "its kube-system uid {uid} is that of spoke {holder:?}: one cluster is one spoke; remove one of the two: wheelhouse spoke remove NAME"
    )]
    Duplicate {
        /// The uid.
        uid: String,
        /// Who holds it.
        holder: String,
    },
    /// It is this hub, or a cluster that this hub serves itself.
    #[error(
        "its kube-system uid {uid} is that of {holder:?} of this hub: nothing can be joined to itself; remove this spoke: \
         wheelhouse spoke remove NAME"
    )]
    Own {
        /// The uid.
        uid: String,
        /// Which of the hub's own clusters it is.
        holder: String,
    },
    /// It was another one before.
    #[error(
        "its kube-system uid was {before} and is {uid}: another cluster answers, and nothing is written to it; if it was \
         made anew on purpose, annotate the Spoke with {annotation}={uid}",
        annotation = keys::ANNOTATION_CLUSTER_UID
    )]
    Changed {
        /// The uid that the Spoke's status has.
        before: String,
        /// The uid now.
        uid: String,
    },
    /// It does not say which one it is.
    #[error("its namespace kube-system cannot be read, which tells clusters apart: {0}")]
    Unreadable(String),
}

// === impl IdentityFault ===

impl IdentityFault {
    /// Returns one word for programs.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Duplicate { .. } | Self::Own { .. } => "DuplicateCluster",
            Self::Changed { .. } => "ClusterChanged",
            Self::Unreadable(_) => "NotIdentified",
        }
    }

    /// Returns the status of the condition `Identified`. Only a cluster that is known to be another one gets no requests.
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => meta::STATUS_UNKNOWN,
            Self::Duplicate { .. } | Self::Own { .. } | Self::Changed { .. } => meta::STATUS_FALSE,
        }
    }
}

/// Returns why nothing is relayed to a cluster, as the conditions of its Spoke say.
pub(crate) fn refusal(conditions: &[Condition]) -> Option<Fault> {
    let mut conditions = conditions.iter();
    let verdict = conditions
        .find(|it| it.type_ == keys::CONDITION_IDENTIFIED && it.status == meta::STATUS_FALSE);
    verdict.map(|it| Fault::Identity(it.message.clone()))
}

// === impl Identities ===

impl Identities {
    /// Notes a Spoke as the hub has it.
    pub fn note(&self, cluster: &LogicalCluster, spoke: &RawObject) {
        let status = spoke.value().unwrap_or_default();
        let recorded = status["status"]["clusterUID"].as_str().unwrap_or_default();
        let confirmed = spoke.annotations.get(keys::ANNOTATION_CLUSTER_UID).cloned();
        let mut held = self.held.lock();
        let known = held.entry(cluster.clone()).or_default();
        if known.spoke_uid != spoke.uid {
            spoke.uid.clone_into(&mut known.spoke_uid);
            recorded.clone_into(&mut known.cluster_uid);
        } else if known.cluster_uid.is_empty() {
            // What was read of the cluster since is newer than what the status says.
            recorded.clone_into(&mut known.cluster_uid);
        }
        known.confirmed = confirmed;
    }

    /// Notes that a Spoke is gone: its cluster may be joined again.
    pub fn forget(&self, cluster: &LogicalCluster) {
        self.held.lock().remove(cluster);
    }

    /// Lets a Spoke hold the uid that its cluster says it has.
    ///
    /// # Errors
    ///
    /// [`IdentityFault`] where another Spoke holds it, or this one holds another uid.
    pub fn claim(&self, cluster: &LogicalCluster, uid: &str) -> Result<(), IdentityFault> {
        if !is_uid(uid) {
            let reason = "its uid is not a uid".to_owned();
            return Err(IdentityFault::Unreadable(reason));
        }
        let mut held = self.held.lock();
        let mut others = held
            .iter()
            .filter(|(other, known)| *other != cluster && known.cluster_uid == uid);
        if let Some((holder, _)) = others.next() {
            return Err(IdentityFault::Duplicate {
                uid: uid.to_owned(),
                holder: holder.to_string(),
            });
        }
        let known = held.entry(cluster.clone()).or_default();
        let is_same = known.cluster_uid.is_empty() || known.cluster_uid == uid;
        if !is_same && known.confirmed.as_deref() != Some(uid) {
            return Err(IdentityFault::Changed {
                before: known.cluster_uid.clone(),
                uid: uid.to_owned(),
            });
        }
        uid.clone_into(&mut known.cluster_uid);
        Ok(())
    }
}

fn is_uid(uid: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !uid.is_empty() && uid.len() <= UID_BYTES_MAX && uid.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str) -> LogicalCluster {
        name.parse().expect("a name")
    }

    fn spoke(uid: &str, cluster_uid: &str, confirmed: Option<&str>) -> RawObject {
        let mut object = json!({"metadata": {"name": "east", "uid": uid},
            "status": {"clusterUID": cluster_uid}});
        if let Some(confirmed) = confirmed {
            object["metadata"]["annotations"] = json!({keys::ANNOTATION_CLUSTER_UID: confirmed});
        }
        RawObject::from_value(&object).expect("an object")
    }

    #[test]
    fn the_spoke_that_holds_a_uid_keeps_it() {
        let identities = Identities::default();
        let (east, west) = (cluster("east"), cluster("aaa-west"));
        identities.note(&east, &spoke("1", "u1", None));
        identities.note(&west, &spoke("2", "", None));
        let refused = identities.claim(&west, "u1").expect_err("it is held");
        assert_eq!(refused.reason(), "DuplicateCluster");
        assert!(refused.to_string().contains("\"east\""), "{refused}");
        assert_eq!(identities.claim(&east, "u1"), Ok(()), "the holder goes on");
        // What the newcomer says does not matter to the holder, nor does a confirmation.
        identities.note(&west, &spoke("2", "", Some("u1")));
        assert!(identities.claim(&west, "u1").is_err(), "it is held still");
        identities.forget(&east);
        assert_eq!(identities.claim(&west, "u1"), Ok(()), "nobody holds it");
    }

    #[test]
    fn a_cluster_that_becomes_another_one_is_refused_until_a_person_confirms() {
        let identities = Identities::default();
        let east = cluster("east");
        identities.note(&east, &spoke("1", "u1", None));
        let refused = identities.claim(&east, "u2").expect_err("it was u1");
        assert_eq!(refused.reason(), "ClusterChanged");
        assert_eq!(identities.claim(&east, "u1"), Ok(()), "the old one is back");
        identities.note(&east, &spoke("1", "u1", Some("u2")));
        assert_eq!(identities.claim(&east, "u2"), Ok(()), "it is meant");
        // A Spoke of the same name that was made anew begins anew.
        identities.note(&east, &spoke("9", "", None));
        assert_eq!(identities.claim(&east, "u3"), Ok(()));
    }

    #[test]
    fn a_verdict_that_is_written_is_read_as_the_same_reason() {
        let uid = "u".to_owned();
        for (fault, want) in [
            (
                IdentityFault::Duplicate {
                    uid: uid.clone(),
                    holder: "east".to_owned(),
                },
                true,
            ),
            (
                IdentityFault::Changed {
                    before: "v".to_owned(),
                    uid,
                },
                true,
            ),
            (IdentityFault::Unreadable("forbidden".to_owned()), false),
        ] {
            let condition = Condition {
                type_: keys::CONDITION_IDENTIFIED.to_owned(),
                status: fault.status().to_owned(),
                message: fault.to_string(),
                ..Condition::default()
            };
            let read = refusal(&[condition]).map(|fault| fault.to_string());
            assert_eq!(read, want.then(|| fault.to_string()), "{}", fault.reason());
        }
    }

    #[test]
    fn what_is_no_uid_is_not_held() {
        let identities = Identities::default();
        for uid in ["", "a b", "../x", "ü", &"a".repeat(65)] {
            let refused = identities.claim(&cluster("east"), uid);
            assert!(
                matches!(refused, Err(IdentityFault::Unreadable(_))),
                "{uid}"
            );
        }
    }
}
