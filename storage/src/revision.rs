//! The number line of commits.
//!
//! ```text
//!   0 ........ 10^15 ............................ 9 x 10^15 .. 2^53
//!   a spoke's    epoch 100 | epoch 101 | ... | epoch 899
//!   own numbers  each epoch holds 10^13 numbers
//! ```
//!
//! A revision is `epoch x 10^13 + n` with an epoch of three digits, so it is always sixteen
//! decimal digits, stays below 2^53 (a JSON number in every client), and never meets a revision
//! of a spoke's etcd. A restore begins a new epoch, somewhere in it: no number is ever given twice.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// The commit number of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// How many numbers an epoch holds.
const EPOCH_SIZE: u64 = 10_000_000_000_000;

// === impl Revision ===

impl Revision {
    /// The epoch of a new store.
    pub const EPOCH_FIRST: u64 = 100;
    /// The last epoch that lies below 2^53 with all its numbers: 900 x 10^13 < 2^53.
    pub const EPOCH_LAST: u64 = 899;
    /// Decimal digits of every revision of a store.
    pub const DIGITS: usize = 16;

    /// The revision of an epoch before anything is written in it.
    ///
    /// Returns `None` outside the number line.
    pub const fn start_of_epoch(epoch: u64) -> Option<Self> {
        if epoch < Self::EPOCH_FIRST || epoch > Self::EPOCH_LAST {
            return None;
        }
        Some(Self(epoch.saturating_mul(EPOCH_SIZE)))
    }

    /// The revision of an epoch with a number; the number is cut to what an epoch holds.
    ///
    /// Returns `None` outside the number line.
    pub const fn in_epoch(epoch: u64, number: u64) -> Option<Self> {
        let Some(start) = Self::start_of_epoch(epoch) else {
            return None;
        };
        let last = EPOCH_SIZE - 1;
        let number = if number > last { last } else { number };
        Some(Self(start.0.saturating_add(number)))
    }

    /// The epoch it belongs to.
    pub const fn epoch(self) -> u64 {
        self.0 / EPOCH_SIZE
    }

    /// Its number within the epoch.
    pub const fn number(self) -> u64 {
        self.0 % EPOCH_SIZE
    }

    /// Whether it lies on the number line of a hub's store, and so is not one of a spoke.
    pub const fn is_of_a_hub(self) -> bool {
        self.epoch() >= Self::EPOCH_FIRST && self.epoch() <= Self::EPOCH_LAST
    }

    /// The revision of the commit after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Its sixteen digits, zeros in front.
    pub fn digits(self) -> [u8; Self::DIGITS] {
        let mut digits = [b'0'; Self::DIGITS];
        let mut rest = self.0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0'.saturating_add(u8::try_from(rest % 10).unwrap_or(0));
            rest /= 10;
        }
        digits
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Revision {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // `u64::from_str` takes a leading plus sign, which no client may send.
        if text.starts_with('+') {
            "".parse()
        } else {
            text.parse()
        }
        .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_has_sixteen_digits_and_fits_a_double() {
        let first = Revision::start_of_epoch(Revision::EPOCH_FIRST).unwrap();
        let last =
            Revision(Revision::start_of_epoch(Revision::EPOCH_LAST).unwrap().0 + EPOCH_SIZE - 1);
        assert_eq!(first.to_string(), "1000000000000000");
        assert_eq!(last.to_string().len(), Revision::DIGITS);
        assert!(last.0 < 1 << 53, "a JavaScript number holds it");
        assert_eq!(Revision::start_of_epoch(99), None);
        assert_eq!(Revision::start_of_epoch(900), None);
    }

    #[test]
    fn digits_are_the_decimal_text() {
        for revision in [
            Revision(1_000_000_000_000_000),
            Revision(1_230_000_000_004_567),
        ] {
            assert_eq!(revision.digits(), revision.to_string().as_bytes());
        }
        assert_eq!(&Revision(42).digits(), b"0000000000000042");
    }

    #[test]
    fn epoch_and_number_take_a_revision_apart() {
        let revision = Revision(1_000_000_000_000_007);
        assert_eq!((revision.epoch(), revision.number()), (100, 7));
        assert!(revision.is_of_a_hub());
        assert_eq!(Revision::in_epoch(100, 7), Some(revision));
        let cut = Revision::in_epoch(100, u64::MAX).unwrap();
        assert_eq!((cut.epoch(), cut.number()), (100, EPOCH_SIZE - 1));
        assert_eq!(Revision::in_epoch(99, 7), None);
        assert!(!Revision(12_345).is_of_a_hub(), "a spoke's");
        assert_eq!(revision.next(), Revision(1_000_000_000_000_008));
    }

    #[test]
    fn only_plain_digits_are_a_revision() {
        for (text, want) in [
            ("7", Some(Revision(7))),
            ("+7", None),
            ("", None),
            ("-1", None),
        ] {
            assert_eq!(text.parse().ok(), want, "{text:?}");
        }
    }
}
