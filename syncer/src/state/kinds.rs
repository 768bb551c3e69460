//! How far the kinds of definitions are in one target.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    time::Duration,
};

use api::GroupKind;
use indexmap::IndexMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::served::{DefinitionKey, Served};

/// How long a definition waits for a target that answers and does not serve it yet, so that who waits for the definition
/// finds it served in all sound clusters: a busy kube-apiserver takes some seconds for a CRD.
pub(crate) const AWAIT_MAX: Duration = Duration::from_secs(10);

/// How far a kind is in one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Served there.
    Served,
    /// Written, and not Established yet.
    Pending,
    /// What is there of it is being taken up; how far that is.
    Importing(String),
    /// The target failed; it is tried again.
    Failed(String),
    /// Refused, for a reason that the user has to mend.
    Refused(String),
}

/// How many changes of CRDs are told apart. What was read before the oldest of them counts as outdated.
const CHANGES_MAX: usize = 256;

/// How far the kinds of one target are, by group and kind.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    // Each guards its map; neither is held across an await nor while the other is.
    state: Mutex<States>,
    /// Kinds of root that a local definition keeps out, and why.
    kept_out: Mutex<BTreeMap<GroupKind, String>>,
    /// Why something of a kind could not be taken up last.
    import_troubles: Mutex<BTreeMap<GroupKind, String>>,
    // Guards one value; not held while the map is.
    patience: Mutex<Patience>,
    /// What there was when no record was left to be looked after any more. Guards one value.
    retired: Mutex<Option<Wanted>>,
}

/// What keeps the records of the kinds that a target serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The names of the records of kinds that definitions serve there.
    pub(crate) records: HashSet<String>,
    /// The names of the definitions that reach it.
    pub(crate) definitions: HashSet<String>,
}

/// What is known of the kinds of one target.
#[derive(Debug, Default)]
struct States {
    kinds: IndexMap<GroupKind, KindState>,
    changes: Changes,
}

/// Which CRDs have changed in the target, so that what was read before is known to be outdated.
#[derive(Debug, Default)]
struct Changes {
    /// How many there were.
    count: u64,
    /// The last ones, by the name of the CRD; `None` stands for all CRDs.
    last: VecDeque<Option<String>>,
}

/// For which definitions a target is waited for.
#[derive(Debug, Default)]
struct Patience {
    /// Since when, by kind, with the graph.
    since: BTreeMap<GroupKind, (String, Instant)>,
    /// Whether it was waited for in vain, and has served nothing since.
    late: bool,
}

#[derive(Debug)]
struct KindState {
    /// The definition that was looked after last.
    key: DefinitionKey,
    /// Whether the CRD that is there is this definition's.
    ours: bool,
    /// The graph whose CRD was looked after last.
    spec_hash: String,
    progress: Progress,
    /// The name of its CRD.
    crd: String,
    /// The CRD has changed in the target since then.
    stale: bool,
}

// === impl Changes ===

impl Changes {
    fn note(&mut self, crd: Option<&str>) {
        self.count += 1;
        if self.last.len() >= CHANGES_MAX {
            self.last.pop_front();
        }
        self.last.push_back(crd.map(str::to_owned));
    }

    /// Whether a CRD may have changed since there were so many changes.
    fn concern(&self, crd: &str, since: u64) -> bool {
        let count = usize::try_from(self.count.saturating_sub(since)).unwrap_or(usize::MAX);
        let Some(from) = self.last.len().checked_sub(count) else {
            return true; // further back than is known
        };
        let mut later = self.last.iter().skip(from);
        later.any(|changed| changed.as_deref().is_none_or(|changed| changed == crd))
    }
}

// === impl Kinds ===

impl Kinds {
    /// Returns how far a definition's graph is here; nothing, if another one was here last.
    pub(crate) fn of(&self, served: &Served) -> Option<Progress> {
        let state = self.state.lock();
        let known = state.kinds.get(served.graph.group_kind())?;
        let is_of = known.spec_hash == served.graph.spec_hash() && known.key == served.key;
        is_of.then(|| known.progress.clone())
    }

    /// Whether a definition's graph is served here, and nothing has changed since.
    pub(crate) fn is_current(&self, served: &Served) -> bool {
        let state = self.state.lock();
        let known = state.kinds.get(served.graph.group_kind());
        known.is_some_and(|known| {
            known.spec_hash == served.graph.spec_hash()
                && known.key == served.key
                && known.progress == Progress::Served
                && !known.stale
        })
    }

    /// Notes that any CRD may have changed in the target: all are looked at again.
    pub(crate) fn expire(&self) {
        let mut state = self.state.lock();
        state.changes.note(None);
        for known in state.kinds.values_mut() {
            known.stale = true;
        }
    }

    /// Notes that a CRD has changed in the target, or is gone: its kind is looked at again.
    ///
    /// A target with many kinds would else look at all of them for each that is new.
    pub(crate) fn expire_one(&self, crd: &str) {
        let mut state = self.state.lock();
        state.changes.note(Some(crd));
        for known in state.kinds.values_mut() {
            known.stale |= known.crd == crd;
        }
    }

    /// Counts the changes of CRDs in the target, for [`Kinds::note`].
    pub(crate) fn change_count(&self) -> u64 {
        self.state.lock().changes.count
    }

    /// Returns whether the kind that the target has is a definition's own, as far as was seen: not one that somebody else has
    /// defined there under the same name.
    pub(crate) fn are_ours(&self, served: &Served) -> bool {
        let state = self.state.lock();
        let known = state.kinds.get(served.graph.group_kind());
        known.is_some_and(|known| known.ours && known.key == served.key)
    }

    /// Notes why something of a kind cannot be taken up. Returns whether that is new.
    pub(crate) fn note_import_trouble(&self, served: &Served, reason: String) -> bool {
        let mut troubles = self.import_troubles.lock();
        let kind = served.graph.group_kind().clone();
        troubles.insert(kind, reason.clone()) != Some(reason)
    }

    /// Returns why something of a kind could not be taken up.
    pub(crate) fn import_trouble(&self, served: &Served) -> Option<String> {
        let troubles = self.import_troubles.lock();
        troubles.get(served.graph.group_kind()).cloned()
    }

    /// Notes which kinds of root are kept out. Returns whether that is new.
    pub(crate) fn note_kept_out(&self, kept_out: BTreeMap<GroupKind, String>) -> bool {
        let mut known = self.kept_out.lock();
        let changed = *known != kept_out;
        *known = kept_out;
        changed
    }

    /// Counts the kinds that are served, and tells why others are not.
    pub(crate) fn census(&self) -> (usize, Vec<String>) {
        let state = self.state.lock();
        let served = state
            .kinds
            .values()
            .filter(|known| known.progress == Progress::Served)
            .count();
        let mut others: Vec<String> = state
            .kinds
            .iter()
            .filter_map(|(kind, known)| match &known.progress {
                Progress::Served => None,
                Progress::Pending => Some(format!("{kind}: not established yet")),
                Progress::Importing(reason)
                | Progress::Failed(reason)
                | Progress::Refused(reason) => Some(format!("{kind}: {reason}")),
            })
            .collect();
        let kept_out = self.kept_out.lock();
        others.extend(
            kept_out
                .iter()
                .map(|(kind, reason)| format!("{kind}: {reason}")),
        );
        others.sort();
        (served, others)
    }

    /// Returns what is wanted where the hub may have records of kinds that nobody wants any more. It has none as long as all is there
    /// that was when none was left: to read the records for each new definition would cost as much as there are.
    pub(crate) fn may_retire(&self, wanted: Wanted) -> Option<Wanted> {
        let mut retired = self.retired.lock();
        let is_covered = retired.as_ref().is_some_and(|before| {
            before.records.is_subset(&wanted.records)
                && before.definitions.is_subset(&wanted.definitions)
        });
        if is_covered {
            *retired = Some(wanted);
            return None;
        }
        Some(wanted)
    }

    /// Notes that no record is there that is not wanted, or that there is one which waits for its last instance.
    pub(crate) fn note_retired(&self, wanted: Option<Wanted>) {
        *self.retired.lock() = wanted;
    }

    /// Notes that a record is made.
    pub(crate) fn note_record(&self, name: &str) {
        if let Some(wanted) = &mut *self.retired.lock() {
            wanted.records.insert(name.to_owned());
        }
    }

    /// Returns how long a definition goes on waiting for this target; `None` if it does not.
    pub(crate) fn awaits(&self, served: &Served, now: Instant) -> Option<Duration> {
        let mut patience = self.patience.lock();
        if patience.late {
            return None;
        }
        let (hash, kind) = (served.graph.spec_hash(), served.graph.group_kind());
        let since = patience
            .since
            .entry(kind.clone())
            .or_insert_with(|| (hash.to_owned(), now));
        if since.0 != hash {
            *since = (hash.to_owned(), now);
        }
        let left = AWAIT_MAX.checked_sub(now.duration_since(since.1));
        patience.late = left.is_none();
        left
    }

    /// Notes how far a definition is, and whether the CRD is its own where that was seen, as read when CRDs had changed
    /// `change_count` times. Returns whether that is new.
    ///
    /// A change that came in between leaves the note stale, so that the reconcile which it asked for has something to do.
    pub(crate) fn note(
        &self,
        served: &Served,
        progress: &Progress,
        ours: Option<bool>,
        change_count: u64,
    ) -> bool {
        if *progress == Progress::Served {
            self.import_troubles
                .lock()
                .remove(served.graph.group_kind());
            let mut patience = self.patience.lock();
            patience.late = false;
            patience.since.remove(served.graph.group_kind());
        }
        let spec_hash = served.graph.spec_hash().to_owned();
        let kind = served.graph.group_kind().clone();
        let crd = served.graph.gvr().group_resource().to_string();
        let mut state = self.state.lock();
        let before = state.kinds.get(&kind);
        let was_ours = before.is_some_and(|before| before.ours && before.key == served.key);
        let noted = KindState {
            key: served.key.clone(),
            ours: ours.unwrap_or(was_ours),
            spec_hash,
            progress: progress.clone(),
            stale: state.changes.concern(&crd, change_count),
            crd,
        };
        let changed =
            before.is_none_or(|before| before.progress != *progress || was_ours != noted.ours);
        state.kinds.insert(kind, noted);
        changed
    }
}
