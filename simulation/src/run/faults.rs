//! Users go on for half an hour in good weather and for half an hour in bad: everything comes to what they want, without many more
//! writes.

use std::time::Duration;

use tokio::time::Instant;

use super::{World, trouble::Waits, verdict};
use crate::fleet::Failure;

/// How long each weather lasts.
const DURATION: Duration = Duration::from_mins(30);

/// How many writes a change may take in bad weather, for each that it takes in good: the row's bar, in per cent.
const WRITES_MAX: u64 = 120;

/// Between two acts of users, in milliseconds, at most.
const PAUSE_MAX: u64 = 8_000;

impl World {
    pub(super) async fn play_faults(&mut self) -> Result<(), Failure> {
        let clusters = self.populate(self.plan.spokes).await?;
        let usual = self.writes_for_each_act(&clusters).await?;
        verdict::await_convergence(self).await?;
        let uids = self.uids();
        self.fleet.network.set_weather(self.plan.weather.clone());
        let in_faults = self.writes_for_each_act(&clusters).await?;
        self.calm().await?;
        verdict::await_convergence(self).await?;
        self.check_kept(&uids)?;
        let told = format!("{usual} writes for a hundred changes, and {in_faults} with the faults");
        if in_faults * 100 > usual * WRITES_MAX {
            return Err(format!("amplified: {told}"));
        }
        self.told.push(told);
        Ok(())
    }

    /// Lets users go on. Returns how many writes a hundred of their acts took, those of heartbeats included.
    async fn writes_for_each_act(&mut self, clusters: &[String]) -> Result<u64, Failure> {
        let before = self.fleet.network.writes();
        let mut waits = Waits::new(PAUSE_MAX);
        self.go_on(&mut waits, clusters, Instant::now() + DURATION)
            .await?;
        self.settle(&mut waits).await?;
        let writes = self.fleet.network.writes() - before;
        Ok(writes * 100 / waits.acts.max(1))
    }
}
