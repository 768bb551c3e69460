//! How far the store of a cluster was seen to be: at an earlier revision it was set back, as by a restore from a backup.
//!
//! What is seen is kept in the Spoke's status, so that a cluster is noticed too that was set back while the hub was away.

use api::wheelhouse::StoreRevision;
use serde_json::{Value, json};

/// A revision is an `i64`.
const REVISION_BYTES_MAX: usize = 19;

/// The revision of a store, as it was seen.
#[derive(Debug, Default)]
pub(crate) struct Revision {
    /// Whose store it is: another cluster begins with another revision.
    uid: String,
    latest: String,
    /// When it was seen there.
    seen: String,
    set_back: Option<String>,
}

// === impl Revision ===

impl Revision {
    /// Reads what an earlier process wrote into the status of a Spoke.
    pub(crate) fn recall(status: &Value) -> Self {
        let uid = status["clusterUID"].as_str().unwrap_or_default();
        let kept: StoreRevision =
            serde_json::from_value(status["storeRevision"].clone()).unwrap_or_default();
        if uid.is_empty() || !is_revision(&kept.revision) {
            return Self::default();
        }
        Self {
            uid: uid.to_owned(),
            latest: kept.revision,
            seen: kept.time,
            set_back: None,
        }
    }

    /// Returns what a Spoke's status has of it.
    pub(crate) fn to_value(&self) -> Option<Value> {
        let kept = StoreRevision {
            revision: self.latest.clone(),
            time: self.seen.clone(),
        };
        (!self.latest.is_empty()).then(|| json!(kept))
    }

    /// Returns why the store is taken to have been set back, until it is past the revision that it had.
    pub(crate) fn set_back(&self) -> Option<&str> {
        self.set_back.as_deref()
    }

    /// Notes the revision of the store of a cluster. Returns what to say where it was set back, the first time.
    pub(crate) fn note(&mut self, uid: &str, version: &str, now: &str) -> Option<String> {
        if !is_revision(version) {
            return None; // it cannot be compared
        }
        if uid != self.uid {
            *self = Self {
                uid: uid.to_owned(),
                ..Self::default()
            };
        }
        if !api::meta::is_newer(&self.latest, version) {
            version.clone_into(&mut self.latest);
            now.clone_into(&mut self.seen);
            self.set_back = None;
            return None;
        }
        let Self { latest, seen, .. } = &*self;
        let message = format!(
            "its store was at revision {latest} at {seen} and is at an earlier one since: it was restored from a backup, and \
             everything in it was read anew"
        );
        let is_new = self.set_back.is_none();
        self.set_back = Some(message.clone());
        is_new.then_some(message)
    }
}

fn is_revision(text: &str) -> bool {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number && text.len() <= REVISION_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_at_an_earlier_revision_is_told_once_until_it_is_past_the_one_before() {
        let mut revision = Revision::default();
        // (what it says, whether that is news, whether it is set back)
        for (version, is_news, is_set_back) in [
            ("99", false, false),
            ("100", false, false),
            ("100", false, false),
            ("", false, false),
            ("a", false, false),
            ("98", true, true),
            ("99", false, true),
            ("7", false, true),
            ("101", false, false),
            ("100", true, true),
        ] {
            let told = revision.note("u", version, "then");
            assert_eq!(told.is_some(), is_news, "{version}: {told:?}");
            assert_eq!(revision.set_back().is_some(), is_set_back, "{version}");
        }
        let told = revision.set_back().expect("it is set back");
        assert!(told.contains("101 at then"), "{told}");
        assert_eq!(revision.note("another", "1", "now"), None);
        assert_eq!(revision.set_back(), None, "another cluster has its own");
    }

    #[test]
    fn what_an_earlier_process_saw_counts_for_the_same_cluster() {
        let mut before = Revision::default();
        before.note("u", "100", "then");
        let kept = before.to_value().expect("it was seen");
        for (uid, text, want) in [("u", "100", true), ("v", "100", false), ("u", "x", false)] {
            let mut kept = kept.clone();
            kept["revision"] = json!(text);
            let status = json!({"clusterUID": uid, "storeRevision": kept});
            let mut revision = Revision::recall(&status);
            let told = revision.note("u", "99", "now");
            assert_eq!(told.is_some(), want, "{uid} {text}: {told:?}");
        }
        assert_eq!(Revision::default().to_value(), None);
    }
}
