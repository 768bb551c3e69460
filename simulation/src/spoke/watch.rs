//! Watches of a spoke: lines after a version, bookmarks, and the end.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use serde_json::{Value, json};
use tokio::{sync::watch as channel, time::Instant};

use super::{Key, Pulse, Spoke, selection::Selection, state::Change};

/// How often a watch without events says how far it is. Source: kube-apiserver's cacher, about once a minute.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);

/// A watch that was asked for and can be served.
#[derive(Clone, Debug)]
pub(crate) struct WatchRequest {
    pub(crate) collection: Key,
    pub(crate) select: Selection,
    pub(crate) from: u64,
    pub(crate) seconds: u64,
    pub(crate) bookmarks: bool,
}

struct Following {
    spoke: Arc<Spoke>,
    request: WatchRequest,
    position: u64,
    end: Instant,
    bookmark: Instant,
    changed: channel::Receiver<Pulse>,
    epoch: u64,
}

/// Streams a watch, a chunk for all that has come.
pub(crate) fn follow(
    spoke: &Arc<Spoke>,
    request: WatchRequest,
) -> impl Stream<Item = Result<Bytes, Infallible>> + use<> {
    let changed = spoke.subscribe();
    let epoch = changed.borrow().epoch;
    let now = Instant::now();
    let following = Following {
        spoke: Arc::clone(spoke),
        position: request.from,
        end: now + Duration::from_secs(request.seconds),
        bookmark: now + BOOKMARK_INTERVAL,
        request,
        changed,
        epoch,
    };
    stream::unfold(following, |mut following| async move {
        let chunk = following.next().await?;
        Some((Ok(chunk), following))
    })
}

// === impl Following ===

impl Following {
    /// Waits for the next lines; `None` at the end of the watch.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.changed.borrow_and_update().epoch != self.epoch {
                return None;
            }
            let lines = self.lines();
            if !lines.is_empty() {
                return Some(lines.concat().into());
            }
            tokio::select! {
                biased;
                changed = self.changed.changed() => changed.ok()?,
                () = tokio::time::sleep_until(self.end) => return None,
                () = tokio::time::sleep_until(self.bookmark), if self.request.bookmarks => {
                    self.bookmark += BOOKMARK_INTERVAL;
                    return Some(self.bookmark_line().into());
                }
            }
        }
    }

    fn lines(&mut self) -> Vec<String> {
        let state = self.spoke.state.lock();
        let mut lines = Vec::new();
        for change in state.since(self.position) {
            self.position = change.version;
            if change.key.is_in(&self.request.collection)
                && let Some(line) = line_of(change, &self.request.select)
            {
                lines.push(line);
            }
        }
        lines
    }

    /// Returns the version of the server, which is older than that of the watch once it was set back.
    fn bookmark_line(&self) -> String {
        let version = self.spoke.state.lock().version();
        let object = json!({"kind": "Bookmark", "apiVersion": "v1",
            "metadata": {"resourceVersion": version.to_string()}});
        line("BOOKMARK", &object)
    }
}

fn line_of(change: &Change, select: &Selection) -> Option<String> {
    let was = change.before.as_deref().is_some_and(|it| select.takes(it));
    let is = !change.is_removal && select.takes(&change.object);
    let type_ = match (was, is) {
        (false, false) => return None,
        (false, true) => "ADDED",
        (true, true) => "MODIFIED",
        (true, false) => "DELETED",
    };
    Some(line(type_, &change.object))
}

fn line(type_: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": type_, "object": object}))
}
