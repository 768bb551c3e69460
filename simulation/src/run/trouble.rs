//! Users go on while some of many spokes are away or sick: what that costs the others, and how soon the sick ones are right again.
//!
//! Times are those of the simulated clock: from a user's write, or from the moment at which a spoke is back, until the child in the
//! spoke is as its user wants it. What a processor takes for it is not in them; `hack/bench fleet` measures that.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    World,
    script::Place,
    verdict::{self, PATIENCE_SECONDS},
};
use crate::{
    definition::{NAMESPACE, Shape, Wish},
    fleet::{self, Failure},
    network::{Away, Weather},
    spoke::Key,
};

/// How long users go on before the trouble begins.
const CALM: Duration = Duration::from_mins(5);

/// Between two looks at the children.
const TICK: Duration = Duration::from_millis(2);

/// By how much the slowest hundredth of some hundred waits scatters by itself.
const SCATTER: Duration = Duration::from_millis(5);

/// The same while nothing can be seen yet.
const SETTLE_TICK: Duration = Duration::from_millis(50);

/// How long a spoke that is back counts as returning: what is written to it meanwhile is no measure of those that are well.
const RETURNING: Duration = Duration::from_secs(10);

/// How soon a spoke that is away shows it, and one that is back.
const TOLD_WITHIN: Duration = Duration::from_secs(20);

/// What befalls some spokes, and what it may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// How many spokes it befalls.
    pub sick: usize,
    /// In which ways, in turns.
    pub ways: &'static [Away],
    /// For how many seconds each, at least and at most.
    pub seconds: (u64, u64),
    /// How long the slowest hundredth of the children may take from the return of a spoke.
    pub returned_max: Duration,
    /// By how much the slowest hundredth may become slower in the other spokes, in per cent.
    pub rise_max: u32,
    /// How many requests a sick spoke has under way at once, at most.
    pub open_max: usize,
    /// How often a collection of a sick spoke is listed after its return, at most. Half of the spokes have lost their history by then.
    pub lists_max: usize,
}

/// What users wait for.
#[derive(Debug)]
struct Awaited {
    /// The generation that the child shows; none where it is to go.
    rev: Option<u64>,
    since: Instant,
    is_sick: bool,
}

/// How long users have waited.
#[derive(Debug)]
pub(super) struct Waits {
    /// Between two acts of users, in milliseconds, at most.
    pause_max: u64,
    /// How often they have acted.
    pub(super) acts: u64,
    pending: BTreeMap<Place, Awaited>,
    /// When each of the sick is back.
    back: BTreeMap<String, Instant>,
    /// In spokes that are well, and in the others before and after.
    well: Vec<Duration>,
    /// What was written to a spoke before it was well again, from its return.
    returned: Vec<Duration>,
}

// === impl World ===

impl World {
    pub(super) async fn play_trouble(&mut self, trouble: Trouble) -> Result<(), Failure> {
        let clusters = self.populate(self.plan.spokes).await?;
        let mut waits = Waits::new(1_500);
        self.go_on(&mut waits, &clusters, Instant::now() + CALM)
            .await?;
        self.settle(&mut waits).await?;
        verdict::await_convergence(self).await?;
        let uids = self.uids();
        let usual = p99(std::mem::take(&mut waits.well));

        let sick: Vec<String> = clusters.iter().take(trouble.sick).cloned().collect();
        for (cluster, way) in sick.iter().zip(trouble.ways.iter().cycle()) {
            let (least, most) = trouble.seconds;
            let more = self.fleet.dice.millis((most - least) * 1_000 + 1);
            let duration = Duration::from_secs(least) + more;
            self.fleet.network.take_away(cluster, *way, duration);
            let back = Instant::now() + duration;
            waits.back.insert(cluster.clone(), back);
            if let Some(spoke) = self.fleet.spokes.get(cluster)
                && self.fleet.dice.chance(500)
            {
                // A version that nobody has seen, and nothing before it.
                fleet::furnish(spoke);
                spoke.compact();
            }
        }
        self.go_on(&mut waits, &clusters, Instant::now() + TOLD_WITHIN)
            .await?;
        self.check_told(&waits).await?;
        let last = waits.back.values().max().copied();
        self.fleet.network.forget_lists();
        self.go_on(&mut waits, &clusters, last.unwrap_or_else(Instant::now))
            .await?;
        self.settle(&mut waits).await?;
        verdict::await_convergence(self).await?;
        self.check_kept(&uids)?;
        let others = p99(waits.well);
        let count = waits.returned.len();
        let returned = p99(waits.returned);
        let open = sick.iter().map(|it| self.fleet.network.open_most(it)).max();
        let open = open.unwrap_or_default();
        let lists = sick
            .iter()
            .map(|it| self.fleet.network.lists_most(it))
            .max();
        let (lists, listed) = lists.unwrap_or_default();
        let told = format!(
            "p99 {usual:?} before, {others:?} in the others meanwhile, {returned:?} of {count} after a return; a \
             spoke in trouble has at most {open} requests at once, and {listed} is listed {lists} times"
        );
        let broken = [
            ("returns", returned > trouble.returned_max),
            (
                "others",
                others > usual * (100 + trouble.rise_max) / 100 + SCATTER,
            ),
            ("bounded", open > trouble.open_max),
            ("lists", lists > trouble.lists_max),
        ];
        let mut broken = broken.into_iter().filter(|(_, is_broken)| *is_broken);
        if let Some((rule, _)) = broken.next() {
            return Err(format!("{rule}: {told}"));
        }
        self.told.push(told);
        Ok(())
    }

    /// Joins so many spokes, with some instances each.
    pub(super) async fn populate(&mut self, count: usize) -> Result<Vec<String>, Failure> {
        self.fleet.network.set_weather(Weather::calm());
        let clusters: Vec<String> = (0..count).map(|index| format!("s{index:03}")).collect();
        for cluster in &clusters {
            self.fleet.join(cluster).await?;
        }
        let shape = Shape {
            items: true,
            ..Shape::default()
        };
        self.define_as("gadget", None, shape).await?;
        for cluster in &clusters {
            for index in 0..self.plan.instances {
                let place = place(cluster, &format!("gadget-{index}"));
                let wish = self.next_wish();
                self.put(place, wish).await?;
            }
        }
        verdict::await_convergence(self).await?;
        Ok(clusters)
    }

    pub(super) fn next_wish(&mut self) -> Wish {
        self.rev += 1;
        Wish::random(&self.fleet.dice, self.rev)
    }

    /// Lets users change, make and delete instances anywhere.
    pub(super) async fn go_on(
        &mut self,
        waits: &mut Waits,
        clusters: &[String],
        until: Instant,
    ) -> Result<(), Failure> {
        while Instant::now() < until {
            let cluster = self.fleet.dice.pick(clusters).cloned().unwrap_or_default();
            self.act(waits, &cluster).await?;
            let next = Instant::now() + self.fleet.dice.millis(waits.pause_max);
            while waits.is_due() && Instant::now() < next {
                self.look(waits);
                self.rest(TICK).await?;
            }
            self.rest(next - Instant::now()).await?;
        }
        Ok(())
    }

    async fn act(&mut self, waits: &mut Waits, cluster: &str) -> Result<(), Failure> {
        let places: Vec<Place> = self.instances.keys().cloned().collect();
        let places: Vec<Place> = places.into_iter().filter(|it| it.0 == cluster).collect();
        let known = self.fleet.dice.pick(&places).cloned();
        let began = Instant::now();
        let (place, rev) = match (self.fleet.dice.below(10), known) {
            (0, Some(place)) => {
                self.delete_at(&place).await?;
                (place, None)
            }
            (1, _) | (_, None) => {
                let wish = self.next_wish();
                let place = place(cluster, &format!("gadget-n{}", wish.rev));
                self.put(place.clone(), wish).await?;
                (place, Some(self.rev))
            }
            (_, Some(place)) => {
                let wish = self.next_wish();
                self.put(place.clone(), wish).await?;
                (place, Some(self.rev))
            }
        };
        waits.acts += 1;
        waits.note(place, rev, began);
        Ok(())
    }

    /// Waits until users have what they wait for.
    pub(super) async fn settle(&mut self, waits: &mut Waits) -> Result<(), Failure> {
        let end = Instant::now() + Duration::from_secs(PATIENCE_SECONDS);
        while !waits.pending.is_empty() && Instant::now() < end {
            self.look(waits);
            let pause = if waits.is_due() { TICK } else { SETTLE_TICK };
            self.rest(pause).await?;
        }
        // What is left is told by the verdict.
        waits.pending.clear();
        Ok(())
    }

    fn look(&self, waits: &mut Waits) {
        let now = Instant::now();
        let (well, returned) = (&mut waits.well, &mut waits.returned);
        waits.pending.retain(|place, awaited| {
            if awaited.since > now || !self.is_there(place, awaited.rev) {
                return true;
            }
            let waited = now - awaited.since;
            let waits = if awaited.is_sick {
                &mut *returned
            } else {
                &mut *well
            };
            waits.push(waited);
            false
        });
    }

    fn is_there(&self, place: &Place, rev: Option<u64>) -> bool {
        let child = self.child(place);
        let shown = child.as_ref().map(|it| it["data"]["rev"].as_str());
        match (shown, rev) {
            (None, None) => true,
            (Some(Some(shown)), Some(rev)) => shown.parse::<u64>().is_ok_and(|shown| shown >= rev),
            _ => false,
        }
    }

    /// The child that every instance has.
    fn child(&self, place: &Place) -> Option<std::sync::Arc<serde_json::Value>> {
        let (cluster, _, name) = place;
        let key = Key::new("", "configmaps", NAMESPACE, &format!("{name}-config"));
        self.fleet.spokes.get(cluster)?.get(&key)
    }

    pub(super) fn uids(&self) -> BTreeMap<Place, String> {
        let places = self.instances.keys();
        let uids = places.filter_map(|place| {
            let child = self.child(place)?;
            Some((place.clone(), api::meta::uid(&child).to_owned()))
        });
        uids.collect()
    }

    /// Checks that no child was made anew whose instance was wanted all the time.
    pub(super) fn check_kept(&self, uids: &BTreeMap<Place, String>) -> Result<(), Failure> {
        let now = self.uids();
        for place in self.instances.keys() {
            let (Some(before), Some(after)) = (uids.get(place), now.get(place)) else {
                continue;
            };
            if before != after {
                return Err(format!("kept: the child of {place:?} was deleted"));
            }
        }
        Ok(())
    }

    /// Checks that exactly the spokes that do not answer are shown as such.
    async fn check_told(&self, waits: &Waits) -> Result<(), Failure> {
        let mut wrong = BTreeSet::new();
        for cluster in self.fleet.spokes.keys() {
            let spoke = self.fleet.read(&fleet::spokes_endpoint(), cluster).await?;
            let spoke = spoke.unwrap_or_default();
            let mut conditions = spoke["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten();
            let ready = conditions.find(|it| it["type"] == "Ready");
            let is_ready = ready.is_some_and(|it| it["status"] == "True");
            let is_sick = waits
                .back
                .get(cluster)
                .is_some_and(|it| *it > Instant::now());
            if is_ready == is_sick {
                wrong.insert(format!("{cluster} ready: {is_ready}"));
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(format!("told: {wrong:?}"))
    }
}

// === impl Waits ===

impl Waits {
    pub(super) fn new(pause_max: u64) -> Self {
        Self {
            pause_max,
            acts: 0,
            pending: BTreeMap::new(),
            back: BTreeMap::new(),
            well: Vec::new(),
            returned: Vec::new(),
        }
    }

    /// Whether anybody waits for something that can be there.
    fn is_due(&self) -> bool {
        let now = Instant::now();
        self.pending.values().any(|awaited| awaited.since <= now)
    }

    fn note(&mut self, place: Place, rev: Option<u64>, began: Instant) {
        let back = self.back.get(&place.0);
        let back = back.filter(|back| began < **back + RETURNING);
        let mut awaited = Awaited {
            rev,
            since: back.map_or(began, |back| began.max(*back)),
            is_sick: back.is_some(),
        };
        // Who has waited already goes on waiting.
        if let Some(known) = self.pending.get(&place) {
            awaited.since = known.since.min(awaited.since);
            awaited.is_sick |= known.is_sick;
        }
        self.pending.insert(place, awaited);
    }
}

fn place(cluster: &str, name: &str) -> Place {
    (cluster.to_owned(), "gadget".to_owned(), name.to_owned())
}

/// The longest wait but those of the slowest hundredth.
fn p99(mut waits: Vec<Duration>) -> Duration {
    waits.sort();
    let at = (waits.len() * 99).div_ceil(100).saturating_sub(1);
    waits.get(at).copied().unwrap_or_default()
}
