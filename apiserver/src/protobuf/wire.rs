//! The wire format: keys, varints, fixed and length-delimited fields.

use super::Error;

/// One field's content.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// Walks over the fields of a message.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Reads the next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Field<'a>)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_too_large| Error::Truncated)?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_large| Error::Truncated)?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(Error::Truncated),
        };
        Ok(Some((number, field)))
    }

    /// Reads one varint; of a packed field, until none is left.
    pub(super) fn packed(&mut self) -> Result<Option<u64>, Error> {
        if self.rest.is_empty() {
            Ok(None)
        } else {
            self.varint().map(Some)
        }
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for shift in (0..64_u32).step_by(7) {
            let (first, rest) = self.rest.split_first().ok_or(Error::Truncated)?;
            self.rest = rest;
            value |= u64::from(first & 0x7f)
                .checked_shl(shift)
                .ok_or(Error::Truncated)?;
            if first & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::Truncated)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }
}
