//! Base64.
//!
//! Source: `cel-go/ext/encoders.go`.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{
    GeneralPurpose, GeneralPurposeConfig, NO_PAD, PAD, STANDARD,
};

use super::{Entry, Returned, global};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Value};

pub(super) const FUNCTIONS: &[Entry] = &[
    global("base64.decode", &["(string) -> bytes"], decode),
    global("base64.encode", &["(bytes) -> string"], encode),
];

/// Go does not look at the last bits, which no byte takes.
const PADDED: GeneralPurpose = lenient(PAD);
const PLAIN: GeneralPurpose = lenient(NO_PAD);

const fn lenient(config: GeneralPurposeConfig) -> GeneralPurpose {
    GeneralPurpose::new(
        &alphabet::STANDARD,
        config.with_decode_allow_trailing_bits(true),
    )
}

fn decode<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [Value(Kind::String(text))] = args else {
        return Err(Failure::NoOverload);
    };
    // Go reads over the ends of lines.
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    PADDED
        .decode(text.as_bytes())
        .or_else(|_padded| PLAIN.decode(text.as_bytes()))
        .map(Value::bytes)
        .map_err(|error| Failure::new(format!("illegal base64 data: {error}")))
}

fn encode<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [Value(Kind::Bytes(bytes))] = args else {
        return Err(Failure::NoOverload);
    };
    meter.charge_bytes(bytes.len() * 2)?;
    Ok(Value::string(STANDARD.encode(bytes)))
}
