//! Floating point numbers as Go formats them.

/// Returns the shortest digits with an exponent, or with the given number of decimals: `1.5e+00`.
pub(crate) fn exponent(value: f64, decimals: Option<usize>) -> String {
    let text = match decimals {
        Some(decimals) => format!("{value:.decimals$e}"),
        None => format!("{value:e}"),
    };
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Returns a number as `%v` and `%g` do: with an exponent if it is very large or small.
pub(crate) fn general(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let text = exponent(value, None);
    let power: i32 = text.rsplit_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    if (-4..6).contains(&power) || value == 0.0 { format!("{value}") } else { text }
}

/// Parses a number as Go's `strconv.ParseFloat` does.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let separated = text
        .as_bytes()
        .windows(3)
        .filter(|part| part[1] == b'_')
        .all(|part| part[0].is_ascii_hexdigit() && part[2].is_ascii_hexdigit());
    if text.contains('_') && separated && !text.starts_with('_') && !text.ends_with('_') {
        return parse(&text.replace('_', ""));
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    if matches!(lower.as_str(), "inf" | "infinity") {
        return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    if lower == "nan" {
        return (unsigned.len() == text.len()).then_some(f64::NAN);
    }
    if let Some(digits) = lower.strip_prefix("0x") {
        return hexadecimal(digits).map(|value| if text.starts_with('-') { -value } else { value });
    }
    let is_decimal = unsigned.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    let value: f64 = is_decimal.then(|| text.parse().ok())??;
    value.is_finite().then_some(value)
}

/// Parses `1.8p3`, where the exponent is a power of two.
fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, power) = text.split_once('p')?;
    let power: i32 = power.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 || whole.len() + fraction.len() > 13 {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let shift = power.checked_sub(i32::try_from(4 * fraction.len()).ok()?)?;
    let value = value * 2_f64.powi(shift);
    value.is_finite().then_some(value)
}

/// Returns the shortest digits without an exponent: `0.000001`.
pub(crate) fn plain(value: f64) -> String {
    format!("{value}")
}
