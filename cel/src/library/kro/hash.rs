//! `hash`: digests of text, as bytes.
//!
//! Source: `kro/pkg/cel/library/hash.go`; RFC 1321 for MD5.

use sha2::{Digest as _, Sha256};

use super::super::{Entry, Returned, global};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Value};

const DIGEST: &[&str] = &["(string) -> bytes"];

pub(in crate::library) const FUNCTIONS: &[Entry] = &[
    global("hash.fnv64a", DIGEST, fnv64a),
    global("hash.sha256", DIGEST, sha256),
    global("hash.md5", DIGEST, md5),
];

fn fnv64a<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    digest(args, |bytes| {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash.to_be_bytes().to_vec()
    })
}

fn sha256<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    digest(args, |bytes| Sha256::digest(bytes).to_vec())
}

fn md5<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    digest(args, |bytes| md5_of(bytes).to_vec())
}

fn digest<'v>(args: &[Value<'v>], digest: impl Fn(&[u8]) -> Vec<u8>) -> Returned<'v> {
    match args {
        [Value(Kind::String(text))] => Ok(Value::bytes(digest(text.as_bytes()))),
        _ => Err(Failure::NoOverload),
    }
}

/// The left rotations of MD5, four per round.
const ROTATIONS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

/// MD5, which names things here and protects nothing.
fn md5_of(bytes: &[u8]) -> [u8; 16] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    let bit_count = (bytes.len() as u64).wrapping_mul(8);
    padded.extend(bit_count.to_le_bytes());
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        state = md5_block(state, block);
    }
    let mut digest = [0; 16];
    for (out, word) in digest.chunks_exact_mut(4).zip(state) {
        out.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

fn md5_block(state: [u32; 4], block: &[u8]) -> [u32; 4] {
    let words: Vec<u32> = block
        .chunks_exact(4)
        .map(|word| {
            word.iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u32::from(*byte))
        })
        .collect();
    let [mut a, mut b, mut c, mut d] = state;
    for step in 0..64_usize {
        let (mix, index) = match step / 16 {
            0 => (b & c | !b & d, step),
            1 => (d & b | !d & c, 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        let word = words.get(index % 16).copied().unwrap_or(0);
        let rotation = ROTATIONS
            .get(step / 16)
            .and_then(|round| round.get(step % 4))
            .copied()
            .unwrap_or(0);
        let sum = a
            .wrapping_add(mix)
            .wrapping_add(md5_constant(step))
            .wrapping_add(word);
        (a, b, c, d) = (d, b.wrapping_add(sum.rotate_left(rotation)), b, c);
    }
    let [a0, b0, c0, d0] = state;
    [
        a0.wrapping_add(a),
        b0.wrapping_add(b),
        c0.wrapping_add(c),
        d0.wrapping_add(d),
    ]
}

/// `floor(2^32 |sin(step + 1)|)`, as RFC 1321 defines the table.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the value lies within 0 and 2^32"
)]
fn md5_constant(step: usize) -> u32 {
    (4_294_967_296.0 * ((step + 1) as f64).sin().abs()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_agrees_with_rfc_1321() {
        for (text, want) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            let hex: Vec<String> = md5_of(text.as_bytes())
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(hex.concat(), want, "{text:?}");
        }
    }
}
