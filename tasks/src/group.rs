//! A group of tasks that share one shutdown.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use prometheus_client::registry::Registry;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics::Metrics;
use crate::queue::WorkQueue;

/// The token whose cancellation asks a component to end.
pub type Shutdown = CancellationToken;

/// What a panic of a task means for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPanic {
    /// It is logged; the others go on.
    Log,
    /// It is logged, and the whole group is asked to end.
    ShutDown,
}

/// What a shutdown had to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// The names of the tasks that had to be aborted, with their numbers.
    pub aborted: BTreeMap<&'static str, usize>,
}

/// A group of tasks; cheap to clone.
#[derive(Clone)]
pub struct Tasks {
    shared: Arc<Shared>,
    /// Of the queues of this group and its subgroups.
    metrics: Metrics,
}

struct Shared {
    tracker: TaskTracker,
    shutdown: Shutdown,
    /// The first task whose panic asked the group to end.
    failed: OnceLock<&'static str>,
    /// Guards the running tasks by number. Held for single map operations only, never across an await.
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    next: u64,
    tasks: BTreeMap<u64, (&'static str, Option<AbortHandle>)>,
}

/// Takes a task off the list when it ends in whatever way.
struct Registration {
    shared: Arc<Shared>,
    number: u64,
}

// === impl Tasks ===

impl Tasks {
    /// Makes a group with a shutdown of its own.
    pub fn new() -> Self {
        Self::with_shutdown(Shutdown::new(), Metrics::default())
    }

    /// Returns a group that ends with this token.
    fn with_shutdown(shutdown: Shutdown, metrics: Metrics) -> Self {
        Self {
            metrics,
            shared: Arc::new(Shared {
                tracker: TaskTracker::new(),
                shutdown,
                failed: OnceLock::new(),
                running: Mutex::default(),
            }),
        }
    }

    /// Makes a group that is asked to end with this one, and can end before it. It is not awaited by this one:
    /// whoever makes it shuts it down.
    #[must_use]
    pub fn subgroup(&self) -> Self {
        Self::with_shutdown(self.child_token(), self.metrics.clone())
    }

    /// Makes a work queue. It is counted by this name, together with others of the same name.
    pub fn queue<K, M>(&self, name: &'static str) -> WorkQueue<K, M>
    where
        K: Clone + Eq + Hash,
        M: Eq + Hash,
    {
        WorkQueue::new(self.metrics.queue(name))
    }

    /// Registers the metrics of all queues that this group, its subgroups and its parents make.
    pub fn register_queues(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Runs a future beside the caller. A panic in it is logged, and seen by whoever awaits the handle.
    pub fn spawn<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_with(name, OnPanic::Log, future)
    }

    /// Runs a future beside the caller and says what its panic means.
    pub fn spawn_with<F>(
        &self,
        name: &'static str,
        on_panic: OnPanic,
        future: F,
    ) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let registration = self.register(name);
        let number = registration.number;
        // Not an async block: one that awaits what it was given has room for it twice.
        let ended = move |result| match result {
            Ok(output) => output,
            Err(panic) => {
                registration.shared.report_panic(name, on_panic);
                resume_unwind(panic)
            }
        };
        let caught = AssertUnwindSafe(future).catch_unwind();
        let handle = self.shared.tracker.spawn(caught.map(ended));
        self.shared.keep_abort_handle(number, handle.abort_handle());
        handle
    }

    /// Runs a function that blocks, on a thread for such. It cannot be aborted, only waited for.
    pub fn spawn_blocking<F, T>(&self, name: &'static str, function: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let registration = self.register(name);
        self.shared.tracker.spawn_blocking(move || {
            match std::panic::catch_unwind(AssertUnwindSafe(function)) {
                Ok(output) => output,
                Err(panic) => {
                    registration.shared.report_panic(name, OnPanic::Log);
                    resume_unwind(panic)
                }
            }
        })
    }

    /// Hands out a token that is cancelled with the group.
    pub fn child_token(&self) -> Shutdown {
        self.shared.shutdown.child_token()
    }

    /// Hands out the token of the group itself; cancelling it asks everybody to end.
    pub fn token(&self) -> Shutdown {
        self.shared.shutdown.clone()
    }

    /// Names the task whose panic asked the group to end, if one did.
    pub fn failed(&self) -> Option<&'static str> {
        self.shared.failed.get().copied()
    }

    /// Counts the tasks that run, by name.
    pub fn running(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for (name, _) in self.shared.running().tasks.values() {
            *counts.entry(*name).or_insert(0) += 1;
        }
        counts
    }

    /// Asks all tasks to end, waits for them as long as the grace lasts, and aborts the rest.
    ///
    /// Blocking functions cannot be aborted: they are in the report, and go on.
    ///
    /// # Cancel safety
    /// Not cancel-safe: dropped early it leaves tasks that were asked to end but were not awaited.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.shared.shutdown.cancel();
        self.shared.tracker.close();
        if tokio::time::timeout(grace, self.shared.tracker.wait())
            .await
            .is_ok()
        {
            return ShutdownReport::default();
        }
        let aborted = self.running();
        let handles: Vec<AbortHandle> = self
            .shared
            .running()
            .tasks
            .values()
            .filter_map(|(_, handle)| handle.clone())
            .collect();
        for handle in handles {
            handle.abort();
        }
        tracing::warn!(reason = ?aborted, "tasks did not end in time and were aborted");
        ShutdownReport { aborted }
    }

    fn register(&self, name: &'static str) -> Registration {
        let mut running = self.shared.running();
        let number = running.next;
        running.next = number.wrapping_add(1);
        running.tasks.insert(number, (name, None));
        Registration {
            shared: Arc::clone(&self.shared),
            number,
        }
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("running", &self.running())
            .finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    fn running(&self) -> MutexGuard<'_, Running> {
        // A panic while the list is held leaves it whole: every change is one map operation.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the handle, unless the task has ended before it could be kept.
    fn keep_abort_handle(&self, number: u64, handle: AbortHandle) {
        if let Some((_, kept)) = self.running().tasks.get_mut(&number) {
            *kept = Some(handle);
        }
    }

    fn report_panic(&self, name: &'static str, on_panic: OnPanic) {
        // The panic hook has already written message and place.
        tracing::error!(name, reason = ?on_panic, "task panicked");
        if on_panic == OnPanic::ShutDown {
            self.failed.get_or_init(|| name);
            self.shutdown.cancel();
        }
    }
}

// === impl Registration ===

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.running().tasks.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn a_shutdown_asks_the_tasks_to_end_and_waits_for_them() {
        let tasks = Tasks::new();
        let (ended, has_ended) = oneshot::channel();
        let token = tasks.child_token();
        tasks.spawn("waiter", async move {
            token.cancelled().await;
            tokio::task::yield_now().await;
            ended.send(()).unwrap();
        });
        assert_eq!(tasks.running(), BTreeMap::from([("waiter", 1)]));
        assert_eq!(tasks.shutdown(GRACE).await, ShutdownReport::default());
        has_ended.await.unwrap();
        assert_eq!(tasks.running(), BTreeMap::new());
    }

    #[tokio::test]
    async fn what_does_not_end_is_aborted_and_named() {
        let tasks = Tasks::new();
        let stubborn = tasks.spawn("stubborn", std::future::pending::<()>());
        let report = tasks.shutdown(Duration::ZERO).await;
        assert_eq!(report.aborted, BTreeMap::from([("stubborn", 1)]));
        assert!(stubborn.await.unwrap_err().is_cancelled());
        assert_eq!(tasks.running(), BTreeMap::new());
    }

    #[tokio::test]
    async fn a_panic_leaves_the_others_alone_unless_it_is_said_to_end_them() {
        for (on_panic, ends) in [(OnPanic::Log, false), (OnPanic::ShutDown, true)] {
            let tasks = Tasks::new();
            let task = tasks.spawn_with("broken", on_panic, async { panic!("on purpose") });
            assert!(task.await.unwrap_err().is_panic());
            assert_eq!(tasks.token().is_cancelled(), ends, "{on_panic:?}");
            assert_eq!(tasks.failed(), ends.then_some("broken"), "{on_panic:?}");
        }
    }

    #[tokio::test]
    async fn blocking_functions_are_counted_and_awaited() {
        let tasks = Tasks::new();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let blocked = tasks.spawn_blocking("blocked", move || released.recv().is_ok());
        assert_eq!(tasks.running(), BTreeMap::from([("blocked", 1)]));
        release.send(()).unwrap();
        assert_eq!(tasks.shutdown(GRACE).await, ShutdownReport::default());
        assert!(blocked.await.unwrap());
    }

    #[tokio::test]
    async fn a_subgroup_ends_with_its_group_and_can_end_before_it() {
        let tasks = Tasks::new();
        let first = tasks.subgroup();
        first.shutdown(GRACE).await;
        assert!(!tasks.token().is_cancelled());
        let second = tasks.subgroup();
        tasks.shutdown(GRACE).await;
        assert!(second.token().is_cancelled());
    }
}
