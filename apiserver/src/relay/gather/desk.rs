//! Admits lists that spokes are asked for: so many at a time, one of each user, and so much of what spokes send.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use api::Status;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::Refusal;

/// Lists at the same time, until they are sent.
const LISTS_AT_ONCE: usize = 8;
/// Places among these that only `system:masters` take: an administrator is not locked out by clients that do not read their answers.
const PLACES_OF_MASTERS: usize = 2;
/// What the parts of all lists may take. Their answers take as much again.
const ALL_BYTES_MAX: usize = 128 * 1024 * 1024;
/// What the parts of one list may take.
pub(super) const LIST_BYTES_MAX: usize = ALL_BYTES_MAX / 4;
/// Seconds after which a client that was refused a list may try again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The places that there are.
#[derive(Debug)]
pub(in crate::relay) struct Desk {
    places: Arc<Semaphore>,
    /// Guards the users who have one. Leaf lock.
    users: Arc<Mutex<HashSet<String>>>,
    /// What is left of [`ALL_BYTES_MAX`].
    left_bytes: Arc<AtomicUsize>,
}

/// A list that is being made or sent.
#[derive(Debug)]
pub(super) struct Place {
    user: String,
    users: Arc<Mutex<HashSet<String>>>,
    left_bytes: Arc<AtomicUsize>,
    /// What it has of them, at most [`LIST_BYTES_MAX`].
    taken_bytes: AtomicUsize,
    _permit: OwnedSemaphorePermit,
}

/// What is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// What one list may take.
    List,
    /// What all lists may take.
    All,
}

// === impl Desk ===

impl Desk {
    pub(in crate::relay) fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(LISTS_AT_ONCE)),
            users: Arc::default(),
            left_bytes: Arc::new(AtomicUsize::new(ALL_BYTES_MAX)),
        }
    }

    /// Takes a place for as long as it lives.
    ///
    /// # Errors
    /// 429.
    pub(super) fn take(&self, user: &str, is_master: bool) -> Result<Place, Refusal> {
        let full = || Refusal::from(Status::too_many_requests(RETRY_AFTER_SECONDS));
        let mut users = self.users.lock();
        let reserved = if is_master { 0 } else { PLACES_OF_MASTERS };
        if self.places.available_permits() <= reserved {
            return Err(full());
        }
        let permit = Arc::clone(&self.places).try_acquire_owned();
        let permit = permit.map_err(|_full| full())?;
        if !users.insert(user.to_owned()) {
            return Err(full());
        }
        Ok(Place {
            user: user.to_owned(),
            users: Arc::clone(&self.users),
            left_bytes: Arc::clone(&self.left_bytes),
            taken_bytes: AtomicUsize::new(0),
            _permit: permit,
        })
    }
}

// === impl Place ===

impl Place {
    /// Takes some bytes, which are given back with the place at the latest.
    ///
    /// # Errors
    /// What is used up; nothing is taken then.
    pub(super) fn grow(&self, bytes: usize) -> Result<(), Full> {
        let order = Ordering::Relaxed;
        let more = |taken: usize| {
            taken
                .checked_add(bytes)
                .filter(|taken| *taken <= LIST_BYTES_MAX)
        };
        let grown = self.taken_bytes.fetch_update(order, order, more);
        grown.map_err(|_taken| Full::List)?;
        let less = |left: usize| left.checked_sub(bytes);
        if self.left_bytes.fetch_update(order, order, less).is_err() {
            self.taken_bytes.fetch_sub(bytes, order);
            return Err(Full::All);
        }
        Ok(())
    }

    /// Gives back bytes that were taken.
    pub(super) fn shrink(&self, bytes: usize) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.left_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let taken = *self.taken_bytes.get_mut();
        self.left_bytes.fetch_add(taken, Ordering::Relaxed);
        self.users.lock().remove(&self.user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_one_list_and_all_have_a_few() {
        let desk = Desk::new();
        let first = desk.take("alice", false).expect("a place");
        assert!(desk.take("alice", true).is_err(), "she has one");
        let others: Vec<_> = (1..LISTS_AT_ONCE - PLACES_OF_MASTERS)
            .map(|number| {
                desk.take(&format!("user-{number}"), false)
                    .expect("a place")
            })
            .collect();
        assert!(
            desk.take("bob", false).is_err(),
            "there are no more for him"
        );
        let masters: Vec<_> = (0..PLACES_OF_MASTERS)
            .map(|number| {
                desk.take(&format!("master-{number}"), true)
                    .expect("a place")
            })
            .collect();
        assert!(desk.take("root", true).is_err(), "there are no more");
        drop((first, masters));
        drop(desk.take("alice", false).expect("hers is free again"));
        drop(others);
    }

    #[test]
    fn what_lists_take_is_bounded_for_each_and_for_all_and_given_back() {
        let desk = Desk::new();
        let places: Vec<_> = (0..5)
            .map(|number| {
                desk.take(&format!("user-{number}"), false)
                    .expect("a place")
            })
            .collect();
        for place in &places[..4] {
            place.grow(LIST_BYTES_MAX).expect("there is as much");
            assert_eq!(place.grow(1), Err(Full::List));
        }
        assert_eq!(places[4].grow(1), Err(Full::All));
        places[0].shrink(1);
        places[4].grow(1).expect("it was given back");
        drop(places);
        assert_eq!(desk.left_bytes.load(Ordering::Relaxed), ALL_BYTES_MAX);
    }
}
