//! What became of transactions that have no answer.
//!
//! A process writes under a ticket, a key of its own in etcd. Each of its transactions happens only while that ticket is there,
//! and writes a mark, its number, as the ticket's value. A new connection first takes all tickets
//! of the process away, and then follows the watch up to the revision at which that happened.
//!
//! ```text
//!   draw ticket 1 .. mark 2 .. mark 3 .. (connection breaks) .. tickets gone .. draw ticket 7 ..
//!                                   4: sent, no answer        └─ seen by the watch up to here?
//!                                                                 yes: it happened, then
//!                                                                 no: it never will, and is sent again
//! ```
//!
//! # Invariants
//! - Once the tickets are gone, what was sent under them never happens, however late a member that hung proposes it: a
//!   ticket is known by the revision that drew it.
//! - Nothing is sent under a ticket that a member draws after that, over an earlier connection: whoever holds one finds
//!   that connection closed, which it is before the tickets are taken away.
//! - Marks are never given twice by a process, and the watch that goes on misses none of them.
//! - Where the watch does not go on (history was compacted, or set back), nothing can be told, and
//!   the fates of all that has no answer stay unknown.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, oneshot};
use tokio::time::Instant;

use super::layout::Layout;
use crate::key::{Key, KeyRange};

/// What tells a transaction of a process from all others of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mark(pub(crate) u64);

/// What a process writes under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) key: Key,
    /// The revision of etcd that drew it.
    pub(crate) created: i64,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It happened, at this revision of etcd.
    Happened(i64),
    /// It did not, and never will.
    Never,
    /// It cannot be told.
    Unknown,
}

/// The transactions of this process that are sent. A leaf lock guards them.
#[derive(Debug)]
pub(crate) struct Fates {
    process: String,
    sent: Mutex<Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    /// The number of the latest connection; what is sent belongs to one.
    session: u64,
    last: u64,
    open: HashMap<Mark, oneshot::Sender<Fate>>,
}

/// A transaction that is sent. It is forgotten when this is dropped.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    fates: &'a Fates,
    pub(crate) mark: Mark,
    fate: oneshot::Receiver<Fate>,
}

/// The ticket of a connection, drawn by who writes first.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionTicket(Arc<Mutex<Arc<OnceCell<Ticket>>>>);

// === impl Mark ===

impl Mark {
    /// The mark on a ticket under which nothing was written.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn encode(self) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }

    /// Reads a mark; `None` for what is none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let number = bytes.try_into().ok()?;
        Some(Self(u64::from_le_bytes(number)))
    }
}

// === impl Fates ===

impl Fates {
    /// Those of a process that nobody knows yet.
    pub(crate) fn new() -> Self {
        Self {
            process: format!("{:016x}", rand::random::<u64>()),
            sent: Mutex::default(),
        }
    }

    /// All tickets of this process.
    pub(crate) fn tickets(&self, layout: &Layout) -> KeyRange {
        layout.tickets_of(&self.process)
    }

    /// A ticket that never was.
    pub(crate) fn next_ticket(&self, layout: &Layout) -> Key {
        layout.ticket(&self.process, self.sent.lock().next())
    }

    /// A transaction is about to be sent; `None` where its connection is not the latest any more.
    pub(crate) fn send(&self, session: u64) -> Option<Pending<'_>> {
        let (sender, fate) = oneshot::channel();
        let mut sent = self.sent.lock();
        if sent.session != session {
            return None;
        }
        let mark = Mark(sent.next());
        sent.open.insert(mark, sender);
        drop(sent);
        Some(Pending {
            fates: self,
            mark,
            fate,
        })
    }

    /// The watch has told of a write under a ticket; readers see it.
    pub(crate) fn told(&self, tickets: &KeyRange, told: &(Bytes, Mark, i64)) {
        let (key, mark, revision) = told;
        if !tickets.contains(key) {
            return;
        }
        let of_it = self.sent.lock().open.remove(mark);
        if let Some(sender) = of_it {
            // Mostly its answer came, and nobody listens.
            sender.send(Fate::Happened(*revision)).unwrap_or_default();
        }
    }

    /// A connection begins: over earlier ones nothing is sent any more.
    pub(crate) fn close(&self) {
        let mut sent = self.sent.lock();
        sent.session = sent.session.saturating_add(1);
    }

    /// A connection came to be: what was sent before and not told of has this fate. Returns the
    /// number of the connection.
    pub(crate) fn settle(&self, fate: Fate) -> u64 {
        let mut sent = self.sent.lock();
        let session = sent.session;
        let open = std::mem::take(&mut sent.open);
        drop(sent);
        for sender in open.into_values() {
            sender.send(fate).unwrap_or_default();
        }
        session
    }
}

// === impl Sent ===

impl Sent {
    fn next(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }
}

// === impl Pending ===

impl Pending<'_> {
    /// Waits until it is known what became of it, or time is up.
    pub(crate) async fn learn(mut self, until: Instant) -> Fate {
        let fate = tokio::time::timeout_at(until, &mut self.fate).await;
        fate.ok().and_then(Result::ok).unwrap_or(Fate::Unknown)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.fates.sent.lock().open.remove(&self.mark);
    }
}

// === impl ConnectionTicket ===

impl ConnectionTicket {
    /// Where the ticket is, or will be.
    pub(crate) fn current(&self) -> Arc<OnceCell<Ticket>> {
        Arc::clone(&self.0.lock())
    }

    /// This ticket is not there any more: another one is to be drawn.
    pub(crate) fn lose(&self, ticket: &Ticket) {
        let mut current = self.0.lock();
        if current.get() == Some(ticket) {
            *current = Arc::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_mins(1)
    }

    #[tokio::test]
    async fn a_fate_is_what_the_watch_or_the_next_connection_tells() {
        let fates = Fates::new();
        let layout = Layout::new("/w");
        let tickets = fates.tickets(&layout);
        let ticket = Bytes::copy_from_slice(&fates.next_ticket(&layout));
        fates.close();
        let session = fates.settle(Fate::Unknown);
        let send = || fates.send(session).unwrap();
        let [told, others, never] = [send(), send(), send()];
        fates.told(&tickets, &(ticket, told.mark, 70));
        // The same mark of another process.
        let stranger = Bytes::copy_from_slice(&Fates::new().next_ticket(&layout));
        fates.told(&tickets, &(stranger, others.mark, 71));
        fates.close();
        assert!(
            fates.send(session).is_none(),
            "a ticket that is drawn late is of no use"
        );
        fates.settle(Fate::Never);
        assert_eq!(told.learn(soon()).await, Fate::Happened(70));
        assert_eq!(others.learn(soon()).await, Fate::Never);
        assert_eq!(never.learn(soon()).await, Fate::Never);
        assert!(fates.send(session).is_none(), "its connection is gone");
        assert!(fates.sent.lock().open.is_empty(), "nothing is left");
    }

    #[tokio::test]
    async fn what_nobody_tells_stays_unknown() {
        let fates = Fates::new();
        let pending = fates.send(0).unwrap();
        assert_eq!(pending.learn(Instant::now()).await, Fate::Unknown);
        assert!(fates.sent.lock().open.is_empty(), "nothing is left");
    }

    #[test]
    fn a_lost_ticket_is_drawn_anew_once() {
        let connection_ticket = ConnectionTicket::default();
        let ticket = |created| Ticket {
            key: Key::from("/t"),
            created,
        };
        connection_ticket.current().set(ticket(1)).unwrap();
        connection_ticket.lose(&ticket(1));
        assert_eq!(connection_ticket.current().get(), None);
        connection_ticket.current().set(ticket(2)).unwrap();
        connection_ticket.lose(&ticket(1));
        assert_eq!(
            connection_ticket.current().get(),
            Some(&ticket(2)),
            "told twice"
        );
    }
}
