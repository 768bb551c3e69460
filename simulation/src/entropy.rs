//! The machine's entropy, replaced by a seed for threads that have one.
//!
//! Hash maps, uids, jitter and the hub's own draws all come from `getrandom`, and with them the order in which things happen.
//! A run is a thread of its own whose entropy follows from its seed, so that the same seed tells the same story.
//!
//! The function here takes the place of libc's in a binary that links this crate. Never link it into anything that keeps
//! secrets: threads without a seed get numbers that everybody can guess.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

thread_local! {
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// For threads without a seed: each draw is another one.
static SHARED: AtomicU64 = AtomicU64::new(1);

/// The increment of splitmix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators".
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Lets the entropy of this thread follow from a seed, from now on.
pub(crate) fn seed_thread(seed: u64) {
    STATE.with(|state| state.set(Some(seed)));
}

fn next() -> u64 {
    let state = STATE.with(|state| {
        let next = state.get()?.wrapping_add(GOLDEN);
        state.set(Some(next));
        Some(next)
    });
    let state = state.unwrap_or_else(|| SHARED.fetch_add(GOLDEN, Ordering::Relaxed));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Fills a buffer, as getrandom(2) does.
#[expect(
    unsafe_code,
    reason = "takes the place of a C function, by its name and with its pointer"
)]
#[unsafe(no_mangle)]
extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    if buffer.is_null() {
        return 0;
    }
    // SAFETY: the caller says that it owns `length` bytes at `buffer`, as it would to the kernel.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    for chunk in bytes.chunks_mut(8) {
        let word = next().to_le_bytes();
        for (byte, from) in chunk.iter_mut().zip(word) {
            *byte = from;
        }
    }
    isize::try_from(length).unwrap_or(isize::MAX)
}
