//! Whether the calls on one key can have happened one at a time, each between its begin and its end.
//!
//! The search of Wing and Gong, with Lowe's memory of where it was already: take the calls that
//! have begun in every order that their ends allow, and never try the same set of calls with the
//! same outcome twice. A call without an answer may have happened or not.
//!
//! Two cuts keep the search small, and lose no order. Calls whose revision is known happen in the
//! order of revisions. A call that may never have happened is let happen only to explain the next
//! one: where the next write is as right without it, the order without it is tried anyway.
//!
//! Source: Wing and Gong, *Testing and Verifying Concurrent Objects*, 1993; Lowe, *Testing for
//! Linearizability*, 2017; the entry list is that of porcupine.

use std::collections::HashSet;

use super::recorder::Text;
use storage::{Expect, Revision};

/// Steps of a search before it is given up. A right history of 10,000 calls takes some 20,000.
const STEP_COUNT_MAX: usize = 20_000_000;

/// One call on the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) begin: u64,
    /// `None` where it may have happened at any later moment.
    pub(super) end: Option<u64>,
    /// Whether it happened for certain.
    pub(super) certain: bool,
    pub(super) deed: Deed,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    Put {
        value: Text,
        expect: Expect,
        revision: Option<Revision>,
    },
    Delete {
        expect: Expect,
        revision: Option<Revision>,
    },
    Read(Option<(Text, Revision)>),
    /// The expectation did not hold; a deletion expects the key to be there.
    Refused {
        expect: Expect,
        deletion: bool,
    },
}

/// The key between two calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) value: Option<Text>,
    /// The revision that wrote the value, where it is known.
    pub(super) written: Option<Revision>,
    /// The newest revision so far.
    pub(super) newest: Revision,
}

/// No order explains the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    /// The call (an index) that no order could place, in the attempt that came furthest.
    At(usize),
    /// The search took too long.
    Undecided,
}

/// Finds an order, or tells where all of them end.
pub(super) fn linearize(initial: State, operations: &[Operation]) -> Result<(), Stuck> {
    Search::new(initial, operations).run()
}

struct Search<'a> {
    operations: &'a [Operation],
    entries: Entries,
    state: State,
    /// The state before a call that may never have happened, as long as nothing needs that call.
    without: Option<State>,
    placed: Vec<u64>,
    /// The place of each call in the order of known revisions.
    ranks: Vec<Option<usize>>,
    /// How many of those have their place.
    ranked: usize,
    stack: Vec<Placed>,
    tried: HashSet<(Vec<u64>, State, Option<State>)>,
    furthest: (usize, usize),
}

/// A call that was put in its place, and what it takes to undo that.
struct Placed {
    operation: usize,
    before: State,
    without: Option<State>,
    /// Whether another order may need it elsewhere.
    choice: bool,
}

/// Begins and ends in the order of time, as a list from which calls are lifted. 0 is the head.
struct Entries {
    next: Vec<usize>,
    previous: Vec<usize>,
    /// The operation of each entry, and whether it is the end of it.
    what: Vec<(usize, bool)>,
    begin: Vec<usize>,
    end: Vec<usize>,
}

// === impl Search ===

impl<'a> Search<'a> {
    fn new(initial: State, operations: &'a [Operation]) -> Self {
        Self {
            operations,
            entries: Entries::new(operations),
            state: initial,
            without: None,
            ranks: ranks(operations),
            ranked: 0,
            placed: vec![0; operations.len().div_ceil(64)],
            stack: Vec::new(),
            tried: HashSet::new(),
            furthest: (0, 0),
        }
    }

    fn run(mut self) -> Result<(), Stuck> {
        let mut entry = self.entries.first();
        for _ in 0..STEP_COUNT_MAX {
            let Some(here) = entry else {
                return Ok(()); // every call has its place
            };
            let (operation, is_end) = self.entries.what[here];
            entry = if !is_end {
                if self.place(operation) {
                    self.entries.first()
                } else {
                    self.entries.after(here)
                }
            } else if !self.operations[operation].certain && self.skip(operation) {
                self.entries.first()
            } else {
                if self.stack.len() >= self.furthest.0 {
                    self.furthest = (self.stack.len(), operation);
                }
                let Some(entry) = self.undo() else {
                    return Err(Stuck::At(self.furthest.1));
                };
                Some(entry)
            };
        }
        Err(Stuck::Undecided)
    }

    /// Lets a call happen now, if it can.
    fn place(&mut self, operation: usize) -> bool {
        let Operation { deed, certain, .. } = self.operations[operation];
        if self.ranks[operation].is_some_and(|rank| rank != self.ranked) {
            return false;
        }
        let Some(next) = step(self.state, deed) else {
            return false;
        };
        // What changes nothing may as well happen as soon as it can.
        let choice = !matches!(deed, Deed::Read(_) | Deed::Refused { .. });
        let needless = self
            .without
            .filter(|without| step(*without, deed).is_some());
        if choice && needless.is_some() {
            return false;
        }
        let without = if certain { needless } else { Some(self.state) };
        self.push(operation, next, without, choice)
    }

    /// Lets a call without answer never happen.
    fn skip(&mut self, operation: usize) -> bool {
        self.push(operation, self.state, self.without, false)
    }

    fn push(
        &mut self,
        operation: usize,
        next: State,
        without: Option<State>,
        choice: bool,
    ) -> bool {
        self.mark(operation);
        let changes = choice || !self.operations[operation].certain;
        if changes && !self.tried.insert((self.placed.clone(), next, without)) {
            self.unmark(operation);
            return false;
        }
        self.stack.push(Placed {
            operation,
            before: self.state,
            without: self.without,
            choice,
        });
        self.state = next;
        self.without = without;
        self.ranked += usize::from(self.ranks[operation].is_some());
        self.entries.lift(operation);
        true
    }

    /// Takes back the latest choice; the search goes on behind it.
    fn undo(&mut self) -> Option<usize> {
        while let Some(placed) = self.stack.pop() {
            self.state = placed.before;
            self.without = placed.without;
            self.ranked -= usize::from(self.ranks[placed.operation].is_some());
            self.unmark(placed.operation);
            self.entries.unlift(placed.operation);
            if placed.choice {
                // Its end, at least, lies behind its begin.
                return self.entries.after(self.entries.begin[placed.operation]);
            }
        }
        None
    }

    fn mark(&mut self, operation: usize) {
        self.placed[operation / 64] |= 1 << (operation % 64);
    }

    fn unmark(&mut self, operation: usize) {
        self.placed[operation / 64] &= !(1 << (operation % 64));
    }
}

/// The calls that happened for certain and at a known revision, in the order of revisions.
fn ranks(operations: &[Operation]) -> Vec<Option<usize>> {
    let known = |operation: &Operation| match operation.deed {
        Deed::Put { revision, .. } | Deed::Delete { revision, .. } if operation.certain => revision,
        _ => None,
    };
    let mut order: Vec<_> = (0..)
        .zip(operations)
        .filter_map(|(n, operation)| Some((known(operation)?, n)))
        .collect();
    order.sort_unstable();
    let mut ranks = vec![None; operations.len()];
    for (rank, (_, n)) in order.into_iter().enumerate() {
        let n: usize = n;
        ranks[n] = Some(rank);
    }
    ranks
}

/// What a call makes of a state, or `None` where it cannot have happened there.
fn step(state: State, deed: Deed) -> Option<State> {
    let next = |value, revision: Option<Revision>| {
        let newest = revision.map_or(Some(state.newest), |revision| {
            (revision > state.newest).then_some(revision)
        })?;
        Some(State {
            value,
            written: revision,
            newest,
        })
    };
    match deed {
        Deed::Put {
            value,
            expect,
            revision,
        } if holds(state, expect, false) => next(Some(value), revision),
        Deed::Delete { expect, revision } if holds(state, expect, true) => next(None, revision),
        Deed::Refused { expect, deletion } if !holds(state, expect, deletion) => Some(state),
        Deed::Read(None) if state.value.is_none() => Some(state),
        Deed::Read(Some((value, revision)))
            if state.value == Some(value) && state.written.is_none_or(|at| at == revision) =>
        {
            Some(state)
        }
        _ => None,
    }
}

fn holds(state: State, expect: Expect, deletion: bool) -> bool {
    match expect {
        Expect::Any => !deletion || state.value.is_some(),
        Expect::Absent => state.value.is_none() && !deletion,
        Expect::Revision(revision) => state.value.is_some() && state.written == Some(revision),
    }
}

// === impl Entries ===

impl Entries {
    fn new(operations: &[Operation]) -> Self {
        let count = operations.len();
        let mut moments = Vec::with_capacity(count.saturating_mul(2));
        for (n, operation) in operations.iter().enumerate() {
            moments.push((operation.begin, n, false));
            moments.push((operation.end.unwrap_or(u64::MAX), n, true));
        }
        moments.sort_unstable();
        let mut what = vec![(0, false)];
        let (mut begin, mut end) = (vec![0; count], vec![0; count]);
        for (_, operation, is_end) in moments {
            let place = if is_end { &mut end } else { &mut begin };
            place[operation] = what.len();
            what.push((operation, is_end));
        }
        let last = what.len();
        Self {
            next: (1..=last).map(|n| if n == last { 0 } else { n }).collect(),
            previous: (0..last)
                .map(|n| n.checked_sub(1).unwrap_or_else(|| last.saturating_sub(1)))
                .collect(),
            what,
            begin,
            end,
        }
    }

    fn first(&self) -> Option<usize> {
        self.after(0)
    }

    fn after(&self, entry: usize) -> Option<usize> {
        Some(self.next[entry]).filter(|entry| *entry != 0)
    }

    fn lift(&mut self, operation: usize) {
        for entry in [self.begin[operation], self.end[operation]] {
            let (previous, next) = (self.previous[entry], self.next[entry]);
            self.next[previous] = next;
            self.previous[next] = previous;
        }
    }

    fn unlift(&mut self, operation: usize) {
        // In the reverse order, so that each finds the neighbours that it left.
        for entry in [self.end[operation], self.begin[operation]] {
            let (previous, next) = (self.previous[entry], self.next[entry]);
            self.next[previous] = entry;
            self.previous[next] = entry;
        }
    }
}

#[cfg(test)]
mod tests;
