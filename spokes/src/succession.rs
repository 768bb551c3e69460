//! The proof of a later credential: it is used in the place of one that works only once the same cluster has answered it.

use std::time::Duration;

use api::{
    GroupVersionResource,
    wheelhouse::{Spoke, keys::ANNOTATION_CLUSTER_UID},
};
use client::{Dynamic, Endpoint};

use crate::{link::Connections, rights};

/// How long the proof may take. While it lasts the credential of before is used.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a later credential is good for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Succession {
    /// It is accepted by the cluster that the Spoke is for.
    Proven,
    /// It is accepted by a cluster that the Spoke may be for: none is recorded, or its administrator says so.
    Begun,
    /// It is accepted by a cluster that the Spoke is not for, with this uid.
    Another(String),
    /// It is not accepted, or nobody answers. Why.
    Refused(String),
}

/// Tries a later credential, by what the heartbeat asks too.
pub(crate) async fn prove(connections: &Connections, spoke: &Spoke) -> Succession {
    let dynamic = Dynamic::new(connections.controllers.client()).with_deadline(PATIENCE);
    let namespaces = Endpoint {
        scope: None,
        gvr: GroupVersionResource::new("", "v1", "namespaces"),
        namespace: None,
    };
    let status = spoke.status.as_ref();
    let known = status.map(|it| it.cluster_uid.as_str());
    let known = known.filter(|uid| !uid.is_empty());
    let meant = spoke.metadata.annotations.get(ANNOTATION_CLUSTER_UID);
    match dynamic.get(&namespaces, "kube-system").await {
        Ok(namespace) => match rights::missing(&dynamic).await {
            None => verdict(known, meant.map(String::as_str), api::meta::uid(&namespace)),
            Some(missing) => Succession::Refused(missing),
        },
        Err(error) => Succession::Refused(error.chain()),
    }
}

fn verdict(known: Option<&str>, meant: Option<&str>, uid: &str) -> Succession {
    match known {
        Some(known) if known == uid => Succession::Proven,
        Some(_) if meant != Some(uid) => Succession::Another(uid.to_owned()),
        _ => Succession::Begun,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_of_another_cluster_is_no_successor_unless_that_is_meant() {
        let another = || Succession::Another("b".to_owned());
        for (known, meant, uid, want) in [
            (Some("a"), None, "a", Succession::Proven),
            (Some("a"), Some("b"), "a", Succession::Proven),
            (Some("a"), None, "b", another()),
            (Some("a"), Some("c"), "b", another()),
            (Some("a"), Some("b"), "b", Succession::Begun),
            (None, None, "b", Succession::Begun),
        ] {
            let got = verdict(known, meant, uid);
            assert_eq!(got, want, "{known:?} {meant:?} {uid}");
        }
    }
}
