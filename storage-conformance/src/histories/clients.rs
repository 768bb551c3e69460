//! Clients that write, read, list and follow by seed, and record all of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::super::Random;
use super::Violation;
use super::recorder::{Notice, Recorder, Span, Watching, Wish};
use super::subject::{Ending, Fault, News, Page, Subject, Subscription};
use storage::{Expect, Revision};

/// How many deliveries a follower takes before it asks for progress amid them.
const DELIVERIES_PER_BOOKMARK: usize = 16;

/// How long a follower waits for news before it asks for progress.
const LOOK: Duration = Duration::from_millis(10);

/// What a lazy follower lets pass: more events than wait for a watcher.
const CALLS_MISSED: usize = 1_000;

/// How long a follower may stand still behind what is known to have happened.
const PATIENCE: Duration = Duration::from_mins(1);

/// What one client does.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Decides everything that the client decides; unlike that of every other client of a recording.
    pub seed: u64,
    /// How many calls it makes.
    pub calls: usize,
    /// Over how many keys, which all clients share.
    pub keys: usize,
    /// Of 100 calls, how many read one key.
    pub reads: usize,
    /// Of 100 calls, how many list.
    pub lists: usize,
}

/// How a watch is followed.
#[derive(Clone, Debug)]
pub struct Follower {
    /// Decides when and where it resumes.
    pub seed: u64,
    /// What it watches.
    pub span: Span,
    /// It resumes, from a revision that it saw, after a number of deliveries below this; 0 for never.
    pub restlessness: usize,
    /// After one delivery in this number it does not read on before [`CALLS_MISSED`] more calls were made; 0 for never.
    pub laziness: usize,
}

// === impl Workload ===

/// Runs a client until its calls are made, the store gives no answer, or it is told to stop.
///
/// # Errors
/// A promise that was broken to this client alone.
pub async fn client(
    subject: &dyn Subject,
    recorder: &Recorder,
    workload: Workload,
    stop: &AtomicBool,
) -> Result<usize, Violation> {
    let mut random = Random::new(workload.seed);
    let mut known = HashMap::new();
    for n in 0..workload.calls {
        if stop.load(Ordering::Relaxed) {
            return Ok(n);
        }
        let answered = match random.below(100) {
            dice if dice < workload.reads => {
                read(
                    subject,
                    recorder,
                    &random_key(&mut random, workload),
                    &mut known,
                )
                .await
            }
            dice if dice < workload.reads.saturating_add(workload.lists) => {
                list(subject, recorder, 1 + random.below(workload.keys)).await?
            }
            _ => {
                let wishes = wishes(&mut random, workload, n, subject.batch_max(), &known);
                write(subject, recorder, &wishes, &mut known).await
            }
        };
        if !answered {
            return Ok(n);
        }
    }
    Ok(workload.calls)
}

fn random_key(random: &mut Random, workload: Workload) -> String {
    format!("k{:04}", random.below(workload.keys))
}

/// A write of one key or a few: mostly unconditional, some of what is known, some creations.
fn wishes(
    random: &mut Random,
    workload: Workload,
    n: usize,
    batch_max: usize,
    known: &HashMap<String, Revision>,
) -> Vec<Wish> {
    let count = if random.below(8) == 0 {
        1 + random.below(batch_max)
    } else {
        1
    };
    let mut wishes: Vec<Wish> = Vec::new();
    for part in 0..count {
        let key = random_key(random, workload);
        if wishes.iter().any(|wish| wish.key == key) {
            continue;
        }
        let delete = random.below(6) == 0;
        let expect = match random.below(8) {
            0 if !delete => Expect::Absent,
            1 | 2 => known
                .get(&key)
                .map_or(Expect::Any, |at| Expect::Revision(*at)),
            _ => Expect::Any,
        };
        let value = (!delete).then(|| format!("v{:x}-{n}-{part}", workload.seed));
        wishes.push(Wish { key, value, expect });
    }
    wishes
}

async fn write(
    subject: &dyn Subject,
    recorder: &Recorder,
    wishes: &[Wish],
    known: &mut HashMap<String, Revision>,
) -> bool {
    use super::subject::Verdict;
    let call = recorder.batch(wishes);
    match subject.write(wishes).await {
        Verdict::Written(revision) => {
            recorder.written(call, revision);
            known.extend(wishes.iter().map(|wish| (wish.key.clone(), revision)));
        }
        Verdict::Done => recorder.done(call),
        Verdict::Refused(key) => recorder.refused(call, &key),
        Verdict::Nothing => recorder.nothing(call),
        Verdict::Unknown => return false,
    }
    true
}

async fn read(
    subject: &dyn Subject,
    recorder: &Recorder,
    key: &str,
    known: &mut HashMap<String, Revision>,
) -> bool {
    let call = recorder.read(key);
    let Ok(state) = subject.read(key).await else {
        return false;
    };
    if let Some((_, revision)) = &state {
        known.insert(key.to_owned(), *revision);
    }
    recorder.seen(call, state);
    true
}

/// Lists everything in pages. Each page is the state at the first one's revision.
async fn list(subject: &dyn Subject, recorder: &Recorder, limit: usize) -> Result<bool, Violation> {
    let mut behind: Option<Page> = None;
    loop {
        let call = recorder.list(behind.as_ref().map(|page| page.revision));
        match subject.list(behind.as_ref(), limit).await {
            Ok(page) => {
                let entries = page.entries.iter();
                let entries = entries.map(|(key, value, at)| (key.as_str(), value.as_str(), *at));
                recorder.listed(call, page.revision, page.span.clone(), entries);
                if page.rest.is_none() {
                    return Ok(true);
                }
                behind = Some(page);
                // Others write between two pages.
                tokio::task::yield_now().await;
            }
            Err(Fault::Down) => return Ok(false),
            Err(Fault::Compacted(floor)) => {
                // Fine for a page behind the first, and true: the client lists anew.
                let at = behind.map(|page| page.revision);
                return is_gone(at, floor).map(|()| true);
            }
        }
    }
}

/// A refusal for want of history must be true.
fn is_gone(at: Option<Revision>, floor: Option<Revision>) -> Result<(), Violation> {
    match (at, floor) {
        (Some(at), Some(floor)) if at < floor => Ok(()),
        (Some(_), None) => Ok(()),
        (at, floor) => Err(Violation::new(
            "history is kept above the floor",
            format!("{at:?} was refused, the floor is {floor:?}"),
        )),
    }
}

// === impl Follower ===

impl Follower {
    /// One that never lets go of what it watches, and reads whatever comes.
    pub fn of(span: Span) -> Self {
        Self {
            seed: 0,
            span,
            restlessness: 0,
            laziness: 0,
        }
    }
}

/// Follows from a revision until `target` is reached, which is 0 as long as it is not known.
///
/// # Errors
/// A promise that was broken to this watch alone.
pub async fn follow(
    subject: &dyn Subject,
    recorder: &Recorder,
    follower: Follower,
    after: Revision,
    target: watch::Receiver<Revision>,
) -> Result<(), Violation> {
    let mut random = Random::new(follower.seed);
    let mut places = vec![after];
    let mut at = after;
    loop {
        let mut subscription = match subject.watch(&follower.span, at).await {
            Ok(subscription) => subscription,
            Err(Fault::Down) if target.has_changed().is_ok() => {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            Err(Fault::Down) => return Ok(()), // nobody will open it again
            Err(Fault::Compacted(floor)) => {
                is_gone(Some(at), floor)?;
                at = relist(subject, recorder).await?.unwrap_or(at);
                places = vec![at];
                continue;
            }
        };
        let watching = recorder.watch(follower.span.clone(), at);
        let deliveries = match follower.restlessness {
            0 => usize::MAX,
            below => 1 + random.below(below),
        };
        let turn = Turn {
            recorder,
            watching,
            target: &target,
            deliveries,
            laziness: follower.laziness,
        };
        match turn.run(&mut *subscription, &mut at, &mut random).await? {
            Turned::Reached => return Ok(()),
            Turned::Compacted => at = relist(subject, recorder).await?.unwrap_or(at),
            Turned::Ended => {}
            Turned::Restless => {
                places.push(at);
                at = places[random.below(places.len())];
                if places.len() > 64 {
                    places.swap_remove(random.below(64));
                }
            }
        }
    }
}

/// A watch from its begin to its end.
struct Turn<'a> {
    recorder: &'a Recorder,
    watching: Watching,
    target: &'a watch::Receiver<Revision>,
    deliveries: usize,
    laziness: usize,
}

enum Turned {
    Reached,
    Ended,
    Compacted,
    Restless,
}

// === impl Turn ===

impl Turn<'_> {
    async fn run(
        mut self,
        subscription: &mut dyn Subscription,
        at: &mut Revision,
        random: &mut Random,
    ) -> Result<Turned, Violation> {
        let mut still = Duration::ZERO;
        loop {
            let target = *self.target.borrow();
            if target > Revision(0) && *at >= target {
                return Ok(Turned::Reached);
            }
            let Ok(news) = tokio::time::timeout(LOOK, subscription.next()).await else {
                self.ask_progress(subscription, at);
                still = still.saturating_add(if target > Revision(0) {
                    LOOK
                } else {
                    Duration::ZERO
                });
                if still > PATIENCE {
                    let what = format!("a watch stands at {at}, {target} has happened");
                    return Err(Violation::new("watches are reliable", what));
                }
                continue;
            };
            still = Duration::ZERO;
            match news {
                Ok(News::Events(tales)) => {
                    *at = tales.last().map_or(*at, |tale| tale.revision);
                    let notice = |tale| Notice::from(tale);
                    self.recorder.told(self.watching, tales.iter().map(notice));
                }
                Ok(News::Bookmark(revision)) => {
                    self.recorder.bookmark(self.watching, revision);
                    *at = revision.max(*at);
                }
                Err(Ending::Resume) => return Ok(Turned::Ended),
                Err(Ending::Compacted) => return Ok(Turned::Compacted),
            }
            self.deliveries = self.deliveries.saturating_sub(1);
            if self.deliveries == 0 {
                return Ok(Turned::Restless);
            }
            if self.laziness > 0 && random.below(self.laziness) == 0 {
                self.dawdle().await;
            }
            // Amid the events too: a promise that is made too early is broken by the next one.
            if self.deliveries.is_multiple_of(DELIVERIES_PER_BOOKMARK) {
                self.ask_progress(subscription, at);
            }
        }
    }

    /// Lets others go on, until the end is known.
    async fn dawdle(&self) {
        let until = self.recorder.call_count().saturating_add(CALLS_MISSED);
        while self.recorder.call_count() < until && *self.target.borrow() == Revision(0) {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn ask_progress(&self, subscription: &mut dyn Subscription, at: &mut Revision) {
        if let Some(progress) = subscription.progress() {
            self.recorder.bookmark(self.watching, progress);
            *at = progress.max(*at);
        }
    }
}

impl<'a> From<&'a super::subject::Tale> for Notice<'a> {
    fn from(tale: &'a super::subject::Tale) -> Self {
        Self {
            revision: tale.revision,
            key: &tale.key,
            value: tale.value.as_deref(),
            kind: tale.kind,
            previous: tale.previous.as_deref(),
        }
    }
}

/// Lists everything at once, and tells the revision to go on from.
async fn relist(subject: &dyn Subject, recorder: &Recorder) -> Result<Option<Revision>, Violation> {
    let call = recorder.list(None);
    match subject.list(None, usize::MAX).await {
        Ok(page) => {
            let entries = page.entries.iter();
            let entries = entries.map(|(key, value, at)| (key.as_str(), value.as_str(), *at));
            recorder.listed(call, page.revision, page.span.clone(), entries);
            Ok(Some(page.revision))
        }
        Err(Fault::Down) => Ok(None),
        Err(Fault::Compacted(floor)) => is_gone(None, floor).map(|()| None),
    }
}
