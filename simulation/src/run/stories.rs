//! Stories that no seed of the script tells often enough.

use std::time::Duration;

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
