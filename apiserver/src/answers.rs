//! What others answer to questions, and what they publish: asked once at a time, remembered for a while, and never without end.
//!
//! # Invariants
//! - One question is under way once, however many wait for its answer.
//! - Memory is bounded: so many answers, however many questions there are.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::{
    sync::{OnceCell, watch},
    time::Instant,
};

/// The SHA-256 of a question: what was asked about may be a secret, and is not kept.
pub(crate) type Question = [u8; 32];

/// Answers by question.
pub(crate) struct Answers<A> {
    /// A leaf of the lock order.
    cells: Mutex<HashMap<Question, Cell<A>>>,
    count_max: usize,
}

/// An answer, or the wait for it.
pub(crate) type Cell<A> = Arc<OnceCell<Answer<A>>>;

/// An answer and its time.
#[derive(Debug)]
pub(crate) struct Answer<A> {
    /// What was said.
    pub(crate) said: A,
    at: Instant,
    /// How long it counts for anybody.
    counts_for: Duration,
    /// Whether it goes first where there is no room.
    is_spare: bool,
}

/// As many readings may follow one another at once; then there is one in each interval, until there was none for as many.
///
/// Somebody may ask for what is new while others make the hub look for what there is not.
const READINGS_AT_ONCE: u32 = 4;

/// What somebody publishes and seldom changes, keys for instance: read again where it may be old, but not all the time.
pub(crate) struct Published<T> {
    held: Arc<ArcSwap<T>>,
    /// A leaf of the lock order.
    readings: Mutex<Readings>,
    interval: Duration,
}

#[derive(Default)]
struct Readings {
    /// Closes when the last one is over.
    last_over: Option<watch::Receiver<()>>,
    /// When all of them would be done, one in each interval.
    paid_at: Option<Instant>,
}

// === impl Answers ===

impl<A> Answers<A> {
    /// Remembers at most `count_max` answers. Full: those that count for nobody or are spare are forgotten, or else all that were given, or
    /// else the waits too.
    pub(crate) fn new(count_max: usize) -> Self {
        Self {
            cells: Mutex::default(),
            count_max,
        }
    }

    /// The answer that counts for one who takes none older than `age`, or that is waited for.
    pub(crate) fn known(&self, question: &Question, age: Duration) -> Option<Cell<A>> {
        let cells = self.cells.lock();
        let cell = cells.get(question)?;
        let now = Instant::now();
        let counts = match cell.get() {
            Some(answer) => answer.counts(now, age),
            None => is_waited_for(cell),
        };
        counts.then(|| Arc::clone(cell))
    }

    /// The same, or a place for a new answer.
    pub(crate) fn cell(&self, question: Question, age: Duration) -> Cell<A> {
        let mut cells = self.cells.lock();
        let now = Instant::now();
        if !cells.contains_key(&question) {
            self.make_room(&mut cells, now);
        }
        let cell = cells.entry(question).or_default();
        if cell.get().is_some_and(|it| !it.counts(now, age)) {
            *cell = Arc::default();
        }
        Arc::clone(cell)
    }

    fn make_room(&self, cells: &mut HashMap<Question, Cell<A>>, now: Instant) {
        if cells.len() < self.count_max {
            return;
        }
        cells.retain(|_, cell| match cell.get() {
            Some(answer) => !answer.is_spare && answer.counts(now, Duration::MAX),
            None => is_waited_for(cell),
        });
        if cells.len() >= self.count_max {
            cells.retain(|_, cell| cell.get().is_none());
        }
        if cells.len() >= self.count_max {
            cells.clear();
        }
    }
}

/// Whether somebody beside the map has a place. Whoever waited for its answer may have gone away. The caller has the lock.
fn is_waited_for<A>(cell: &Cell<A>) -> bool {
    Arc::strong_count(cell) > 1
}

impl<A> fmt::Debug for Answers<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}

// === impl Answer ===

impl<A> Answer<A> {
    /// Makes an answer of now.
    pub(crate) fn now(said: A, counts_for: Duration) -> Self {
        Self {
            said,
            at: Instant::now(),
            counts_for,
            is_spare: false,
        }
    }

    /// The same, of one that goes first where there is no room: strangers can cause as many as they like.
    pub(crate) fn spare(said: A, counts_for: Duration) -> Self {
        Self {
            is_spare: true,
            ..Self::now(said, counts_for)
        }
    }

    fn counts(&self, now: Instant, age: Duration) -> bool {
        now.duration_since(self.at) < self.counts_for.min(age)
    }
}

// === impl Published ===

impl<T: Default> Published<T> {
    /// Reads once in `interval`, and [`READINGS_AT_ONCE`] times after a quiet time: as often may somebody make the hub look whether there
    /// is something new.
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            held: Arc::default(),
            readings: Mutex::default(),
            interval,
        }
    }
}

impl<T> Published<T> {
    /// What was read last.
    pub(crate) fn held(&self) -> Arc<T> {
        self.held.load_full()
    }

    /// Waits for the reading that is under way, or begins one if it may. What cannot be read leaves what was read before.
    ///
    /// The reading has a task of its own: whoever waits for it may go away, and neither ends it nor makes anybody begin another. It has to
    /// end by itself.
    pub(crate) async fn read<R>(&self, read: impl FnOnce() -> R) -> Arc<T>
    where
        R: Future<Output = Option<T>> + Send + 'static,
        T: Send + Sync + 'static,
    {
        let over = {
            let mut readings = self.readings.lock();
            if readings.may_begin(Instant::now(), self.interval) {
                readings.last_over = Some(self.begin(read()));
            }
            readings.last_over.clone()
        };
        // Nothing is ever sent: this ends when the task does, also where it panics.
        if let Some(mut over) = over {
            while over.changed().await.is_ok() {}
        }
        self.held()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "it ends by itself, and a shutdown loses nothing by it"
    )]
    fn begin(
        &self,
        reading: impl Future<Output = Option<T>> + Send + 'static,
    ) -> watch::Receiver<()>
    where
        T: Send + Sync + 'static,
    {
        let (ends, over) = watch::channel(());
        let held = Arc::clone(&self.held);
        tokio::spawn(async move {
            let _ends = ends;
            if let Some(read) = reading.await {
                held.store(Arc::new(read));
            }
        });
        over
    }
}

// === impl Readings ===

impl Readings {
    /// Whether another may begin now; it is counted if so.
    fn may_begin(&mut self, now: Instant, interval: Duration) -> bool {
        let is_over = |it: &watch::Receiver<()>| it.has_changed().is_err();
        let paid_at = self.paid_at.map_or(now, |it| it.max(now));
        let may_begin = self.last_over.as_ref().is_none_or(is_over)
            && paid_at.duration_since(now) <= interval * (READINGS_AT_ONCE - 1);
        if may_begin {
            self.paid_at = Some(paid_at + interval);
        }
        may_begin
    }
}

impl<T> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_for_its_time_and_for_no_longer_than_one_takes_it() {
        let answers = Answers::new(2);
        assert!(answers.known(&[1; 32], SECOND).is_none(), "nothing yet");
        let cell = answers.cell([1; 32], SECOND);
        let waited_for = answers.known(&[1; 32], SECOND).expect("it is waited for");
        assert!(Arc::ptr_eq(&cell, &waited_for));
        let said = |said| async move { Answer::now(said, SECOND * 4) };
        cell.get_or_init(|| said("yes")).await;
        for (after, age, want) in [
            (0, Duration::MAX, true),
            (3, Duration::MAX, true),
            (3, SECOND * 2, false),
            (4, Duration::MAX, false),
        ] {
            let answers = Answers::new(2);
            let cell = answers.cell([1; 32], age);
            cell.get_or_init(|| said("yes")).await;
            tokio::time::advance(SECOND * after).await;
            let known = answers.known(&[1; 32], age);
            assert_eq!(known.is_some(), want, "{age:?} after {after} s");
            let place = answers.cell([1; 32], age);
            assert_eq!(place.get().is_some(), want, "{age:?} after {after} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_answers_are_kept_as_there_is_room_for() {
        let answers = Answers::new(2);
        for question in 0..100 {
            let cell = answers.cell([question; 32], Duration::MAX);
            cell.get_or_init(|| async { Answer::now((), SECOND) }).await;
            assert!(answers.cells.lock().len() <= 2, "{question}");
        }
        tokio::time::advance(SECOND).await;
        // Those whose time is up make room; nobody who waits loses their place.
        let waited_for = answers.cell([100; 32], Duration::MAX);
        drop(answers.cell([101; 32], Duration::MAX));
        let known = answers.known(&[100; 32], Duration::MAX);
        assert!(known.is_some_and(|it| Arc::ptr_eq(&it, &waited_for)));
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_push_out_no_good_answer_and_nobody_who_waits() {
        let answers = Answers::new(4);
        let good = answers.cell([200; 32], Duration::MAX);
        good.get_or_init(|| async { Answer::now("yes", SECOND) })
            .await;
        drop(good);
        let waited_for = answers.cell([201; 32], Duration::MAX);
        for question in 0..100 {
            let cell = answers.cell([question; 32], Duration::MAX);
            // Each other one goes away before there is an answer.
            if question % 2 == 0 {
                cell.get_or_init(|| async { Answer::spare("no", SECOND) })
                    .await;
            }
            drop(cell);
            let is_known = answers.known(&[question; 32], Duration::MAX).is_some();
            assert_eq!(is_known, question % 2 == 0, "{question}");
            assert!(answers.cells.lock().len() <= 4, "{question}");
            let good = answers.known(&[200; 32], Duration::MAX);
            assert!(good.is_some_and(|it| it.get().is_some()), "{question}");
            let known = answers.known(&[201; 32], Duration::MAX);
            assert!(known.is_some_and(|it| Arc::ptr_eq(&it, &waited_for)));
        }
        // As many as there is room for wait: good answers go, and then all.
        let waits: Vec<_> = (0..10)
            .map(|question| {
                let cell = answers.cell([question; 32], Duration::MAX);
                assert!(answers.cells.lock().len() <= 4, "{question}");
                cell
            })
            .collect();
        let last = answers.known(&[9; 32], Duration::MAX);
        assert!(last.is_some_and(|it| Arc::ptr_eq(&it, &waits[9])));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_published_is_read_at_once_but_not_all_the_time() {
        let (published, count) = (Published::<usize>::new(SECOND), AtomicUsize::new(0));
        let read = |found: Option<usize>| {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(found)
        };
        for (after, found, want, readings) in [
            (0, Some(1), 1, 1),
            (0, Some(2), 2, 2),
            // What cannot be read changes nothing.
            (0, None, 2, 3),
            (0, Some(4), 4, 4),
            (0, Some(5), 4, 4),
            (1, Some(6), 6, 5),
            (0, Some(7), 6, 5),
            (2, Some(8), 8, 6),
            (0, Some(9), 9, 7),
            (0, Some(10), 9, 7),
            // A long quiet time is worth no more than a short one.
            (1000, Some(11), 11, 8),
            (0, Some(12), 12, 9),
            (0, Some(13), 13, 10),
            (0, Some(14), 14, 11),
            (0, Some(15), 14, 11),
        ] {
            tokio::time::advance(SECOND * after).await;
            let got = *published.read(|| read(found)).await;
            assert_eq!(
                (got, count.load(Ordering::Relaxed)),
                (want, readings),
                "the reading that would find {found:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_away_ends_no_reading_and_makes_nobody_begin_another() {
        let (published, count) = (Published::<usize>::new(SECOND * 5), AtomicUsize::new(0));
        let read = || {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            async move {
                tokio::time::sleep(SECOND * 2).await;
                Some(number)
            }
        };
        for _ in 0..3 {
            let gone = tokio::time::timeout(SECOND / 2, published.read(read)).await;
            assert!(gone.is_err(), "it goes in the middle of the reading");
        }
        let began = Instant::now();
        assert_eq!(*published.read(read).await, 1);
        assert_eq!(began.elapsed(), SECOND / 2, "the rest of the one reading");
        assert_eq!(count.load(Ordering::Relaxed), 1);
        tokio::time::advance(SECOND * 3).await;
        assert_eq!(*published.read(read).await, 2, "the next interval");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_that_panics_keeps_nobody_waiting() {
        let published = Published::<usize>::new(SECOND);
        let panics = || async { panic!("in the trial") };
        assert_eq!(*published.read(panics).await, 0);
        tokio::time::advance(SECOND).await;
        assert_eq!(*published.read(async || Some(1)).await, 1);
    }
}
