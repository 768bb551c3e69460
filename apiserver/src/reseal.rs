//! Writes every Secret of every cluster anew, so that the first key of the key file seals it.
//!
//! The store shows values in plain and seals them on their way to the disk, so the same bytes are written again: a new
//! resource version, as after an update that changes nothing. What was sealed before becomes garbage of the
//! store, which its sweeps drop; `wheelhouse store check` counts it for each key.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use storage::{Change, Entry, Error, Expect, Key, KeyRange, RangeQuery, Store, Write};

use crate::objects;

/// Entries that are read at once.
const PAGE_COUNT: usize = 500;
/// Writes that are under way at once: they share commits.
const CONCURRENT_COUNT: usize = 64;

/// Writes everything that begins with `prefix` anew, and returns how many there were. Who writes one meanwhile has it
/// sealed by that.
///
/// # Errors
/// What the store says.
pub(crate) async fn reseal(store: &Arc<dyn Store>, prefix: Vec<u8>) -> Result<u64, Error> {
    let whole = KeyRange::prefix(prefix);
    let mut start = whole.start.clone();
    let mut count = 0_u64;
    loop {
        let range = KeyRange {
            start,
            end: whole.end.clone(),
        };
        let page = store.range(RangeQuery::of(range).limit(PAGE_COUNT))?;
        let Some(last) = page.entries.last() else {
            return Ok(count);
        };
        start = last.to_key().successor();
        count = count.saturating_add(page.entries.len() as u64);
        stream::iter(page.entries)
            .map(|entry| write_anew(store, entry))
            .buffer_unordered(CONCURRENT_COUNT)
            .try_collect::<()>()
            .await?;
    }
}

async fn write_anew(store: &Arc<dyn Store>, entry: Entry) -> Result<(), Error> {
    let value = entry.value().to_vec();
    let stamp = objects::head(&value).and_then(|head| Some(head.resource_version?.start));
    let write = Write {
        key: Key::copy_of(entry.key()),
        change: Change::Put {
            value,
            stamp,
            tag: entry.tag(),
        },
        expect: Expect::Revision(entry.modified()),
    };
    match store.commit(vec![write]).await {
        Ok(_) | Err(Error::Conflict { .. } | Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use storage::{Revision, embedded};

    use super::*;

    #[tokio::test]
    async fn everything_below_the_prefix_is_written_anew_and_stays_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let engine = embedded::Engine::open(directory.path(), embedded::Config::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(engine);
        let object = serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "data": {"k": "dg=="}});
        let encoded = objects::encode(&object, objects::RevisionSlot::Reserve);
        let put = |key: String| Write {
            key: Key::from(key),
            change: Change::Put {
                value: encoded.bytes.clone(),
                stamp: encoded.stamp,
                tag: 7,
            },
            expect: Expect::Absent,
        };
        // More than a page.
        for n in 0..PAGE_COUNT + 20 {
            let key = format!("/core/secrets/root/default/s-{n}");
            store.commit(vec![put(key)]).await.unwrap();
        }
        let other = put("/core/configmaps/root/default/c".to_owned());
        let other = store.commit(vec![other]).await.unwrap().revision;

        let count = reseal(&store, objects::prefix("", "secrets"))
            .await
            .unwrap();
        assert_eq!(count, PAGE_COUNT as u64 + 20);
        let secrets = RangeQuery::of(KeyRange::prefix("/core/secrets/"));
        let secrets = store.range(secrets).unwrap().entries;
        assert_eq!(secrets.len(), PAGE_COUNT + 20);
        for entry in &secrets {
            assert!(entry.modified() > other, "{entry:?} was not written");
            assert_eq!(entry.tag(), 7);
            let mut want = encoded.bytes.clone();
            objects::stamp_bytes(&mut want, encoded.stamp.unwrap(), entry.modified().0);
            assert_eq!(entry.value(), want, "only its version is new");
            assert_ne!(entry.created(), Revision::default());
        }
        let untouched = store.get(b"/core/configmaps/root/default/c").unwrap();
        assert_eq!(untouched.modified(), other);
    }
}
