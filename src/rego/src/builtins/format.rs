//! `sprintf` by the rules of Go's `fmt`.
//!
//! As in OPA, an argument is a string, a 64-bit integer, a larger integer or a float; every other value is passed as
//! its text in Rego's notation.

use std::fmt::Write as _;

use num_bigint::{BigInt, Sign};
use regorus::Value;

use super::{
    budget::{self, LONGEST_TEXT},
    call::{Builtin, BuiltinResult, array, failed, refused, string},
    gofloat::{GoNumber, float},
    written::{is_print, plain, quoted},
};
use crate::value;

pub(super) const TABLE: &[Builtin] = &[("sprintf", 2, sprintf), ("internal.template_string", 1, template_string)];

/// The largest width and precision that Go accepts.
const WIDEST: usize = 1_000_000;

/// Returns the text of a template string. Its parts are values, or sets with at most one value.
fn template_string(arguments: &[Value]) -> BuiltinResult {
    budget::check_whole("template string", &arguments[0])?;
    let mut text = String::new();
    for part in array(arguments, 0)? {
        match part {
            Value::Set(values) if values.is_empty() => text.push_str("<undefined>"),
            Value::Set(values) if values.len() == 1 => text.extend(values.iter().map(plain)),
            Value::Set(_) => return refused("template-strings must not produce multiple outputs"),
            Value::Array(_) | Value::Object(_) => return failed("illegal argument type"),
            other if !value::fits(other, LONGEST_TEXT) => {
                return refused("a template string contains a value that is too large");
            }
            other => text.push_str(&plain(other)),
        }
    }
    Ok(Value::from(text))
}

fn sprintf(arguments: &[Value]) -> BuiltinResult {
    let format = string(arguments, 0)?;
    budget::check_whole("sprintf", &arguments[1])?;
    let given: Vec<Argument> = array(arguments, 1)?.map(Argument::of).collect();
    if !value::fits(&arguments[1], usize::MAX) {
        return refused("sprintf: a number is too large to be written");
    }
    let mut printer = Printer { given: &given, ..Printer::default() };
    printer.format(format);
    if let Some(why) = printer.refused {
        return refused(format!("sprintf: {why}"));
    }
    budget::check_text("sprintf", printer.out.len())?;
    Ok(Value::from(printer.out))
}

/// An argument of `sprintf`.
#[derive(Debug, Clone)]
enum Argument {
    Text(String),
    Number(GoNumber),
}

impl Argument {
    fn of(value: &Value) -> Self {
        GoNumber::of(value).map_or_else(|| Self::Text(plain(value)), Self::Number)
    }

    /// Returns the name of its type in Go, for `%T` and for errors.
    fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Number(GoNumber::Int(_)) => "int64",
            Self::Number(GoNumber::Big(_)) => "*big.Int",
            Self::Number(GoNumber::Float(_)) => "float64",
        }
    }
}

/// The flags, width and precision between `%` and the verb.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "Go's flags")]
struct Flags {
    sharp: bool,
    /// `#` of `%#v`.
    sharp_v: bool,
    /// `+` of `%+v`.
    plus_v: bool,
    zero: bool,
    plus: bool,
    minus: bool,
    space: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// The rest of a format string, character by character.
struct Rest<'a>(std::iter::Peekable<std::str::Chars<'a>>);

impl Rest<'_> {
    /// Reads a number; `None` if there is none, or if it is too large, which discards the rest of the format.
    fn number(&mut self) -> Option<usize> {
        let mut number: Option<usize> = None;
        while let Some(digit) = self.0.peek().and_then(|c| c.to_digit(10)) {
            let larger = number.unwrap_or(0) * 10 + digit as usize;
            if larger > WIDEST {
                self.0 = "".chars().peekable();
                return None;
            }
            number = Some(larger);
            self.0.next();
        }
        number
    }

    fn take(&mut self, wanted: char) -> bool {
        self.0.next_if_eq(&wanted).is_some()
    }
}

/// The state while one format string is printed.
#[derive(Default)]
struct Printer<'a> {
    out: String,
    given: &'a [Argument],
    /// Index of the argument that the next verb takes.
    next: usize,
    /// Whether a verb selected its argument by index; then unused arguments are not reported.
    reordered: bool,
    /// Whether the current verb has an index for which there is no argument.
    wrong_index: bool,
    /// Why something cannot be printed as in OPA.
    refused: Option<&'static str>,
}

impl Printer<'_> {
    fn format(&mut self, format: &str) {
        let mut rest = Rest(format.chars().peekable());
        while let Some(c) = rest.0.next() {
            if self.out.len() > LONGEST_TEXT {
                return;
            }
            if c == '%' { self.directive(&mut rest) } else { self.out.push(c) }
        }
        if !self.reordered && self.next < self.given.len() {
            self.out.push_str("%!(EXTRA ");
            for (index, argument) in self.given.iter().enumerate().skip(self.next) {
                let comma = if index > self.next { ", " } else { "" };
                let _ = write!(self.out, "{comma}{}=", argument.kind());
                self.print(argument, 'v', &Flags::default());
            }
            self.out.push(')');
        }
    }

    fn directive(&mut self, rest: &mut Rest) {
        let mut flags = Flags::default();
        self.wrong_index = false;
        while let Some(c) = rest.0.next_if(|c| matches!(c, '#' | '0' | '+' | '-' | ' ')) {
            match c {
                '#' => flags.sharp = true,
                '0' => flags.zero = true,
                '+' => flags.plus = true,
                '-' => flags.minus = true,
                _ => flags.space = true,
            }
        }
        let mut after_index = self.index(rest);
        if rest.take('*') {
            flags.width = self.star("%!(BADWIDTH)", |width| {
                flags.minus |= width < 0;
                Some(usize::try_from(width.unsigned_abs()).unwrap_or(0))
            });
            after_index = false;
        } else {
            flags.width = rest.number();
            self.wrong_index |= after_index && flags.width.is_some();
        }
        if rest.take('.') {
            self.wrong_index |= after_index;
            after_index = self.index(rest);
            if rest.take('*') {
                flags.precision = self.star("%!(BADPREC)", |precision| usize::try_from(precision).ok());
                after_index = false;
            } else {
                flags.precision = Some(rest.number().unwrap_or(0));
            }
        }
        if !after_index {
            self.index(rest);
        }
        let Some(verb) = rest.0.next() else { return self.out.push_str("%!(NOVERB)") };
        if verb == 'v' {
            // They request Go's syntax and field names.
            (flags.sharp_v, flags.plus_v, flags.sharp, flags.plus) = (flags.sharp, flags.plus, false, false);
        }
        match self.given.get(self.next) {
            _ if verb == '%' => self.out.push('%'),
            _ if self.wrong_index => {
                let _ = write!(self.out, "%!{verb}(BADINDEX)");
            }
            None => {
                let _ = write!(self.out, "%!{verb}(MISSING)");
            }
            Some(argument) => {
                let argument = argument.clone();
                self.next += 1;
                self.print(&argument, verb, &flags);
            }
        }
    }

    /// Reads an index such as `[2]`; returns whether there was one with digits.
    fn index(&mut self, rest: &mut Rest) -> bool {
        if rest.0.peek() != Some(&'[') {
            return false;
        }
        self.reordered = true;
        let ahead: String = rest.0.clone().skip(1).take_while(|c| *c != ']').collect();
        let closed = rest.0.clone().nth(ahead.chars().count() + 1) == Some(']');
        if !closed {
            // Go consumes only the bracket.
            rest.0.next();
            self.wrong_index = true;
            return false;
        }
        for _ in 0..ahead.chars().count() + 2 {
            rest.0.next();
        }
        let digits = !ahead.is_empty() && ahead.bytes().all(|byte| byte.is_ascii_digit());
        match ahead.parse::<usize>() {
            Ok(index) if digits && (1..=self.given.len()).contains(&index) => {
                self.next = index - 1;
                true
            }
            _ => {
                self.wrong_index = true;
                digits
            }
        }
    }

    /// Takes a width or a precision from the arguments.
    fn star(&mut self, wrong: &str, read: impl FnOnce(i64) -> Option<usize>) -> Option<usize> {
        let argument = self.given.get(self.next);
        self.next = (self.next + 1).min(self.given.len());
        match argument {
            Some(Argument::Number(GoNumber::Int(number)))
                if usize::try_from(number.unsigned_abs()).is_ok_and(|size| size <= WIDEST) =>
            {
                read(*number)
            }
            _ => None,
        }
        .or_else(|| {
            self.out.push_str(wrong);
            None
        })
    }

    fn print(&mut self, argument: &Argument, verb: char, flags: &Flags) {
        if let Argument::Number(GoNumber::Float(_)) = argument
            && (flags.sharp || matches!(verb, 'b' | 'x' | 'X'))
        {
            self.refused = Some("floats with the flag # or in binary or hexadecimal digits are not supported");
        }
        let written = match (argument, verb) {
            (_, 'T') => Some(padded(truncated(argument.kind(), flags), flags)),
            (Argument::Text(text), _) => print_text(text, verb, flags),
            (Argument::Number(GoNumber::Int(number)), _) => print_integer(&BigInt::from(*number), true, verb, flags),
            (Argument::Number(GoNumber::Big(number)), 'b' | 'o' | 'O' | 'd' | 'x' | 'X' | 'v' | 's') => {
                let flags = Flags { plus: flags.plus || flags.plus_v, ..*flags };
                print_integer(number, false, if verb == 's' { 'd' } else { verb }, &flags)
            }
            (Argument::Number(GoNumber::Big(number)), _) => Some(format!("%!{verb}(big.Int={number})")),
            (Argument::Number(GoNumber::Float(number)), _) => print_float(*number, verb, flags),
        };
        if let Some(text) = written {
            self.out.push_str(&text);
        } else {
            let _ = write!(self.out, "%!{verb}({}=", argument.kind());
            // The width still applies to the value.
            self.print(argument, 'v', flags);
            self.out.push(')');
        }
    }
}

fn print_text(text: &str, verb: char, flags: &Flags) -> Option<String> {
    Some(match verb {
        'v' if flags.sharp_v => padded(&quoted(text), flags),
        'v' | 's' => padded(truncated(text, flags), flags),
        'x' | 'X' => hexadecimal(text.as_bytes(), verb, flags),
        'q' => {
            let text = truncated(text, flags);
            if flags.sharp && can_be_raw(text) {
                return Some(padded(&format!("`{text}`"), flags));
            }
            let quoted = quoted(text);
            padded(&if flags.plus { ascii(&quoted) } else { quoted }, flags)
        }
        _ => return None,
    })
}

fn print_integer(number: &BigInt, small: bool, verb: char, flags: &Flags) -> Option<String> {
    let code = || u32::try_from(number).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
    Some(match verb {
        'v' | 'd' => whole(number, 10, verb, flags),
        'b' => whole(number, 2, verb, flags),
        'o' | 'O' => whole(number, 8, verb, flags),
        'x' | 'X' => whole(number, 16, verb, flags),
        'c' if small => padded(&code().to_string(), flags),
        'q' if small => {
            let quoted = quoted(&code().to_string());
            let inner = quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default();
            let inner = if code() == '"' {
                "\""
            } else if code() == '\'' {
                "\\'"
            } else {
                inner
            };
            let quoted = format!("'{inner}'");
            padded(&if flags.plus { ascii(&quoted) } else { quoted }, flags)
        }
        'U' if small => {
            let digits = flags.precision.unwrap_or(4).max(4);
            let value = i64::try_from(number).unwrap_or_default();
            let mut text = format!("U+{value:0digits$X}");
            if flags.sharp && u32::try_from(value).ok().and_then(char::from_u32).is_some_and(is_print) {
                let _ = write!(text, " '{}'", code());
            }
            padded(&text, &Flags { zero: false, ..*flags })
        }
        _ => return None,
    })
}

/// Returns an integer with sign, prefix and zeros.
fn whole(number: &BigInt, base: u32, verb: char, flags: &Flags) -> String {
    let negative = number.sign() == Sign::Minus;
    let mut digits = number.magnitude().to_str_radix(base);
    if verb == 'X' {
        digits.make_ascii_uppercase();
    }
    if flags.precision == Some(0) && number.sign() == Sign::NoSign {
        return " ".repeat(flags.width.unwrap_or(0));
    }
    let signed = negative || flags.plus || flags.space;
    let zeros = match (flags.precision, flags.width) {
        (Some(precision), _) => precision,
        (None, Some(width)) if flags.zero && !flags.minus => width.saturating_sub(usize::from(signed)),
        _ => 0,
    };
    digits = format!("{}{digits}", "0".repeat(zeros.saturating_sub(digits.len())));
    let prefix = match base {
        _ if verb == 'O' => "0o",
        2 if flags.sharp => "0b",
        8 if flags.sharp && !digits.starts_with('0') => "0",
        16 if flags.sharp && verb == 'X' => "0X",
        16 if flags.sharp => "0x",
        _ => "",
    };
    let sign = if negative {
        "-"
    } else if flags.plus {
        "+"
    } else if flags.space {
        " "
    } else {
        ""
    };
    padded(&format!("{sign}{prefix}{digits}"), &Flags { zero: false, ..*flags })
}

fn print_float(number: f64, verb: char, flags: &Flags) -> Option<String> {
    let text = match verb {
        'v' => float(number, 'g', flags.precision),
        'g' | 'G' => float(number, verb, flags.precision),
        'e' | 'E' | 'f' | 'F' => float(number, verb, Some(flags.precision.unwrap_or(6))),
        _ => return None,
    };
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None if flags.plus => ("+", text.as_str()),
        None if flags.space => (" ", text.as_str()),
        None => ("", text.as_str()),
    };
    let width = flags.width.unwrap_or(0);
    if !sign.is_empty() && flags.zero && !flags.minus {
        let zeros = width.saturating_sub(digits.len() + 1);
        return Some(format!("{sign}{}{digits}", "0".repeat(zeros)));
    }
    Some(padded(&format!("{sign}{digits}"), flags))
}

/// Returns the bytes of a string as hexadecimal digits.
fn hexadecimal(bytes: &[u8], verb: char, flags: &Flags) -> String {
    let bytes = &bytes[..flags.precision.unwrap_or(bytes.len()).min(bytes.len())];
    let prefix = match (flags.sharp, verb) {
        (false, _) => "",
        (true, 'X') => "0X",
        (true, _) => "0x",
    };
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        if index == 0 || flags.space {
            text.push_str(if index > 0 { " " } else { "" });
            text.push_str(prefix);
        }
        let _ = if verb == 'X' { write!(text, "{byte:02X}") } else { write!(text, "{byte:02x}") };
    }
    padded(&text, flags)
}

/// Returns at most as many characters as the precision allows.
fn truncated<'a>(text: &'a str, flags: &Flags) -> &'a str {
    let end = flags.precision.and_then(|precision| text.char_indices().nth(precision));
    end.map_or(text, |(end, _)| &text[..end])
}

/// Pads a string to the width; with zeros only on the left.
fn padded(text: &str, flags: &Flags) -> String {
    let missing = flags.width.unwrap_or(0).saturating_sub(text.chars().count());
    match (missing, flags.minus) {
        (0, _) => text.to_owned(),
        (_, true) => format!("{text}{}", " ".repeat(missing)),
        (_, false) => format!("{}{text}", if flags.zero { "0" } else { " " }.repeat(missing)),
    }
}

/// Whether Go can write a string between backquotes.
fn can_be_raw(text: &str) -> bool {
    text.chars().all(|c| c == '\t' || !(c.is_ascii_control() || c == '`' || c == '\u{feff}'))
}

/// Returns a quoted string with every non-ASCII character escaped.
fn ascii(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let code = u32::from(c);
        let _ = match code {
            0..=0x7f => write!(out, "{c}"),
            0x80..=0xffff => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        };
    }
    out
}
