//! Quantities: how much of a resource, with the suffixes of SI and their binary cousins, exactly.
//!
//! A quantity is a decimal number of any size; `1.5Gi` and `1e-3` lose nothing. As in `resource.ParseQuantity`, digits
//! below a billionth are rounded away from zero, and a binary quantity is capped at 2^63 - 1. The canonical form has no
//! fraction and the largest suffix that loses nothing, of the family in which the quantity was written.
//!
//! Stricter than Go: a sign or a suffix without a digit is refused, where Go reads zero; so are more than a kilobyte of
//! digits and exponents beyond a thousand.
//!
//! Source: `apimachinery/pkg/api/resource/{quantity,suffix}.go`.

use std::cmp::Ordering;
use std::fmt;

mod decimal;

use decimal::Decimal;

/// Quantities resolve billionths.
const SCALE_MAX: i64 = 9;
/// Exponents beyond this name no quantity of anything, and their digits would fill memory.
const EXPONENT_MAX: i64 = 1000;
/// Kubernetes has no limit here; a megabyte of digits would be one too many.
const TEXT_BYTES_MAX: usize = 1024;

/// An amount and the family of suffixes in which it is written; equal when the amounts are.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Decimal,
    family: Family,
}

/// A family of suffixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// `n u m k M G T P E`.
    Decimal,
    /// `Ki Mi Gi Ti Pi Ei`.
    Binary,
    /// `e3`, `E-3`.
    Exponent,
}

/// What a suffix multiplies with.
enum Factor {
    /// A power of ten.
    Ten(i64),
    /// A power of two.
    Two(u32),
}

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Something other than a number and a suffix.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// A suffix of the right letters that does not exist.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

// === impl Quantity ===

impl Quantity {
    /// Parses `<sign><digits>.<digits><suffix>`.
    ///
    /// # Errors
    /// As Go's, for a text that is no quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(QuantityError::Format);
        }
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // Go reads no digits as zero: `.`, `-` and `Mi` are quantities.
        if text.is_empty() || fraction.contains('.') {
            return Err(QuantityError::Format);
        }
        let (family, factor) = suffix_factor(suffix).ok_or_else(|| suffix_error(suffix))?;
        let number = Decimal::parse(negative, whole, fraction);
        let amount = match factor {
            Factor::Ten(exponent) => number.shifted(exponent).rounded_up(SCALE_MAX),
            Factor::Two(power) => {
                let largest = Decimal::from(i64::MAX);
                let amount = number.times(1_u64 << power).rounded_up(SCALE_MAX);
                amount.max(largest.negated()).min(largest)
            }
        };
        Ok(Self { amount, family })
    }

    /// Adds two amounts; the sum is written in the family of the first.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            amount: self.amount.plus(&other.amount),
            family: self.family,
        }
    }

    /// Subtracts an amount; the difference is written in the family of the first.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self {
            amount: self.amount.plus(&other.amount.negated()),
            family: self.family,
        }
    }

    /// Returns the amount, if it is an integer that fits.
    pub fn to_int(&self) -> Option<i64> {
        self.amount.to_int()
    }

    /// Returns the nearest double.
    pub fn to_float(&self) -> f64 {
        self.amount.to_float()
    }

    /// Counts the digits of the amount, which is what arithmetic on it costs.
    pub fn digit_count(&self) -> usize {
        self.amount.digit_count()
    }

    /// Returns the amount as an integer where the binary suffixes can write it.
    fn binary_amount(&self) -> Option<i64> {
        let amount = (self.family == Family::Binary).then(|| self.to_int())??;
        // Small amounts are clearer in decimal.
        (amount.unsigned_abs() >= 1024).then_some(amount)
    }

    fn fmt_decimal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut digits, mut exponent) = self.amount.scientific();
        while exponent.rem_euclid(3) != 0 {
            digits.push('0');
            exponent -= 1;
        }
        f.write_str(&digits)?;
        match (self.family, exponent) {
            (_, 0) => Ok(()),
            (Family::Exponent, exponent) => write!(f, "e{exponent}"),
            (_, exponent) => match decimal_suffix(exponent) {
                Some(suffix) => f.write_str(suffix),
                None => write!(f, "e{exponent}"),
            },
        }
    }
}

impl From<i64> for Quantity {
    fn from(amount: i64) -> Self {
        Self {
            amount: Decimal::from(amount),
            family: Family::Decimal,
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}

impl fmt::Display for Quantity {
    /// Writes the canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        let Some(mut amount) = self.binary_amount() else {
            return self.fmt_decimal(f);
        };
        let mut suffixes = SUFFIXES.into_iter();
        let mut suffix = suffixes.next();
        while amount % 1024 == 0 {
            let Some(next) = suffixes.next() else { break };
            suffix = Some(next);
            amount /= 1024;
        }
        write!(f, "{amount}{}", suffix.unwrap_or_default())
    }
}

fn decimal_suffix(exponent: i64) -> Option<&'static str> {
    Some(match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => return None,
    })
}

fn suffix_factor(suffix: &str) -> Option<(Family, Factor)> {
    let decimal = |power| Some((Family::Decimal, Factor::Ten(power)));
    let binary = |power| Some((Family::Binary, Factor::Two(power)));
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        other => {
            let exponent: i64 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            let within = (-EXPONENT_MAX..=EXPONENT_MAX).contains(&exponent);
            within.then_some((Family::Exponent, Factor::Ten(exponent)))
        }
    }
}

/// A suffix of known letters, a sign and digits does not exist; anything else has the wrong form.
fn suffix_error(suffix: &str) -> QuantityError {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    if rest.bytes().all(|byte| byte.is_ascii_digit()) {
        QuantityError::Suffix
    } else {
        QuantityError::Format
    }
}

#[cfg(test)]
mod tests;
