//! What is kept in step with a range of the store: read whole at once, and then followed by a watch.

use std::{sync::Arc, time::Duration};

use storage::{Entry, Event, KeyRange, RangeQuery, Revision, Store, WatchEnd, WatchQuery};
use tokio_util::sync::CancellationToken;

/// Between two attempts to read the range again.
const PAUSE: Duration = Duration::from_secs(1);

/// Something that is made of all values of a range.
pub trait Follow {
    /// What it is, for the log.
    const WHAT: &'static str;

    /// Returns the keys that count.
    fn range() -> KeyRange;

    /// Takes up a whole range, in place of what is known.
    fn read(&mut self, entries: &[Entry]);

    /// Takes up changes, in their order.
    fn take(&mut self, events: &[Arc<Event>]);
}

/// Keeps `F` in step with the store, once it runs.
#[derive(Debug)]
pub struct Following<F> {
    store: Arc<dyn Store>,
    kept: F,
    /// Everything up to here has been read.
    revision: Revision,
}

/// How a watch, or the attempt to begin one, ended.
enum Ended {
    /// The store has closed.
    Closed,
    /// What is known is whole up to the revision: a watch can go on from there.
    Behind,
    /// Everything is to be read again.
    Lost(storage::Error),
}

// === impl Following ===

impl<F: Follow> Following<F> {
    /// Reads what is in the store, at once.
    ///
    /// # Errors
    /// What the store says.
    pub(crate) fn open(store: Arc<dyn Store>, kept: F) -> Result<Self, storage::Error> {
        let mut following = Self {
            revision: store.revision(),
            store,
            kept,
        };
        following.read()?;
        Ok(following)
    }

    /// Follows the store until `shutdown`, or until the store closes. A watch that ends is begun again after what was
    /// read last; where the history is gone, everything is read anew.
    pub async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let ended = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                ended = self.follow() => ended,
            };
            let mut lost = match ended {
                Ended::Closed => return,
                Ended::Behind => None,
                Ended::Lost(error) => Some(error),
            };
            while let Some(error) = lost {
                match error {
                    storage::Error::Closed => return,
                    // The history is gone, or the store was set back to before what has been read.
                    storage::Error::Compacted { .. } | storage::Error::FutureRevision { .. } => {
                        tracing::info!(what = F::WHAT, "watch history lost, listing again");
                    }
                    error => {
                        tracing::error!(what = F::WHAT, error = %error, "cannot follow the store");
                        tokio::select! {
                            biased;
                            () = shutdown.cancelled() => return,
                            () = tokio::time::sleep(PAUSE) => {}
                        }
                    }
                }
                lost = self.read().err();
            }
        }
    }

    async fn follow(&mut self) -> Ended {
        let query = WatchQuery {
            range: F::range(),
            after: self.revision,
        };
        let mut watcher = match self.store.watch(query) {
            Ok(watcher) => watcher,
            Err(storage::Error::Closed) => return Ended::Closed,
            Err(error) => return Ended::Lost(error),
        };
        loop {
            match watcher.next().await {
                Ok(events) => {
                    self.kept.take(&events);
                    if let Some(last) = events.last() {
                        self.revision = last.revision();
                    }
                }
                Err(WatchEnd::Expired) => return Ended::Behind,
                Err(WatchEnd::Closed) => return Ended::Closed,
            }
        }
    }

    fn read(&mut self) -> Result<(), storage::Error> {
        let read = self.store.range(RangeQuery::of(F::range()))?;
        self.revision = read.revision;
        self.kept.read(&read.entries);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
