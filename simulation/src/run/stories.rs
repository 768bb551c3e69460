//! Stories that no seed of the script tells often enough.

use std::time::Duration;

use api::{kro::keys::LABEL_INSTANCE_ID, wheelhouse::keys::ANNOTATION_CONFIRM_DELETIONS};
use serde_json::Value;
use tokio::time::Instant;

use super::{World, script::Place, verdict};
use crate::{
    definition::{Shape, Wish},
    fleet::{self, Failure},
    network::Weather,
};

/// How often a wish swings.
const SWING_COUNT: usize = 24;

/// How long a wish stays at most, in milliseconds: a call whose answer is lost takes longer, so that the next wish finds it under way.
const SWING_MAX: u64 = 25_000;

/// How often it is looked whether all ask.
const TICK: Duration = Duration::from_millis(100);

/// How long a hub has to take away what it may not.
const NARROWED_REST: Duration = Duration::from_mins(2);

/// How often it is started again.
const NARROWED_RESTART_COUNT: usize = 3;

/// The children that may go before somebody is asked: fewer than the brake ever holds.
const NARROWED_GONE_MAX: usize = 4;

impl World {
    /// Deletes a spoke's instances and then the Spoke, and kills the process before they are gone: the one that follows knows the
    /// Spoke before it knows the instances.
    pub(super) async fn play_removal(&mut self) -> Result<(), Failure> {
        self.fleet.network.set_weather(Weather::calm());
        self.fleet.join("east").await?;
        self.fleet.join("west").await?;
        self.define_as("gadget", None, Shape::ALL).await?;
        for cluster in ["east", "west"] {
            for name in ["gadget-one", "gadget-two"] {
                self.wish(cluster, name, &["a", "b", "c"]).await?;
            }
        }
        verdict::await_convergence(self).await?;
        self.delete_where(|place| place.0 == "west").await?;
        let endpoint = fleet::spokes_endpoint();
        self.fleet.delete(&endpoint, "west").await?;
        self.removed.insert("west".to_owned());
        let pause = self.fleet.dice.millis(300);
        self.rest(pause).await?;
        self.restart().await?;
        verdict::await_convergence(self).await
    }

    /// Lets a wish swing while answers get lost.
    pub(super) async fn play_swings(&mut self) -> Result<(), Failure> {
        self.fleet.network.set_weather(Weather::calm());
        self.fleet.join("east").await?;
        let shape = Shape {
            items: true,
            ..Shape::default()
        };
        self.define_as("gadget", None, shape).await?;
        self.fleet.network.set_weather(self.plan.weather.clone());
        for swing in 0..SWING_COUNT {
            let names: &[&str] = if swing % 2 == 0 { &["a", "b"] } else { &["b"] };
            self.wish("east", "gadget-one", names).await?;
            let pause = self.fleet.dice.millis(SWING_MAX);
            self.rest(Duration::from_millis(200) + pause).await?;
        }
        self.calm().await?;
        verdict::await_convergence(self).await
    }

    /// Drops most children of many small instances by a revision. After the first few, all must wait, over restarts too, until the
    /// definition says that it is meant.
    pub(super) async fn play_narrowed(&mut self) -> Result<(), Failure> {
        self.fleet.network.set_weather(Weather::calm());
        self.fleet.join("east").await?;
        let wide = Shape {
            items: true,
            ..Shape::default()
        };
        self.define_as("gadget", None, wide).await?;
        for number in 0..self.plan.instances {
            let name = format!("gadget-{number}");
            self.wish("east", &name, &["a", "b", "c"]).await?;
        }
        verdict::await_convergence(self).await?;
        let before = self.child_count();
        self.fleet.network.set_weather(self.plan.weather.clone());
        self.reshape("gadget", Shape::default()).await?;
        self.rest(NARROWED_REST).await?;
        for _ in 0..NARROWED_RESTART_COUNT {
            self.restart().await?;
            self.rest(NARROWED_REST).await?;
        }
        self.few_are_gone(before)?;
        // While the spoke does not answer, that is what instances tell.
        self.calm().await?;
        let asked = self.await_questions(before).await?;
        let gone = self.few_are_gone(before)?;
        let value = asked
            .iter()
            .next_back()
            .and_then(|asked| asked.rsplit_once('='));
        let (_, value) = value.ok_or("narrowed: nobody asks")?;
        self.fleet.network.set_weather(self.plan.weather.clone());
        let (key, endpoint) = (ANNOTATION_CONFIRM_DELETIONS, fleet::definitions(None)?);
        self.fleet
            .annotate(&endpoint, "gadget", (key, value))
            .await?;
        self.calm().await?;
        let took = self.time_until_right().await?;
        self.told.push(format!(
            "{gone} of {before} children were gone unasked, all {took:?} after the confirmation"
        ));
        verdict::await_convergence(self).await
    }

    /// Returns how many children are gone of so many; fails if more are than may without a word.
    fn few_are_gone(&self, before: usize) -> Result<usize, Failure> {
        let gone = before - self.child_count();
        if gone > NARROWED_GONE_MAX {
            let told = format!(
                "narrowed: {gone} of {before} children are gone, and nobody has confirmed it"
            );
            return Err(told);
        }
        Ok(gone)
    }

    /// Returns what is asked once all instances ask that have not lost their children.
    async fn await_questions(&mut self, before: usize) -> Result<Vec<String>, Failure> {
        let end = Instant::now() + Duration::from_secs(verdict::PATIENCE_SECONDS);
        loop {
            let asked = verdict::questions(self);
            let left = self.child_count();
            if asked.len() + before - left >= self.plan.instances {
                return Ok(asked);
            }
            if Instant::now() > end {
                let asked = asked.len();
                return Err(format!(
                    "narrowed: {left} children are left, and {asked} instances ask"
                ));
            }
            self.rest(TICK).await?;
        }
    }

    fn child_count(&self) -> usize {
        let spokes = self.fleet.spokes.values();
        let objects = spokes.flat_map(|spoke| spoke.objects());
        let label = |object: &Value| !object["metadata"]["labels"][LABEL_INSTANCE_ID].is_null();
        objects.filter(|(_, object)| label(object)).count()
    }

    async fn wish(&mut self, cluster: &str, name: &str, names: &[&str]) -> Result<(), Failure> {
        self.rev += 1;
        let wish = Wish {
            rev: self.rev,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            extra: false,
            slug: "x".to_owned(),
        };
        let place: Place = (cluster.to_owned(), "gadget".to_owned(), name.to_owned());
        self.put(place, wish).await
    }
}
