//! What plans delete in a target, over all instances of a kind.
//!
//! Small instances have few children each, and the brake of one instance never holds them. A revision that drops most children of
//! each, or an external object that they all refer to, would still empty a cluster.
//!
//! # Invariants
//!
//! What counts is what nobody asked for in the instance itself. It counts together from one revision to the next, or until
//! [`TOGETHER`] has passed without a deletion, and never less while an instance waits.
//!
//! Only instances that have been planned meanwhile are counted, so the first few show what would become of the others.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use api::GroupKind;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{brake::Brake, keys::InstanceKey};

/// How long deletions count together after the last of them, or after the revision.
const TOGETHER: Duration = Duration::from_mins(10);

/// Names a revision: the uid of its definition, and its number.
pub(crate) type RevisionId<'a> = (&'a str, i64);

/// What plans delete in a target.
#[derive(Debug, Default)]
pub(crate) struct Pruning {
    /// Guards one map, and is never held across an await.
    waves: Mutex<HashMap<GroupKind, Wave>>,
}

/// What the plan of an instance comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Children that would go, or have gone since the ledger was exact, though nobody asked for that in the instance.
    pub(crate) going: usize,
    /// Of how many.
    pub(crate) all: usize,
    /// Whether any of them are still there.
    pub(crate) goes_now: bool,
    /// Whether it was held before, maybe by an earlier process: what that saw of other instances is not known here.
    pub(crate) was_held: bool,
    /// Whether the definition's owner has confirmed it.
    pub(crate) is_confirmed: bool,
}

/// What becomes of a plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Whether its deletions wait: of all planned instances of the kind, too many children would go.
    pub(crate) is_held: bool,
    /// Instances that waited and need not any more.
    pub(crate) freed: Vec<InstanceKey>,
}

/// Deletions of one kind that count together.
#[derive(Debug)]
struct Wave {
    /// The uid of the definition, and the number of its revision.
    revision: (String, i64),
    /// When the last of them was planned.
    last: Instant,
    shares: HashMap<InstanceKey, Share>,
    /// The sums over all shares.
    going: usize,
    all: usize,
    waiting: HashSet<InstanceKey>,
}

/// The part of an instance.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    /// Children that went before the ledger was exact last.
    gone: usize,
    going: usize,
    all: usize,
}

// === impl Pruning ===

impl Pruning {
    /// Judges the plan of an instance, together with those of the other instances of its kind.
    pub(crate) fn judge(
        &self,
        key: &InstanceKey,
        revision: RevisionId<'_>,
        planned: Planned,
        brake: Brake,
    ) -> Verdict {
        let mut waves = self.waves.lock();
        let now = Instant::now();
        let anew = || Wave::new(revision, now);
        let wave = waves.entry(key.group_kind.clone()).or_insert_with(anew);
        if !wave.is_of(revision) || wave.is_over(now) && planned.going > 0 {
            *wave = anew();
        }
        if wave.is_over(now) {
            wave.clear(); // nothing is counted until something goes again
            return Verdict::default();
        }
        // What an earlier process held is held at first: the others are not known here yet.
        let is_inherited = planned.was_held && !wave.shares.contains_key(key);
        wave.note(key, planned, now);
        let (going, all) = (wave.going, wave.all);
        let at_least = if planned.was_held { brake.count_min } else { 0 };
        let holds =
            !planned.is_confirmed && (is_inherited || brake.holds(going.max(at_least), all));
        let is_held = holds && planned.going > 0 && planned.goes_now;
        if is_held {
            wave.waiting.insert(key.clone());
        } else {
            wave.waiting.remove(key);
        }
        Verdict {
            is_held,
            freed: wave.freed(holds),
        }
    }

    /// Notes that an instance has what its plan wants, and nothing else: what went stays counted.
    pub(crate) fn settled(&self, key: &InstanceKey) {
        let mut waves = self.waves.lock();
        let wave = waves.get_mut(&key.group_kind);
        if let Some(share) = wave.and_then(|wave| wave.shares.get_mut(key)) {
            share.gone += share.going;
            share.going = 0;
        }
    }

    /// Forgets an instance that is gone. Returns those that waited, and need not any more.
    pub(crate) fn forget(&self, key: &InstanceKey, brake: Brake) -> Vec<InstanceKey> {
        let mut waves = self.waves.lock();
        let Some(wave) = waves.get_mut(&key.group_kind) else {
            return Vec::new();
        };
        wave.take(key);
        wave.waiting.remove(key);
        wave.freed(brake.holds(wave.going, wave.all))
    }
}

// === impl Wave ===

impl Wave {
    fn new((definition, number): RevisionId<'_>, now: Instant) -> Self {
        Self {
            revision: (definition.to_owned(), number),
            last: now,
            shares: HashMap::new(),
            going: 0,
            all: 0,
            waiting: HashSet::new(),
        }
    }

    fn is_of(&self, (definition, number): RevisionId<'_>) -> bool {
        self.revision.0 == definition && self.revision.1 == number
    }

    fn is_over(&self, now: Instant) -> bool {
        self.waiting.is_empty() && now.duration_since(self.last) > TOGETHER
    }

    fn clear(&mut self) {
        self.shares = HashMap::new();
        (self.going, self.all) = (0, 0);
    }

    /// Takes the share of an instance out of the sums.
    fn take(&mut self, key: &InstanceKey) -> Share {
        let share = self.shares.remove(key).unwrap_or_default();
        self.going -= share.gone + share.going;
        self.all -= share.all;
        share
    }

    fn note(&mut self, key: &InstanceKey, planned: Planned, now: Instant) {
        let before = self.take(key);
        let share = Share {
            gone: before.gone,
            going: planned.going,
            all: before.gone + planned.all,
        };
        if share.going > before.going {
            self.last = now;
        }
        self.going += share.gone + share.going;
        self.all += share.all;
        self.shares.insert(key.clone(), share);
    }

    /// Lets all go on that wait, unless the brake still holds them.
    fn freed(&mut self, holds: bool) -> Vec<InstanceKey> {
        if holds {
            return Vec::new();
        }
        self.waiting.drain().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::key;

    fn plan(going: usize, all: usize) -> Planned {
        Planned {
            going,
            all,
            goes_now: going > 0,
            was_held: false,
            is_confirmed: false,
        }
    }

    fn judge(pruning: &Pruning, name: &str, number: i64, planned: Planned) -> Verdict {
        let brake = Brake::default();
        pruning.judge(&key("Web", name), ("uid", number), planned, brake)
    }

    fn is_held(pruning: &Pruning, name: &str, number: i64, going: usize, all: usize) -> bool {
        judge(pruning, name, number, plan(going, all)).is_held
    }

    #[tokio::test]
    async fn what_most_small_instances_would_lose_is_held_after_the_first_few() {
        let pruning = Pruning::default();
        assert!(!is_held(&pruning, "a", 2, 3, 4), "three are few");
        pruning.settled(&key("Web", "a"));
        assert!(is_held(&pruning, "b", 2, 3, 4), "what went counts");
        assert!(is_held(&pruning, "b", 2, 3, 4), "whenever it is asked");
        let other = key("Db", "a");
        let other = pruning.judge(&other, ("uid", 2), plan(3, 4), Brake::default());
        assert!(!other.is_held, "another kind is another matter");
        let confirmed = Planned {
            is_confirmed: true,
            ..plan(3, 4)
        };
        let verdict = judge(&pruning, "b", 2, confirmed);
        assert_eq!(verdict, Verdict::default(), "it is meant");
    }

    #[tokio::test]
    async fn nothing_counts_twice() {
        let pruning = Pruning::default();
        for _ in 0..3 {
            assert!(!is_held(&pruning, "a", 2, 4, 4));
        }
        pruning.settled(&key("Web", "a"));
        pruning.settled(&key("Web", "a"));
        assert!(!is_held(&pruning, "a", 2, 0, 0));
        assert!(!is_held(&pruning, "b", 2, 1, 6), "five of ten are not most");
    }

    #[tokio::test]
    async fn who_waits_goes_on_once_most_instances_turn_out_to_keep_their_children() {
        let pruning = Pruning::default();
        assert!(!is_held(&pruning, "a", 2, 3, 4));
        assert!(is_held(&pruning, "b", 2, 3, 4));
        let third = judge(&pruning, "c", 2, plan(0, 3));
        assert_eq!(third.freed, [], "six of eleven are most");
        let fourth = judge(&pruning, "d", 2, plan(0, 1));
        assert_eq!(fourth.freed, [key("Web", "b")], "six of twelve are not");
        assert!(!is_held(&pruning, "b", 2, 3, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn deletions_count_together_until_a_while_has_passed() {
        let pruning = Pruning::default();
        assert!(!is_held(&pruning, "a", 2, 4, 4));
        pruning.settled(&key("Web", "a"));
        tokio::time::advance(TOGETHER).await;
        assert!(is_held(&pruning, "b", 2, 4, 4), "it is not over");
        tokio::time::advance(TOGETHER * 3).await;
        assert!(is_held(&pruning, "c", 2, 4, 4), "one waits");
        let next = is_held(&pruning, "c", 3, 4, 4);
        assert!(!next, "another revision is another question");
        tokio::time::advance(TOGETHER * 2).await;
        assert!(!is_held(&pruning, "d", 3, 0, 9));
        let anew = is_held(&pruning, "e", 3, 4, 4);
        assert!(!anew, "what went long ago is over");
        let both = is_held(&pruning, "d", 3, 3, 9);
        assert!(both, "and what was kept meanwhile did not count");
    }

    #[tokio::test]
    async fn a_new_process_does_not_let_go_what_an_earlier_one_held() {
        let pruning = Pruning::default();
        let held = Planned {
            was_held: true,
            ..plan(3, 4)
        };
        assert!(judge(&pruning, "a", 2, held).is_held);
        let kept = judge(&pruning, "b", 2, plan(0, 9));
        assert_eq!(kept.freed, [key("Web", "a")]);
        assert!(!judge(&pruning, "a", 2, held).is_held, "few go");
    }

    #[tokio::test]
    async fn an_instance_that_is_gone_does_not_count() {
        let (pruning, brake) = (Pruning::default(), Brake::default());
        assert!(!is_held(&pruning, "a", 2, 4, 4));
        assert!(is_held(&pruning, "b", 2, 4, 4));
        let freed = pruning.forget(&key("Web", "a"), brake);
        assert_eq!(freed, [key("Web", "b")]);
        assert!(!is_held(&pruning, "b", 2, 4, 4));
        assert_eq!(pruning.forget(&key("Web", "never"), brake), []);
    }

    #[test]
    fn what_an_earlier_process_held_is_held_whoever_is_planned_first() {
        let pruning = Pruning::default();
        let held = Planned {
            was_held: true,
            ..plan(3, 4)
        };
        assert!(!is_held(&pruning, "a", 2, 0, 20), "it keeps all");
        assert!(
            judge(&pruning, "b", 2, held).is_held,
            "others may drop more"
        );
        let freed = judge(&pruning, "a", 2, plan(0, 20)).freed;
        assert_eq!(freed, [key("Web", "b")], "this process knows better by now");
        assert!(!judge(&pruning, "b", 2, held).is_held, "few of many go");
    }

    #[test]
    fn what_went_under_an_earlier_process_counts_and_waits_for_nothing() {
        let pruning = Pruning::default();
        let went = Planned {
            goes_now: false,
            ..plan(3, 4)
        };
        assert!(
            !judge(&pruning, "a", 2, went).is_held,
            "it has nothing left to hold"
        );
        let held = Planned {
            was_held: true,
            ..plan(3, 4)
        };
        for name in ["b", "c", "d"] {
            let verdict = judge(&pruning, name, 2, held);
            assert!(verdict.is_held, "{name} is one of too many");
            assert_eq!(verdict.freed, [], "{name} frees nobody");
        }
    }
}
