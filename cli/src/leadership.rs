//! Which replica of a hub runs the controllers: the one that holds the Lease `kube-system/wheelhouse-controllers` of root,
//! as client-go's leader election has it, so that the tools that show leases show this one too.
//!
//! ```text
//!   every 2 s:  try to acquire ──► leading ──► renewed ... not renewed for 10 s ──► controllers stopped ──► try again
//!                     │ another holds it, and its record changed within 15 s
//!                     └──► wait
//! ```
//!
//! # Invariants
//! - A replica leads only while it has written the Lease within [`RENEW_DEADLINE`], which is shorter than what others wait
//!   for, [`LEASE_DURATION`]. Others measure that time on their own clock, from when they have seen the record change:
//!   clocks need not agree.
//! - Controllers are idempotent and their writes expect what they have read: two replicas that lead for a moment, one of
//!   them without knowing that it does no more, harm nothing.
//!
//! Source: `client-go/tools/leaderelection/leaderelection.go`.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use tasks::{Shutdown, Tasks};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

/// The user that holds the Lease.
pub(crate) const USER: &str = "system:wheelhouse:leadership";

const NAMESPACE: &str = "kube-system";
const NAME: &str = "wheelhouse-controllers";

/// Source: kube-controller-manager's defaults.
const LEASE_DURATION: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// How often the epoch is looked at: it is one number in memory.
const EPOCH_PERIOD: Duration = Duration::from_millis(50);

/// How long controllers get to stop.
const GRACE: Duration = Duration::from_secs(5);

/// How a Lease writes its times: microseconds.
const MICRO_TIME: &str = "%Y-%m-%dT%H:%M:%S%.6fZ";

/// The spec of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    holder_identity: String,
    lease_duration_seconds: u64,
    acquire_time: String,
    renew_time: String,
    lease_transitions: u64,
}

/// The latest record that was seen, and since when it is so.
#[derive(Clone, Debug)]
struct Observed {
    record: Record,
    since: Instant,
}

/// Tries to hold a Lease.
struct Elector {
    leases: Api<DynamicObject>,
    kind: ApiResource,
    identity: String,
    observed: Option<Observed>,
}

/// Runs `lead` in a group of tasks of its own whenever this replica holds the Lease, and ends that group when it does
/// no more. Ends with `tasks`.
///
/// When `epoch` changes, history was set back: the group ends too, so that controllers begin again without what they
/// remember of the other line.
pub(crate) async fn run(
    client: Client,
    tasks: Tasks,
    epoch: impl Fn() -> u64 + Send,
    lead: impl Fn(&Tasks) + Send,
) {
    let stop = tasks.child_token();
    let mut elector = Elector::new(client);
    loop {
        if !elector.acquired(&stop).await {
            return;
        }
        info!(
            name = elector.identity,
            "started leading: this replica runs the controllers"
        );
        let term = tasks.subgroup();
        let begun = epoch();
        lead(&term);
        tokio::select! {
            biased;
            () = changed(&epoch, begun) => {}
            () = elector.renewed(&stop) => {}
        }
        term.shutdown(GRACE).await;
        if stop.is_cancelled() {
            elector.release().await;
            return;
        }
        warn!(
            name = elector.identity,
            "stopped leading: another replica may run the controllers"
        );
    }
}

/// Waits until the epoch is another one.
async fn changed(epoch: &(impl Fn() -> u64 + Send), begun: u64) {
    while epoch() == begun {
        sleep(EPOCH_PERIOD).await;
    }
}

// === impl Elector ===

impl Elector {
    fn new(client: Client) -> Self {
        let gvk = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
        let kind = ApiResource::from_gvk_with_plural(&gvk, "leases");
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_unset| "wheelhouse".to_owned());
        Self {
            leases: Api::namespaced_with(client, NAMESPACE, &kind),
            kind,
            identity: format!("{host}_{:016x}", rand::random::<u64>()),
            observed: None,
        }
    }

    /// Waits until the Lease is held; not, where it is told to stop before.
    async fn acquired(&mut self, stop: &Shutdown) -> bool {
        loop {
            let tried = tokio::select! {
                biased;
                () = stop.cancelled() => return false,
                tried = timeout(RENEW_DEADLINE, self.try_once()) => tried,
            };
            match tried {
                Ok(Ok(true)) => return true,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    warn!(error = %error, "cannot acquire the lease of the controllers");
                }
                Err(_elapsed) => warn!("timed out acquiring the lease of the controllers"),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return false,
                () = sleep(jittered(RETRY_PERIOD)) => {}
            }
        }
    }

    /// Renews the Lease until that fails for too long, or it is told to stop.
    async fn renewed(&mut self, stop: &Shutdown) {
        let mut until = Instant::now() + RENEW_DEADLINE;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = sleep(RETRY_PERIOD) => {}
            }
            let began = Instant::now();
            match tokio::time::timeout_at(until, self.try_once()).await {
                Ok(Ok(true)) => until = began + RENEW_DEADLINE,
                Ok(Ok(false)) if self.is_held_by_another() => return,
                Ok(Ok(false)) => debug!("lost a race for the lease of the controllers"),
                Ok(Err(error)) => {
                    warn!(error = %error, "cannot renew the lease of the controllers");
                }
                Err(_elapsed) => return,
            }
            if Instant::now() >= until {
                return;
            }
        }
    }

    fn is_held_by_another(&self) -> bool {
        let holder = self
            .observed
            .as_ref()
            .map(|seen| &seen.record.holder_identity);
        holder.is_some_and(|holder| !holder.is_empty() && *holder != self.identity)
    }

    /// Tries to acquire or to renew; whether it is held now.
    async fn try_once(&mut self) -> kube::Result<bool> {
        let found = self.leases.get_opt(NAME).await?;
        let record = found.as_ref().map(record_of);
        if let Some(record) = &record {
            self.observe(record);
        }
        let now = Timestamp::now().strftime(MICRO_TIME).to_string();
        let Some(next) = next(record.as_ref(), &self.identity, self.age(), &now) else {
            return Ok(false);
        };
        let mut lease = found.unwrap_or_else(|| DynamicObject::new(NAME, &self.kind));
        let is_new = lease.metadata.resource_version.is_none();
        lease.data["spec"] = serde_json::to_value(&next).map_err(kube::Error::SerdeError)?;
        let post = PostParams::default();
        let written = if is_new {
            self.leases.create(&post, &lease).await
        } else {
            self.leases.replace(NAME, &post, &lease).await
        };
        match written {
            Ok(_) => {
                self.observe(&next);
                Ok(true)
            }
            // Another replica was first.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets others have it at once.
    async fn release(&self) {
        let released = async {
            let Some(mut lease) = self.leases.get_opt(NAME).await? else {
                return Ok(());
            };
            let mut record = record_of(&lease);
            if record.holder_identity != self.identity {
                return Ok(());
            }
            record.holder_identity.clear();
            record.lease_duration_seconds = 1;
            lease.data["spec"] = serde_json::to_value(&record).map_err(kube::Error::SerdeError)?;
            let post = PostParams::default();
            self.leases.replace(NAME, &post, &lease).await.map(drop)
        };
        match timeout(RETRY_PERIOD, released).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                debug!(error = %error, "cannot release the lease of the controllers");
            }
            Err(_elapsed) => debug!("timed out releasing the lease of the controllers"),
        }
    }

    fn observe(&mut self, record: &Record) {
        if self
            .observed
            .as_ref()
            .is_none_or(|seen| seen.record != *record)
        {
            self.observed = Some(Observed {
                record: record.clone(),
                since: Instant::now(),
            });
        }
    }

    /// How long the record has been as it is.
    fn age(&self) -> Duration {
        self.observed
            .as_ref()
            .map_or(Duration::ZERO, |seen| seen.since.elapsed())
    }
}

fn record_of(lease: &DynamicObject) -> Record {
    Record::deserialize(&lease.data["spec"]).unwrap_or_default()
}

/// The record to write; `None` where another holds the Lease. `age` is how long its record has not changed.
fn next(found: Option<&Record>, identity: &str, age: Duration, now: &str) -> Option<Record> {
    let mut record = Record {
        holder_identity: identity.to_owned(),
        lease_duration_seconds: LEASE_DURATION.as_secs(),
        acquire_time: now.to_owned(),
        renew_time: now.to_owned(),
        lease_transitions: 0,
    };
    let Some(found) = found else {
        return Some(record);
    };
    if found.holder_identity == identity {
        record.acquire_time.clone_from(&found.acquire_time);
        record.lease_transitions = found.lease_transitions;
        return Some(record);
    }
    let is_over = age >= Duration::from_secs(found.lease_duration_seconds);
    if !found.holder_identity.is_empty() && !is_over {
        return None;
    }
    record.lease_transitions = found.lease_transitions.saturating_add(1);
    Some(record)
}

fn jittered(period: Duration) -> Duration {
    period.mul_f64(rand::random_range(1.0..1.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(holder: &str) -> Record {
        Record {
            holder_identity: holder.to_owned(),
            lease_duration_seconds: 15,
            acquire_time: "then".to_owned(),
            renew_time: "then".to_owned(),
            lease_transitions: 3,
        }
    }

    #[test]
    fn a_lease_is_taken_when_it_is_free_and_kept_when_it_is_ours() {
        let secs = Duration::from_secs;
        for (name, found, age, want) in [
            ("there is none", None, secs(0), Some(("now", 0))),
            ("it is ours", Some("me"), secs(0), Some(("then", 3))),
            (
                "it was ours for long",
                Some("me"),
                secs(60),
                Some(("then", 3)),
            ),
            ("another holds it", Some("other"), secs(14), None),
            ("another is gone", Some("other"), secs(15), Some(("now", 4))),
            ("another gave it up", Some(""), secs(0), Some(("now", 4))),
        ] {
            let found = found.map(held);
            let got = next(found.as_ref(), "me", age, "now");
            let facts = got
                .as_ref()
                .map(|it| (it.acquire_time.as_str(), it.lease_transitions));
            assert_eq!(facts, want, "{name}");
            assert!(got.is_none_or(|it| it.holder_identity == "me" && it.renew_time == "now"));
        }
    }

    #[test]
    fn who_leads_stops_before_others_may_begin() {
        assert!(RENEW_DEADLINE + GRACE <= LEASE_DURATION);
    }
}
