//! Mutations that are the same in each run.

use crate::Target;

/// A small generator (xorshift64*), so that a run can be repeated by its seed alone.
#[derive(Clone, Debug)]
pub struct Random(u64);

// === impl Random ===

impl Random {
    /// Begins at a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).unwrap_or_default() % end.max(1)
    }
}

/// Bytes that mean something to most formats.
const TELLING: &[u8] = b"\0\n \"'{}[]():,.%/\\$*&|!<>=-+0919azAZ\x7f\x80\xc3\xff";

/// Changes an input in a few places.
pub fn mutate(random: &mut Random, target: &Target, data: &mut Vec<u8>, other: &[u8]) {
    for _step in 0..=random.below(3) {
        let at = random.below(data.len() + 1);
        let end = (at + random.below(9)).min(data.len());
        match random.below(7) {
            0 => drop(data.drain(at..end)),
            1 => data.insert(at, telling(random)),
            2 if at < data.len() => {
                if let Some(byte) = data.get_mut(at) {
                    *byte = telling(random);
                }
            }
            3 if at < data.len() => {
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            4 if !target.words.is_empty() => {
                let word = target.words.get(random.below(target.words.len()));
                data.splice(at..at, word.into_iter().flat_map(|word| word.bytes()));
            }
            5 => {
                let piece: Vec<u8> = data.get(at..end).unwrap_or_default().to_vec();
                let times = 1 + random.below(16);
                data.splice(at..at, piece.repeat(times));
            }
            _ => {
                let from = random.below(other.len() + 1);
                let to = (from + random.below(64)).min(other.len());
                let piece = other.get(from..to).unwrap_or_default().to_vec();
                data.splice(at..end, piece);
            }
        }
    }
}

fn telling(random: &mut Random) -> u8 {
    TELLING
        .get(random.below(TELLING.len()))
        .copied()
        .unwrap_or_default()
}
