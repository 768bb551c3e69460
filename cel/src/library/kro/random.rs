//! `random`: text and numbers that follow from a seed.
//!
//! Source: `kro/pkg/cel/library/random.go`.

use sha2::{Digest as _, Sha256};

use super::super::{Entry, Returned, global};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Value};

pub(in crate::library) const FUNCTIONS: &[Entry] = &[
    global(
        "random.seededString",
        &["(int, string) -> string"],
        seeded_string,
    ),
    global(
        "random.seededInt",
        &["(int, int, string) -> int"],
        seeded_int,
    ),
];

const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Character `i` is the big-endian 32-bit number at byte `4 i mod 32` of the seed's SHA-256, modulo
/// 36; so the text repeats after eight characters.
fn seeded_string<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::Int(length)), Value(Kind::String(seed))] = args else {
        return Err(Failure::NoOverload);
    };
    let length = usize::try_from(*length)
        .ok()
        .filter(|length| *length > 0)
        .ok_or_else(|| Failure::new("random.seededString length must be positive"))?;
    meter.charge_bytes(length)?;
    let hash = Sha256::digest(seed.as_bytes());
    let period: Vec<char> = hash
        .chunks_exact(4)
        .map(|word| {
            let word = word
                .iter()
                .fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
            let index = (word % 36) as usize;
            ALPHABET.get(index).copied().map_or('0', char::from)
        })
        .collect();
    let text: String = period.iter().cycle().take(length).collect();
    Ok(Value::string(text))
}

/// The first eight bytes of the seed's SHA-256 as a big-endian number, modulo the range, above the
/// minimum.
fn seeded_int<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [
        Value(Kind::Int(min)),
        Value(Kind::Int(max)),
        Value(Kind::String(seed)),
    ] = args
    else {
        return Err(Failure::NoOverload);
    };
    if min >= max {
        return Err(Failure::new("random.seededInt min must be less than max"));
    }
    let hash = Sha256::digest(seed.as_bytes());
    let number = hash
        .iter()
        .take(8)
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    // Go subtracts with wrap-around, and the unsigned range is right also where it wraps.
    let range = max.wrapping_sub(*min).cast_unsigned();
    let offset = (number % range).cast_signed();
    Ok(Value::int(min.wrapping_add(offset)))
}
