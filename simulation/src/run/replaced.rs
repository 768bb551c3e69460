//! A cluster is set back in time, or another one stands in its place: it is noticed, nothing is pruned for it, and what users
//! want is there again soon.

use std::time::Duration;

use api::wheelhouse::keys;
use tokio::time::Instant;

use super::{World, trouble::Waits, verdict};
use crate::{
    fleet::{self, Failure},
    network::Away,
};

/// How long a snapshot lies before it is used.
const SNAPSHOT_AGE: Duration = Duration::from_hours(1);

/// How long the cluster is away while it is restored.
const OUTAGE: Duration = Duration::from_secs(30);

/// How soon everything is there again; of some thousand objects, the row's bar.
const AGAIN_WITHIN: Duration = Duration::from_secs(30);

/// How long nothing may be written to a cluster that nobody has confirmed.
const UNCONFIRMED: Duration = Duration::from_mins(5);

/// Between two looks.
const TICK: Duration = Duration::from_millis(100);

impl World {
    pub(super) async fn play_replaced(&mut self) -> Result<(), Failure> {
        let clusters = self.populate(self.plan.spokes).await?;
        let cluster = clusters.first().cloned().unwrap_or_default();
        let spoke = self.fleet.spokes.get(&cluster).cloned();
        let spoke = spoke.ok_or("there is no spoke")?;
        let objects = spoke.objects().len();

        let snapshot = spoke.snapshot();
        let mut waits = Waits::new(120_000);
        self.go_on(&mut waits, &clusters, Instant::now() + SNAPSHOT_AGE)
            .await?;
        self.settle(&mut waits).await?;
        self.fleet.judge.note_set_back();
        self.set_back.insert(cluster.clone());
        self.fleet
            .network
            .take_away(&cluster, Away::Refused, OUTAGE);
        spoke.restore(snapshot);
        self.rest(OUTAGE).await?;
        let restored = self.time_until_right().await?;

        self.fleet
            .network
            .take_away(&cluster, Away::Refused, OUTAGE);
        spoke.reimage();
        fleet::furnish(&spoke);
        let before = spoke.objects();
        self.rest(OUTAGE + UNCONFIRMED).await?;
        let endpoint = fleet::spokes_endpoint();
        let told = self.fleet.read(&endpoint, &cluster).await?;
        let told = told.unwrap_or_default()["status"]["conditions"].to_string();
        if !told.contains("ClusterChanged") {
            return Err(format!("noticed: {told}"));
        }
        if spoke.objects() != before {
            return Err(
                "noticed: another cluster is written to, and nobody has confirmed it".to_owned(),
            );
        }
        let uid = spoke.cluster_uid();
        let annotation = (keys::ANNOTATION_CLUSTER_UID, uid.as_str());
        self.fleet.annotate(&endpoint, &cluster, annotation).await?;
        let replaced = self.time_until_right().await?;
        verdict::await_convergence(self).await?;
        let told = format!(
            "{objects} objects are right {restored:?} after a restore, and {replaced:?} after another cluster was confirmed"
        );
        if restored.max(replaced) > AGAIN_WITHIN {
            return Err(format!("again: {told}"));
        }
        self.told.push(told);
        Ok(())
    }

    /// Waits until the spokes hold what users want. Returns how long that took.
    pub(super) async fn time_until_right(&mut self) -> Result<Duration, Failure> {
        let began = Instant::now();
        let end = began + Duration::from_secs(verdict::PATIENCE_SECONDS);
        loop {
            let difference = match verdict::spokes_differ(self) {
                Ok(()) => return Ok(began.elapsed()),
                Err(difference) => difference,
            };
            tracing::debug!(difference, "not right yet");
            if Instant::now() > end {
                return Err(format!("again: {difference}"));
            }
            self.rest(TICK).await?;
        }
    }
}
