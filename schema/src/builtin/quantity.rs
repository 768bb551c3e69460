//! Quantities: how much of a resource, with the suffixes of SI and their binary cousins.
//!
//! A quantity is kept in canonical form: no fraction, the largest suffix that loses nothing, the family of suffixes in
//! which it was written. Finer than nano is rounded up.
//!
//! Source: `apimachinery/pkg/api/resource/{quantity,suffix}.go`.

use std::fmt;

/// The scale below which amounts are rounded up.
const EXPONENT_MIN: i32 = -9;
/// The largest amount, of which greater ones are cut.
const AMOUNT_MAX: i128 = i64::MAX as i128;
/// More digits than any amount needs; longer texts are cut to the largest amount.
const DIGITS_MAX: usize = 36;

/// An amount and the family of suffixes in which it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    /// The amount is `mantissa * 10^exponent`.
    mantissa: i128,
    exponent: i32,
    family: Family,
}

/// A family of suffixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `n u m k M G T P E`.
    Decimal,
    /// `Ki Mi Gi Ti Pi Ei`.
    Binary,
    /// `e3`, `E-3`.
    Exponent,
}

/// The text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)]
pub struct QuantityError;

// === impl Quantity ===

impl Quantity {
    /// Reads a quantity.
    ///
    /// # Errors
    /// The text is none.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let number_end = unsigned
            .find(|it: char| !it.is_ascii_digit() && it != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(QuantityError);
        }
        let (family, base, power) = suffix_scale(suffix).ok_or(QuantityError)?;
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let fraction_length = i32::try_from(fraction.len()).map_err(|_overlong| QuantityError)?;
        let mantissa = match digits {
            "" => 0,
            long if long.len() > DIGITS_MAX => return Ok(Self::largest(text, family)),
            digits => digits.parse::<i128>().map_err(|_overflow| QuantityError)?,
        };
        let mantissa = if text.starts_with('-') {
            -mantissa
        } else {
            mantissa
        };
        let scaled = match base {
            2 => mantissa.checked_mul(1 << power.clamp(0, 60)),
            _ => Some(mantissa),
        };
        let exponent = if base == 2 {
            -fraction_length
        } else {
            power - fraction_length
        };
        match scaled {
            Some(mantissa) => Ok(Self {
                mantissa,
                exponent,
                family,
            }
            .rounded()
            .capped()),
            None => Ok(Self::largest(text, family)),
        }
    }

    /// Cuts what is greater than the largest amount.
    fn capped(self) -> Self {
        let fits = if self.exponent >= 0 {
            self.integer()
                .is_some_and(|amount| amount.abs() <= AMOUNT_MAX)
        } else {
            let divisor = 10_i128.checked_pow(self.exponent.unsigned_abs());
            divisor.is_none_or(|divisor| self.mantissa.abs() / divisor <= AMOUNT_MAX)
        };
        if fits {
            return self;
        }
        Self {
            mantissa: self.mantissa.signum() * AMOUNT_MAX,
            exponent: 0,
            family: self.family,
        }
    }

    fn largest(text: &str, family: Family) -> Self {
        let sign = if text.starts_with('-') { -1 } else { 1 };
        Self {
            mantissa: sign * AMOUNT_MAX,
            exponent: 0,
            family,
        }
    }

    /// Drops what is finer than nano, away from zero, and trailing zeros.
    fn rounded(mut self) -> Self {
        while self.exponent < EXPONENT_MIN && self.mantissa != 0 {
            let remainder = self.mantissa % 10;
            self.mantissa = self.mantissa / 10 + remainder.signum();
            self.exponent += 1;
        }
        if self.mantissa == 0 {
            self.exponent = 0;
        }
        while self.mantissa != 0 && self.mantissa % 10 == 0 {
            self.mantissa /= 10;
            self.exponent += 1;
        }
        self
    }

    /// The amount, if it is an integer that fits.
    fn integer(self) -> Option<i128> {
        let factor = 10_i128.checked_pow(u32::try_from(self.exponent).ok()?)?;
        self.mantissa.checked_mul(factor)
    }

    /// The amount in thousandths, rounded up; saturates.
    pub fn milli(self) -> i128 {
        let mut scaled = self;
        let mut exponent = self.exponent + 3;
        while exponent < 0 {
            scaled.mantissa = scaled.mantissa / 10 + (scaled.mantissa % 10).signum();
            exponent += 1;
        }
        let factor = u32::try_from(exponent)
            .ok()
            .and_then(|it| 10_i128.checked_pow(it));
        factor.map_or(i128::MAX, |factor| scaled.mantissa.saturating_mul(factor))
    }

    fn fmt_binary(f: &mut fmt::Formatter<'_>, mut amount: i128) -> fmt::Result {
        const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        let mut suffix = 0;
        while amount % 1024 == 0 && suffix + 1 < SUFFIXES.len() {
            amount /= 1024;
            suffix += 1;
        }
        write!(
            f,
            "{amount}{}",
            SUFFIXES.get(suffix).copied().unwrap_or_default()
        )
    }

    fn fmt_decimal(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut mantissa, mut exponent) = (self.mantissa, self.exponent);
        while exponent.rem_euclid(3) != 0 {
            mantissa = mantissa.saturating_mul(10);
            exponent -= 1;
        }
        if self.family == Family::Exponent {
            return match exponent {
                0 => write!(f, "{mantissa}"),
                exponent => write!(f, "{mantissa}e{exponent}"),
            };
        }
        let suffix = match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            _ => "",
        };
        write!(f, "{mantissa}{suffix}")
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mantissa == 0 {
            return f.write_str("0");
        }
        // Small and fractional amounts are clearer in decimal.
        match self
            .integer()
            .filter(|it| self.family == Family::Binary && it.abs() >= 1024)
        {
            Some(amount) => Self::fmt_binary(f, amount),
            None => self.fmt_decimal(f),
        }
    }
}

/// The family, the base and the power that a suffix stands for.
fn suffix_scale(suffix: &str) -> Option<(Family, u32, i32)> {
    let decimal = |power| Some((Family::Decimal, 10, power));
    let binary = |power| Some((Family::Binary, 2, power));
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
        exponent => {
            let digits = exponent.strip_prefix(['e', 'E'])?;
            let power: i32 = digits.parse().ok()?;
            // Far beyond the largest amount and the finest scale.
            (power.abs() <= 64).then_some((Family::Exponent, 10, power))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_canonical() {
        let cases = [
            ("0", "0"),
            ("0.5", "500m"),
            ("1", "1"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.3Ki", "307200m"),
            ("100Mi", "100Mi"),
            ("1000Mi", "1000Mi"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("12e6", "12e6"),
            ("-1.5Gi", "-1536Mi"),
            ("+2", "2"),
            ("0.0000000001", "1n"),
            (".5", "500m"),
            ("5.", "5"),
            (
                "123456789012345678901234567890123456789",
                "9223372036854775807",
            ),
            ("100", "100"),
            ("1500", "1500"),
            ("2000k", "2M"),
        ];
        for (text, want) in cases {
            assert_eq!(Quantity::parse(text).unwrap().to_string(), want, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in [
            "", "a", "1.2.3", "1Kib", "1 Gi", "--1", "e3", ".", "1e", "1ki",
        ] {
            assert_eq!(Quantity::parse(text), Err(QuantityError), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics_and_canonical_is_stable(text in "[-+]?[0-9]{0,40}[.]?[0-9]{0,20}(|[numkMGTPE]|[KMGTPE]i|e[-+]?[0-9]{1,3})") {
            if let Ok(quantity) = Quantity::parse(&text) {
                let canonical = quantity.to_string();
                proptest::prop_assert_eq!(Quantity::parse(&canonical).unwrap().to_string(), canonical);
                let _: i128 = quantity.milli();
            }
        }
    }
}
