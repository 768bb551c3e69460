//! What a spoke's authorizer says to a question about a kind that the hub stores for it: a SubjectAccessReview there.

use std::sync::Arc;

use api::cluster::ClusterScope;
use client::Endpoint;

use super::{
    forward::{Identity, identity_of},
    links::Links,
};
use crate::authorize::{Attributes, Decision, SpokeAnswer, SpokeReviewer};

/// Makes the way in which a spoke is asked.
pub(super) fn reviewer(links: Arc<Links>) -> SpokeReviewer {
    Arc::new(move |attributes: Attributes<'_>| {
        let links = Arc::clone(&links);
        Box::pin(async move { ask(&links, &attributes).await })
    })
}

async fn ask(links: &Links, attributes: &Attributes<'_>) -> SpokeAnswer {
    let refuse = |reason: String| SpokeAnswer::Decided(Decision::NoOpinion { reason });
    let ClusterScope::One(cluster) = attributes.cluster else {
        return refuse("a spoke is asked about itself alone".to_owned());
    };
    let Some(link) = links.get(cluster) else {
        let refusal = links.not_connected(cluster);
        let text = refusal.status().map(|status| status.message.clone());
        return SpokeAnswer::NotConnected {
            reason: text.unwrap_or_default(),
        };
    };
    let known_in = attributes.user.known_only_in();
    if known_in.is_some_and(|own| own != cluster) {
        return refuse("the user is another cluster's".to_owned());
    }
    let identity = match identity_of(attributes.user, link.way.trusts_masters()) {
        Identity::Hub => return SpokeAnswer::Decided(Decision::Allow),
        Identity::Refused(reason) => return refuse(reason),
        Identity::User { name, groups } => (name, groups),
    };
    let endpoint = Endpoint {
        scope: None,
        gvr: api::GroupVersionResource::new("authorization.k8s.io", "v1", "subjectaccessreviews"),
        namespace: None,
    };
    let review = attributes.to_review(&identity.0, &identity.1);
    let asked = link
        .way
        .ask(async |hub| hub.create(&endpoint, &review).await);
    match asked.await {
        Ok(answer) => SpokeAnswer::of_review(&answer["status"]),
        Err(error) => {
            let reason = error.chain();
            SpokeAnswer::Unreached {
                reason: format!("spoke {:?} could not be asked: {reason}", cluster.as_str()),
            }
        }
    }
}
