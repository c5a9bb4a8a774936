//! Quantities of Kubernetes: numbers with a suffix.

use std::{cmp::Ordering, fmt, sync::Arc};

use num_bigint::{BigInt, Sign};

use super::{EvaluatedValue, Table, argument, text};
use crate::{
    error::{EvalError, failed, no_overload},
    value::CelValue,
};

pub(super) const TABLE: Table = &[
    ("string_to_quantity", |values| match Quantity::parse(text(values, 0)?) {
        Ok(quantity) => Ok(CelValue::Quantity(Arc::new(quantity))),
        Err(message) => failed(message),
    }),
    ("is_quantity_string", |values| Ok(Quantity::parse(text(values, 0)?).is_ok().into())),
    ("quantity_sign", |values| Ok(CelValue::Int(quantity(values, 0)?.sign()))),
    ("quantity_is_greater_than", |values| Ok(order(values)?.is_gt().into())),
    ("quantity_is_less_than", |values| Ok(order(values)?.is_lt().into())),
    ("quantity_compare_to", |values| Ok(CelValue::Int(order(values)? as i64))),
    ("quantity_get_float", |values| Ok(CelValue::Double(quantity(values, 0)?.approximate()))),
    ("quantity_get_int", |values| match quantity(values, 0)?.int() {
        Some(value) => Ok(CelValue::Int(value)),
        None => failed("cannot convert value to integer"),
    }),
    ("quantity_is_integer", |values| Ok(quantity(values, 0)?.int().is_some().into())),
    ("quantity_add", |values| sum(quantity(values, 0)?, quantity(values, 1)?.clone())),
    ("quantity_add_int", |values| sum(quantity(values, 0)?, Quantity::small(super::int(values, 1)?))),
    ("quantity_sub", |values| difference(quantity(values, 0)?, quantity(values, 1)?)),
    ("quantity_sub_int", |values| difference(quantity(values, 0)?, &Quantity::small(super::int(values, 1)?))),
];

const WRONG_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_NUMBER: &str = "unable to parse numeric part of quantity";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";
/// The largest difference of exponents for which sums are computed.
const MOST_EXPONENT: i64 = 10_000;

/// A quantity.
#[derive(Debug, Clone)]
pub struct Quantity {
    /// The digits; the value is this times ten to the power of the exponent.
    digits: BigInt,
    exponent: i32,
    /// Whether the API server computes with more than 64 bits: such a quantity is no integer for it.
    is_big: bool,
    is_computed: bool,
}

fn quantity<'a>(values: &'a [CelValue<'_>], index: usize) -> Result<&'a Quantity, EvalError> {
    match argument(values, index)? {
        CelValue::Quantity(quantity) => Ok(quantity),
        _ => no_overload(),
    }
}

fn order(values: &[CelValue<'_>]) -> Result<Ordering, EvalError> {
    Ok(quantity(values, 0)?.compare(quantity(values, 1)?))
}

fn power(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

fn sum<'v>(one: &Quantity, other: Quantity) -> EvaluatedValue<'v> {
    let mut sum = if one.is_big || other.is_big {
        one.aligned_sum(&other)?
    } else if other.is_zero() {
        one.clone()
    } else if one.is_zero() {
        other
    } else {
        one.aligned_sum(&other)?
    };
    sum.is_computed = true;
    Ok(CelValue::Quantity(Arc::new(sum)))
}

fn difference<'v>(one: &Quantity, other: &Quantity) -> EvaluatedValue<'v> {
    let is_small = !one.is_big && !other.is_big;
    if is_small && other.digits == BigInt::from(i64::MIN) {
        // With 64 bits, the API server does not notice that this number has no opposite.
        let sum = one.aligned_sum(other)?;
        if !sum.is_big {
            return Ok(CelValue::Quantity(Arc::new(sum)));
        }
    }
    sum(one, other.negated())
}

impl Quantity {
    fn small(value: i64) -> Self {
        Self { digits: value.into(), exponent: 0, is_big: false, is_computed: false }
    }

    fn is_zero(&self) -> bool {
        self.digits.sign() == Sign::NoSign
    }

    /// Whether it is the result of an addition or subtraction.
    pub(crate) fn is_computed(&self) -> bool {
        self.is_computed
    }

    fn negated(&self) -> Self {
        Self { digits: -self.digits.clone(), ..self.clone() }
    }

    fn sign(&self) -> i64 {
        match self.digits.sign() {
            Sign::Minus => -1,
            Sign::NoSign => 0,
            Sign::Plus => 1,
        }
    }

    /// Whether two quantities are equal.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.compare(other).is_eq()
    }

    fn compare(&self, other: &Self) -> Ordering {
        let by_sign = self.sign().cmp(&other.sign());
        if by_sign.is_ne() || self.is_zero() {
            return by_sign;
        }
        // The power of ten above the first digit decides unless it is the same.
        let magnitude = |one: &Self| {
            let length = i64::try_from(one.digits.magnitude().to_string().len()).unwrap_or(i64::MAX);
            length.saturating_add(i64::from(one.exponent))
        };
        let by_size = match magnitude(self).cmp(&magnitude(other)) {
            Ordering::Equal => {
                let shift = |one: &Self, least: i32| {
                    one.digits.magnitude() * power((one.exponent - least).unsigned_abs()).magnitude()
                };
                let least = self.exponent.min(other.exponent);
                shift(self, least).cmp(&shift(other, least))
            }
            order => order,
        };
        if self.sign() < 0 { by_size.reverse() } else { by_size }
    }

    fn aligned_sum(&self, other: &Self) -> Result<Self, EvalError> {
        let exponent = self.exponent.min(other.exponent);
        let shifted = |one: &Self| {
            let shift = i64::from(one.exponent) - i64::from(exponent);
            if shift > MOST_EXPONENT {
                return Err(EvalError::TooLarge);
            }
            Ok(&one.digits * power(u32::try_from(shift).unwrap_or(0)))
        };
        let (one, another) = (shifted(self)?, shifted(other)?);
        let digits = &one + &another;
        let fits = |digits: &BigInt| i64::try_from(digits).is_ok();
        let is_big = self.is_big || other.is_big || ![&one, &another, &digits].into_iter().all(fits);
        Ok(Self { digits, exponent, is_big, is_computed: true })
    }

    /// Returns the integer, if the API server computes with 64 bits and no decimals.
    fn int(&self) -> Option<i64> {
        // Also zero is no integer for it if it has decimals.
        if self.is_big || self.exponent < 0 {
            return None;
        }
        if self.is_zero() {
            return Some(0);
        }
        let exponent = u32::try_from(self.exponent).ok().filter(|exponent| *exponent < 20)?;
        i64::try_from(&(&self.digits * power(exponent))).ok()
    }

    fn approximate(&self) -> f64 {
        let base: f64 = self.digits.to_string().parse().unwrap_or(f64::NAN);
        if self.exponent == 0 {
            return base;
        }
        let power: f64 = format!("1e{}", self.exponent).parse().unwrap_or(f64::NAN);
        base * power
    }

    fn parse(given: &str) -> Result<Self, &'static str> {
        if given.is_empty() {
            return Err(WRONG_FORMAT);
        }
        let parts = QuantityParts::new(given)?;
        let (base, exponent) = suffix(parts.suffix).ok_or(WRONG_SUFFIX)?;
        match parts.small(base, exponent)? {
            Some(small) => Ok(small),
            None => parts.big(base, exponent),
        }
    }
}

/// The texts that a quantity consists of.
struct QuantityParts<'t> {
    is_negative: bool,
    /// Sign, digits and point.
    number: &'t str,
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

impl<'t> QuantityParts<'t> {
    fn new(given: &'t str) -> Result<Self, &'static str> {
        let unsigned = given.strip_prefix(['-', '+']).unwrap_or(given);
        let is_negative = given.starts_with('-');
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let significant = unsigned.trim_start_matches('0');
        if significant.is_empty() {
            return Ok(Self { is_negative, number: "0", whole: "0", fraction: "", suffix: "" });
        }
        let (whole, rest) = significant.split_at(digits(significant));
        let whole = if whole.is_empty() { "0" } else { whole };
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let number = &given[..given.len() - suffix.len()];
        let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let letters = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        if !letters.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(WRONG_FORMAT);
        }
        Ok(Self { is_negative, number, whole, fraction, suffix })
    }

    /// Parses a quantity that fits into 64 bits, with up to nine decimals.
    fn small(&self, base: u32, exponent: i32) -> Result<Option<Quantity>, &'static str> {
        let length = |text: &str| i32::try_from(text.len()).unwrap_or(i32::MAX);
        let (precision, scale, factor) = if base == 10 {
            (18_i32.saturating_sub(length(self.whole).saturating_add(length(self.fraction))), exponent, 1)
        } else if self.fraction.is_empty() {
            (15_i32.saturating_sub(length(self.whole)) - exponent * 3 / 10 - 1, 0, 1_i64 << exponent)
        } else {
            (-1, 0, 1)
        };
        let scale = scale.saturating_sub(length(self.fraction));
        if precision < 0 || scale < -9 {
            return Ok(None);
        }
        let value: i64 = [self.whole, self.fraction].concat().parse().map_err(|_| WRONG_NUMBER)?;
        let Some(value) = value.checked_mul(factor) else { return Ok(None) };
        let value = if self.is_negative { -value } else { value };
        Ok(Some(Quantity { digits: value.into(), exponent: scale, is_big: false, is_computed: false }))
    }

    /// Parses any other quantity: rounded up to nine decimals, binary ones capped.
    fn big(&self, base: u32, exponent: i32) -> Result<Quantity, &'static str> {
        let digits = [self.whole, self.fraction].concat();
        let has_digit = self.number.bytes().any(|byte| byte.is_ascii_digit());
        let mut value: BigInt = digits.parse().ok().filter(|_| has_digit).ok_or(WRONG_NUMBER)?;
        let mut scale = i64::try_from(self.fraction.len()).unwrap_or(i64::MAX);
        if base == 10 {
            scale -= i64::from(exponent);
        } else {
            value <<= exponent.unsigned_abs();
        }
        if value.sign() != Sign::NoSign {
            (value, scale) = rounded(value, scale)?;
        }
        let largest = BigInt::from(i64::MAX);
        if base == 2 && value > &largest * power(9) {
            (value, scale) = (largest, 0);
        }
        let exponent = i32::try_from(-scale).map_err(|_| WRONG_NUMBER)?;
        let digits = if self.is_negative { -value } else { value };
        Ok(Quantity { digits, exponent, is_big: true, is_computed: false })
    }
}

/// Returns digits for nine decimals, rounded up.
fn rounded(value: BigInt, scale: i64) -> Result<(BigInt, i64), &'static str> {
    let shift = 9 - scale;
    if shift.abs() > MOST_EXPONENT {
        // Nothing but the smallest amount is left of smaller ones; larger ones are not supported.
        return if shift < 0 { Ok((1.into(), 9)) } else { Err(WRONG_NUMBER) };
    }
    let factor = power(u32::try_from(shift.abs()).unwrap_or(0));
    if shift >= 0 {
        return Ok((value * factor, 9));
    }
    Ok(((value + &factor - 1) / factor, 9))
}

/// Returns the base and the exponent of a suffix.
fn suffix(text: &str) -> Option<(u32, i32)> {
    Some(match text {
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "" => (10, 0),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        _ => {
            let number: i64 = text.strip_prefix(['e', 'E'])?.parse().ok()?;
            (10, i32::try_from(number).ok()?)
        }
    })
}

/// The digits without trailing zeros, and the exponent.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits.to_string();
        let short = digits.trim_end_matches('0');
        if self.is_zero() {
            return f.write_str("0e0");
        }
        let zeros = i32::try_from(digits.len() - short.len()).unwrap_or(0);
        write!(f, "{short}e{}", self.exponent.saturating_add(zeros))
    }
}
