//! Numbers in Go's notation.

use regorus::Value;

use super::decimals::Decimal;

/// A number as Go represents it in OPA's `sprintf`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum GoNumber {
    Int(i64),
    Big(num_bigint::BigInt),
    Float(f64),
}

impl GoNumber {
    /// Converts a value that is a number. As in OPA, a whole number that was written with a point or an exponent is a
    /// float.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let Value::Number(number) = value else { return None };
        if let Some(small) = number.as_i64() {
            // regorus writes a digit after the point only for floats.
            return Some(match number.format_decimal_with_width(1).parse::<f64>() {
                Ok(float) if number.format_decimal_with_width(1).contains('.') => Self::Float(float),
                _ => Self::Int(small),
            });
        }
        match number.as_big() {
            Some(big) => Some(Self::Big((*big).clone())),
            None => Decimal::of(value).map(|decimal| Self::Float(decimal.nearest())),
        }
    }
}

/// Formats a float with one of Go's verbs `e E f F g G`; without a precision, with as many digits as are needed to
/// parse the same number again.
pub(super) fn float(value: f64, verb: char, precision: Option<usize>) -> String {
    match verb {
        'f' | 'F' => precision.map_or_else(|| format!("{value}"), |digits| format!("{value:.digits$}")),
        'e' | 'E' => {
            let text = precision.map_or_else(|| format!("{value:e}"), |digits| format!("{value:.digits$e}"));
            let text = go_exponent(&text);
            if verb == 'E' { text.to_uppercase() } else { text }
        }
        _ => general(value, verb, precision),
    }
}

/// `%g`: with an exponent if it is less than -4 or at least the precision.
fn general(value: f64, verb: char, precision: Option<usize>) -> String {
    let shortest = format!("{value:e}");
    let significant = precision.map(|digits| digits.max(1));
    let scientific = significant.map_or_else(|| shortest.clone(), |digits| format!("{value:.*e}", digits - 1));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = mantissa.chars().filter(char::is_ascii_digit).count();
    let written = without_zeros(mantissa).chars().filter(char::is_ascii_digit).count();
    let written = i64::try_from(written).unwrap_or(i64::MAX);
    let limit = match significant.map(|wanted| i64::try_from(wanted).unwrap_or(i64::MAX)) {
        None => 6,
        // The significant digits include all digits before the point: their number is the limit.
        Some(wanted) if wanted > written && written > i64::from(exponent) => written,
        Some(wanted) => wanted,
    };
    if exponent < -4 || i64::from(exponent) >= limit {
        let text = go_exponent(&format!("{}e{exponent}", without_zeros(mantissa)));
        return if verb == 'G' { text.to_uppercase() } else { text };
    }
    if significant.is_none() {
        return format!("{value}");
    }
    let decimals = usize::try_from(i64::try_from(digits).unwrap_or(0) - 1 - i64::from(exponent)).unwrap_or(0);
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

/// Removes trailing zeros of a fraction, and the point if no digits remain after it.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Returns `1e5` as `1e+05`.
fn go_exponent(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_formatted_as_in_go() {
        for (value, verb, precision, want) in [
            (1.5, 'g', None, "1.5"),
            (1e-5, 'g', None, "1e-05"),
            (0.0001, 'g', None, "0.0001"),
            (1e21, 'g', None, "1e+21"),
            (100_000.5, 'g', None, "100000.5"),
            (123_456_789.5, 'g', None, "1.234567895e+08"),
            (123_456_789.5, 'g', Some(3), "1.23e+08"),
            (100.5, 'g', Some(2), "1e+02"),
            (100.5, 'g', Some(10), "100.5"),
            (1.5, 'e', Some(6), "1.500000e+00"),
            (1.5, 'E', None, "1.5E+00"),
            (2.5, 'f', Some(0), "2"),
            (3.5, 'f', Some(0), "4"),
            (1.005, 'f', Some(2), "1.00"),
            (-0.5, 'f', Some(6), "-0.500000"),
        ] {
            assert_eq!(float(value, verb, precision), want, "%{precision:?}{verb} of {value}");
        }
    }
}
