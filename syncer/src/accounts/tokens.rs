//! Tokens in Secrets of type `kubernetes.io/service-account-token`.
//!
//! Clients that predate TokenRequest create such a Secret and wait until it holds a token: `argocd cluster add` does. The
//! token is bound to the Secret, so it counts while the Secret exists.
//!
//! A Secret whose ServiceAccount does not exist is deleted, by uid, as in a real cluster. Only the API server's own 404 for
//! the account, or an account with another uid, counts as absence. A Secret whose account goes later stays until it
//! changes: the API server no longer accepts its token.
//!
//! Source: kubernetes `pkg/controller/serviceaccount/tokens_controller.go`. There is no `ca.crt`, as without `--root-ca-file`.

use std::sync::Arc;

use api::{meta, selector::FieldSelector};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{DeleteRequest, Error, Patch, reflector::Event};
use serde_json::{Value, json};
use tasks::WorkQueue;
use tracing::{Instrument as _, debug_span, warn};

use super::RETRY_DELAY;
use crate::{
    resources,
    spans::{self, traced_span},
    state::target::Target,
};

/// The type of such Secrets.
const TYPE: &str = "kubernetes.io/service-account-token";
/// Names the account.
const ACCOUNT: &str = "kubernetes.io/service-account.name";
/// The uid of the account.
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// The longest life that a token may be requested for: 136 years. The Secret ends it.
const LIFE_SECONDS: i64 = 1 << 32;

/// Namespace and name of a Secret.
type Key = (String, String);

/// Fills the Secrets of a logical cluster that the hub keeps, until its target ends.
pub(super) fn start(target: &Arc<Target>) {
    let queue: Arc<WorkQueue<Key>> = Arc::new(target.tasks().queue("account-token"));
    let mut secrets = target.source(&resources::core("secrets"), None);
    secrets.field_selector = Some(FieldSelector::equals("type", TYPE));
    let mut events = target.follow(secrets, target.token.clone());
    let found = Arc::clone(&queue);
    target.tasks().spawn("account-tokens-watch", async move {
        while let Some(event) = events.recv().await {
            let objects = match event {
                Event::Restarted { objects, .. } => objects,
                Event::Applied(secret) => vec![secret],
                Event::Deleted(_) | Event::Interrupted(_) | Event::Resumed => continue,
            };
            for secret in objects {
                found.add((
                    secret.namespace.clone().unwrap_or_default(),
                    secret.name.clone(),
                ));
            }
        }
    });
    let target = Arc::clone(target);
    let tasks = target.tasks().clone();
    tasks.spawn("account-tokens", async move {
        while let Some(key) = queue.next_until(&target.token).await {
            let (cluster, (namespace, name)) = (&target.cluster, &key);
            let span = debug_span!("reconcile", controller = "account-token", %cluster, namespace, name);
            let traced = spans::sampled(
                String::new,
                || traced_span!(controller = "account-token", %cluster, namespace, name),
            );
            let filled = fill(&target, namespace, name).instrument(traced);
            if let Err(error) = filled.instrument(span).await {
                warn!(%cluster, namespace, name, error = %error, "cannot create the token of a Secret");
                if may_pass(&error) {
                    queue.retry_after(key.clone(), RETRY_DELAY);
                }
            }
            queue.done(&key);
        }
    });
}

/// Puts a token into a Secret that has none, or deletes a Secret that is nobody's.
async fn fill(target: &Target, namespace: &str, name: &str) -> Result<(), Error> {
    let secrets = target.endpoint(&resources::core("secrets"), namespace);
    let Some(secret) = found(target.dynamic.get(&secrets, name).await)? else {
        return Ok(());
    };
    let account_name = meta::annotation(&secret, ACCOUNT).unwrap_or_default();
    if secret["type"] != TYPE || meta::is_terminating(&secret) || account_name.is_empty() {
        return Ok(());
    }
    let accounts = target.endpoint(&resources::core("serviceaccounts"), namespace);
    let account = found(target.dynamic.get(&accounts, account_name).await)?;
    let wanted = meta::annotation(&secret, ACCOUNT_UID).filter(|uid| !uid.is_empty());
    let account = account.filter(|account| wanted.is_none_or(|uid| meta::uid(account) == uid));
    let Some(account) = account else {
        let request = DeleteRequest::of(meta::uid(&secret));
        return done(
            target
                .dynamic
                .delete(&secrets, name, &request)
                .await
                .map(drop),
        );
    };
    if wanted.is_some() && !secret["data"]["token"].is_null() {
        return Ok(());
    }
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": LIFE_SECONDS, "boundObjectRef":
            {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": meta::uid(&secret)}},
    });
    let answer = target
        .dynamic
        .create_in(&accounts, account_name, "token", &request);
    let Some(answer) = found(answer.await)? else {
        // One of the two went meanwhile; the watch says which.
        return Ok(());
    };
    let token = answer["status"]["token"].as_str().unwrap_or_default();
    let patch = json!({
        // Whoever changed the Secret meanwhile has queued it again.
        "metadata": {
            "resourceVersion": meta::resource_version(&secret),
            "annotations": {ACCOUNT_UID: meta::uid(&account)},
        },
        "data": {"token": STANDARD.encode(token), "namespace": STANDARD.encode(namespace)},
    });
    done(
        target
            .dynamic
            .patch(&secrets, name, None, Patch::Merge(&patch))
            .await
            .map(drop),
    )
}

/// Returns what was read, `None` where the API server says that it does not exist.
fn found(read: Result<Value, Error>) -> Result<Option<Value>, Error> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the same request may succeed later. What is refused for what it says waits for a change of the Secret.
fn may_pass(error: &Error) -> bool {
    let code = error.status().map_or(0, |status| status.code);
    error.unreachable() || code == 429 || code >= 500
}

/// Takes a write as done where the object went or changed meanwhile: the watch brings what is next.
fn done(written: Result<(), Error>) -> Result<(), Error> {
    match written {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        other => other,
    }
}
