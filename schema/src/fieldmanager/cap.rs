//! A bound on the count of updaters: the oldest are merged into one entry per version.
//!
//! Source: `apimachinery/pkg/util/managedfields/internal/capmanagers.go`; api-compat 3.6.

use super::managed::{ManagedEntry, ManagedFields, ManagerIdentity, time_order};
use super::set::FieldSet;

/// How many updaters an object keeps.
const UPDATERS_MAX: usize = 10;
/// The name of the merged entry.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// Merges the oldest updaters until there are at most ten. One that is alone at its version is left alone.
pub(crate) fn cap_updaters(managed: &mut ManagedFields) {
    let updaters = managed
        .entries()
        .iter()
        .filter(|entry| !entry.identity.is_applier());
    let mut count = updaters.clone().count();
    if count <= UPDATERS_MAX {
        return;
    }
    let mut by_age: Vec<(String, String, ManagerIdentity)> = updaters
        .map(|entry| {
            (
                time_order(entry).to_owned(),
                entry.identity.sort_key(),
                entry.identity.clone(),
            )
        })
        .collect();
    by_age.sort();
    let mut first_of_version: Vec<(String, ManagerIdentity)> = Vec::new();
    for (_, _, identity) in by_age {
        if count <= UPDATERS_MAX {
            return;
        }
        let Some(version) = managed
            .get(&identity)
            .map(|entry| entry.api_version.clone())
        else {
            continue;
        };
        let first = first_of_version.iter().find(|(seen, _)| *seen == version);
        let Some((_, first)) = first else {
            first_of_version.push((version, identity));
            continue;
        };
        merge_into_bucket(managed, &version, first, &identity);
        count = count.saturating_sub(1);
    }
}

fn merge_into_bucket(
    managed: &mut ManagedFields,
    version: &str,
    first: &ManagerIdentity,
    merged: &ManagerIdentity,
) {
    let bucket = ManagerIdentity::updater(ANCIENT_CHANGES, version, "");
    // Where the bucket itself comes up by age, an older entry goes into it.
    let (older, younger) = if *merged == bucket {
        (managed.take(first), managed.take(&bucket))
    } else {
        let held = managed.take(&bucket).or_else(|| managed.take(first));
        (held, managed.take(merged))
    };
    let set = |entry: &Option<ManagedEntry>| {
        entry
            .as_ref()
            .map_or_else(FieldSet::new, |entry| entry.set.clone())
    };
    managed.put(ManagedEntry {
        identity: bucket,
        api_version: version.to_owned(),
        set: set(&older).union(set(&younger)),
        time: younger.and_then(|entry| entry.time),
    });
}
