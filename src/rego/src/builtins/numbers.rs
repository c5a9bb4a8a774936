//! Numeric builtins, for which a few characters of a policy could produce millions of numbers or take minutes.

use num_bigint::BigInt;
use regorus::Value;

use super::{
    budget::{self, MOST_ELEMENTS},
    call::{Builtin, BuiltinFault, BuiltinResult, failed, items, refused, wrong_type},
    decimals::Decimal,
    natives::native,
    operators,
};

pub(super) const TABLE: &[Builtin] = &[
    ("bits.and", 2, |arguments| bitwise("bits.and", arguments, |one, other| one & other)),
    ("bits.lsh", 2, shift_left),
    ("bits.negate", 1, |arguments| number_value(&!whole("bits.negate", arguments, 0)?)),
    ("bits.or", 2, |arguments| bitwise("bits.or", arguments, |one, other| one | other)),
    ("bits.rsh", 2, shift_right),
    ("bits.xor", 2, |arguments| bitwise("bits.xor", arguments, |one, other| one ^ other)),
    ("format_int", 2, format_int),
    ("numbers.range", 2, |arguments| range("numbers.range", arguments)),
    ("numbers.range_step", 3, |arguments| range("numbers.range_step", arguments)),
    ("product", 1, product),
    ("sum", 1, sum),
    ("to_number", 1, to_number),
];

/// The longest string that is parsed as a number, and the largest exponent in it: beyond that, regorus computes the
/// digits one by one. The range of floats ends far below.
const LONGEST: usize = 400;
const LARGEST_EXPONENT: u32 = 400;

/// The most bits by which a number may be shifted.
const MOST_BITS: i64 = 4096;

/// Formats an integer; a fraction is cut off.
fn format_int(arguments: &[Value]) -> BuiltinResult {
    let Value::Number(number) = &arguments[0] else { return wrong_type(1, "number", &arguments[0]) };
    let base = whole("format_int", arguments, 1).ok().and_then(|base| u32::try_from(base).ok());
    let Some(base @ (2 | 8 | 10 | 16)) = base else { return failed("operand 2 must be one of {2, 8, 10, 16}") };
    let number: BigInt = if let Some(number) = number.as_big() {
        (*number).clone()
    } else {
        let text = number.format_decimal();
        text.split('.')
            .next()
            .unwrap_or_default()
            .parse()
            .or_else(|_| failed("format_int: operand 1 is not a number"))?
    };
    Ok(Value::from(number.to_str_radix(base)))
}

fn shift_left(arguments: &[Value]) -> BuiltinResult {
    let (number, bits) = (whole("bits.lsh", arguments, 0)?, whole("bits.lsh", arguments, 1)?);
    match i64::try_from(&bits) {
        Ok(bits) if bits < 0 => {
            failed("bits.lsh: operand 2 must be an unsigned integer number but got a negative integer")
        }
        Ok(bits) if bits <= MOST_BITS => number_value(&(number << bits)),
        _ => refused(format!("bits.lsh: a shift by {bits} bits is too large")),
    }
}

fn shift_right(arguments: &[Value]) -> BuiltinResult {
    let (number, bits) = (whole("bits.rsh", arguments, 0)?, whole("bits.rsh", arguments, 1)?);
    match usize::try_from(&bits) {
        Ok(bits) => number_value(&(number >> bits)),
        Err(_) if bits < BigInt::from(0) => {
            failed("bits.rsh: operand 2 must be an unsigned integer number but got a negative integer")
        }
        Err(_) => refused(format!("bits.rsh: a shift by {bits} bits is too large")),
    }
}

fn bitwise(name: &str, arguments: &[Value], combine: fn(BigInt, BigInt) -> BigInt) -> BuiltinResult {
    number_value(&combine(whole(name, arguments, 0)?, whole(name, arguments, 1)?))
}

/// Returns an argument that must be a whole number of any size, also if it is written with an exponent.
fn whole(name: &str, arguments: &[Value], index: usize) -> Result<BigInt, BuiltinFault> {
    let Value::Number(number) = &arguments[index] else { return wrong_type(index + 1, "number", &arguments[index]) };
    let exact = number.as_big().map(|number| (*number).clone());
    let written = || if number.is_integer() { number.format_decimal().parse().ok() } else { None };
    exact.or_else(written).map_or_else(
        || failed(format!("{name}: operand {} must be integer number but got floating-point number", index + 1)),
        Ok,
    )
}

fn number_value(number: &BigInt) -> BuiltinResult {
    Value::from_numeric_string(&number.to_string()).or_else(|error| failed(error.to_string()))
}

/// Returns the numbers from the first to the second, both included, upwards or downwards.
fn range(name: &str, arguments: &[Value]) -> BuiltinResult {
    let (from, to) = (whole(name, arguments, 0)?, whole(name, arguments, 1)?);
    let step = if arguments.len() > 2 { whole(name, arguments, 2)? } else { BigInt::from(1) };
    if step <= BigInt::from(0) {
        return failed(format!("{name}: step must be a positive integer"));
    }
    let distance = if from < to { &to - &from } else { &from - &to };
    let count = match usize::try_from(distance / &step) {
        Ok(count) if count < MOST_ELEMENTS => count,
        _ => return refused(format!("{name}: the range has more than {MOST_ELEMENTS} numbers")),
    };
    let step = if from < to { step } else { -step };
    let small = (i64::try_from(&from), i64::try_from(&to), i64::try_from(&step));
    if let (Ok(from), Ok(_), Ok(step)) = small {
        let at = |index: usize| from + step * i64::try_from(index).unwrap_or(0);
        return Ok(Value::from((0..=count).map(|index| Value::from(at(index))).collect::<Vec<_>>()));
    }
    (0..=count).map(|index| number_value(&(&from + &step * index))).collect::<Result<Vec<_>, _>>().map(Value::from)
}

fn sum(arguments: &[Value]) -> BuiltinResult {
    folded(arguments, '+', Value::from(0_u64), |numbers| numbers.into_iter().fold(Decimal::ZERO, Decimal::sum).value())
}

fn product(arguments: &[Value]) -> BuiltinResult {
    folded(arguments, '*', Value::from(1_u64), |numbers| {
        numbers.into_iter().fold(Decimal::ONE, Decimal::short_product).short_value()
    })
}

/// Combines all items: exactly if all are whole numbers, otherwise with `decimal`.
fn folded(
    arguments: &[Value],
    operator: char,
    whole: Value,
    decimal: fn(Vec<Decimal>) -> BuiltinResult,
) -> BuiltinResult {
    let Some(items) = items(&arguments[0]) else { return wrong_type(1, "one of {array, set}", &arguments[0]) };
    if let Some(other) = items.iter().find(|item| !matches!(item, Value::Number(_))) {
        return wrong_type(1, "a collection of numbers", other);
    }
    if items.iter().all(|item| matches!(item, Value::Number(number) if number.is_integer())) {
        return items.into_iter().try_fold(whole, |result, item| {
            let result = operators::arithmetic(&[result, item.clone()], operator)?;
            // The digits of a product grow with every factor, and so does the time for the next one.
            budget::charge("sum or product", &result)?;
            Ok(result)
        });
    }
    let numbers = items.into_iter().map(Decimal::of).collect::<Option<Vec<_>>>();
    numbers.map_or_else(|| failed("number out of range"), decimal)
}

fn to_number(arguments: &[Value]) -> BuiltinResult {
    let Value::String(text) = &arguments[0] else { return native("to_number", arguments) };
    let text: &str = text;
    if too_large(text) {
        return failed(format!("to_number: {} is out of range", text.chars().take(40).collect::<String>()));
    }
    let unsigned = text.trim_start_matches(['+', '-']).to_lowercase();
    if matches!(unsigned.as_str(), "inf" | "infinity" | "nan") {
        return failed("operand 1 must be valid number string but got string");
    }
    // Only what Rust and Go parse alike, and no spaces.
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => {
            Ok(Value::from_numeric_string(text.trim_start_matches('+')).unwrap_or_else(|_| Value::from(number)))
        }
        _ => failed(format!("strconv.ParseFloat: parsing {text:?}: invalid syntax")),
    }
}

/// Whether parsing a string as a number would take unreasonably long.
pub(super) fn too_large(text: &str) -> bool {
    let exponent = text.find(['e', 'E']).map(|at| text[at + 1..].trim_start_matches(['+', '-']));
    let digits = exponent.map(|text| text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    let exponent = digits.filter(|digits| !digits.is_empty());
    text.len() > LONGEST || exponent.is_some_and(|digits| digits.parse().unwrap_or(u32::MAX) > LARGEST_EXPONENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_numbers_are_recognized() {
        assert!(too_large("1e100000000"));
        assert!(too_large("1E+99999999999"));
        assert!(too_large(&"9".repeat(401)));
        for fine in ["12", "1.5", "1e3", "5e", "-1e-3", "E"] {
            assert!(!too_large(fine), "{fine}");
        }
    }

    #[test]
    fn ranges_include_both_ends_and_are_limited() {
        let numbers = |texts: &[&str]| -> Vec<Value> {
            texts.iter().map(|text| Value::from_numeric_string(text).unwrap()).collect()
        };
        assert_eq!(range("r", &numbers(&["3", "1"])), Ok(Value::from(numbers(&["3", "2", "1"]))));
        assert_eq!(range("r", &numbers(&["0", "5", "2"])), Ok(Value::from(numbers(&["0", "2", "4"]))));
        assert_eq!(range("r", &numbers(&["0", "1", "99999999999999999999"])), Ok(Value::from(numbers(&["0"]))));
        let large = ["18446744073709551615", "18446744073709551617"];
        let all = ["18446744073709551615", "18446744073709551616", "18446744073709551617"];
        assert_eq!(range("r", &numbers(&large)), Ok(Value::from(numbers(&all))));
        assert!(matches!(range("r", &numbers(&["1", "1000000000"])), Err(BuiltinFault::Refused(_))));
        assert!(matches!(range("r", &numbers(&["1", "2", "0"])), Err(BuiltinFault::Failed(_))));
    }
}
