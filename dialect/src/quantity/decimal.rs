//! Decimal numbers of any size, with the few operations that quantities need.
//!
//! Invariants: no leading zero digits, no trailing zeros behind the point, zero is not negative;
//! so equal numbers are equal values.

use std::cmp::Ordering;

/// `digits / 10^scale`, digits from the most significant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    scale: i64,
}

// === impl Decimal ===

impl Decimal {
    /// Returns `whole.fraction`; both are ASCII digits.
    pub(super) fn parse(negative: bool, whole: &str, fraction: &str) -> Self {
        let digits = whole
            .bytes()
            .chain(fraction.bytes())
            .map(|digit| digit.wrapping_sub(b'0'))
            .collect();
        Self::new(negative, digits, length(fraction.len()))
    }

    fn new(negative: bool, mut digits: Vec<u8>, mut scale: i64) -> Self {
        while scale > 0 && digits.last() == Some(&0) {
            digits.pop();
            scale -= 1;
        }
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..zeros);
        if digits.is_empty() {
            return Self {
                negative: false,
                digits,
                scale: 0,
            };
        }
        // A negative scale would give one number two forms.
        while scale < 0 {
            digits.push(0);
            scale += 1;
        }
        Self {
            negative,
            digits,
            scale,
        }
    }

    /// Multiplies by a power of ten.
    pub(super) fn shifted(self, exponent: i64) -> Self {
        Self::new(self.negative, self.digits, self.scale - exponent)
    }

    /// Multiplies by a factor.
    pub(super) fn times(&self, factor: u64) -> Self {
        let mut digits = Vec::with_capacity(self.digits.len() + 20);
        let mut carry: u128 = 0;
        for digit in self.digits.iter().rev() {
            let product = u128::from(*digit) * u128::from(factor) + carry;
            digits.push(last_digit(product));
            carry = product / 10;
        }
        while carry > 0 {
            digits.push(last_digit(carry));
            carry /= 10;
        }
        digits.reverse();
        Self::new(self.negative, digits, self.scale)
    }

    /// Rounds away from zero to at most `scale` digits behind the point.
    pub(super) fn rounded_up(mut self, scale: i64) -> Self {
        let mut dropped = false;
        while self.scale > scale {
            dropped |= self.digits.pop().is_some_and(|digit| digit > 0);
            self.scale -= 1;
        }
        let kept = Self::new(self.negative, self.digits, self.scale);
        if !dropped {
            return kept;
        }
        let unit = Self::new(self.negative, vec![1], scale);
        kept.plus(&unit)
    }

    pub(super) fn negated(&self) -> Self {
        let mut negated = self.clone();
        negated.negative = !self.negative && !self.digits.is_empty();
        negated
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let scale = self.scale.max(other.scale);
        let (left, right) = (self.aligned(scale), other.aligned(scale));
        if self.negative == other.negative {
            return Self::new(self.negative, add(&left, &right), scale);
        }
        match compare(&left, &right) {
            Ordering::Less => Self::new(other.negative, subtract(&right, &left), scale),
            Ordering::Equal => Self::new(false, Vec::new(), 0),
            Ordering::Greater => Self::new(self.negative, subtract(&left, &right), scale),
        }
    }

    /// Returns the integer, if it is one and fits.
    pub(super) fn to_int(&self) -> Option<i64> {
        if self.scale > 0 {
            return None;
        }
        let mut value: i128 = 0;
        for digit in &self.digits {
            value = value.checked_mul(10)?.checked_add(i128::from(*digit))?;
        }
        i64::try_from(if self.negative { -value } else { value }).ok()
    }

    /// Returns the nearest double.
    pub(super) fn to_float(&self) -> f64 {
        let sign = if self.negative { "-" } else { "" };
        let digits: String = self
            .digits
            .iter()
            .map(|digit| char::from(b'0' + digit))
            .collect();
        format!("{sign}0{digits}e-{}", self.scale)
            .parse()
            .unwrap_or(f64::NAN)
    }

    /// Writes the number as digits without trailing zeros and a power of ten.
    pub(super) fn scientific(&self) -> (String, i64) {
        let zeros = self.digits.iter().rev().take_while(|digit| **digit == 0);
        let zeros = zeros.count();
        let digits = self.digits.iter().take(self.digits.len() - zeros);
        let sign = self.negative.then_some('-');
        let text: String = sign
            .into_iter()
            .chain(digits.map(|digit| char::from(b'0' + digit)))
            .collect();
        match text.as_str() {
            "" => ("0".to_owned(), 0),
            _ => (text, length(zeros) - self.scale),
        }
    }

    pub(super) fn digit_count(&self) -> usize {
        self.digits.len()
    }

    /// The digits at a scale that is not below this number's, least significant first.
    fn aligned(&self, scale: i64) -> Vec<u8> {
        let zeros = usize::try_from(scale - self.scale).unwrap_or(0);
        let mut digits = vec![0; zeros];
        digits.extend(self.digits.iter().rev());
        digits
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        let digits = value.unsigned_abs().to_string();
        Self::parse(value < 0, &digits, "")
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let scale = self.scale.max(other.scale);
        let order = compare(&self.aligned(scale), &other.aligned(scale));
        match (self.negative, other.negative) {
            (false, false) => order,
            (true, true) => order.reverse(),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

fn length(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn last_digit(value: u128) -> u8 {
    u8::try_from(value % 10).unwrap_or(0)
}

/// Compares magnitudes, least significant digit first; leading zeros do not count.
fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let left = significant(left);
    let right = significant(right);
    left.len()
        .cmp(&right.len())
        .then_with(|| left.iter().rev().cmp(right.iter().rev()))
}

fn significant(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().rev().take_while(|digit| **digit == 0).count();
    digits.get(..digits.len() - zeros).unwrap_or_default()
}

fn add(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut sum = Vec::with_capacity(left.len().max(right.len()) + 1);
    let mut carry = 0;
    for index in 0..left.len().max(right.len()) {
        let digit = |digits: &[u8]| digits.get(index).copied().unwrap_or(0);
        let total = digit(left) + digit(right) + carry;
        sum.push(total % 10);
        carry = total / 10;
    }
    sum.push(carry);
    sum.reverse();
    sum
}

/// Subtracts the smaller magnitude from the larger one.
fn subtract(larger: &[u8], smaller: &[u8]) -> Vec<u8> {
    let mut difference = Vec::with_capacity(larger.len());
    let mut borrow = 0;
    for (index, digit) in larger.iter().enumerate() {
        let take = smaller.get(index).copied().unwrap_or(0) + borrow;
        borrow = u8::from(*digit < take);
        difference.push(digit + borrow * 10 - take);
    }
    difference.reverse();
    difference
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_and_orders_agree_with_integers(left: i64, right: i64) {
            let (a, b) = (Decimal::from(left), Decimal::from(right));
            prop_assert_eq!(a.cmp(&b), left.cmp(&right));
            prop_assert_eq!(a.plus(&b).to_int(), left.checked_add(right));
            prop_assert_eq!(a.plus(&b.negated()).to_int(), left.checked_sub(right));
        }

        #[test]
        fn products_agree_with_integers(left in -1_000_000_i64..1_000_000, factor: u32) {
            let product = Decimal::from(left).times(u64::from(factor));
            prop_assert_eq!(product.to_int(), left.checked_mul(i64::from(factor)));
        }
    }

    #[test]
    fn shifting_and_rounding_keep_the_canonical_form() {
        let third = Decimal::parse(false, "0", "3333");
        assert_eq!(third.clone().rounded_up(2), Decimal::parse(false, "", "34"));
        assert_eq!(third.clone().shifted(4), Decimal::from(3333));
        assert_eq!(third.shifted(6), Decimal::from(333_300));
        assert_eq!(Decimal::parse(true, "000", "0"), Decimal::from(0));
        let nine = Decimal::parse(true, "9", "99");
        assert_eq!(nine.rounded_up(0), Decimal::from(-10));
    }

    #[test]
    fn floats_are_the_nearest() {
        for (decimal, want) in [
            (Decimal::parse(false, "0", "1"), 0.1),
            (Decimal::parse(true, "12", "5"), -12.5),
            (Decimal::from(0), 0.0),
        ] {
            assert!((decimal.to_float() - want).abs() < f64::EPSILON, "{want}");
        }
    }
}
