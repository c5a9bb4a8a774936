//! Amounts with units, computed as integers over a power of ten, so that no precision is lost or invented.

use num_bigint::BigInt;
use regorus::Value;

use super::call::{Builtin, BuiltinFault, BuiltinResult, failed, refused, string};

pub(super) const TABLE: &[Builtin] = &[("units.parse", 1, parse), ("units.parse_bytes", 1, parse_bytes)];

/// The longest amount and the largest exponent that are accepted; OPA accepts more.
const LONGEST: usize = 400;
const LARGEST_EXPONENT: i64 = 400;

fn parse(arguments: &[Value]) -> BuiltinResult {
    let text = string(arguments, 0)?.replace('"', "");
    let (number, unit) = split("units.parse", "amount", &text)?;
    // Only the case of the first letter distinguishes milli from mega.
    let mut unit: String = unit.to_owned();
    if let Some(first) = unit.chars().next() {
        let rest = unit[first.len_utf8()..].to_lowercase();
        unit = format!("{first}{rest}");
    }
    let factor = match unit.as_str() {
        "m" => return Ok(rational(&amount("units.parse", "amount", number)?, &milli())),
        "M" => 1_000_000,
        "" => 1,
        other => multiple(&other.to_lowercase(), false)
            .ok_or_else(|| BuiltinFault::Failed(format!("units.parse: unit {other} not recognized")))?,
    };
    Ok(rational(&amount("units.parse", "amount", number)?, &(BigInt::from(factor), BigInt::from(1))))
}

/// Returns OPA's exact factor for milli: the float nearest to a thousandth.
fn milli() -> (BigInt, BigInt) {
    (BigInt::from(1_152_921_504_606_847_u64), BigInt::from(1_u64 << 60))
}

fn parse_bytes(arguments: &[Value]) -> BuiltinResult {
    let text = string(arguments, 0)?.to_lowercase().replace('"', "");
    let (number, unit) = split("units.parse_bytes", "byte amount", &text)?;
    let not_recognized = || BuiltinFault::Failed(format!("units.parse_bytes: byte unit {unit} not recognized"));
    let factor = if unit.is_empty() { 1 } else { multiple(unit, true).ok_or_else(not_recognized)? };
    let amount = amount("units.parse_bytes", "byte amount", number)?;
    let (numerator, denominator) = amount.fraction();
    Ok(whole(&(numerator * factor / denominator)))
}

/// Returns the factor of a unit, given in lowercase.
fn multiple(unit: &str, bytes: bool) -> Option<u64> {
    let unit = if bytes { unit.strip_suffix('b').unwrap_or(unit) } else { unit };
    let (letter, base) = unit.strip_suffix('i').map_or((unit, 1000_u64), |letter| (letter, 1024));
    let power = ["k", "m", "g", "t", "p", "e"].iter().position(|known| *known == letter)?;
    Some(base.pow(u32::try_from(power).ok()? + 1))
}

/// A decimal number: digits times a power of ten.
struct Amount {
    digits: BigInt,
    exponent: i64,
}

impl Amount {
    fn fraction(&self) -> (BigInt, BigInt) {
        let power = BigInt::from(10).pow(u32::try_from(self.exponent.unsigned_abs()).unwrap_or(0));
        if self.exponent < 0 { (self.digits.clone(), power) } else { (&self.digits * power, BigInt::from(1)) }
    }
}

/// Splits number and unit as OPA does.
fn split<'a>(name: &str, noun: &str, text: &'a str) -> Result<(&'a str, &'a str), BuiltinFault> {
    if text.contains(' ') {
        return failed(format!("{name}: spaces not allowed in resource strings"));
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'e' | b'E' => {
                let Some(next) = bytes.get(at + 1) else { break };
                if !next.is_ascii_digit() && !matches!(next, b'+' | b'-') {
                    break;
                }
                at += usize::from(matches!(next, b'+' | b'-'));
                let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                if digits > 6 {
                    return failed(format!("{name}: exponent too large"));
                }
            }
            b'0'..=b'9' | b'.' | b'+' | b'-' => {}
            _ => break,
        }
        at += 1;
    }
    let (number, unit) = text.split_at(at);
    if number.is_empty() { failed(format!("{name}: no {noun} provided")) } else { Ok((number, unit)) }
}

/// Parses a decimal number of reasonable size.
fn amount(name: &str, noun: &str, text: &str) -> Result<Amount, BuiltinFault> {
    let wrong = || BuiltinFault::Failed(format!("{name}: could not parse {noun} to a number"));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i64 = exponent.parse().map_err(|_| wrong())?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let unsigned = whole.trim_start_matches(['+', '-']);
    let signs = whole.len() - unsigned.len();
    if signs > 1 || (unsigned.is_empty() && fraction.is_empty()) {
        return Err(wrong());
    }
    if !unsigned.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    if text.len() > LONGEST || exponent.abs() > LARGEST_EXPONENT {
        return refused(format!("{name}: the number is too large"));
    }
    let digits: BigInt = format!("{unsigned}{fraction}").parse().map_err(|_| wrong())?;
    let digits = if whole.starts_with('-') { -digits } else { digits };
    Ok(Amount { digits, exponent: exponent - i64::try_from(fraction.len()).unwrap_or(0) })
}

/// Returns the product, with ten digits after the point unless it is a whole number, as OPA writes it.
fn rational(amount: &Amount, (numerator, denominator): &(BigInt, BigInt)) -> Value {
    let (digits, power) = amount.fraction();
    let (numerator, denominator) = (digits * numerator, power * denominator);
    if (&numerator % &denominator) == BigInt::from(0) {
        return whole(&(numerator / denominator));
    }
    // Halves are rounded away from zero.
    let scale = BigInt::from(10).pow(10);
    let negative = numerator < BigInt::from(0);
    let magnitude = BigInt::from(numerator.magnitude().clone());
    let rounded = (magnitude * scale * 2 + &denominator) / (&denominator * 2);
    let text = format!("{rounded:0>11}");
    let (whole, fraction) = text.split_at(text.len() - 10);
    let sign = if negative { "-" } else { "" };
    Value::from_numeric_string(&format!("{sign}{whole}.{fraction}")).unwrap_or(Value::Undefined)
}

fn whole(number: &BigInt) -> Value {
    Value::from_numeric_string(&number.to_string()).unwrap_or(Value::Undefined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        for (text, want) in [
            ("100m", "0.1"),
            ("1.5Gi", "1610612736"),
            ("1Ei", "1152921504606846976"),
            ("0.5", "0.5"),
            ("1e3", "1000"),
            ("1e3k", "1000000"),
            ("-2M", "-2000000"),
            ("1E", "1000000000000000000"),
            ("10mi", "10485760"),
        ] {
            let got = parse(&[Value::from(text)]);
            assert_eq!(got, Ok(Value::from_numeric_string(want).unwrap()), "{text}");
        }
        for text in ["", "Gi", "1 Gi", "1x", "1.2.3", "--1", "e5", "1e9999999"] {
            assert!(matches!(parse(&[Value::from(text)]), Err(BuiltinFault::Failed(_))), "{text}");
        }
        assert!(matches!(parse(&[Value::from("1e100000")]), Err(BuiltinFault::Refused(_))));
    }
}
