//! What a deletion does to an object: a pure function of the live object, the options and the time.

use api::meta::{self, FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use api::query::{DeleteOptions, Propagation};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::registry::ResourceScope;
use crate::strategy::rules;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plan {
    /// Nothing stands in the way: the object goes.
    Remove,
    /// The object stays in this state until someone else lets it go.
    Mark(Value),
    /// It is on its way already, and sooner than asked.
    Keep,
}

/// Plans the deletion of an object.
pub(crate) fn plan(
    scope: &ResourceScope,
    live: &Value,
    options: &DeleteOptions,
    now: Timestamp,
) -> Plan {
    let deletion = &scope.strategy().deletion;
    if let Some(marked) = (deletion.mark)(live, options, now) {
        return Plan::Mark(marked);
    }
    if !(deletion.may_be_removed)(live) {
        return Plan::Keep;
    }
    let mut object = live.clone();
    let grace = match grace(scope, live, options) {
        Grace::Pending => return Plan::Keep,
        Grace::None => 0,
        Grace::Seconds(seconds) => seconds,
    };
    let finalizers = finalizers(scope, live, options);
    meta::set_finalizers(&mut object, &finalizers);
    if grace > 0 {
        mark_graceful(&mut object, live, grace, now);
        return Plan::Mark(object);
    }
    if finalizers.is_empty() {
        return Plan::Remove;
    }
    mark(&mut object, live, now);
    Plan::Mark(object)
}

/// Whether a grace period is granted.
enum Grace {
    /// One is running, and is not longer than the one that is asked for.
    Pending,
    /// None: the kind has none, or it is over.
    None,
    /// This long.
    Seconds(i64),
}

fn grace(scope: &ResourceScope, live: &Value, options: &DeleteOptions) -> Grace {
    let Some(seconds) = scope.strategy().deletion.grace else {
        return Grace::None;
    };
    if !meta::is_terminating(live) {
        return match seconds(live, options.grace_period_seconds) {
            0 => Grace::None,
            seconds => Grace::Seconds(seconds),
        };
    }
    match (running_grace(live), options.grace_period_seconds) {
        (0, _) => Grace::None,
        (running, Some(asked)) if asked < running => {
            if asked == 0 {
                Grace::None
            } else {
                Grace::Seconds(asked.max(1))
            }
        }
        _ => Grace::Pending,
    }
}

fn running_grace(live: &Value) -> i64 {
    let seconds = meta::metadata(live).and_then(|it| it.get("deletionGracePeriodSeconds"));
    seconds.and_then(Value::as_i64).unwrap_or(0)
}

fn mark_graceful(object: &mut Value, live: &Value, grace: i64, now: Timestamp) {
    count(object, live);
    let begun = meta::deletion_timestamp(live)
        .and_then(meta::parse_time)
        .map(|due| {
            due.checked_sub(SignedDuration::from_secs(running_grace(live)))
                .unwrap_or(due)
        });
    let due = begun
        .unwrap_or(now)
        .checked_add(SignedDuration::from_secs(grace));
    let due = due.unwrap_or(now).max(now);
    meta::set_deletion_timestamp(object, &meta::time_now_text(due));
    meta::metadata_mut(object).insert("deletionGracePeriodSeconds".into(), json!(grace));
}

/// Marks an object that waits for finalizers.
fn mark(object: &mut Value, live: &Value, now: Timestamp) {
    count(object, live);
    let due = meta::deletion_timestamp(live).and_then(meta::parse_time);
    if due.is_none_or(|due| due > now) {
        meta::set_deletion_timestamp(object, &meta::time_now_text(now));
    }
    meta::metadata_mut(object).insert("deletionGracePeriodSeconds".into(), json!(0));
}

/// Being marked is a change of the desired state.
fn count(object: &mut Value, live: &Value) {
    let generation = meta::generation(live);
    if !meta::is_terminating(live) && generation > 0 {
        meta::set_generation(object, generation.saturating_add(1));
    }
}

/// The finalizers with those of garbage collection as the options, the object or the kind want them.
fn finalizers(scope: &ResourceScope, live: &Value, options: &DeleteOptions) -> Vec<String> {
    let present = meta::finalizers(live);
    let mut wanted: Vec<String> = present
        .iter()
        .filter(|name| !matches!(**name, FINALIZER_ORPHAN | FINALIZER_FOREGROUND))
        .map(|name| (*name).to_owned())
        .collect();
    match propagation(scope, &present, options) {
        Propagation::Orphan => wanted.push(FINALIZER_ORPHAN.to_owned()),
        Propagation::Foreground => wanted.push(FINALIZER_FOREGROUND.to_owned()),
        Propagation::Background => {}
    }
    wanted
}

fn propagation(scope: &ResourceScope, present: &[&str], options: &DeleteOptions) -> Propagation {
    let default = match scope.strategy().deletion.propagation {
        rules::Propagation::Unsupported => return Propagation::Background,
        rules::Propagation::Orphan => Propagation::Orphan,
        rules::Propagation::Background => Propagation::Background,
    };
    match (options.orphan_dependents, options.propagation) {
        (Some(true), _) => Propagation::Orphan,
        (Some(false), _) => Propagation::Background,
        (None, Some(propagation)) => propagation,
        (None, None) => {
            let known = [
                (FINALIZER_ORPHAN, Propagation::Orphan),
                (FINALIZER_FOREGROUND, Propagation::Foreground),
            ];
            let kept = known.into_iter().find(|(name, _)| present.contains(name));
            kept.map_or(default, |(_, propagation)| propagation)
        }
    }
}

#[cfg(test)]
mod tests;
