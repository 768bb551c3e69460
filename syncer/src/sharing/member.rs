//! A replica that takes part: it renews a Lease of its own, and writes only while that is recent.

use std::time::Duration;

use client::{Lifetime, Moment, Term};
use tasks::Shutdown;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use super::{
    lease::{HUB_CONTROLLERS, Lease, Leases, name_of_replica},
    metrics::ShareMetrics,
};

/// How long others wait before they take what a replica has. With [`super::TURN_PERIOD`], and what it takes to connect a spoke,
/// it is less than ten seconds.
pub(super) const LEASE_DURATION: Duration = Duration::from_secs(7);

/// How long a replica writes after it has last begun to renew its Lease. What is left until others write is for what has
/// left the machine by then.
pub(super) const RENEW_DEADLINE: Duration = Duration::from_secs(5);

/// How often a Lease is renewed.
const RENEW_PERIOD: Duration = Duration::from_secs(1);

/// How soon is tried again what failed.
const RETRY_PERIOD: Duration = Duration::from_millis(500);

/// One replica, from when it has its Lease until it loses it. Another one of the same process has another name.
#[derive(Clone, Debug)]
pub struct Member {
    pub(super) identity: String,
    pub(super) leases: Leases,
    pub(super) metrics: ShareMetrics,
    lease: Lease,
    lifetime: Lifetime,
}

// === impl Member ===

impl Member {
    /// Waits until it takes part; `None` where it is told to stop before.
    pub(super) async fn enter(
        hub: &kube::Client,
        metrics: ShareMetrics,
        stop: &Shutdown,
    ) -> Option<Self> {
        let leases = Leases::new(hub.clone());
        loop {
            let id = rand::random::<u64>();
            let identity = identity_of(id);
            let began = Moment::now();
            let name = name_of_replica(id);
            let made = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                made = leases.create(&name, &identity, Some(LEASE_DURATION)) => made,
            };
            match made {
                Ok(lease) => {
                    return Some(Self {
                        identity,
                        leases,
                        metrics,
                        lease,
                        lifetime: Lifetime::begin(RENEW_DEADLINE, began),
                    });
                }
                Err(error) => {
                    warn!(error = error.chain(), "cannot take part in the work");
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = sleep(RETRY_PERIOD.mul_f64(rand::random_range(1.0..2.0))) => {}
            }
        }
    }

    /// Waits until it is the one that has what processes of the hub do once for all; `None` where it is told to stop before.
    pub(super) async fn elected(hub: &kube::Client, stop: &Shutdown) -> Option<Self> {
        let leases = Leases::new(hub.clone());
        let identity = identity_of(rand::random::<u64>());
        let mut seen: Option<(Lease, Instant)> = None;
        loop {
            let began = Moment::now();
            let lease = match leases.get(HUB_CONTROLLERS).await {
                Ok(found) => {
                    let is_known = seen.as_ref().is_some_and(|(it, _)| *it == found);
                    if !is_known {
                        seen = Some((found.clone(), Instant::now()));
                    }
                    let is_expired =
                        |(_, since): &(Lease, Instant)| since.elapsed() >= LEASE_DURATION;
                    if found.holder.is_empty() || seen.as_ref().is_some_and(is_expired) {
                        Some(leases.hand(&found, &identity).await)
                    } else {
                        None
                    }
                }
                Err(error) if error.is_not_found() => {
                    let duration = Some(LEASE_DURATION);
                    Some(leases.create(HUB_CONTROLLERS, &identity, duration).await)
                }
                Err(error) => Some(Err(error)),
            };
            match lease {
                Some(Ok(lease)) => {
                    return Some(Self {
                        identity,
                        leases,
                        // It shares nothing.
                        metrics: ShareMetrics::default(),
                        lease,
                        lifetime: Lifetime::begin(RENEW_DEADLINE, began),
                    });
                }
                // Another one was first, or the store does not answer.
                Some(Err(error)) => debug!(error = error.chain(), "not elected"),
                None => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = sleep(RETRY_PERIOD.mul_f64(rand::random_range(1.0..2.0))) => {}
            }
        }
    }

    /// Begins to look after something.
    pub(super) fn term(&self) -> Term {
        Term::begin(&self.lifetime, &self.identity)
    }

    /// Whether it may write.
    pub(super) fn holds(&self) -> bool {
        self.lifetime.holds()
    }

    /// Lets nothing be written any more.
    pub(super) fn end(&self) {
        self.lifetime.end();
    }

    /// Renews the Lease until it cannot in time, or others have sent this replica away.
    pub(super) async fn renewed(&self) {
        let mut lease = self.lease.clone();
        loop {
            sleep(RENEW_PERIOD.min(self.lifetime.left())).await;
            // What was stopped goes on here: its time may be over, which a timer would tell too late.
            if !self.lifetime.holds() {
                return;
            }
            let began = Moment::now();
            let renewed = timeout(self.lifetime.left(), self.leases.renew(&lease)).await;
            let error = match renewed {
                // History was set back: what is remembered is of another line.
                Ok(Ok(latest)) if latest.epoch() != self.lease.epoch() => return,
                Ok(Ok(latest)) => {
                    lease = latest;
                    self.lifetime.renew(began);
                    continue;
                }
                Ok(Err(error)) => error,
                Err(_elapsed) => {
                    self.metrics.count_failed_renewal();
                    return;
                }
            };
            self.metrics.count_failed_renewal();
            if error.is_not_found() {
                return;
            }
            debug!(
                error = error.chain(),
                "cannot renew the lease of this replica"
            );
            // Whether it was written may not be known, and somebody may have edited it.
            match timeout(self.lifetime.left(), self.leases.get(&lease.name)).await {
                Ok(Ok(latest)) if latest.uid == lease.uid && latest.holder == self.identity => {
                    lease = latest;
                }
                Ok(Ok(_)) => return,
                Ok(Err(error)) if error.is_not_found() => return,
                Ok(Err(_)) => sleep(RETRY_PERIOD.min(self.lifetime.left())).await,
                Err(_elapsed) => return,
            }
        }
    }

    /// Takes no part any more: others may have at once what it had. To be called once nothing is under way.
    pub(super) async fn leave(&self) {
        self.end();
        if let Err(error) = self.leases.remove(&self.lease).await {
            debug!(
                error = error.chain(),
                "cannot remove the lease of this replica"
            );
        }
    }
}

/// Names a replica, with the machine that it is on.
fn identity_of(id: u64) -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_unset| "wheelhouse".to_owned());
    format!("{host}_{id:016x}")
}
