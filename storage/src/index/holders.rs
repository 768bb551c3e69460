//! Which keys hold a term: what finds the few objects that a selector means without a look at the others.
//!
//! A term is a hash of something that a value says, and what it says is the caller's business ([`TermsOf`]). Each key
//! whose value has a term gets a number, and each term has the numbers of its holders.
//!
//! # Invariants
//! - A key has a number exactly while its newest state has a term. The slot of the key knows it.
//! - Two things may have the same hash: what is found is a superset, and the caller looks at each entry.

use std::collections::HashMap;

use super::{Slot, parallel};
use crate::entry::Entry;
use crate::key::KeyRange;
use crate::store::TermsOf;

/// The most holders that are looked up. Walking a range is as cheap from about this number on, and it does not
/// hold the lock for longer than a step of a walk does.
const LOOKED_UP_MAX: usize = 1024;

/// How many entries are looked at in one piece when an index is built.
const PIECE: usize = 4096;

/// The place of a key among the numbered ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number(u32);

/// The numbers of the holders of each term.
#[derive(Debug)]
pub(super) struct TermIndex {
    terms_of: TermsOf,
    /// The newest state of each numbered key.
    numbered: Vec<Option<Entry>>,
    /// The numbers that no key has.
    free: Vec<Number>,
    holders: HashMap<u64, Holders>,
}

/// Who holds a term. Most terms have one holder, or many.
#[derive(Debug)]
enum Holders {
    One(Number),
    /// In ascending order.
    Many(Vec<Number>),
}

/// The terms of an entry, in ascending order, each once.
pub(super) fn terms(terms_of: TermsOf, entry: &Entry) -> Vec<u64> {
    let mut terms = Vec::new();
    if !entry.is_deletion() {
        terms_of(entry.key(), entry.value(), &mut terms);
        terms.sort_unstable();
        terms.dedup();
    }
    terms
}

// === impl TermIndex ===

impl TermIndex {
    pub(super) fn new(terms_of: TermsOf) -> Self {
        Self {
            terms_of,
            numbered: Vec::new(),
            free: Vec::new(),
            holders: HashMap::new(),
        }
    }

    /// Takes up the newest states of all keys at once, and numbers their slots.
    pub(super) fn fill(&mut self, slots: &mut [Slot]) {
        let pieces: Vec<_> = slots.chunks(PIECE).collect();
        let terms_of = self.terms_of;
        let found = parallel::each(pieces.len(), |piece| {
            let slots = pieces.get(piece).copied().unwrap_or_default();
            let terms = slots.iter().map(|slot| terms(terms_of, &slot.entry));
            terms.collect::<Vec<_>>()
        });
        for (slot, terms) in slots.iter_mut().zip(found.into_iter().flatten()) {
            slot.number = self.replace(None, &slot.entry, &terms);
        }
    }

    /// Takes up the next state of a key, with its terms in ascending order: the number that the key has from now on.
    pub(super) fn replace(
        &mut self,
        before: Option<(Number, &Entry)>,
        entry: &Entry,
        terms: &[u64],
    ) -> Option<Number> {
        let (number, held) = match before {
            Some((number, before)) => (number, self::terms(self.terms_of, before)),
            None if terms.is_empty() => return None,
            None => (self.next_number(), Vec::new()),
        };
        for term in &held {
            if terms.binary_search(term).is_err() {
                self.remove(*term, number);
            }
        }
        for term in terms {
            if held.binary_search(term).is_err() {
                let holders = self.holders.entry(*term);
                holders
                    .and_modify(|holders| holders.add(number))
                    .or_insert(Holders::One(number));
            }
        }
        let holds = !terms.is_empty();
        if let Some(state) = self.numbered.get_mut(number.place()) {
            *state = holds.then(|| entry.clone());
        }
        if !holds {
            self.free.push(number);
        }
        holds.then_some(number)
    }

    /// The newest states of a range, in no order, that hold a term of each of these sets, and perhaps others. `None`
    /// where there are so many that walking the range is as cheap.
    pub(super) fn find(&self, range: &KeyRange, holding: &[Vec<u64>]) -> Option<Vec<Entry>> {
        let count =
            |any_of: &&Vec<u64>| -> usize { any_of.iter().map(|term| self.of(*term).len()).sum() };
        // What holds a term of the rarest set is looked at by the caller.
        let rarest = holding.iter().min_by_key(count)?;
        if count(&rarest) > LOOKED_UP_MAX {
            return None;
        }
        let numbers = rarest.iter().flat_map(|term| self.of(*term));
        let entries = numbers.filter_map(|number| self.numbered.get(number.place())?.as_ref());
        Some(
            entries
                .filter(|entry| range.contains(entry.key()))
                .cloned()
                .collect(),
        )
    }

    fn of(&self, term: u64) -> &[Number] {
        self.holders.get(&term).map_or(&[], Holders::as_slice)
    }

    fn next_number(&mut self) -> Number {
        if let Some(number) = self.free.pop() {
            return number;
        }
        let number = u32::try_from(self.numbered.len());
        self.numbered.push(None);
        Number(number.expect("four thousand million keys do not fit memory"))
    }

    fn remove(&mut self, term: u64, number: Number) {
        if self
            .holders
            .get_mut(&term)
            .is_some_and(|holders| holders.remove(number))
        {
            self.holders.remove(&term);
        }
    }
}

// === impl Holders ===

impl Holders {
    fn as_slice(&self) -> &[Number] {
        match self {
            Self::One(number) => std::slice::from_ref(number),
            Self::Many(numbers) => numbers,
        }
    }

    fn add(&mut self, number: Number) {
        match self {
            Self::One(other) if *other == number => {}
            Self::One(other) => {
                let (low, high) = (number.min(*other), number.max(*other));
                *self = Self::Many(vec![low, high]);
            }
            Self::Many(numbers) => {
                if let Err(place) = numbers.binary_search(&number) {
                    numbers.insert(place, number);
                }
            }
        }
    }

    /// Returns whether nobody is left.
    fn remove(&mut self, number: Number) -> bool {
        match self {
            Self::One(other) => *other == number,
            Self::Many(numbers) => {
                if let Ok(place) = numbers.binary_search(&number) {
                    numbers.remove(place);
                }
                // Terms come and go with rollouts: what one held must not stay large.
                if numbers.len() < numbers.capacity() / 4 {
                    numbers.shrink_to(numbers.len().saturating_mul(2));
                }
                match numbers.as_slice() {
                    [] => true,
                    [last] => {
                        *self = Self::One(*last);
                        false
                    }
                    _ => false,
                }
            }
        }
    }
}

// === impl Number ===

impl Number {
    fn place(self) -> usize {
        self.0 as usize
    }
}
