//! Doubles as integers.

/// 2^63, the first double beyond `int`.
pub(crate) const INT_END: f64 = 4_294_967_296.0 * 2_147_483_648.0;
/// 2^64, the first double beyond `uint`.
pub(crate) const UINT_END: f64 = 4_294_967_296.0 * 4_294_967_296.0;

/// Returns the `int` that a whole double is.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
pub(crate) fn double_to_int(value: f64) -> Option<i64> {
    let whole = value.fract() == 0.0 && (-INT_END..INT_END).contains(&value);
    whole.then_some(value as i64)
}

/// Returns the `uint` that a whole double is.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked"
)]
pub(crate) fn double_to_uint(value: f64) -> Option<u64> {
    let whole = value.fract() == 0.0 && (0.0..UINT_END).contains(&value);
    whole.then_some(value as u64)
}
