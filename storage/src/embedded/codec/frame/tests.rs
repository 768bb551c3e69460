#![expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test may panic"
)]

use proptest::prelude::*;

use super::*;
use crate::embedded::probe;

const PLACE: Place = Place {
    store: *b"0123456789abcdef",
    number: 3,
    generation: 1,
};

const FACTS: Facts = Facts {
    kind: Kind::Group,
    sequence: 8,
    previous: 7,
    floor: Revision(1_000_000_000_000_001),
    revision: Revision(1_000_000_000_000_009),
};

/// A segment of which a frame with records of these sizes is all.
fn framed(sizes: &[usize]) -> Vec<u8> {
    let mut builder = FrameBuilder::default();
    for size in sizes {
        builder.push(&vec![0xab; *size]);
    }
    let len = builder.len();
    let bytes = builder.finish(&PLACE, 0, FACTS).to_vec();
    assert_eq!(bytes.len(), len, "the length is known before");
    bytes
}

fn sizes(frame: &Frame<'_>) -> Vec<usize> {
    frame
        .records()
        .map(|record| record.unwrap().len())
        .collect()
}

const SHAPES: [(&str, &[usize]); 8] = [
    ("no record", &[]),
    ("an empty record", &[0]),
    ("a small one", &[100]),
    ("all but the end mark fits a sector", &[504]),
    ("the end mark needs its own sector", &[505]),
    ("several", &[40, 1200, 0, 3]),
    ("the longest table in the head", &[105 * 512 - 8]),
    ("a table of its own", &[105 * 512 - 7, 70_000]),
];

#[test]
fn a_frame_reads_back_whatever_its_shape() {
    for (name, shape) in SHAPES {
        let bytes = framed(shape);
        let Look::Frame(frame) = look(&bytes, 0, &PLACE) else {
            unreachable!("{name}: {:?}", look(&bytes, 0, &PLACE));
        };
        assert_eq!(sizes(&frame), shape, "{name}");
        assert_eq!((frame.facts, frame.end), (FACTS, bytes.len()), "{name}");
        assert_eq!(frame.count as usize, shape.len(), "{name}");
    }
}

#[test]
fn the_largest_frame_fits_the_buffer() {
    let mut builder = FrameBuilder::default();
    builder.push(&vec![1; BODY_BYTES_MAX - 4]);
    let bytes = builder.finish(&PLACE, 0, FACTS).to_vec();
    assert!(matches!(look(&bytes, 0, &PLACE), Look::Frame(_)));
}

#[test]
fn every_flipped_bit_of_a_frame_is_rotten() {
    for (name, shape) in SHAPES {
        let bytes = framed(shape);
        // All of the first sectors, and a share of the rest.
        let behind = (2_048 * 8..bytes.len() * 8).step_by(997);
        for bit in (0..bytes.len().min(2_048) * 8).chain(behind) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let look = look(&flipped, 0, &PLACE);
            assert!(
                matches!(look, Look::Rotten(_)),
                "{name}, bit {bit}: {look:?}"
            );
        }
    }
}

#[test]
fn a_frame_that_is_cut_anywhere_is_torn() {
    for (name, shape) in SHAPES {
        let bytes = framed(shape);
        for len in 0..bytes.len().min(4_000) {
            let mut cut = bytes.clone();
            cut[len..].fill(0);
            match look(&cut, 0, &PLACE) {
                Look::End | Look::Torn => {}
                other => assert!(cut == bytes, "{name}, {len} bytes: {other:?}"),
            }
        }
    }
}

/// Sectors reach a disk in any order.
#[test]
fn a_frame_that_lacks_sectors_is_torn() {
    for (name, shape) in SHAPES {
        let bytes = framed(shape);
        let sectors = bytes.len() / SECTOR_BYTES;
        for lost in 0..sectors {
            for also in [lost, sectors - 1, sectors / 2] {
                let mut torn = bytes.clone();
                torn[lost * SECTOR_BYTES..][..SECTOR_BYTES].fill(0);
                torn[also * SECTOR_BYTES..][..SECTOR_BYTES].fill(0);
                let look = look(&torn, 0, &PLACE);
                assert!(
                    matches!(look, Look::Torn | Look::End),
                    "{name}, without {lost} and {also}: {look:?}"
                );
            }
        }
    }
}

#[test]
fn a_frame_of_another_place_is_rotten() {
    let bytes = framed(&[100]);
    let moved = [vec![0; SECTOR_BYTES], bytes.clone()].concat();
    let others = [
        ("moved", moved, SECTOR_BYTES, PLACE),
        (
            "of another number",
            bytes.clone(),
            0,
            Place { number: 4, ..PLACE },
        ),
        (
            "of another generation",
            bytes.clone(),
            0,
            Place {
                generation: 0,
                ..PLACE
            },
        ),
        (
            "of another store",
            bytes,
            0,
            Place {
                store: [7; 16],
                ..PLACE
            },
        ),
    ];
    for (name, bytes, position, place) in others {
        let look = look(&bytes, position, &place);
        assert!(matches!(look, Look::Rotten(_)), "{name}: {look:?}");
    }
}

#[test]
fn a_frame_behind_the_end_is_found() {
    let mut builder = FrameBuilder::default();
    builder.push(&[1; 700]);
    let at = 5 * SECTOR_BYTES;
    let frame = builder.finish(&PLACE, at, FACTS).to_vec();
    let mut segment = vec![0; at];
    segment.extend_from_slice(&frame);
    assert_eq!(find_frame(&segment, SECTOR_BYTES, &PLACE), Some(at));
    assert_eq!(
        find_frame(&segment, at + 1, &PLACE),
        None,
        "none begins there"
    );
    segment[at + SECTOR_BYTES + 9] ^= 1;
    assert_eq!(find_frame(&segment, 0, &PLACE), None, "it is not whole");
}

/// Fuzzing found that they were not looked at. Checksums alone do not tell who laid the frame out.
#[test]
fn nothing_stands_where_a_frame_has_zeros() {
    let whole = framed(&[60]);
    let frame = match look(&whole, 0, &PLACE) {
        Look::Frame(frame) => frame,
        other => unreachable!("{other:?}"),
    };
    let padding = SECTOR_BYTES + frame.body.len();
    for (name, at) in [
        ("the table", TABLE + CRC_BYTES),
        ("the end of the table", MARK - 1),
        ("behind the records", padding),
        ("before the end mark", 2 * SECTOR_BYTES - END_MARK.len() - 1),
    ] {
        let mut segment = whole.clone();
        segment[at] = 1;
        mend(&mut segment);
        let found = look(&segment, 0, &PLACE);
        assert!(matches!(found, Look::Rotten(_)), "{name}: {found:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoders_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..3_000),
        flips in proptest::collection::vec((0..3_000_usize, any::<u8>()), 0..8),
        mend in any::<bool>(),
    ) {
        probe::segment(&bytes);
        probe::manifest(&bytes);
        probe::record(&bytes);
        let mut near = framed(&[60, 900]);
        for (at, byte) in flips {
            let len = near.len();
            near[at % len] = byte;
        }
        if mend {
            probe::mend(&mut near);
        }
        probe::segment(&near);
        bytes.truncate(near.len());
        near[..bytes.len()].copy_from_slice(&bytes);
        probe::mend(&mut near);
        probe::segment(&near);
    }
}
