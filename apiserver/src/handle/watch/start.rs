//! Where a watch begins, and how long it lasts.

use std::time::Duration;

use api::Status;
use api::query::ListOptions;
use storage::{Entry, RangeQuery, Revision};

use super::{Bookmarks, LIFETIME_MIN};
use crate::call::Call;
use crate::handle::selection::Selection;
use crate::refusal::Refusal;

/// What a request asks for.
pub(super) struct Start {
    pub(super) selection: Selection,
    pub(super) bookmarks: Bookmarks,
    pub(super) lifetime: Duration,
    pub(super) beginning: Beginning,
}

/// The first thing that a watch tells.
pub(super) enum Beginning {
    /// Changes after a revision.
    After(Revision),
    /// The objects of a revision, then the changes after it.
    WithObjects {
        entries: Vec<Entry>,
        revision: Revision,
    },
    /// That it cannot begin there: told in the stream, since clients retry for ever what fails before it.
    Refused(Box<Status>),
}

// === impl Start ===

impl Start {
    pub(super) fn new(call: &Call<'_>) -> Result<Self, Refusal> {
        // The legacy paths mean a watch without saying so in the query.
        let options = if call.query.flag("watch") {
            ListOptions::from_query(call.query)?
        } else {
            let mut pairs = call.parts.uri.query().unwrap_or_default().to_owned();
            pairs.push_str("&watch=true");
            ListOptions::from_query(&api::query::Query::parse(&pairs))?
        };
        let selection = Selection::new(call, &options)?;
        let beginning = beginning(call, &options, &selection)?;
        let bookmarks = if options.allow_watch_bookmarks {
            Bookmarks::Sent
        } else {
            Bookmarks::None
        };
        Ok(Self {
            selection,
            bookmarks,
            lifetime: lifetime(&options),
            beginning,
        })
    }
}

fn beginning(
    call: &Call<'_>,
    options: &ListOptions,
    selection: &Selection,
) -> Result<Beginning, Refusal> {
    let from = options.watch_from()?.map(Revision);
    let current = call.shared.store.revision();
    let wants_objects = match options.send_initial_events {
        Some(wanted) => wanted,
        None => from.is_none(),
    };
    if !wants_objects {
        return Ok(match from {
            None => Beginning::After(current),
            // The store shows everything that was ever answered (see `catch_up`): it comes from another history of this
            // hub, which a restore has ended.
            Some(from) if from > current => Beginning::Refused(Box::new(of_another(from, current))),
            Some(from) if from.is_of_a_hub() => Beginning::After(from),
            // It comes from a spoke, before the kind was served here.
            Some(from) => Beginning::Refused(Box::new(too_old(from, current))),
        });
    }
    if let Some(from) = from.filter(|from| from.is_of_a_hub() && *from > current) {
        let status = Status::resource_version_too_large(from.0, current.0);
        return Ok(Beginning::Refused(Box::new(status)));
    }
    // One revision for all parts.
    let mut revision = None;
    let mut entries = Vec::new();
    for part in selection.parts_of(call.scope, &selection.range) {
        let query = RangeQuery {
            range: part,
            limit: None,
            at: revision,
            holding: selection.holding.clone(),
        };
        let found = call.shared.store.range(query)?;
        revision = Some(found.revision);
        entries.extend(found.entries);
    }
    Ok(Beginning::WithObjects {
        entries,
        revision: revision.unwrap_or(current),
    })
}

fn too_old(from: Revision, current: Revision) -> Status {
    Status::expired(format!("too old resource version: {from} ({current})"))
}

fn of_another(from: Revision, current: Revision) -> Status {
    Status::expired(format!(
        "resource version {from} is newer than the latest one here ({current}): the store was restored or replaced; list again"
    ))
}

fn lifetime(options: &ListOptions) -> Duration {
    match options
        .timeout_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
    {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
        _ => LIFETIME_MIN.mul_f64(1.0 + rand::random::<f64>()),
    }
}
