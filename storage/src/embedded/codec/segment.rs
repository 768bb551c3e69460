//! A segment's name and its first sector.

use super::{FORMAT, SECTOR_BYTES, StoreId, crc_of, field, put, u32_at};

/// The folder of the segments.
pub(in crate::embedded) const LOG_FOLDER: &str = "log";

const MAGIC: [u8; 8] = *b"WHSEGMT\n";
const CRC: usize = 8;
const CHECKED: usize = 12;
const STORE: usize = 16;
const NUMBER: usize = 32;
const GENERATION: usize = 36;
const SIZE: usize = 40;

/// Which segment of which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Place {
    pub(in crate::embedded) store: StoreId,
    pub(in crate::embedded) number: u32,
    pub(in crate::embedded) generation: u32,
}

/// The name of a segment's file.
pub(in crate::embedded) fn segment_name(number: u32, generation: u32) -> String {
    format!("{LOG_FOLDER}/{number:010}.{generation:04}")
}

/// The number and generation that a file's name says, if it is a segment's.
pub(in crate::embedded) fn parse_segment_name(name: &str) -> Option<(u32, u32)> {
    let (number, generation) = name
        .strip_prefix(LOG_FOLDER)?
        .strip_prefix('/')?
        .split_once('.')?;
    let parsed = (number.parse().ok()?, generation.parse().ok()?);
    (segment_name(parsed.0, parsed.1) == name).then_some(parsed)
}

/// The first sector.
pub(in crate::embedded) fn encode_header(place: &Place, size: u32) -> [u8; SECTOR_BYTES] {
    let mut bytes = [0; SECTOR_BYTES];
    put(&mut bytes, 0, MAGIC);
    put(&mut bytes, CHECKED, FORMAT.to_le_bytes());
    put(&mut bytes, STORE, place.store);
    put(&mut bytes, NUMBER, place.number.to_le_bytes());
    put(&mut bytes, GENERATION, place.generation.to_le_bytes());
    put(&mut bytes, SIZE, size.to_le_bytes());
    let crc = crc_of(&bytes, CHECKED..);
    put(&mut bytes, CRC, crc.to_le_bytes());
    bytes
}

/// The size that the first sector names, where it is that of this segment.
pub(in crate::embedded) fn decode_header(bytes: &[u8], place: &Place) -> Result<u32, &'static str> {
    let size = u32_at(bytes, SIZE).ok_or("the header is cut")?;
    let sector = bytes.get(..SECTOR_BYTES).ok_or("the header is cut")?;
    if field(sector, 0) != Some(MAGIC) || u32_at(sector, CRC) != Some(crc_of(sector, CHECKED..)) {
        return Err("the header does not check");
    }
    if sector != encode_header(place, size) {
        return Err("the header is that of another segment");
    }
    Ok(size)
}

/// Whose header it is, whichever.
pub(in crate::embedded) fn decode_any_header(bytes: &[u8]) -> Option<Place> {
    let place = Place {
        store: field(bytes, STORE)?,
        number: u32_at(bytes, NUMBER)?,
        generation: u32_at(bytes, GENERATION)?,
    };
    decode_header(bytes, &place).ok().map(|_| place)
}

/// Makes a first sector right but for whose it is: magic, format, zeros, size and checksum.
#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::embedded) fn mend(bytes: &mut [u8]) {
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let Some(sector) = bytes.first_chunk_mut::<SECTOR_BYTES>() else {
        return;
    };
    let place = Place {
        store: field(sector, STORE).expect("it lies in the sector"),
        number: u32_at(sector, NUMBER).expect("it lies in the sector"),
        generation: u32_at(sector, GENERATION).expect("it lies in the sector"),
    };
    *sector = encode_header(&place, size);
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_segments_are_names_of_segments() {
        for (name, want) in [
            ("log/0000000001.0000", Some((1, 0))),
            ("log/4294967295.12345", Some((u32::MAX, 12_345))),
            ("log/1.0", None),
            ("log/0000000001.0000.new", None),
            ("log/+000000001.0000", None),
            ("0000000001.0000", None),
            ("log/", None),
        ] {
            assert_eq!(parse_segment_name(name), want, "{name}");
        }
    }

    #[test]
    fn a_header_is_that_of_its_segment_and_notices_every_bit() {
        let place = Place {
            store: *b"0123456789abcdef",
            number: 7,
            generation: 2,
        };
        let header = encode_header(&place, 1 << 20);
        assert_eq!(decode_header(&header, &place), Ok(1 << 20));
        let other = Place { number: 8, ..place };
        assert!(decode_header(&header, &other).is_err(), "misdirected");
        for bit in 0..SECTOR_BYTES * 8 {
            let mut flipped = header;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_header(&flipped, &place).is_err(), "bit {bit}");
        }
        assert!(decode_header(&header[..511], &place).is_err(), "cut");
    }
}
