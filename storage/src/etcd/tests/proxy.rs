//! A way to etcd that loses or holds back what goes over it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What becomes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    Pass,
    Hold,
    Lose,
}

/// What becomes of requests and answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) requests: Treatment,
    pub(super) answers: Treatment,
}

/// A port that leads to another one.
#[derive(Debug)]
pub(super) struct Proxy {
    port: u16,
    /// The rule of the connections that are made from now on.
    rule: Arc<Mutex<watch::Sender<Rule>>>,
    _tasks: JoinSet<()>,
}

// === impl Proxy ===

impl Proxy {
    pub(super) async fn start(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let rule = Arc::new(Mutex::new(watch::Sender::new(Rule::PASS)));
        let mut tasks = JoinSet::new();
        let target = target.trim_start_matches("http://").to_owned();
        tasks.spawn(accept(listener, target, Arc::clone(&rule)));
        Self {
            port,
            rule,
            _tasks: tasks,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Treats all connections that there are so; later ones are let through. The rule can be changed.
    pub(super) fn treat(&self, rule: Rule) -> watch::Sender<Rule> {
        let next = watch::Sender::new(Rule::PASS);
        let current = std::mem::replace(&mut *self.rule.lock(), next);
        current.send_replace(rule);
        current
    }
}

// === impl Rule ===

impl Rule {
    pub(super) const PASS: Self = Self {
        requests: Treatment::Pass,
        answers: Treatment::Pass,
    };
}

async fn accept(listener: TcpListener, target: String, rule: Arc<Mutex<watch::Sender<Rule>>>) {
    let mut pumps = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        let Ok(far) = TcpStream::connect(&target).await else {
            continue;
        };
        let rule = rule.lock().subscribe();
        let (near_reads, near_writes) = near.into_split();
        let (far_reads, far_writes) = far.into_split();
        let requests = |rule: &Rule| rule.requests;
        pumps.spawn(pump(near_reads, far_writes, rule.clone(), requests));
        pumps.spawn(pump(far_reads, near_writes, rule, |rule| rule.answers));
    }
}

/// Carries bytes one way. An end is not passed on: what was held back is to arrive as if the other side were there.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut rule: watch::Receiver<Rule>,
    of: impl Fn(&Rule) -> Treatment,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        match from.read(&mut bytes).await {
            Ok(count) if count > 0 => {
                let treatment = rule.wait_for(|rule| of(rule) != Treatment::Hold).await;
                let Ok(treatment) = treatment.map(|rule| of(&rule)) else {
                    return;
                };
                if treatment == Treatment::Pass && to.write_all(&bytes[..count]).await.is_err() {
                    return;
                }
            }
            _ => std::future::pending().await,
        }
    }
}
