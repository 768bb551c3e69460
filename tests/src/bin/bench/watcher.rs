//! A watcher that counts events and knows from which resource version it would go on.

use std::{io, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use crate::wire::{Body, Connection, Target};

/// Between two beginnings of an event's resource version.
const VERSION: &[u8] = b"\"resourceVersion\":\"";

/// One open watch.
#[derive(Debug)]
pub(crate) struct Watcher {
    body: Body,
    /// The part of a line whose end has not come.
    rest: Vec<u8>,
    /// Where a next watch begins.
    pub(crate) version: String,
    /// Events so far.
    pub(crate) seen: usize,
    // Its drop cuts the connection, unless others use it.
    _connection: Connection,
}

/// Someone who watched before and was cut.
pub(crate) struct Cut {
    pub(crate) target: Target,
    pub(crate) index: usize,
    pub(crate) path: &'static str,
    /// Where it goes on.
    pub(crate) version: String,
    /// How long it waits after a failed try.
    pub(crate) retry: Duration,
}

/// One that came back.
pub(crate) struct Back {
    /// Kept until all are there: a herd that leaves is cheaper than one that stays.
    _watcher: Watcher,
    /// When it watched again.
    pub(crate) live: Duration,
    /// When it had every event.
    pub(crate) caught_up: Duration,
    pub(crate) relists: usize,
    pub(crate) retries: usize,
}

/// Why there is no watch.
#[derive(Debug)]
enum Refused {
    /// The server has forgotten what came after the version: a client has to list again.
    Gone,
    /// Something that a client tries again.
    Other,
}

// === impl Cut ===

impl Cut {
    /// Comes back, and reads until it has seen `count` events; it must not see more. One whose past is forgotten lists
    /// again, with as little as a list can have, and has caught up with it.
    pub(crate) async fn come_back(mut self, count: usize, start: Instant) -> Back {
        let (mut relists, mut retries) = (0, 0);
        loop {
            let refused = match self.attempt().await {
                Ok(mut watcher) => {
                    let live = start.elapsed();
                    if relists > 0 || watcher.until(count).await.is_ok() {
                        assert!(watcher.seen <= count, "each event once");
                        return Back {
                            _watcher: watcher,
                            live,
                            caught_up: start.elapsed(),
                            relists,
                            retries,
                        };
                    }
                    Refused::Gone
                }
                Err(refused) => refused,
            };
            match refused {
                Refused::Gone => {
                    relists += 1;
                    self.version = newest(&self.target, self.path).await;
                }
                Refused::Other => {
                    retries += 1;
                    tokio::time::sleep(self.retry).await;
                }
            }
        }
    }

    /// Opens a watch for the first time, on a connection of its own.
    pub(crate) async fn watch(&self) -> Watcher {
        let connection = self.target.connect(self.index).await;
        let connection = connection.expect("the server accepts");
        Watcher::begin(connection, self.path, &self.version).await
    }

    async fn attempt(&self) -> Result<Watcher, Refused> {
        let connection = self.target.connect(self.index).await;
        let connection = connection.map_err(|_error| Refused::Other)?;
        Watcher::open(connection, self.path, &self.version).await
    }
}

/// The version of a list of now, of which only one object is read.
pub(crate) async fn newest(target: &Target, path: &str) -> String {
    let wire = target.wire(1).await;
    let (code, list) = wire
        .json("GET", &format!("{path}?limit=1"), &Value::Null)
        .await;
    assert_eq!(code, 200, "{list}");
    let version = list["metadata"]["resourceVersion"].as_str();
    version.unwrap_or_default().to_owned()
}

// === impl Watcher ===

impl Watcher {
    /// Opens a watch at a fresh version.
    pub(crate) async fn begin(connection: Connection, path: &str, version: &str) -> Self {
        let watcher = Self::open(connection, path, version).await;
        watcher.expect("a watch at a fresh version is accepted")
    }

    /// Opens a watch over a connection.
    async fn open(connection: Connection, path: &str, version: &str) -> Result<Self, Refused> {
        let path = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=3600");
        let answer = connection.open("GET", &path, "", Bytes::new()).await;
        let (code, body) = answer.map_err(|_error| Refused::Other)?;
        match code {
            200 => Ok(Self {
                body,
                rest: Vec::new(),
                version: version.to_owned(),
                seen: 0,
                _connection: connection,
            }),
            410 => Err(Refused::Gone),
            _ => Err(Refused::Other),
        }
    }

    /// Reads until `count` events have been seen in all.
    pub(crate) async fn until(&mut self, count: usize) -> io::Result<()> {
        while self.seen < count {
            self.next().await?;
        }
        Ok(())
    }

    /// Reads the next piece of the stream; tells how many events ended in it.
    pub(crate) async fn next(&mut self) -> io::Result<usize> {
        let piece = self.body.piece().await?;
        let data = piece.ok_or_else(|| io::Error::other("the watch ended"))?;
        self.rest.extend_from_slice(&data);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(0);
        };
        let lines: Vec<u8> = self.rest.drain(..=end).collect();
        let mut count = 0;
        for line in lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            if line.starts_with(br#"{"type":"ERROR""#) {
                return Err(io::Error::other(String::from_utf8_lossy(line).into_owned()));
            }
            count += 1;
            if let Some(version) = version_of(line) {
                self.version = version;
            }
        }
        self.seen += count;
        Ok(count)
    }
}

/// The resource version of an event, of which there is one.
fn version_of(line: &[u8]) -> Option<String> {
    let start = line
        .windows(VERSION.len())
        .position(|window| window == VERSION)?
        + VERSION.len();
    let rest = line.get(start..)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    String::from_utf8(rest.get(..end)?.to_vec()).ok()
}
