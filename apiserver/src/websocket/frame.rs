//! Frames: those of the server are whole messages, those of a client are read for what controls the connection.
//!
//! ```text
//!   ┌─┬───┬────────┬─┬──────────┬──────────────────────┬──────────────────┬─────────┐
//!   │F│RSV│ opcode │M│ length   │ 2 bytes where it is  │ 4 bytes of mask, │ payload │
//!   │1│ 3 │ 4 bits │1│ 7 bits   │ 126, 8 where 127     │ of a client      │         │
//!   └─┴───┴────────┴─┴──────────┴──────────────────────┴──────────────────┴─────────┘
//! ```
//!
//! # Invariants
//! - Of what a client says nothing is kept but the payload of one ping, of up to [`CONTROL_BYTES_MAX`].
//! - Bytes of a client never make this panic.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

/// The payload of a frame that controls. Source: RFC 6455 section 5.5.
pub(crate) const CONTROL_BYTES_MAX: usize = 125;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
/// Lengths that stand in two bytes, or in eight, behind the head.
const LENGTH_OF_TWO: u8 = 126;
const LENGTH_OF_EIGHT: u8 = 127;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opcode {
    /// A message in UTF-8.
    Text,
    /// A message of bytes.
    Binary,
    /// The last frame of its sender.
    Close,
    /// The answer to a question whether it is there.
    Pong,
}

/// Why a connection is closed. Source: RFC 6455 section 7.4.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseCode {
    /// Nothing more is to be said.
    Normal = 1000,
    /// The other end does not speak the protocol.
    Violation = 1002,
}

/// What was heard of a client in some bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The payload of the last ping, which is all that must be answered.
    pub(crate) ping: Option<Vec<u8>>,
    /// It says no more.
    pub(crate) closed: bool,
}

/// What a client must not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Violation;

/// Reads the frames of a client, however they are cut.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The head of a frame that has begun: at most 14 bytes.
    head: Vec<u8>,
    body: Option<Body>,
}

/// The frame whose payload is being read.
#[derive(Debug)]
struct Body {
    meaning: Meaning,
    left: u64,
    mask: [u8; 4],
    /// What is kept of it.
    payload: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Ping,
    Close,
    /// Data, and pongs.
    Dropped,
}

/// Appends a frame of the server.
pub(crate) fn write(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    let opcode = match opcode {
        Opcode::Text => 0x1,
        Opcode::Binary => 0x2,
        Opcode::Close => 0x8,
        Opcode::Pong => 0xa,
    };
    out.push(FINAL | opcode);
    let length = payload.len();
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < LENGTH_OF_TWO => out.push(short),
        (_, Ok(middle)) => {
            out.push(LENGTH_OF_TWO);
            out.extend_from_slice(&middle.to_be_bytes());
        }
        (_, Err(_)) => {
            out.push(LENGTH_OF_EIGHT);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

/// Appends the last frame of the server.
pub(crate) fn write_close(out: &mut Vec<u8>, code: CloseCode) {
    write(out, Opcode::Close, &(code as u16).to_be_bytes());
}

// === impl Reader ===

impl Reader {
    /// Takes the next bytes. What comes behind a close is not read.
    ///
    /// # Errors
    /// A violation, after which nothing can be read.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> Result<Heard, Violation> {
        let mut heard = Heard::default();
        while !heard.closed {
            let Some(mut body) = self.body.take() else {
                let Some((first, rest)) = bytes.split_first() else {
                    break;
                };
                bytes = rest;
                self.head.push(*first);
                self.body = read_head(&self.head)?;
                if self.body.is_some() {
                    self.head.clear();
                }
                continue;
            };
            bytes = body.take(bytes);
            if body.left > 0 {
                self.body = Some(body);
                break;
            }
            match body.meaning {
                Meaning::Ping => heard.ping = Some(body.unmasked()),
                Meaning::Close => heard.closed = true,
                Meaning::Dropped => {}
            }
        }
        Ok(heard)
    }
}

/// Reads the head of a frame; `None` where it goes on.
fn read_head(head: &[u8]) -> Result<Option<Body>, Violation> {
    let [first, second, rest @ ..] = head else {
        return Ok(None);
    };
    let is_final = first & FINAL != 0;
    let short = second & !MASKED;
    let meaning = match first & 0xf {
        0x0..=0x2 | 0xa => Meaning::Dropped,
        0x8 => Meaning::Close,
        0x9 => Meaning::Ping,
        _ => return Err(Violation),
    };
    let controls = first & 0x8 != 0;
    if first & RESERVED != 0 || second & MASKED == 0 {
        return Err(Violation);
    }
    if controls && (!is_final || usize::from(short) > CONTROL_BYTES_MAX) {
        return Err(Violation);
    }
    let long = match short {
        LENGTH_OF_TWO => rest.split_first_chunk::<2>().map(|(length, mask)| {
            let length = u16::from_be_bytes(*length);
            (u64::from(length), mask)
        }),
        LENGTH_OF_EIGHT => rest
            .split_first_chunk::<8>()
            .map(|(length, mask)| (u64::from_be_bytes(*length), mask)),
        short => Some((u64::from(short), rest)),
    };
    let Some((left, mask)) = long else {
        return Ok(None);
    };
    if left > i64::MAX as u64 {
        return Err(Violation);
    }
    let Ok(mask) = <[u8; 4]>::try_from(mask) else {
        return Ok(None);
    };
    Ok(Some(Body {
        meaning,
        left,
        mask,
        payload: Vec::new(),
    }))
}

// === impl Body ===

impl Body {
    /// Takes its part of some bytes and returns the rest.
    fn take<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let count = usize::try_from(self.left).unwrap_or(usize::MAX);
        let (own, rest) = bytes.split_at_checked(count).unwrap_or((bytes, &[]));
        self.left = self.left.saturating_sub(own.len() as u64);
        if self.meaning == Meaning::Ping {
            self.payload.extend_from_slice(own);
        }
        rest
    }

    fn unmasked(self) -> Vec<u8> {
        let mask = self.mask.iter().cycle();
        let masked = self.payload.iter().zip(mask);
        masked.map(|(byte, mask)| byte ^ mask).collect()
    }
}
