//! The thread that prepares segments and rewrites them, so that no commit waits for that.
//!
//! A directory that does nothing in the background has no such thread: what is wanted is done at once, by
//! whoever wants it.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::LogError;
use super::States;
use super::shelf::{Prepared, Shelf};
use super::sweep::{Swept, sweep};

/// Does what is wanted of a shelf.
#[derive(Debug)]
pub(super) struct Upkeep {
    shelf: Arc<Shelf>,
    states: Arc<dyn States>,
    thread: Option<JoinHandle<()>>,
}

/// Lets nobody wait any more when the thread ends, in whatever way.
struct Deserting<'a>(&'a Shelf);

// === impl Upkeep ===

impl Upkeep {
    /// Begins. Without a thread where the directory wants none, or none can be had.
    pub(super) fn start(shelf: Arc<Shelf>, states: Arc<dyn States>) -> Self {
        let thread = shelf.directory.in_background().then(|| {
            shelf.bench.lock().deserted = false;
            let (own, states) = (Arc::clone(&shelf), Arc::clone(&states));
            std::thread::Builder::new()
                .name("store-upkeep".to_owned())
                .spawn(move || run(&own, &*states))
        });
        let thread = thread.and_then(|thread| match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                shelf.bench.lock().deserted = true;
                tracing::warn!(%error, "cannot start the upkeep thread: commits do its work");
                None
            }
        });
        Self {
            shelf,
            states,
            thread,
        }
    }

    /// Does at once what is wanted, where no thread does.
    pub(super) fn nudge(&self) {
        if self.thread.is_none() {
            while turn(&self.shelf, &*self.states) {}
        }
    }

    /// Ends what is being done, and waits for it.
    pub(super) fn close(&mut self) {
        self.shelf.bench.lock().closing = true;
        self.shelf.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the upkeep thread panicked");
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.close();
    }
}

impl Drop for Deserting<'_> {
    fn drop(&mut self) {
        self.0.bench.lock().deserted = true;
        self.0.changed.notify_all();
    }
}

fn run(shelf: &Shelf, states: &dyn States) {
    let deserting = Deserting(shelf);
    loop {
        while turn(shelf, states) {}
        let mut bench = shelf.bench.lock();
        if bench.closing {
            break;
        }
        let idle = !bench.sweep_wanted && !matches!(bench.prepared, Prepared::Wanted(..));
        if idle {
            shelf.changed.wait(&mut bench);
        }
    }
    drop(deserting);
}

/// Does one thing. Returns whether there was one.
fn turn(shelf: &Shelf, states: &dyn States) -> bool {
    if shelf.prepare_wanted() {
        return true;
    }
    let mut bench = shelf.bench.lock();
    let wanted =
        std::mem::take(&mut bench.sweep_wanted) && !bench.closing && bench.failed.is_none();
    drop(bench);
    if !wanted {
        return false;
    }
    match sweep(shelf, states) {
        Ok(Swept::Rewritten) => shelf.bench.lock().sweep_wanted = true,
        Ok(Swept::Nothing) => {}
        Err(error @ LogError::Full { .. }) => {
            tracing::warn!(%error, "not enough disk space to sweep the log");
        }
        Err(error) => shelf.bench.lock().failed = Some(Arc::new(error)),
    }
    true
}
