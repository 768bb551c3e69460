//! Lets events go an hour after they last changed.
//!
//! Source: kube-apiserver's `--event-ttl`.

use std::sync::Arc;
use std::time::Duration;

use api::query::DeleteOptions;
use api::{LogicalCluster, meta};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use storage::{KeyRange, RangeQuery};
use tasks::Tasks;

use super::{WRITE_TIMEOUT, is_ours};
use crate::call::{Shared, Target};
use crate::handle::controllers;
use crate::objects::{parse_key, prefix};

/// How long an event is kept.
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// How often events are looked at.
const INTERVAL: Duration = Duration::from_mins(5);

pub(super) fn start(shared: &Arc<Shared>, tasks: &Tasks) {
    let (shared, token) = (Arc::clone(shared), tasks.child_token());
    // It ends at shutdown; without it, events stay.
    tasks.spawn("events", async move {
        loop {
            tokio::select! {
                biased;
                () = token.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => sweep(&shared).await,
            }
        }
    });
}

async fn sweep(shared: &Shared) {
    let range = KeyRange::prefix(prefix("", "events"));
    let Ok(found) = shared.store.range(RangeQuery::of(range)) else {
        return;
    };
    for entry in &found.entries {
        let Some(parts) = parse_key(entry.key()) else {
            continue;
        };
        let Ok(cluster) = parts.cluster.parse::<LogicalCluster>() else {
            continue;
        };
        let Some(scope) = shared.registry.lookup(&cluster, "", "v1", "events") else {
            continue;
        };
        let object = serde_json::from_slice::<Value>(entry.value()).unwrap_or_default();
        if !is_ours(shared, &cluster) || !is_old(&object, Timestamp::now()) {
            continue;
        }
        let (namespace, name) = (parts.namespace.to_owned(), parts.name.to_owned());
        let target = Target {
            cluster,
            namespace,
            name,
            key: entry.to_key(),
        };
        let access = controllers::access(shared, &scope, WRITE_TIMEOUT);
        let _gone = controllers::delete(&access, &target, &DeleteOptions::default()).await;
    }
}

/// Whether nothing of an event is younger than the time that it is kept.
fn is_old(event: &Value, now: Timestamp) -> bool {
    let times = [
        event["lastTimestamp"].as_str(),
        event["series"]["lastObservedTime"].as_str(),
        event["eventTime"].as_str(),
        Some(meta::creation_timestamp(event)),
    ];
    let latest = times
        .into_iter()
        .flatten()
        .filter_map(meta::parse_time)
        .max();
    latest.is_some_and(|latest| now.duration_since(latest) > KEPT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_as_old_as_its_last_sign_of_life() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a time");
        for (event, old) in [
            (
                json!({"metadata": {"creationTimestamp": "2026-01-01T10:00:00Z"}}),
                true,
            ),
            (
                json!({"metadata": {"creationTimestamp": "2026-01-01T11:30:00Z"}}),
                false,
            ),
            (
                json!({
                    "metadata": {"creationTimestamp": "2026-01-01T10:00:00Z"},
                    "lastTimestamp": "2026-01-01T11:59:00Z",
                }),
                false,
            ),
            (json!({"metadata": {}}), false),
        ] {
            assert_eq!(is_old(&event, now), old, "{event}");
        }
    }
}
