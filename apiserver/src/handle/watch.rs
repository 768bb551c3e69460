//! Watch: what is there, then what changes, until the time is up, the client goes, or the kind changes.
//!
//! The stream has three phases, in this order: the objects that are there (where the client wants them), a bookmark
//! that says that they were all, and changes. Changes that are ready together go out in one chunk of up to
//! [`CHUNK_BYTES`]. What fails after the answer has begun is told by an `ERROR` event, after which the stream ends.
//! Source: apiserver/pkg/endpoints/handlers/watch.go, apiserver/pkg/storage/cacher; api-compat 1.7.

mod encode;
mod everywhere;
mod start;

use std::sync::Arc;
use std::time::Duration;

use api::Status;
use bytes::Bytes;
use futures::{FutureExt as _, Stream, stream};
use storage::{Entry, Event, Revision, WatchEnd, WatchQuery, Watcher};
use tokio::time::{Instant, sleep_until};

use super::convert;
use super::missing;
use super::selection::Selection;
use crate::call::{Call, Lens, Shared};
use crate::negotiate::Offer;
use crate::refusal::Refusal;
use crate::registry::ResourceScope;
use crate::registry::scope::Conversion;
use crate::registry::scope::EndCause;
use crate::request::RequestOrigin;
use crate::respond;
use crate::respond::Response;
use crate::watch::{WatchEventType, translate};
use crate::websocket;

use encode::Encoder;
use everywhere::{Everywhere, Woke};
use start::{Beginning, Start};

/// What goes out in one piece, unless one revision is larger.
const CHUNK_BYTES: usize = 16 * 1024;
/// How often a watch that has nothing to tell says so.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// How long before its end a watch says how far it has come.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// How long a watch lasts whose client does not say: this and up to as long again.
/// Source: apiserver/pkg/server/config.go MinRequestTimeout.
const LIFETIME_MIN: Duration = Duration::from_mins(30);

/// How many objects a webhook converts for one chunk, and how long that may take.
const CONVERTED_AT_ONCE: usize = 64;
const CONVERSION_TIMEOUT: Duration = Duration::from_secs(30);

/// Whether bookmarks are welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bookmarks {
    /// They are.
    Sent,
    /// They are not.
    None,
}

pub(super) fn watch(call: &Call<'_>) -> Result<Response, Refusal> {
    let form = call.form(Offer::Watch);
    if form.is_err() {
        // What no list can be written as is refused at once, as in a kube-apiserver, and what no stream can be once all else is right.
        call.form(Offer::List)?;
    }
    if let Some(gathered) = call.gathered {
        missing::tell(call, &gathered.failed)?;
    }
    let switched = switched_headers(call)?;
    let start = Start::new(call)?;
    let form = form?;
    let everywhere = start.selection.each.clone().map(Everywhere::new);
    let stream = WatchStream {
        shared: Arc::clone(call.shared),
        scope: Arc::clone(call.scope),
        everywhere,
        selection: start.selection,
        encoder: Encoder::new(call, form)?,
        bookmarks: start.bookmarks,
        next_bookmark: Instant::now() + BOOKMARK_INTERVAL,
        end: Instant::now() + start.lifetime,
        last_bookmark: LastBookmark::Due,
        phase: Phase::Beginning(start.beginning),
    };
    let response = respond::watch(stream.into_stream(), form.encoding, call.context);
    Ok(match switched {
        Some(headers) => respond::over_websocket(response, form.encoding, headers, call.context),
        None => response,
    })
}

/// The headers of a 101 for a client that asks for the events over WebSocket.
fn switched_headers(call: &Call<'_>) -> Result<Option<http::HeaderMap>, Refusal> {
    let is_asked_for = call.context.origin != RequestOrigin::InProcess
        && websocket::is_asked_for(call.parts.version, &call.parts.headers);
    let headers = is_asked_for.then(|| websocket::accept(call.parts));
    headers.transpose()
}

/// A watch that is being answered.
struct WatchStream {
    shared: Arc<Shared>,
    scope: Arc<ResourceScope>,
    /// How the objects of each cluster are read, over all of them.
    everywhere: Option<Everywhere>,
    selection: Selection,
    encoder: Encoder,
    bookmarks: Bookmarks,
    next_bookmark: Instant,
    end: Instant,
    last_bookmark: LastBookmark,
    phase: Phase,
}

enum Phase {
    /// Nothing has been sent.
    Beginning(Beginning),
    /// The objects that are there, as far as they have not been sent, and the revision that they are of.
    Initial {
        entries: std::vec::IntoIter<Entry>,
        revision: Revision,
    },
    /// Changes.
    Live(Watcher),
    /// The changes that came before the kind was removed, after which the watch ends.
    Ending(Watcher),
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastBookmark {
    Due,
    Sent,
}

/// What woke a live watch.
enum Woken {
    Events(Result<Vec<Arc<Event>>, WatchEnd>),
    Everywhere(Woke),
    KindEnded(EndCause),
    TimeIsUp,
    Bookmark,
}

// === impl WatchStream ===

impl WatchStream {
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut watch| async move {
            let chunk = watch.next_chunk().await?;
            Some((chunk, watch))
        })
    }

    /// Makes the next chunk; `None` is the end.
    ///
    /// # Cancel safety
    /// Dropped, it loses what it was about to send, and with it the stream.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            let phase = std::mem::replace(&mut self.phase, Phase::Done);
            let mut out = Vec::new();
            self.phase = match phase {
                Phase::Done => return None,
                Phase::Beginning(beginning) => self.begin(beginning, &mut out),
                Phase::Initial { entries, revision } => {
                    self.initial(entries, revision, &mut out).await
                }
                Phase::Live(watcher) => self.live(watcher, &mut out).await,
                Phase::Ending(watcher) => self.last_changes(watcher, &mut out).await,
            };
            if !out.is_empty() {
                return Some(out.into());
            }
        }
    }

    fn begin(&self, beginning: Beginning, out: &mut Vec<u8>) -> Phase {
        match beginning {
            Beginning::After(revision) => self.follow(revision, out),
            Beginning::Refused(status) => self.fail(&status, out),
            Beginning::WithObjects { entries, revision } => Phase::Initial {
                entries: entries.into_iter(),
                revision,
            },
        }
    }

    async fn initial(
        &mut self,
        mut entries: std::vec::IntoIter<Entry>,
        revision: Revision,
        out: &mut Vec<u8>,
    ) -> Phase {
        while out.len() < CHUNK_BYTES {
            let some: Vec<Entry> = entries.by_ref().take(self.stride()).collect();
            if some.is_empty() {
                if self.bookmarks == Bookmarks::Sent {
                    self.encoder
                        .bookmark(out, &self.scope, revision, encode::Initial::Ends);
                }
                return self.follow(revision, out);
            }
            let deadline = Instant::now() + CONVERSION_TIMEOUT;
            let told = convert::ready(&self.shared, &self.scope, some, deadline).await;
            let told = told.and_then(|some| {
                let mut some = some.iter();
                some.try_for_each(|entry| self.tell_entry(entry, WatchEventType::Added, out))
            });
            if let Err(refusal) = told {
                return self.fail_with(&refusal, out);
            }
        }
        Phase::Initial { entries, revision }
    }

    /// How many objects are told in one step: a webhook converts several at once.
    fn stride(&self) -> usize {
        match self.scope.rules.conversion {
            Conversion::Webhook(_) => CONVERTED_AT_ONCE,
            Conversion::None | Conversion::Renaming(_) => 1,
        }
    }

    /// Begins to follow the store.
    fn follow(&self, after: Revision, out: &mut Vec<u8>) -> Phase {
        let query = WatchQuery {
            range: self.selection.range.clone(),
            after,
        };
        match self.shared.store.watch(query) {
            Ok(watcher) => Phase::Live(watcher),
            Err(storage::Error::Compacted { requested, floor }) => {
                let text = format!("too old resource version: {requested} ({floor})");
                self.fail(&Status::expired(text), out)
            }
            Err(error) => self.fail_with(&error.into(), out),
        }
    }

    /// Waits for something to tell, and takes with it what is ready by then.
    async fn live(&mut self, mut watcher: Watcher, out: &mut Vec<u8>) -> Phase {
        match self.wait(&mut watcher).await {
            Woken::Events(Ok(events)) => {
                let mut ready = Some(events);
                while let Some(events) = ready.take() {
                    self.catch_up(&events).await;
                    if let Err(refusal) = self.tell(&events, out).await {
                        return self.fail_with(&refusal, out);
                    }
                    if out.len() < CHUNK_BYTES {
                        ready = watcher.next().now_or_never().and_then(Result::ok);
                    }
                }
                Phase::Live(watcher)
            }
            Woken::Everywhere(woke) => self.tell_clusters(woke, watcher, out).await,
            Woken::Events(Err(WatchEnd::Expired)) => {
                let text = "the history that the watch was to see is gone, list again";
                self.fail(&Status::expired(text), out)
            }
            Woken::KindEnded(EndCause::Removed) => Phase::Ending(watcher),
            Woken::KindEnded(EndCause::Changed) => {
                let text = "the definition of the resource changed, list again";
                self.fail(&Status::expired(text), out)
            }
            // A store that closes says no word either: the client goes on from where it is.
            Woken::TimeIsUp | Woken::Events(Err(WatchEnd::Closed)) => Phase::Done,
            Woken::Bookmark => {
                self.encoder
                    .bookmark(out, &self.scope, watcher.progress(), encode::Initial::Not);
                Phase::Live(watcher)
            }
        }
    }

    /// Tells what came before the end of the kind: that its objects were deleted. All of it waits by now, since the definition
    /// is deleted after its objects, and every watcher is given every change before anyone learns of a later one.
    ///
    /// Source: `apiextensions-apiserver/pkg/apiserver/customresource_handler.go` (`removeDeadStorage`, whose storage ends the
    /// watches of it without a last event).
    async fn last_changes(&mut self, mut watcher: Watcher, out: &mut Vec<u8>) -> Phase {
        match watcher.next_waiting().await {
            Ok(Some(events)) => match self.tell(&events, out).await {
                Ok(()) => Phase::Ending(watcher),
                Err(refusal) => self.fail_with(&refusal, out),
            },
            Ok(None) | Err(_) => Phase::Done,
        }
    }

    async fn wait(&mut self, watcher: &mut Watcher) -> Woken {
        let end = self.scope.life.end.clone();
        let last = self.end.checked_sub(LAST_BOOKMARK).unwrap_or(self.end);
        let bookmark_due = match (self.bookmarks, self.last_bookmark) {
            (Bookmarks::None, _) => None,
            (Bookmarks::Sent, LastBookmark::Due) => Some(self.next_bookmark.min(last)),
            (Bookmarks::Sent, LastBookmark::Sent) => Some(self.next_bookmark),
        };
        let bookmark = async {
            match bookmark_due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let everywhere = async {
            match &mut self.everywhere {
                Some(everywhere) => everywhere.wait().await,
                None => std::future::pending().await,
            }
        };
        let woken = tokio::select! {
            biased;
            cause = end.reached() => Woken::KindEnded(cause),
            woke = everywhere => Woken::Everywhere(woke),
            () = sleep_until(self.end) => Woken::TimeIsUp,
            () = bookmark => Woken::Bookmark,
            events = watcher.next() => Woken::Events(events),
        };
        if let Woken::Bookmark = woken {
            let now = Instant::now();
            self.next_bookmark = now + BOOKMARK_INTERVAL;
            if now >= last {
                self.last_bookmark = LastBookmark::Sent;
            }
        }
        woken
    }

    async fn tell(&mut self, events: &[Arc<Event>], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let is_selective = !self.selection.is_everything();
        for event in events {
            // Over all clusters, the face of the watch names no webhook, and none is called.
            let event = convert::ready_event(&self.shared, &self.scope, event, is_selective);
            let event = &event.await?;
            let lens = match &self.everywhere {
                None => Some(Lens::Given(&self.scope)),
                Some(everywhere) => everywhere.scope_of(event.key()).map(Lens::Own),
            };
            let Some(scope) = lens else { continue };
            let selection = &self.selection;
            let told =
                translate(event, |entry| selection.matches(&scope, entry)).and_then(|told| {
                    told.map_or(Ok(()), |(event_type, state)| {
                        self.encoder.event(out, &scope, event, event_type, state)
                    })
                });
            if let Err(refusal) = told {
                // Over all clusters, what one of them cannot convert ends nobody's watch.
                match &self.everywhere {
                    Some(_) => everywhere::left_out(&refusal),
                    None => return Err(refusal),
                }
            }
        }
        Ok(())
    }

    /// Returns the event for an object that is there, if it is selected.
    fn tell_entry(
        &mut self,
        entry: &Entry,
        event_type: WatchEventType,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let lens = match &self.everywhere {
            None => Some(Lens::Given(&self.scope)),
            Some(everywhere) => everywhere.scope_of(entry.key()).map(Lens::Own),
        };
        let Some(scope) = lens else { return Ok(()) };
        let matches = self.selection.matches(&scope, entry);
        let told = matches.and_then(|matches| {
            if !matches {
                return Ok(());
            }
            self.encoder.entry(out, &scope, event_type, entry)
        });
        match told {
            Err(refusal) if self.everywhere.is_some() => {
                everywhere::left_out(&refusal);
                Ok(())
            }
            told => told,
        }
    }

    fn fail(&self, status: &Status, out: &mut Vec<u8>) -> Phase {
        self.encoder.error(out, status);
        Phase::Done
    }

    fn fail_with(&self, refusal: &Refusal, out: &mut Vec<u8>) -> Phase {
        tracing::warn!(error = %refusal, "cannot continue a watch");
        match refusal.status() {
            Some(status) => self.fail(status, out),
            None => Phase::Done,
        }
    }
}
