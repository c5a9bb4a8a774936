//! Arithmetic on fractional numbers as OPA does it: Go's `big.Float` with a 64-bit mantissa.
//!
//! OPA keeps the shortest decimal that parses to the same mantissa: `0.1 + 0.2` is `0.3`, and `0.1 * 3.7` is slightly
//! more than `0.37`. Values hold such numbers as 64-bit floats. A float that takes at most [`DIGITS`] digits is exactly
//! the decimal that it is written as. Any other result is stored as the float next to the nearest such decimal, on the
//! correct side, so that comparisons agree with OPA; its exact mantissa is kept until the evaluation ends, for further
//! arithmetic.

use std::{cell::RefCell, collections::HashMap};

use num_bigint::{BigInt, BigUint, Sign};
use regorus::Value;

use super::call::{BuiltinResult, failed};

/// The number of digits up to which different decimals have different 64-bit floats.
const DIGITS: usize = 15;

/// The most results that are kept with all bits.
const MOST_KEPT: usize = 1 << 14;

/// The bits of the mantissa of `big.Float`, and of a 64-bit float.
const MANTISSA: u32 = 64;
const SHORT_MANTISSA: u32 = 53;

thread_local! {
    /// The magnitudes of results, by the bits of the floats that represent them.
    static KEPT: RefCell<HashMap<u64, Decimal>> = RefCell::default();
}

/// Discards the results of the previous evaluation.
pub(super) fn renew() {
    KEPT.with_borrow_mut(HashMap::clear);
}

/// `mantissa * 2^exponent`; the highest bit of the mantissa is set, unless the number is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    mantissa: u64,
    exponent: i64,
}

impl Decimal {
    pub(super) const ZERO: Self = Self { negative: false, mantissa: 0, exponent: 0 };
    pub(super) const ONE: Self = Self { negative: false, mantissa: 1 << 63, exponent: -63 };

    /// Returns the number that a value represents; `None` for other values.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let Value::Number(number) = value else { return None };
        if let Some(whole) = number.as_i64() {
            return Some(Self::whole(whole < 0, u128::from(whole.unsigned_abs())));
        }
        if let Some(big) = number.as_big() {
            return Some(Self::rounded_big(big.sign() == Sign::Minus, big.magnitude(), false, 0));
        }
        let float = number.as_f64()?;
        let text = format!("{float:e}");
        if digits(&text) > DIGITS
            && let Some(kept) = KEPT.with_borrow(|kept| kept.get(&float.abs().to_bits()).copied())
        {
            return Some(Self { negative: float < 0.0, ..kept });
        }
        Self::parse(&text)
    }

    /// Parses digits with an exponent, as Rust writes floats: `-1.5e-1`.
    fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = text.split_once('e')?;
        let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
        let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let digits: u64 = mantissa.replace('.', "").parse().ok()?;
        let exponent = exponent.parse::<i32>().ok()? - i32::try_from(fraction).ok()?;
        Some(Self { negative, ..Self::of_digits(digits, exponent) })
    }

    /// Returns `digits * 10^exponent`.
    fn of_digits(digits: u64, exponent: i32) -> Self {
        let power = exponent.unsigned_abs();
        let scaled = match 5_u64.checked_pow(power) {
            // Both are exact, so only the result is rounded.
            Some(power) => {
                let (digits, power) = (Self::whole(false, digits.into()), Self::whole(false, power.into()));
                if exponent < 0 { digits.quotient(power) } else { digits.product(power, MANTISSA) }
            }
            None if exponent < 0 => {
                let power = BigUint::from(5_u8).pow(power);
                let shift = power.bits() + u64::from(MANTISSA) + 2;
                let shifted = BigUint::from(digits) << shift;
                let inexact = &shifted % &power != BigUint::ZERO;
                Self::rounded_big(false, &(shifted / power), inexact, -i64::try_from(shift).unwrap_or(0))
            }
            None => Self::rounded_big(false, &(BigUint::from(5_u8).pow(power) * digits), false, 0),
        };
        if scaled.mantissa == 0 { scaled } else { Self { exponent: scaled.exponent + i64::from(exponent), ..scaled } }
    }

    fn whole(negative: bool, value: u128) -> Self {
        Self::rounded(negative, value, false, 0, MANTISSA)
    }

    /// Rounds `value * 2^exponent` to the given number of bits, ties to even. `inexact` means that the number is
    /// slightly larger than that; the value must then have more bits than the result.
    fn rounded(negative: bool, value: u128, inexact: bool, exponent: i64, bits: u32) -> Self {
        let dropped = (u128::BITS - value.leading_zeros()).saturating_sub(bits);
        let mut mantissa = value.checked_shr(dropped).unwrap_or(0);
        if dropped > 0 {
            let rest = value - (mantissa << dropped);
            let half = 1_u128 << (dropped - 1);
            let up = rest > half || rest == half && (inexact || mantissa & 1 == 1);
            mantissa += u128::from(up);
        }
        if mantissa == 0 {
            return Self::ZERO;
        }
        let shift = mantissa.leading_zeros();
        let mantissa = u64::try_from((mantissa << shift) >> u64::BITS).unwrap_or(u64::MAX);
        Self { negative, mantissa, exponent: exponent + i64::from(dropped) + i64::from(u64::BITS) - i64::from(shift) }
    }

    fn rounded_big(negative: bool, value: &BigUint, inexact: bool, exponent: i64) -> Self {
        let dropped = value.bits().saturating_sub(u64::from(u128::BITS));
        let inexact = inexact || dropped > 0 && value.trailing_zeros().is_some_and(|zeros| zeros < dropped);
        let short = u128::try_from(value >> dropped).unwrap_or(u128::MAX);
        Self::rounded(negative, short, inexact, exponent + i64::try_from(dropped).unwrap_or(0), MANTISSA)
    }

    pub(super) fn sum(self, other: Self) -> Self {
        if self.mantissa == 0 || other.mantissa == 0 {
            return if self.mantissa == 0 { other } else { self };
        }
        let (large, small) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let shift = u32::try_from(large.exponent - small.exponent).unwrap_or(u32::MAX);
        let (left, whole) = (u128::from(large.mantissa) << 62, u128::from(small.mantissa) << 62);
        let right = whole.checked_shr(shift).unwrap_or(0);
        let inexact = right.checked_shl(shift) != Some(whole);
        let exponent = large.exponent - 62;
        if large.negative == small.negative {
            return Self::rounded(large.negative, left + right, inexact, exponent, MANTISSA);
        }
        match left.checked_sub(right) {
            Some(rest) => Self::rounded(large.negative, rest - u128::from(inexact), inexact, exponent, MANTISSA),
            None => Self::rounded(small.negative, right - left, false, exponent, MANTISSA),
        }
    }

    pub(super) fn difference(self, other: Self) -> Self {
        self.sum(Self { negative: !other.negative, ..other })
    }

    fn product(self, other: Self, bits: u32) -> Self {
        let product = u128::from(self.mantissa) * u128::from(other.mantissa);
        Self::rounded(self.negative != other.negative, product, false, self.exponent + other.exponent, bits)
    }

    /// Multiplies with a 53-bit result, as OPA's `product` does.
    pub(super) fn short_product(self, other: Self) -> Self {
        self.product(other, SHORT_MANTISSA)
    }

    /// Divides by a non-zero number.
    fn quotient(self, divisor: Self) -> Self {
        let (dividend, by) = (u128::from(self.mantissa) << 64, u128::from(divisor.mantissa));
        let rest = 2 * (dividend % by);
        // One extra bit for rounding.
        let quotient = (dividend / by) << 1 | u128::from(rest >= by);
        let exponent = self.exponent - divisor.exponent - 65;
        Self::rounded(self.negative != divisor.negative, quotient, rest != 0 && rest != by, exponent, MANTISSA)
    }

    /// Returns the nearest 64-bit float; infinity if the number is too large.
    pub(super) fn nearest(self) -> f64 {
        let Self { negative, mantissa, exponent } =
            Self::rounded(self.negative, self.mantissa.into(), false, self.exponent, SHORT_MANTISSA);
        let sign = u64::from(negative) << 63;
        // The exponent of the highest bit, as floats store it.
        let stored = exponent + 63 + 1023;
        let fraction = (mantissa << 1) >> 12;
        let bits = match u64::try_from(stored) {
            _ if mantissa == 0 => 0,
            Ok(stored @ 1..=2046) => stored << 52 | fraction,
            Ok(2047..) => f64::INFINITY.to_bits(),
            _ => u32::try_from(12 - stored).ok().and_then(|shift| mantissa.checked_shr(shift)).unwrap_or(0),
        };
        f64::from_bits(sign | bits)
    }

    /// Returns the value that represents the number.
    pub(super) fn value(self) -> BuiltinResult {
        if let Some(whole) = self.whole_value() {
            return whole;
        }
        let nearest = self.nearest();
        if !nearest.is_finite() {
            return failed("number out of range");
        }
        let text = format!("{nearest:e}");
        let decimal = Self::parse(&text).unwrap_or(Self::ZERO);
        if decimal == self {
            return Ok(Value::from(nearest));
        }
        let float = match digits(&text) {
            0..=DIGITS if self.difference(decimal).negative => nearest.next_down(),
            0..=DIGITS => nearest.next_up(),
            _ => nearest,
        };
        KEPT.with_borrow_mut(|kept| {
            if kept.len() < MOST_KEPT {
                kept.insert(float.abs().to_bits(), Self { negative: false, ..self });
            }
        });
        Ok(Value::from(float))
    }

    /// Returns the value of a number with a 53-bit mantissa.
    pub(super) fn short_value(self) -> BuiltinResult {
        match (self.whole_value(), self.nearest()) {
            (Some(whole), _) => whole,
            (None, float) if float.is_finite() => Ok(Value::from(float)),
            _ => failed("number out of range"),
        }
    }

    /// Returns the value of a number without a fraction; `None` for others.
    fn whole_value(self) -> Option<BuiltinResult> {
        if self.mantissa == 0 {
            return Some(Ok(Value::from(0_u64)));
        }
        let zeros = i64::from(self.mantissa.trailing_zeros());
        if self.exponent < -zeros {
            return None;
        }
        if self.exponent > 0 {
            // Of all numbers with this mantissa, the one with the fewest digits.
            let text = format!("{:e}", self.nearest());
            if Self::parse(&text) == Some(self)
                && let Ok(number) = Value::from_numeric_string(&text)
            {
                return Some(Ok(number));
            }
        }
        let magnitude = match u64::try_from(self.exponent) {
            Ok(shift) => BigUint::from(self.mantissa) << shift,
            Err(_) => BigUint::from(self.mantissa >> self.exponent.unsigned_abs()),
        };
        let number = BigInt::from_biguint(if self.negative { Sign::Minus } else { Sign::Plus }, magnitude);
        let value = match i64::try_from(&number) {
            Ok(small) => Ok(Value::from(small)),
            Err(_) => Value::from_numeric_string(&number.to_string()).or_else(|error| failed(error.to_string())),
        };
        Some(value)
    }

    /// Returns `self operator other`; the operator is one of `+ - * /`.
    pub(super) fn computed(self, operator: char, other: Self) -> BuiltinResult {
        match operator {
            '+' => self.sum(other).value(),
            '-' => self.difference(other).value(),
            '*' => self.product(other, MANTISSA).value(),
            _ if other.mantissa == 0 => failed("divide by zero"),
            _ if self.mantissa == 0 => Ok(Value::from(0_u64)),
            _ => self.quotient(other).value(),
        }
    }
}

/// Returns the number of digits in a mantissa.
fn digits(text: &str) -> usize {
    text.split('e').next().unwrap_or_default().bytes().filter(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(value: f64) -> Decimal {
        Decimal::of(&Value::from(value)).unwrap()
    }

    #[test]
    fn decimals_are_exact() {
        for (left, operator, right, want) in [
            (0.1, '+', 0.2, 0.3),
            (0.1, '*', 3.0, 0.3),
            (2.3, '*', 100.0, 230.0),
            (0.7, '/', 0.1, 7.0),
            (-0.5, '-', 0.25, -0.75),
            (0.1, '-', 0.1, 0.0),
        ] {
            let value = decimal(left).computed(operator, decimal(right));
            assert_eq!(value, Ok(Value::from(want)), "{left} {operator} {right}");
        }
        let large = Value::from_numeric_string("1000000000000000000000000000000").unwrap();
        assert_eq!(decimal(1e30).computed('+', decimal(0.5)), Ok(large), "a whole number of any length");
    }

    #[test]
    fn other_results_are_next_to_the_nearest_decimal_and_kept_exactly() {
        renew();
        // OPA: 0.20000000000000000002
        let exact = decimal(0.3).difference(decimal(0.1));
        let more = exact.value().unwrap();
        assert!(more > Value::from(0.2) && exact.nearest().to_string() == "0.2");
        assert_eq!(Decimal::of(&more), Some(exact));
        let third = decimal(1.0).computed('/', decimal(3.0)).unwrap();
        assert_eq!(Decimal::of(&third).unwrap().computed('*', decimal(3.0)), Ok(Value::from(1)));
    }

    #[test]
    fn the_nearest_float_is_found() {
        for value in [1.0, 0.1, -2.5, 1e300, 1.5e-300, 5e-324, f64::MAX, 9_007_199_254_740_993.0, 0.3] {
            let text = format!("{value:e}");
            assert_eq!(Decimal::parse(&text).unwrap().nearest().to_string(), value.to_string());
        }
    }
}
