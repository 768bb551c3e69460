//! Work on all processors, for a start that reads a whole store: pieces in, results out, in order.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::entry::Entry;

/// How many threads there may be. More processors than this find the disk busy.
const THREADS_MAX: usize = 16;

/// Fewer entries than this are sorted faster by one thread.
const SORTED_ALONE_MAX: usize = 4096;

/// Does the pieces `0..count`, and returns what each gave.
pub(crate) fn each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = threads().min(count);
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let piece = next.fetch_add(1, Ordering::Relaxed);
                    if piece >= count {
                        return;
                    }
                    let result = work(piece);
                    done.lock().push((piece, result));
                }
            });
        }
    });
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(piece, _)| *piece);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The places of entries in the order of their keys; those of one key in their own order.
pub(crate) fn order_of_keys(entries: &[Entry]) -> Vec<u32> {
    let count =
        u32::try_from(entries.len()).expect("four thousand million states do not fit memory");
    let sorted = entries.is_sorted_by(|a, b| a.key() <= b.key());
    if sorted {
        return (0..count).collect();
    }
    let pieces = if entries.len() <= SORTED_ALONE_MAX {
        1
    } else {
        threads()
    };
    let size = entries.len().div_ceil(pieces).max(1);
    let chunks: Vec<_> = entries.chunks(size).collect();
    let shared = shared_prefix(&chunks);
    let runs = each(chunks.len(), |n| {
        let first = n.saturating_mul(size);
        let chunk = chunks.get(n).copied().unwrap_or_default();
        let mut run: Vec<_> = (first..)
            .zip(chunk)
            .map(|(place, entry)| Ranked::new(place, entry, shared))
            .collect();
        run.sort_unstable_by(Ranked::compare);
        run
    });
    let mut ranked = runs.concat();
    // The standard library's stable sort finds the runs, and merges them.
    ranked.sort_by(Ranked::compare);
    ranked.into_iter().map(|ranked| ranked.place).collect()
}

/// An entry with the part of its key that tells most keys apart, so that few comparisons have to
/// follow the pointer.
#[derive(Clone, Copy)]
struct Ranked<'a> {
    rank: u128,
    place: u32,
    entry: &'a Entry,
}

/// How many bytes all keys begin with.
fn shared_prefix(chunks: &[&[Entry]]) -> usize {
    let Some(first) = chunks.first().and_then(|chunk| chunk.first()) else {
        return 0;
    };
    let shared = each(chunks.len(), |n| {
        let chunk = chunks.get(n).copied().unwrap_or_default();
        chunk.iter().fold(first.key().len(), |shared, entry| {
            let pairs = entry.key().iter().zip(first.key());
            pairs.take(shared).take_while(|(a, b)| a == b).count()
        })
    });
    shared.into_iter().min().unwrap_or(0)
}

fn threads() -> usize {
    std::thread::available_parallelism()
        .map_or(1, NonZeroUsize::get)
        .min(THREADS_MAX)
}

// === impl Ranked ===

impl<'a> Ranked<'a> {
    fn new(place: usize, entry: &'a Entry, shared: usize) -> Self {
        let mut bytes = [0; 16];
        let rest = entry.key().get(shared..).unwrap_or_default();
        for (byte, source) in bytes.iter_mut().zip(rest) {
            *byte = *source;
        }
        Self {
            rank: u128::from_be_bytes(bytes),
            place: u32::try_from(place).unwrap_or(u32::MAX),
            entry,
        }
    }

    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let ranks = self.rank.cmp(&other.rank);
        ranks
            .then_with(|| self.entry.key().cmp(other.entry.key()))
            .then(self.place.cmp(&other.place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Random;
    use crate::entry::{Draft, Op, Seal};
    use crate::revision::Revision;

    fn entry(key: &str) -> Entry {
        let revision = Revision(1);
        Draft::new(Op::Put, key.as_bytes(), b"", None).seal(Seal {
            revision,
            created: revision,
            tag: 0,
            index: 0,
            count: 1,
        })
    }

    #[test]
    fn results_come_in_the_order_of_the_pieces() {
        let want: Vec<_> = (0..100).map(|n| n * 2).collect();
        assert_eq!(each(100, |n| n * 2), want);
        assert!(each(0, |n| n).is_empty(), "nothing to do");
    }

    #[test]
    fn keys_are_ordered_as_a_plain_sort_orders_them() {
        let mut random = Random::new(3);
        for (name, count, prefix) in [
            ("none", 0, ""),
            ("few", 50, "/a/"),
            (
                "many with long beginnings",
                20_000,
                "/a/very/long/beginning/",
            ),
            ("many without", 20_000, ""),
        ] {
            let entries: Vec<_> = (0..count)
                .map(|_| {
                    entry(&format!(
                        "{prefix}{}",
                        "x".repeat(random.below(20)) + &random.below(900).to_string()
                    ))
                })
                .collect();
            let mut want: Vec<_> = (0..u32::try_from(count).unwrap()).collect();
            want.sort_by_key(|place| entries[*place as usize].key());
            assert_eq!(order_of_keys(&entries), want, "{name}");
        }
    }

    #[test]
    fn a_key_that_ends_in_zeros_is_not_its_beginning() {
        let entries = [entry("a\0"), entry("a"), entry("a\0\0"), entry("a")];
        assert_eq!(order_of_keys(&entries), [1, 3, 0, 2]);
    }
}
