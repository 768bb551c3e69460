//! A work queue of keys: each key is worked on by one worker at a time, and work that arrives
//! meanwhile is remembered, not lost and not done twice.
//!
//! # Invariants
//!
//! A key that is added after a worker took it is handed out again once that worker is done with
//! it, unless all that it was added for is what the worker brought about itself. A key waits in at
//! most one place: ready, delayed (the earlier due time wins) or running; one that runs may be due
//! later besides.
//!
//! The queue holds keys of objects that exist in a cache, each once, so it is bounded by them.
//!
//! Source: client-go `util/workqueue` (queue, delaying queue).

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::Hash,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::metrics::{Outcome, QueueMetrics, Working};

/// Marks of one key that are kept while it is worked on: as many as a worker's own writes come to, and more mean that there is work.
const MARK_COUNT_MAX: usize = 256;

/// A deduplicating queue with delayed additions.
#[derive(Debug)]
pub struct WorkQueue<K, M = ()> {
    // Guards the whole state; never held across an await.
    state: Mutex<State<K, M>>,
    changed: Notify,
}

/// How many keys a queue has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Those that wait for a worker.
    pub ready: usize,
    /// Those that are worked on.
    pub running: usize,
    /// Those that are due later.
    pub delayed: usize,
}

#[derive(Debug)]
struct State<K, M> {
    /// With the time since when it waits.
    ready: VecDeque<(K, Instant)>,
    ready_keys: HashSet<K>,
    running: HashMap<K, Run>,
    again: HashMap<K, Again<M>>,
    delayed: BTreeMap<(Instant, u64), K>,
    due: HashMap<K, (Instant, u64)>,
    sequence: u64,
    metrics: QueueMetrics,
}

/// Why a key is to be handed out again once its worker is done.
#[derive(Debug)]
enum Again<M> {
    /// Whatever the worker knows.
    Certainly,
    /// Because of states, by their marks, which the worker may have brought about.
    For(Vec<M>),
}

/// A key that a worker has.
#[derive(Debug)]
struct Run {
    since: Instant,
    outcome: Outcome,
    _working: Working,
}

// === impl WorkQueue ===

impl<K: Clone + Eq + Hash, M: Eq + Hash> WorkQueue<K, M> {
    /// Makes an empty queue. [`crate::Tasks::queue`] names it.
    pub(crate) fn new(metrics: QueueMetrics) -> Self {
        let state = State {
            ready: VecDeque::new(),
            ready_keys: HashSet::new(),
            running: HashMap::new(),
            again: HashMap::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            sequence: 0,
            metrics,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Adds a key to be worked on as soon as a worker is free.
    pub fn add(&self, key: K) {
        self.state.lock().add(key, Instant::now());
        self.changed.notify_one();
    }

    /// Adds a key because of a state that something has, which `mark` names: a worker that brought the
    /// state about says so with [`WorkQueue::take_back`].
    pub fn add_for(&self, key: K, mark: M) {
        let mut state = self.state.lock();
        if state.running.contains_key(&key) {
            state.note(key, mark);
            return;
        }
        state.add(key, Instant::now());
        drop(state);
        self.changed.notify_one();
    }

    /// Adds a key to be worked on after a delay, unless it is due earlier already.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_later(key, delay, Outcome::RequeueAfter);
    }

    /// [`WorkQueue::add_after`], for a key whose work has failed. A worker calls it before [`WorkQueue::done`].
    pub fn retry_after(&self, key: K, delay: Duration) {
        self.add_later(key, delay, Outcome::Error);
    }

    fn add_later(&self, key: K, delay: Duration, outcome: Outcome) {
        let mut state = self.state.lock();
        state.metrics.retries.inc();
        if let Some(run) = state.running.get_mut(&key) {
            run.outcome = run.outcome.max(outcome);
        }
        state.add_at(key, Instant::now() + delay);
        drop(state);
        self.changed.notify_one();
    }

    /// [`WorkQueue::next`], or nothing once `token` is cancelled: what a worker loops over.
    pub async fn next_until(&self, token: &CancellationToken) -> Option<K> {
        tokio::select! {
            biased;
            () = token.cancelled() => None,
            key = self.next() => Some(key),
        }
    }

    /// Hands out the next key. The worker must call [`WorkQueue::done`] with it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a key is taken only in the poll that returns it.
    pub async fn next(&self) -> K {
        loop {
            let due = {
                let mut state = self.state.lock();
                let now = Instant::now();
                state.promote(now);
                if let Some(key) = state.take(now) {
                    if !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                state.delayed.keys().next().map(|(due, _)| *due)
            };
            match due {
                Some(due) => tokio::select! {
                    biased;
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// Takes back additions of a key that is worked on, where each was for one of these states: its worker
    /// brought them about and has gone on from each.
    pub fn take_back(&self, key: &K, known: &HashSet<M>) {
        let mut state = self.state.lock();
        if state
            .again
            .get(key)
            .is_some_and(|again| !again.is_work(known))
        {
            state.again.remove(key);
        }
    }

    /// Marks the work on a key as done; the key is ready again if it was added meanwhile.
    pub fn done(&self, key: &K) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if let Some(run) = state.running.remove(key) {
            state.metrics.active.dec();
            let worked = now.saturating_duration_since(run.since);
            state.metrics.worked.observe(worked.as_secs_f64());
            state.metrics.reconciles.count(run.outcome);
        }
        if state.again.remove(key).is_some() {
            state.add(key.clone(), now);
            self.changed.notify_one();
        }
    }

    /// Counts the keys.
    pub fn depth(&self) -> Depth {
        let state = self.state.lock();
        Depth {
            ready: state.ready.len(),
            running: state.running.len(),
            delayed: state.delayed.len(),
        }
    }

    /// Returns whether no key waits and none is worked on.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.depth() == Depth::default()
    }
}

// === impl State ===

impl<K: Clone + Eq + Hash, M: Eq + Hash> State<K, M> {
    fn add(&mut self, key: K, now: Instant) {
        if let Some(place) = self.due.remove(&key) {
            self.delayed.remove(&place);
        }
        if self.running.contains_key(&key) {
            self.again.insert(key, Again::Certainly);
        } else if self.ready_keys.insert(key.clone()) {
            self.metrics.adds.inc();
            self.metrics.depth.inc();
            self.ready.push_back((key, now));
        }
    }

    /// Notes why a key that runs may have to come again.
    fn note(&mut self, key: K, mark: M) {
        let again = self
            .again
            .entry(key)
            .or_insert_with(|| Again::For(Vec::new()));
        match again {
            Again::For(marks) if marks.len() < MARK_COUNT_MAX => marks.push(mark),
            Again::For(_) => *again = Again::Certainly,
            Again::Certainly => {}
        }
    }

    fn add_at(&mut self, key: K, due: Instant) {
        let comes_again = matches!(self.again.get(&key), Some(Again::Certainly));
        if self.ready_keys.contains(&key) || comes_again {
            return;
        }
        if let Some(place) = self.due.get(&key).copied() {
            if place.0 <= due {
                return;
            }
            self.delayed.remove(&place);
        }
        self.sequence += 1;
        let place = (due, self.sequence);
        self.due.insert(key.clone(), place);
        self.delayed.insert(place, key);
    }

    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            self.due.remove(&key);
            self.add(key, now);
        }
    }

    fn take(&mut self, now: Instant) -> Option<K> {
        let (key, since) = self.ready.pop_front()?;
        self.metrics.depth.dec();
        self.metrics.active.inc();
        let waited = now.saturating_duration_since(since);
        self.metrics.waited.observe(waited.as_secs_f64());
        self.ready_keys.remove(&key);
        let run = Run {
            since: now,
            outcome: Outcome::Success,
            _working: self.metrics.running.begin(now),
        };
        self.running.insert(key.clone(), run);
        Some(key)
    }
}

// === impl Again ===

impl<M: Eq + Hash> Again<M> {
    /// Whether there is more than a worker knows.
    fn is_work(&self, known: &HashSet<M>) -> bool {
        match self {
            Self::Certainly => true,
            Self::For(marks) => !marks.iter().all(|mark| known.contains(mark)),
        }
    }
}

impl<K, M> Drop for State<K, M> {
    /// Others of the same name go on, and are counted by the same gauges.
    fn drop(&mut self) {
        let count = |keys: usize| i64::try_from(keys).unwrap_or(i64::MAX);
        self.metrics.depth.dec_by(count(self.ready.len()));
        self.metrics.active.dec_by(count(self.running.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tasks;

    fn queue() -> WorkQueue<&'static str, &'static str> {
        Tasks::new().queue("test")
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_twice_is_handed_out_once() {
        let queue = queue();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.next().await, "a", "first added, first out");
        assert_eq!(queue.next().await, "b", "the second a was the same work");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_while_it_runs_is_handed_out_again_after_done() {
        let queue = queue();
        queue.add("a");
        let key = queue.next().await;
        queue.add("a");
        let early = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
        assert!(early.is_err(), "one worker at a time");
        queue.done(&key);
        assert_eq!(queue.next().await, "a", "the work that arrived meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_worker_brought_about_itself_is_no_work() {
        let marks = |marks: &[&'static str]| marks.iter().copied().collect();
        // (what was seen meanwhile, what the worker did, whether there is work)
        for (seen, own, want) in [
            (vec!["x"], vec!["x", "y"], false),
            (vec!["x", "y", "x"], vec!["x", "y"], false),
            (vec!["x", "z"], vec!["x", "y"], true),
            (vec!["x"], vec![], true),
            (vec!["x"; MARK_COUNT_MAX + 1], vec!["x"], true),
        ] {
            let queue = queue();
            queue.add_for("a", "x");
            let key = queue.next().await;
            for mark in &seen {
                queue.add_for("a", *mark);
            }
            queue.take_back(&key, &marks(&own));
            queue.done(&key);
            assert_eq!(queue.depth().ready == 1, want, "{seen:?} and {own:?}");
        }
        let queue = queue();
        queue.add("a");
        let key = queue.next().await;
        queue.add_for("a", "x");
        queue.add("a");
        queue.add_for("a", "x");
        queue.take_back(&key, &marks(&["x"]));
        queue.done(&key);
        assert_eq!(queue.next().await, "a", "there was more than that");
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_outlives_what_turns_out_to_be_no_work() {
        let own: HashSet<&str> = HashSet::from(["x"]);
        for is_delay_first in [true, false] {
            let queue = queue();
            queue.add("a");
            let key = queue.next().await;
            let delay = || queue.add_after("a", Duration::from_secs(5));
            if is_delay_first {
                delay();
            }
            queue.add_for("a", "x");
            if !is_delay_first {
                delay();
            }
            queue.take_back(&key, &own);
            queue.done(&key);
            let start = Instant::now();
            assert_eq!(queue.next().await, "a", "it is due");
            assert_eq!(start.elapsed().as_secs(), 5, "and not before");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_delays_wins_and_an_addition_beats_both() {
        let queue = queue();
        let start = Instant::now();
        queue.add_after("a", Duration::from_mins(1));
        queue.add_after("a", Duration::from_secs(5));
        queue.add_after("a", Duration::from_secs(30));
        assert_eq!(queue.next().await, "a", "after the shortest delay");
        assert_eq!(start.elapsed().as_secs(), 5, "not before and not later");
        queue.done(&"a");
        queue.add_after("a", Duration::from_mins(1));
        queue.add("a");
        assert_eq!(queue.next().await, "a", "at once");
        queue.done(&"a");
        assert!(queue.is_empty(), "the delay went with the addition");
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_that_ends_while_the_key_runs_is_not_lost() {
        let queue = queue();
        queue.add("a");
        let key = queue.next().await;
        queue.add_after("a", Duration::from_millis(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        let none = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
        assert!(none.is_err(), "still running");
        queue.done(&key);
        assert_eq!(queue.next().await, "a", "handed out after done");
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_counted_by_its_worst_outcome() {
        let tasks = Tasks::new();
        let queue: WorkQueue<&str> = tasks.queue("test");
        let after = Duration::from_mins(1);
        for key in ["success", "later", "error", "both"] {
            queue.add(key);
            assert_eq!(queue.next().await, key);
            match key {
                "later" => queue.add_after(key, after),
                "error" => queue.retry_after(key, after),
                "both" => {
                    queue.retry_after(key, after);
                    queue.add_after(key, after);
                }
                _ => queue.add_after("another", after),
            }
            queue.done(&key);
        }
        let mut registry = prometheus_client::registry::Registry::default();
        tasks.register_queues(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for (result, count) in [("success", 1), ("requeue_after", 1), ("error", 2)] {
            let sample = format!(
                r#"controller_runtime_reconcile_total{{controller="test",result="{result}"}} {count}"#
            );
            assert!(text.contains(&sample), "{sample}: {text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn queues_of_one_name_are_counted_together_and_one_that_ends_leaves_nothing_behind() {
        let tasks = Tasks::new();
        let one: WorkQueue<&str> = tasks.queue("test");
        let other: WorkQueue<&str> = tasks.subgroup().queue("test");
        one.add("a");
        one.add("b");
        other.add("a");
        let key = one.next().await;
        tokio::time::advance(Duration::from_secs(3)).await;
        let metrics = one.state.lock().metrics.clone();
        assert_eq!((metrics.depth.get(), metrics.active.get()), (2, 1));
        assert_eq!(metrics.adds.get(), 3);
        let mut registry = prometheus_client::registry::Registry::default();
        tasks.register_queues(&mut registry);
        let has = |sample: &str| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            assert!(text.contains(sample), "{sample}: {text}");
        };
        let _other_key = other.next().await;
        tokio::time::advance(Duration::from_secs(2)).await;
        has(r#"workqueue_unfinished_work_seconds{name="test",controller="test"} 7.0"#);
        has(r#"workqueue_longest_running_processor_seconds{name="test",controller="test"} 5.0"#);
        drop(other);
        assert_eq!(metrics.depth.get(), 1, "what the other had is gone with it");
        has(r#"workqueue_unfinished_work_seconds{name="test",controller="test"} 5.0"#);
        one.done(&key);
        assert_eq!(metrics.active.get(), 0);
        has(r#"workqueue_work_duration_seconds_sum{name="test",controller="test"} 5.0"#);
        has(r#"workqueue_unfinished_work_seconds{name="test",controller="test"} 0.0"#);
        drop(one);
        assert_eq!(metrics.depth.get(), 0, "nor is what this one had");
    }
}
