//! Answers what expressions ask an authorizer: what the writer, or a ServiceAccount, may do in the cluster of the write.

use std::sync::Arc;

use api::ClusterScope;
use expressions::{Answer, Authorize, Question, ResourceSubject, Subject};
use tokio::runtime::Handle;

use crate::authorize;
use crate::call::{Call, Shared};
use crate::guards::attributes::Attributes;
use crate::request::UserInfo;

/// Answers questions on a thread that may block.
pub(crate) struct Questions(Arc<Asked>);

struct Asked {
    shared: Arc<Shared>,
    cluster: ClusterScope,
    user: Arc<UserInfo>,
    runtime: Handle,
}

// === impl Questions ===

impl Questions {
    pub(crate) fn of(call: &Call<'_>, attributes: &Attributes) -> Self {
        Self(Arc::new(Asked {
            shared: Arc::clone(call.shared),
            cluster: ClusterScope::One(attributes.cluster.clone()),
            user: Arc::clone(&attributes.user),
            runtime: Handle::current(),
        }))
    }

    pub(crate) fn asked(&self) -> Arc<dyn Authorize> {
        let asked: Arc<Asked> = Arc::clone(&self.0);
        asked
    }

    /// What `authorizer.requestResource` asks about.
    pub(crate) fn subject(attributes: &Attributes) -> ResourceSubject {
        ResourceSubject {
            group: attributes.resource.group.clone(),
            resource: attributes.resource.resource.clone(),
            subresource: attributes.subresource.clone(),
            namespace: attributes.namespace.clone(),
            name: attributes.name.clone(),
        }
    }
}

// === impl Asked ===

impl Authorize for Asked {
    fn ask(&self, question: &Question<'_>) -> Answer {
        let account = question.service_account.map(|(namespace, name)| {
            let account = UserInfo::service_account(namespace, name);
            match self.cluster.one() {
                Some(cluster) => account.vouched_for_by(cluster),
                None => account,
            }
        });
        let user = account.as_ref().unwrap_or(&self.user);
        let blank = authorize::Attributes {
            user,
            cluster: &self.cluster,
            verb: question.verb,
            group: "",
            version: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
            path: "",
            is_resource: false,
        };
        let asked = match question.subject {
            Subject::Path(path) => authorize::Attributes { path, ..blank },
            Subject::Resource(it) => authorize::Attributes {
                group: &it.group,
                version: "*",
                resource: &it.resource,
                subresource: &it.subresource,
                namespace: &it.namespace,
                name: &it.name,
                is_resource: true,
                ..blank
            },
        };
        let verdict = self
            .runtime
            .block_on(self.shared.authorizer.explain(&asked));
        Answer {
            allowed: verdict.allowed,
            reason: verdict.reason,
            error: verdict.errors.join(", "),
        }
    }
}
