//! Clients and followers of one hub, over as many restarts as a test has.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use storage::Revision;
use storage_conformance::{
    Random,
    histories::{Follower, Recorder, Span, Subject, Violation, Wish, Workload, client, follow},
};
use tokio::{sync::watch, task::JoinSet};

use super::Api;

/// The load on a hub, and what was recorded of it.
#[derive(Debug)]
pub struct Load {
    /// The hub's API.
    pub api: Arc<Api>,
    /// What was recorded.
    pub recorder: Arc<Recorder>,
    /// What the test decides by seed.
    pub random: Random,
    followers: JoinSet<Result<(), Violation>>,
    target: watch::Sender<Revision>,
}

/// Clients that are at work.
#[derive(Debug)]
pub struct Running {
    clients: JoinSet<Result<usize, Violation>>,
    stop: Arc<AtomicBool>,
}

// === impl Load ===

impl Load {
    /// A load that begins with an empty collection.
    pub fn new(api: &Arc<Api>, seed: u64) -> Self {
        Self {
            api: Arc::clone(api),
            recorder: Arc::default(),
            random: Random::new(seed),
            followers: JoinSet::new(),
            target: watch::Sender::new(Revision(0)),
        }
    }

    /// Begins to follow after a revision, and resumes after so many deliveries (0: never by itself).
    pub fn follow(&mut self, after: Revision, restlessness: usize) {
        let follower = Follower {
            seed: self.random.bits(),
            restlessness,
            ..Follower::of(Span::all())
        };
        let (api, recorder) = (Arc::clone(&self.api), Arc::clone(&self.recorder));
        let target = self.target.subscribe();
        self.followers
            .spawn(async move { follow(&*api, &recorder, follower, after, target).await });
    }

    /// Lists; tells the revision.
    pub async fn revision(&self) -> Revision {
        let call = self.recorder.list(None);
        let page = self.api.list(None, 100_000).await.expect("the hub lists");
        let entries = page.entries.iter();
        let entries = entries.map(|(key, value, at)| (key.as_str(), value.as_str(), *at));
        self.recorder
            .listed(call, page.revision, page.span.clone(), entries);
        page.revision
    }

    /// Starts clients.
    pub fn clients(&mut self, count: usize, workload: Workload) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for _ in 0..count {
            let seed = self.random.bits();
            let (api, recorder) = (Arc::clone(&self.api), Arc::clone(&self.recorder));
            let stop = Arc::clone(&stop);
            clients.spawn(async move {
                client(&*api, &recorder, Workload { seed, ..workload }, &stop).await
            });
        }
        Running { clients, stop }
    }

    /// Writes one last key, waits until every follower has seen it, and lists once more.
    ///
    /// # Errors
    ///
    /// A promise that was broken to one of them.
    pub async fn finish(&mut self) -> Result<(), Violation> {
        let wish = Wish {
            key: "last".to_owned(),
            value: Some(format!("last-{}", self.random.bits())),
            expect: storage::Expect::Any,
        };
        let call = self.recorder.batch(std::slice::from_ref(&wish));
        let verdict = self.api.write(&[wish]).await;
        let storage_conformance::histories::Verdict::Written(last) = verdict else {
            unreachable!("the hub is well again, and answers {verdict:?}");
        };
        self.recorder.written(call, last);
        self.target.send_replace(last);
        for outcome in std::mem::take(&mut self.followers).join_all().await {
            outcome?;
        }
        self.target = watch::Sender::new(Revision(0));
        self.revision().await;
        Ok(())
    }
}

// === impl Running ===

impl Running {
    /// Lets every client end its call, and tells how many calls they made.
    ///
    /// # Errors
    ///
    /// A promise that was broken to one of them.
    pub async fn stop(self) -> Result<usize, Violation> {
        self.stop.store(true, Ordering::Relaxed);
        self.done().await
    }

    /// Waits until every client has made its calls, or met with silence.
    ///
    /// # Errors
    ///
    /// A promise that was broken to one of them.
    pub async fn done(self) -> Result<usize, Violation> {
        let mut calls = 0;
        for outcome in self.clients.join_all().await {
            calls += outcome?;
        }
        Ok(calls)
    }
}
