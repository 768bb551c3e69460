//! The machine's entropy and its calendar, replaced for the threads of runs.
//!
//! Hash maps, uids, jitter and the hub's own draws all come from `getrandom`, and with them the order in which things happen.
//! What is written into statuses comes from the calendar, and with it whether they differ. A run is a thread of its own whose
//! entropy follows from its seed and whose calendar follows its paused clock, so that the same seed tells the same story.
//!
//! The functions here take the place of libc's in a binary that links this crate. Never link it into anything that keeps
//! secrets: all threads get numbers that everybody can guess.

use std::{
    cell::Cell,
    ffi::{c_int, c_long},
    time::Duration,
};

use tokio::{runtime::Handle, time::Instant};

thread_local! {
    /// Every thread begins alike: those of a store have no seed, and are part of the story too.
    static STATE: Cell<u64> = const { Cell::new(1) };
    /// When the run of this thread began, by its own clock.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The increment of splitmix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators".
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// When every run begins: 1 January 2026.
const EPOCH: Duration = Duration::from_hours(490_896);

/// The calendar's clock. Source: linux `include/uapi/linux/time.h`.
const CLOCK_REALTIME: c_int = 0;

/// The number of the call. Source: linux `arch/x86/entry/syscalls/syscall_64.tbl`, `include/uapi/asm-generic/unistd.h`.
const SYS_CLOCK_GETTIME: c_long = if cfg!(target_arch = "x86_64") {
    228
} else {
    113
};

/// A time as the kernel writes it.
#[repr(C)]
#[derive(Debug)]
struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}

/// Lets the entropy of this thread follow from a seed, from now on.
pub(crate) fn seed_thread(seed: u64) {
    STATE.set(seed);
}

/// Lets the calendar of this thread follow the clock of its runtime, from now on.
pub(crate) fn follow_clock() {
    BEGAN.set(Some(Instant::now()));
}

fn next() -> u64 {
    let state = STATE.get().wrapping_add(GOLDEN);
    STATE.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns what the calendar of a run says; nothing for other threads.
fn calendar() -> Option<Timespec> {
    let began = BEGAN.try_with(Cell::get).ok()??;
    // Without its runtime, the clock is the machine's.
    Handle::try_current().ok()?;
    let now = EPOCH + Instant::now().saturating_duration_since(began);
    Some(Timespec {
        seconds: i64::try_from(now.as_secs()).ok()?,
        nanoseconds: c_long::from(now.subsec_nanos()),
    })
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

/// Reads a clock, as clock_gettime(2) does.
#[expect(
    unsafe_code,
    reason = "takes the place of a C function, by its name and with its pointer"
)]
#[unsafe(no_mangle)]
extern "C" fn clock_gettime(clock: c_int, into: *mut Timespec) -> c_int {
    if clock == CLOCK_REALTIME
        && !into.is_null()
        && let Some(now) = calendar()
    {
        // SAFETY: the caller says that `into` is its own, as it would to the kernel.
        unsafe { into.write(now) };
        return 0;
    }
    // SAFETY: both arguments go to the kernel as they came; it checks them.
    let answer = unsafe { syscall(SYS_CLOCK_GETTIME, c_long::from(clock), into) };
    c_int::try_from(answer).unwrap_or(-1)
}

#[expect(unsafe_code, reason = "asks the kernel itself")]
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}
