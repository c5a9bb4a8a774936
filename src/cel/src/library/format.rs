//! `format`: texts with verbs, as in the version of the API server's library.

use super::{
    EvaluatedValue, Table, convert, floats, list,
    strings::{self, go_quoted},
    text,
};
use crate::{
    ast::{CelExpr, CelExprKind},
    error::{EvalError, failed},
    types::CelType,
    value::{CelList, CelValue, Map},
};

pub(super) const TABLE: Table = &[("string_format", format)];

const DECIMALS: usize = 6;
/// More decimals need more memory than a message may have.
const MOST_DECIMALS: usize = 1000;

/// What a verb does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Text,
    Decimal,
    Fixed(Option<usize>),
    Scientific(Option<usize>),
    Binary,
    Hexadecimal { upper: bool },
    Octal,
}

impl Verb {
    /// Returns the message for an argument of another type.
    fn message(self, type_name: &str) -> String {
        let message = match self {
            Self::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hexadecimal { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("error during formatting: {message}, was given {type_name}")
    }

    /// Whether arguments of a type are accepted by the check of constants.
    fn accepts(self, of: &CelType) -> bool {
        of.is_dyn()
            || match self {
                Self::Text => !matches!(of, CelType::Optional(_) | CelType::Opaque(_) | CelType::Struct(_)),
                Self::Decimal | Self::Octal => matches!(of, CelType::Int | CelType::Uint),
                Self::Fixed(_) | Self::Scientific(_) => matches!(of, CelType::Double | CelType::String),
                Self::Binary => matches!(of, CelType::Int | CelType::Uint | CelType::Bool),
                Self::Hexadecimal { .. } => {
                    matches!(of, CelType::Int | CelType::Uint | CelType::String | CelType::Bytes)
                }
            }
    }
}

/// A part of a format: text, or a verb.
enum FormatPiece<'t> {
    Text(&'t str),
    Verb(Verb),
}

/// Splits a format; `next` is called before each verb is read, and says if its argument exists.
fn pieces<'t, E: From<String>>(
    format: &'t str,
    mut next: impl FnMut() -> Result<(), E>,
    mut use_piece: impl FnMut(FormatPiece<'t>) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        use_piece(FormatPiece::Text(&rest[..at]))?;
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('%') {
            use_piece(FormatPiece::Text("%"))?;
            rest = after;
            continue;
        }
        next()?;
        if after.is_empty() {
            return Err("unexpected end of string".to_owned().into());
        }
        let (verb, after) = verb(after).map_err(|message| format!("could not parse formatting clause: {message}"))?;
        use_piece(FormatPiece::Verb(verb))?;
        rest = after;
    }
    use_piece(FormatPiece::Text(rest))
}

/// Parses a verb with its precision; returns the text after it.
fn verb(text: &str) -> Result<(Verb, &str), String> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == rest.len() {
                return Err("error while parsing precision: could not find end of precision specifier".to_owned());
            }
            let precision = rest[..digits].parse::<usize>().map_err(|error| {
                let error = strings::atoi_error(&rest[..digits], &error);
                format!("error while parsing precision: error while converting precision to integer: {error}")
            })?;
            (Some(precision), &rest[digits..])
        }
    };
    let letter = rest.chars().next().unwrap_or_default();
    let verb = match letter {
        's' => Verb::Text,
        'd' => Verb::Decimal,
        'f' => Verb::Fixed(precision),
        'e' => Verb::Scientific(precision),
        'b' => Verb::Binary,
        'x' | 'X' => Verb::Hexadecimal { upper: letter == 'X' },
        'o' => Verb::Octal,
        // Go reads a byte, not a character.
        _ => return Err(format!("unrecognized formatting clause \"{}\"", char::from(rest.as_bytes()[0]))),
    };
    Ok((verb, &rest[1..]))
}

struct FormatFault(EvalError);

impl From<String> for FormatFault {
    fn from(message: String) -> Self {
        Self(EvalError::Failed(message.into()))
    }
}

fn format<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let (format, arguments) = (text(values, 0)?, list(values, 1)?);
    let mut out = String::with_capacity(format.len());
    let used = std::cell::Cell::new(0);
    let next = || {
        if used.get() >= arguments.len() {
            return Err(FormatFault::from(format!("index {} out of range", used.get())));
        }
        used.set(used.get() + 1);
        Ok(())
    };
    let result = pieces(format, next, |piece| {
        match piece {
            FormatPiece::Text(text) => out.push_str(text),
            FormatPiece::Verb(verb) => {
                let argument = arguments.get(used.get() - 1).unwrap_or(CelValue::Null);
                out.push_str(&formatted(verb, &argument).map_err(FormatFault)?);
            }
        }
        super::limits::check_bytes(out.len()).map_err(FormatFault)
    });
    result.map_err(|fault| fault.0)?;
    Ok(CelValue::from(out))
}

fn formatted(verb: Verb, value: &CelValue<'_>) -> Result<String, EvalError> {
    let wrong = || failed(verb.message(value.type_name()));
    Ok(match (verb, value) {
        (Verb::Text, value) => {
            return shown(value).map_err(|error| match error {
                EvalError::Failed(message) => EvalError::Failed(format!("error during formatting: {message}").into()),
                other => other,
            });
        }
        (Verb::Decimal, CelValue::Int(value)) => value.to_string(),
        (Verb::Decimal, CelValue::Uint(value)) => value.to_string(),
        (Verb::Fixed(precision), value) => match number(value) {
            Some(number) => fixed(number, decimals(precision)?),
            None => return wrong(),
        },
        (Verb::Scientific(width), value) => match number(value) {
            Some(number) => padded(&scientific(number), width.map_or(Ok(DECIMALS), |width| decimals(Some(width)))?),
            None => return wrong(),
        },
        (Verb::Binary, CelValue::Bool(value)) => u8::from(*value).to_string(),
        (Verb::Binary, CelValue::Int(value)) => signed(*value, |value| format!("{value:b}")),
        (Verb::Binary, CelValue::Uint(value)) => format!("{value:b}"),
        (Verb::Octal, CelValue::Int(value)) => signed(*value, |value| format!("{value:o}")),
        (Verb::Octal, CelValue::Uint(value)) => format!("{value:o}"),
        (Verb::Hexadecimal { upper }, value) => {
            let text = match value {
                CelValue::Int(value) => signed(*value, |value| format!("{value:x}")),
                CelValue::Uint(value) => format!("{value:x}"),
                CelValue::String(text) => data_encoding::HEXLOWER.encode(text.as_bytes()),
                CelValue::Bytes(bytes) => data_encoding::HEXLOWER.encode(bytes),
                _ => return wrong(),
            };
            if upper { text.to_uppercase() } else { text }
        }
        _ => return wrong(),
    })
}

fn decimals(precision: Option<usize>) -> Result<usize, EvalError> {
    match precision {
        Some(precision) if precision > MOST_DECIMALS => Err(EvalError::TooLarge),
        precision => Ok(precision.unwrap_or(DECIMALS)),
    }
}

fn signed(value: i64, text: impl Fn(u64) -> String) -> String {
    format!("{}{}", if value < 0 { "-" } else { "" }, text(value.unsigned_abs()))
}

/// Returns a number, also of the texts that stand for numbers that JSON does not have.
fn number(value: &CelValue<'_>) -> Option<f64> {
    match value {
        CelValue::Double(value) => Some(*value),
        CelValue::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Returns how English texts show numbers that are not finite.
fn not_finite(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// Returns a number with commas between thousands.
fn fixed(value: f64, decimals: usize) -> String {
    if let Some(text) = not_finite(value) {
        return text.to_owned();
    }
    let text = format!("{value:.decimals$}");
    let (sign, text) = text.strip_prefix('-').map_or(("", &*text), |text| ("-", text));
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{fraction}")
}

/// Returns a number with a power of ten: `1.500000×10⁰³`.
fn scientific(value: f64) -> String {
    if let Some(text) = not_finite(value) {
        return text.to_owned();
    }
    let text = floats::exponent(value, Some(DECIMALS));
    let (digits, power) = text.split_once('e').unwrap_or((&text, "+00"));
    let raised: String = power.trim_start_matches('+').chars().map(superscript).collect();
    format!("{digits}×10{raised}")
}

fn superscript(c: char) -> char {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    c.to_digit(10).and_then(|digit| DIGITS.get(digit as usize)).copied().unwrap_or('⁻')
}

fn padded(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

/// Returns a value for `%s`.
fn shown(value: &CelValue<'_>) -> Result<String, EvalError> {
    match value {
        CelValue::List(list) => shown_list(list),
        CelValue::Map(map) => shown_map(map),
        CelValue::Null => Ok("null".to_owned()),
        CelValue::Bytes(bytes) => match str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => {
                failed("could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string")
            }
        },
        CelValue::Bool(_)
        | CelValue::Int(_)
        | CelValue::Uint(_)
        | CelValue::Double(_)
        | CelValue::String(_)
        | CelValue::Timestamp(_)
        | CelValue::Duration(_)
        | CelValue::Type(_) => Ok(convert::to_string(value)?.as_str().unwrap_or_default().to_owned()),
        other => failed(Verb::Text.message(other.type_name()).trim_start_matches("error during formatting: ")),
    }
}

/// Returns an element of a list or map, with quotes around text.
fn element(value: &CelValue<'_>) -> Result<String, EvalError> {
    Ok(match value {
        CelValue::String(text) => go_quoted(text),
        CelValue::Bytes(_) => format!("b{}", go_quoted(&shown(value)?)),
        CelValue::Timestamp(_) => format!("timestamp({})", go_quoted(&shown(value)?)),
        CelValue::Duration(_) => format!("duration({})", go_quoted(&shown(value)?)),
        CelValue::Double(number) if number.is_finite() => format!("{number:.DECIMALS$}"),
        CelValue::Double(number) => go_quoted(&floats::general(*number)),
        CelValue::Optional(_)
        | CelValue::Quantity(_)
        | CelValue::Ip(_)
        | CelValue::Cidr(_)
        | CelValue::Url(_)
        | CelValue::Semver(_)
        | CelValue::Format(_)
        | CelValue::Image(_)
        | CelValue::Variables => return failed(format!("no formatting function for {}", value.type_name())),
        other => shown(other)?,
    })
}

fn shown_list(list: &CelList<'_>) -> Result<String, EvalError> {
    let parts: Result<Vec<_>, _> = list.iter().map(|value| element(&value)).collect();
    Ok(format!("[{}]", parts?.join(", ")))
}

fn shown_map(map: &Map<'_>) -> Result<String, EvalError> {
    let mut parts = Vec::with_capacity(map.len());
    for (key, value) in map.entries() {
        if let CelValue::Double(_) = key {
            return failed("no formatting function for map key of type double");
        }
        parts.push((element(&key)?, element(&value)?));
    }
    parts.sort();
    let parts: Vec<_> = parts.iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", parts.join(", ")))
}

/// Why a constant format is refused, and the argument that is wrong.
pub(crate) struct FormatProblem<'e>(pub(crate) Option<&'e CelExpr>, pub(crate) String);

impl From<String> for FormatProblem<'_> {
    fn from(message: String) -> Self {
        Self(None, message)
    }
}

/// Checks a constant format with its arguments.
///
/// # Errors
/// The first problem, and where it is if it is an argument.
pub(crate) fn check<'e>(format: &str, arguments: &[&'e CelExpr], types: &[CelType]) -> Result<(), FormatProblem<'e>> {
    let used = std::cell::Cell::new(0);
    let next = || {
        used.set(used.get() + 1);
        // The API server only notices a missing argument when the verb is complete.
        Ok::<(), FormatProblem<'e>>(())
    };
    pieces(format, next, |piece| {
        let FormatPiece::Verb(verb) = piece else { return Ok(()) };
        let Some(argument) = arguments.get(used.get() - 1) else {
            return Err(format!("index {} out of range", used.get() - 1).into());
        };
        match refused(verb, argument, types) {
            Some(wrong) => Err(FormatProblem(Some(wrong), verb.message(types[wrong.id].runtime_name()))),
            None => Ok(()),
        }
    })?;
    if arguments.len() > used.get() {
        let message =
            format!("too many arguments supplied to string.format (expected {}, got {})", used.get(), arguments.len());
        return Err(message.into());
    }
    Ok(())
}

/// Returns the argument, or the element of it, that a verb does not accept.
fn refused<'e>(verb: Verb, argument: &'e CelExpr, types: &[CelType]) -> Option<&'e CelExpr> {
    if !verb.accepts(&types[argument.id]) {
        return Some(argument);
    }
    match &argument.kind {
        CelExprKind::List(elements) if verb == Verb::Text => {
            elements.iter().find_map(|element| refused(verb, &element.value, types))
        }
        CelExprKind::Map(entries) if verb == Verb::Text => entries
            .iter()
            .find_map(|entry| refused(verb, &entry.key, types).or_else(|| refused(verb, &entry.value, types))),
        _ => None,
    }
}
