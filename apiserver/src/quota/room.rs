//! The waiting room: connections of which it is not known yet who uses them.
//!
//! A connection enters when it is accepted and leaves with the first request that says who sends it. Nobody's quota
//! counts it until then, so the room is bounded: where it is full, the connection that has waited longest goes, at first
//! among those of the same address. A client that means it is through in milliseconds; one that opens sockets to hold them
//! loses its own.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::Quotas;
use crate::{
    refusal::Refusal,
    request::{
        UserInfo,
        share::{Kind, Permit, Share},
    },
};

/// Connections that wait. A fleet that comes back after a restart is a few thousand at once.
const WAITING_MAX: usize = 8_192;
/// Connections of one address that wait.
const WAITING_PER_ADDRESS_MAX: usize = 6_144;
/// Requests of one connection that may be taken back before they are answered, after which they may be no more than
/// every second one. Clients take back watches, which are answered with their heads.
const TAKEN_BACK_MAX: u32 = 200;

/// The waiting room of a server.
#[derive(Debug, Default)]
pub(crate) struct Room {
    // Guards who waits; innermost lock.
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// In the order of their arrival.
    seats: BTreeMap<u64, (IpAddr, CancellationToken)>,
    by_address: HashMap<IpAddr, BTreeSet<u64>>,
    arrivals: u64,
}

/// The place of one connection.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Arc<Room>,
    arrival: u64,
    address: IpAddr,
    /// Cuts the connection.
    cut: CancellationToken,
    /// Lets the connection end what it has begun, and closes it.
    finish: CancellationToken,
    was_used: AtomicBool,
    /// Counts the connection for the user of its first request; for nobody, where that is a front proxy or a controller.
    permit: OnceLock<Option<Permit>>,
    /// The share of its address, where a request was answered that no user is known of.
    visitor: OnceLock<Arc<Share>>,
    // Guards the share of the last user, who is nearly always the next one too; innermost lock.
    last: Mutex<Option<(Arc<UserInfo>, Arc<Share>)>>,
    request_count: AtomicU32,
    taken_back_count: AtomicU32,
}

/// A request that is being answered; dropped before [`Answering::complete`], it was taken back.
#[derive(Debug)]
pub(crate) struct Answering<'s> {
    seat: Option<&'s Seat>,
}

// === impl Room ===

impl Room {
    /// Gives a connection a seat; it ends with the server's `finish` and `cut` too. Where there is no seat left, another
    /// connection is cut.
    pub(crate) fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        finish: &CancellationToken,
        cut: &CancellationToken,
    ) -> Seat {
        let cut = cut.child_token();
        let mut waiting = self.waiting.lock();
        waiting.arrivals += 1;
        let arrival = waiting.arrivals;
        waiting.seats.insert(arrival, (address, cut.clone()));
        let same = waiting.by_address.entry(address).or_default();
        same.insert(arrival);
        let oldest_of_address = same.first().copied();
        let loser = if same.len() > WAITING_PER_ADDRESS_MAX {
            oldest_of_address
        } else if waiting.seats.len() > WAITING_MAX {
            waiting.seats.keys().next().copied()
        } else {
            None
        };
        let loser = loser.and_then(|loser| waiting.leave(loser));
        drop(waiting);
        if let Some((_, loser)) = loser {
            loser.cancel();
        }
        Seat {
            room: Arc::clone(self),
            arrival,
            address,
            cut,
            finish: finish.child_token(),
            was_used: AtomicBool::new(false),
            permit: OnceLock::new(),
            visitor: OnceLock::new(),
            last: Mutex::new(None),
            request_count: AtomicU32::new(0),
            taken_back_count: AtomicU32::new(0),
        }
    }

    #[cfg(test)]
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting.lock().seats.len()
    }
}

// === impl Waiting ===

impl Waiting {
    fn leave(&mut self, arrival: u64) -> Option<(IpAddr, CancellationToken)> {
        let seat = self.seats.remove(&arrival)?;
        if let Some(same) = self.by_address.get_mut(&seat.0) {
            same.remove(&arrival);
            if same.is_empty() {
                self.by_address.remove(&seat.0);
            }
        }
        Some(seat)
    }
}

// === impl Seat ===

impl Seat {
    /// The address at the other end.
    pub(crate) const fn address(&self) -> IpAddr {
        self.address
    }

    /// The share of a user whose request came over the connection.
    pub(crate) fn share(&self, quotas: &Quotas, user: &Arc<UserInfo>) -> Arc<Share> {
        let mut last = self.last.lock();
        if let Some((known, share)) = &*last
            && Arc::ptr_eq(known, user)
        {
            return Arc::clone(share);
        }
        let share = quotas.share(user, Some(self.address));
        *last = Some((Arc::clone(user), Arc::clone(&share)));
        share
    }

    /// Is cancelled when the connection is to be cut.
    pub(crate) fn cut(&self) -> &CancellationToken {
        &self.cut
    }

    /// Is cancelled when the connection is to end what it has begun, and to close.
    pub(crate) fn finish(&self) -> &CancellationToken {
        &self.finish
    }

    /// Whether any request came over the connection.
    pub(crate) fn was_used(&self) -> bool {
        self.was_used.load(Ordering::Relaxed)
    }

    /// Counts the connection for the user of its first request.
    ///
    /// # Errors
    /// 429 where the user has all connections that it may have; the connection closes after the answer.
    pub(crate) fn count_for(&self, share: &Arc<Share>, user: &UserInfo) -> Result<(), Refusal> {
        if self.permit.get().is_some() {
            return Ok(());
        }
        let permit = share.take(Kind::Connection, user).inspect_err(|_full| {
            self.finish.cancel();
        })?;
        self.seat_for(Some(permit));
        Ok(())
    }

    /// Counts the connection for nobody. A front proxy sends requests of many users over one, and none of them ends it for the others;
    /// what a controller sends is not counted at all.
    pub(crate) fn count_for_nobody(&self) {
        if self.permit.get().is_none() {
            self.seat_for(None);
        }
    }

    /// Notes that a request was answered. Of who asks for health alone, or is refused before it is known who asks, nothing is known but
    /// the address.
    pub(crate) fn answered(&self, quotas: &Quotas) {
        if self.permit.get().is_none() {
            self.visitor
                .get_or_init(|| quotas.share(&UserInfo::anonymous(), Some(self.address)));
        }
    }

    /// The share of the user that the connection counts for, or of its address as long as no user is known.
    pub(crate) fn user(&self) -> Option<&Arc<Share>> {
        match self.permit.get() {
            Some(permit) => permit.as_ref().map(Permit::share),
            None => self.visitor.get(),
        }
    }

    fn seat_for(&self, permit: Option<Permit>) {
        if self.permit.set(permit).is_ok() {
            let left = self.room.waiting.lock().leave(self.arrival);
            drop(left);
        }
    }

    /// Notes a request, until it is answered. A client that takes back most of what it asks costs the hub the work and
    /// itself nothing (CVE-2023-44487): its connection is cut.
    pub(crate) fn answering(&self) -> Answering<'_> {
        self.was_used.store(true, Ordering::Relaxed);
        self.request_count.fetch_add(1, Ordering::Relaxed);
        Answering { seat: Some(self) }
    }

    fn taken_back(&self) {
        if matches!(self.permit.get(), Some(None)) {
            // What one user takes back is not the others' fault; the proxy has limits of its own.
            return;
        }
        let count = self.taken_back_count.fetch_add(1, Ordering::Relaxed) + 1;
        let of = self.request_count.load(Ordering::Relaxed);
        if count > TAKEN_BACK_MAX && count > of / 2 {
            tracing::debug!(reason = "too many requests were reset", "connection closed");
            self.cut.cancel();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        drop(self.room.waiting.lock().leave(self.arrival));
    }
}

// === impl Answering ===

impl Answering<'_> {
    /// Marks the request as answered.
    pub(crate) fn complete(mut self) {
        self.seat = None;
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        if let Some(seat) = self.seat {
            seat.taken_back();
        }
    }
}
