//! What users, operators and accidents do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{Plan, Story, foreign, verdict};
use crate::{
    definition::{Definition, Shape, Wish},
    fleet::{self, Failure, Fleet},
    network::{Away, Weather},
    spoke::Snapshot,
};

/// Names that instances have: few, so that they are made again.
const NAMES: &[&str] = &["one", "two", "three"];

/// How long a spoke is away at most, in milliseconds.
const OUTAGE_MAX: u64 = 60_000;

/// How long a spoke is away at least while it is set back. Source: a restore of etcd is of a stopped cluster.
const OUTAGE_MIN: Duration = Duration::from_secs(10);

/// How long a process that was killed has to go on with what it finds.
const KILL_REST: Duration = Duration::from_secs(20);

/// An instance by its cluster, the name of its definition, and its own.
pub(super) type Place = (String, String, String);

/// A fleet, and what its users want of it.
#[derive(Debug)]
pub struct World {
    /// The fleet.
    pub fleet: Fleet,
    pub(super) plan: Plan,
    pub(super) definitions: BTreeMap<String, Definition>,
    pub(super) instances: BTreeMap<Place, Wish>,
    /// Those of them that were made in the spoke itself.
    pub(super) imported: BTreeSet<Place>,
    /// Spokes that were removed from the hub.
    pub(super) removed: BTreeSet<String>,
    /// What spokes were, to be set back to.
    snapshots: BTreeMap<String, Snapshot>,
    /// Spokes that were set back: what came back with them and nobody names stays.
    pub(super) set_back: BTreeSet<String>,
    pub(super) rev: u64,
    /// What was measured.
    pub(super) told: Vec<String>,
}

// === impl World ===

impl World {
    pub(super) fn new(fleet: Fleet, plan: &Plan) -> Self {
        Self {
            fleet,
            plan: plan.clone(),
            definitions: BTreeMap::new(),
            instances: BTreeMap::new(),
            imported: BTreeSet::new(),
            removed: BTreeSet::new(),
            snapshots: BTreeMap::new(),
            set_back: BTreeSet::new(),
            rev: 0,
            told: Vec::new(),
        }
    }

    /// Plays the whole script.
    pub(super) async fn play(&mut self) -> Result<(), Failure> {
        if let Some(writes) = self.plan.kill_after {
            self.play_kills(writes).await?;
            self.calm().await?;
            return verdict::await_convergence(self).await;
        }
        match self.plan.story {
            Story::Script => {}
            Story::Removal => return self.play_removal().await,
            Story::Swings => return self.play_swings().await,
            Story::Trouble(trouble) => return self.play_trouble(trouble).await,
            Story::Faults => return self.play_faults().await,
            Story::Replaced => return self.play_replaced().await,
            Story::Narrowed => return self.play_narrowed().await,
        }
        self.set_up().await?;
        self.fleet.network.set_weather(self.plan.weather.clone());
        foreign::place_interloper(self);
        for _ in 0..self.plan.steps {
            self.step().await?;
            let pause = match self.fleet.dice.below(10) {
                0 => 20_000,
                1..=4 => 2_000,
                _ => 300,
            };
            let pause = self.fleet.dice.millis(pause);
            self.rest(pause).await?;
        }
        self.calm().await?;
        verdict::await_convergence(self).await
    }

    /// Kills the process amid the creation, a change, and the deletion of an instance with every sort of node.
    async fn play_kills(&mut self, writes: u64) -> Result<(), Failure> {
        self.fleet.network.set_weather(Weather::calm());
        self.fleet.join("east").await?;
        self.define_as("gadget", None, Shape::ALL).await?;
        self.fleet.network.set_weather(self.plan.weather.clone());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let place = (
            "east".to_owned(),
            "gadget".to_owned(),
            "gadget-one".to_owned(),
        );
        let wishes = [
            (names(&["a", "b", "c"]), true, "x"),
            (names(&["b", "d"]), true, "y"),
            (names(&["d"]), false, "y"),
        ];
        for (names, extra, slug) in wishes {
            self.rev += 1;
            let wish = Wish {
                rev: self.rev,
                names,
                extra,
                slug: slug.to_owned(),
            };
            self.fleet.network.set_fuse(Some(writes));
            self.put(place.clone(), wish).await?;
            self.rest(KILL_REST).await?;
        }
        self.fleet.network.set_fuse(None);
        self.rest(Duration::from_millis(1)).await?;
        verdict::await_convergence(self).await?;
        self.fleet.network.set_fuse(Some(writes));
        self.delete_at(&place).await?;
        self.rest(KILL_REST).await
    }

    async fn set_up(&mut self) -> Result<(), Failure> {
        self.fleet.network.set_weather(Weather::calm());
        let names = ["east", "west", "north", "south"];
        for name in names.iter().take(self.plan.spokes) {
            self.fleet.join(name).await?;
        }
        for name in ["gadget", "widget", "sprocket"]
            .iter()
            .take(self.plan.definitions)
        {
            self.define(name, None).await?;
        }
        if self.plan.local {
            self.define("lever", Some("east")).await?;
        }
        for _ in 0..self.plan.instances * self.plan.spokes {
            self.make_instance().await?;
        }
        Ok(())
    }

    async fn define(&mut self, name: &str, home: Option<&str>) -> Result<(), Failure> {
        let shape = self.random_shape();
        self.define_as(name, home, shape).await
    }

    fn random_shape(&self) -> Shape {
        Shape {
            kept: self.plan.happens.kept,
            ..Shape::random(&self.fleet.dice)
        }
    }

    pub(super) async fn define_as(
        &mut self,
        name: &str,
        home: Option<&str>,
        shape: Shape,
    ) -> Result<(), Failure> {
        let definition = Definition {
            name: name.to_owned(),
            home: home.map(str::to_owned),
            shape,
            flavor: self.fleet.dice.below(100),
        };
        let endpoint = fleet::definitions(home)?;
        self.write(&endpoint, &definition.to_value()).await?;
        self.await_definition(&endpoint, name).await?;
        self.definitions.insert(name.to_owned(), definition);
        Ok(())
    }

    async fn await_definition(
        &mut self,
        endpoint: &client::Endpoint,
        name: &str,
    ) -> Result<(), Failure> {
        let mut last = serde_json::Value::Null;
        for _ in 0..verdict::PATIENCE_SECONDS {
            let object = self.fleet.read(endpoint, name).await?;
            last = object.unwrap_or_default()["status"].take();
            let conditions = last["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            if let Some(ready) = conditions.find(|it| it["type"] == "Ready") {
                if ready["status"] == "True" {
                    return Ok(());
                }
                last = ready.clone();
            }
            self.rest(Duration::from_secs(1)).await?;
        }
        Err(format!("converges: definition {name} is not ready: {last}"))
    }

    async fn step(&mut self) -> Result<(), Failure> {
        let happens = self.plan.happens;
        let mut draw = self.fleet.dice.below(1000);
        let mut falls_in = |per_mille: u64| {
            let falls = draw < per_mille;
            draw = draw.saturating_sub(per_mille);
            falls
        };
        if falls_in(happens.kills) {
            self.kill().await
        } else if falls_in(happens.outages) {
            self.outage();
            Ok(())
        } else if falls_in(happens.set_backs) {
            self.set_back_or_keep();
            Ok(())
        } else if falls_in(happens.foreign) {
            foreign::act(self);
            Ok(())
        } else if falls_in(happens.links) {
            foreign::alter_link(self);
            Ok(())
        } else if falls_in(happens.redefinitions) {
            self.redefine().await
        } else if falls_in(happens.removals) {
            self.remove().await
        } else {
            match self.fleet.dice.below(6) {
                0 | 1 => self.make_instance().await,
                2 => self.delete_instance().await,
                _ => self.change_instance().await,
            }
        }
    }

    /// Writes as a user; a process that was killed meanwhile is started first.
    async fn write(
        &mut self,
        endpoint: &client::Endpoint,
        object: &serde_json::Value,
    ) -> Result<(), Failure> {
        loop {
            let network = Arc::clone(&self.fleet.network);
            tokio::select! {
                biased;
                () = network.killed() => {}
                written = self.fleet.write(endpoint, object) => return written,
            }
            self.restart().await?;
        }
    }

    pub(super) async fn rest(&mut self, duration: Duration) -> Result<(), Failure> {
        let network = Arc::clone(&self.fleet.network);
        let end = tokio::time::Instant::now() + duration;
        loop {
            tokio::select! {
                biased;
                () = network.killed() => self.restart().await?,
                () = tokio::time::sleep_until(end) => return Ok(()),
            }
        }
    }

    pub(super) async fn restart(&mut self) -> Result<(), Failure> {
        self.fleet.kill().await;
        let pause = self.fleet.dice.millis(3_000);
        tokio::time::sleep(pause).await;
        self.fleet.boot().await
    }

    async fn kill(&mut self) -> Result<(), Failure> {
        if self.fleet.dice.chance(500) {
            // In the midst of what it writes next.
            let writes = self.fleet.dice.below(6);
            self.fleet.network.set_fuse(Some(writes));
            return Ok(());
        }
        self.restart().await
    }

    fn outage(&self) {
        let dice = &self.fleet.dice;
        let spokes: Vec<&String> = self.fleet.spokes.keys().collect();
        let Some(name) = dice.pick(&spokes) else {
            return;
        };
        let away = if dice.chance(500) {
            Away::Silent
        } else {
            Away::Refused
        };
        let duration = dice.millis(OUTAGE_MAX);
        self.fleet.network.take_away(name, away, duration);
    }

    fn set_back_or_keep(&mut self) {
        let dice = &self.fleet.dice;
        let spokes: Vec<&String> = self.fleet.spokes.keys().collect();
        let Some(name) = dice.pick(&spokes).map(|name| (*name).clone()) else {
            return;
        };
        let Some(spoke) = self.fleet.spokes.get(&name) else {
            return;
        };
        match self.snapshots.remove(&name) {
            Some(snapshot) => {
                self.fleet.judge.note_set_back();
                // Its API servers are stopped before, and started afterwards.
                let duration = OUTAGE_MIN + dice.millis(OUTAGE_MAX);
                let network = &self.fleet.network;
                network.take_away(&name, Away::Refused, duration);
                spoke.restore(snapshot);
                self.set_back.insert(name);
            }
            None => {
                self.snapshots.insert(name, spoke.snapshot());
            }
        }
    }

    async fn redefine(&mut self) -> Result<(), Failure> {
        let dice = Arc::clone(&self.fleet.dice);
        let known: Vec<Definition> = self.definitions.values().cloned().collect();
        let Some(definition) = dice.pick(&known) else {
            return Ok(());
        };
        let mut definition = definition.clone();
        if dice.chance(500) {
            definition.flavor += 1;
        } else {
            definition.shape = self.random_shape();
        }
        let endpoint = fleet::definitions(definition.home.as_deref())?;
        if dice.chance(300) {
            // Refused, and rolled back: what was served goes on meanwhile.
            let mut refused = definition.to_value();
            refused["spec"]["resources"][0]["template"]["data"]["broken"] =
                "${nobody.knows}".into();
            self.write(&endpoint, &refused).await?;
            let pause = dice.millis(5_000);
            self.rest(pause).await?;
        }
        self.write(&endpoint, &definition.to_value()).await?;
        self.definitions.insert(definition.name.clone(), definition);
        Ok(())
    }

    /// Gives a definition other nodes.
    pub(super) async fn reshape(&mut self, name: &str, shape: Shape) -> Result<(), Failure> {
        let definition = self.definitions.get_mut(name).ok_or("it is not defined")?;
        definition.shape = shape;
        let endpoint = fleet::definitions(definition.home.as_deref())?;
        let object = definition.to_value();
        self.write(&endpoint, &object).await
    }

    /// Removes all instances of a definition, then the definition; or of a spoke, then the spoke.
    async fn remove(&mut self) -> Result<(), Failure> {
        let dice = Arc::clone(&self.fleet.dice);
        let is_spoke = dice.chance(300) && self.fleet.spokes.len() > 1;
        if !is_spoke {
            let names: Vec<String> = self.definitions.keys().cloned().collect();
            let Some(name) = dice.pick(&names) else {
                return Ok(());
            };
            self.delete_where(|place| place.1 == *name).await?;
            let Some(definition) = self.definitions.remove(name) else {
                return Ok(());
            };
            self.await_deletions(|kind| kind == definition.kind())
                .await?;
            let endpoint = fleet::definitions(definition.home.as_deref())?;
            self.fleet.delete(&endpoint, name).await?;
            // With another shape, the kind is another one: kept as it was, it is taken up again.
            return Ok(());
        }
        let names: Vec<String> = self.fleet.spokes.keys().cloned().collect();
        let Some(name) = dice.pick(&names).filter(|name| *name != "east") else {
            return Ok(());
        };
        self.delete_where(|place| place.0 == *name).await?;
        self.fleet.delete(&fleet::spokes_endpoint(), name).await?;
        self.removed.insert(name.clone());
        Ok(())
    }

    pub(super) async fn delete_where(
        &mut self,
        is_meant: impl Fn(&Place) -> bool,
    ) -> Result<(), Failure> {
        let places: Vec<Place> = self.instances.keys().cloned().collect();
        for place in places.into_iter().filter(|place| is_meant(place)) {
            self.delete_at(&place).await?;
        }
        Ok(())
    }

    /// Waits until the hub has no instances of a kind any more.
    async fn await_deletions(&mut self, is_meant: impl Fn(&str) -> bool) -> Result<(), Failure> {
        for _ in 0..verdict::PATIENCE_SECONDS {
            let instances = self.fleet.judge.instances();
            let kinds = instances.iter().map(|it| api::meta::kind(&it.object));
            if !kinds.into_iter().any(&is_meant) {
                return Ok(());
            }
            self.rest(Duration::from_secs(1)).await?;
        }
        Err("converges: instances are not deleted in time".to_owned())
    }

    async fn make_instance(&mut self) -> Result<(), Failure> {
        let dice = Arc::clone(&self.fleet.dice);
        let spokes: Vec<String> = self
            .fleet
            .spokes
            .keys()
            .filter(|name| !self.removed.contains(*name))
            .cloned()
            .collect();
        let definitions: Vec<Definition> = self.definitions.values().cloned().collect();
        let (Some(spoke), Some(definition), Some(name)) = (
            dice.pick(&spokes),
            dice.pick(&definitions),
            dice.pick(NAMES),
        ) else {
            return Ok(());
        };
        let spoke = definition.home.as_ref().unwrap_or(spoke);
        let name = format!("{}-{name}", definition.name);
        let place = (spoke.clone(), definition.name.clone(), name);
        if self.instances.contains_key(&place) {
            return self.change_instance().await;
        }
        self.rev += 1;
        let wish = Wish::random(&dice, self.rev);
        let imports = self.plan.happens.imports;
        if imports > 0 && dice.chance(imports) {
            return self.put_in_spoke(place, wish).await;
        }
        self.put(place, wish).await
    }

    async fn change_instance(&mut self) -> Result<(), Failure> {
        let places: Vec<Place> = self.instances.keys().cloned().collect();
        let Some(place) = self.fleet.dice.pick(&places).cloned() else {
            return Ok(());
        };
        self.rev += 1;
        let wish = Wish::random(&self.fleet.dice, self.rev);
        if self.imported.contains(&place) && self.fleet.dice.chance(500) {
            return self.put_in_spoke(place, wish).await;
        }
        self.put(place, wish).await
    }

    pub(super) async fn put(&mut self, place: Place, wish: Wish) -> Result<(), Failure> {
        let (cluster, definition, name) = &place;
        let Some(definition) = self.definitions.get(definition) else {
            return Ok(());
        };
        let endpoint = fleet::instances(definition, cluster)?;
        let object = definition.instance(name, &wish);
        if self.imported.contains(&place) {
            // Before it is taken up, it would be made a second time.
            self.await_import(&endpoint, name).await?;
        }
        // One of the same name may still go: what is written into it would go with it.
        self.await_gone(&endpoint, name, &place).await?;
        self.write(&endpoint, &object).await?;
        self.instances.insert(place, wish);
        Ok(())
    }

    pub(super) async fn await_gone(
        &mut self,
        endpoint: &client::Endpoint,
        name: &str,
        place: &Place,
    ) -> Result<(), Failure> {
        if self.instances.contains_key(place) {
            return Ok(());
        }
        for _ in 0..verdict::PATIENCE_SECONDS {
            if self.fleet.read(endpoint, name).await?.is_none() && !self.is_in_spoke(place) {
                return Ok(());
            }
            self.rest(Duration::from_secs(1)).await?;
        }
        Err(format!("converges: {name} is not deleted in time"))
    }

    async fn delete_instance(&mut self) -> Result<(), Failure> {
        let places: Vec<Place> = self.instances.keys().cloned().collect();
        match self.fleet.dice.pick(&places).cloned() {
            Some(place) => self.delete_at(&place).await,
            None => Ok(()),
        }
    }

    pub(super) async fn delete_at(&mut self, place: &Place) -> Result<(), Failure> {
        let (cluster, definition, name) = place;
        if self.imported.contains(place) && self.delete_in_spoke(place).await? {
            // Its deletion there is what the hub follows.
        } else if let Some(definition) = self.definitions.get(definition) {
            let endpoint = fleet::instances(definition, cluster)?;
            self.fleet.delete(&endpoint, name).await?;
        }
        self.imported.remove(place);
        self.instances.remove(place);
        // What would come back with it would be nobody's.
        self.snapshots.remove(cluster);
        Ok(())
    }

    /// Ends all faults.
    pub(super) async fn calm(&mut self) -> Result<(), Failure> {
        let network = &self.fleet.network;
        network.set_weather(Weather::calm());
        network.set_fuse(None);
        // A request that was sent before may still arrive.
        network.set_interloper(None);
        foreign::withdraw(self);
        self.rest(Duration::from_millis(1)).await
    }
}
