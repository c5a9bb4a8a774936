//! Translates Go's regular expressions into the syntax of the `regex` crate.
//!
//! Differences: `\d`, `\w`, `\s` and `\b` match only ASCII in Go; a brace that begins no repetition, a bracket in a
//! class and most punctuation after a backslash are literal; Go has `\Q…\E` and octal numbers. Rust supports more than
//! Go, which must stay an error or keep Go's meaning: operations on classes, `\<`, `(?x)`, repeated repetitions.

use super::super::call::{BuiltinFault, failed};

const DIGIT: &str = "0-9";
const SPACE: &str = r"\t\n\x0C\r ";
const WORD: &str = "0-9A-Za-z_";

/// The named classes.
const CLASSES: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// The most repetitions that Go accepts.
const MOST_REPETITIONS: u32 = 1000;

/// Translates an expression.
///
/// # Errors
/// Also for syntax that Go refuses and Rust accepts.
pub(super) fn translate(pattern: &str) -> Result<String, BuiltinFault> {
    let mut translator = Translator { rest: pattern, out: String::with_capacity(pattern.len() + 16), repeated: false };
    while !translator.rest.is_empty() {
        translator.step()?;
    }
    Ok(translator.out)
}

struct Translator<'a> {
    rest: &'a str,
    out: String,
    /// Whether the previous item was a repetition.
    repeated: bool,
}

impl Translator<'_> {
    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn step(&mut self) -> Result<(), BuiltinFault> {
        let was_repeated = std::mem::take(&mut self.repeated);
        match self.take() {
            Some('\\') => self.escape(false)?,
            Some('[') => self.class()?,
            Some('(') => self.group()?,
            Some('{') => match repetition(self.rest) {
                Some((inner, most)) if most <= MOST_REPETITIONS => {
                    self.out.push_str(&format!("{{{inner}}}"));
                    self.rest = &self.rest[inner.len() + 1..];
                    self.repeat(was_repeated)?;
                }
                Some(_) => return failed("error parsing regexp: invalid repeat count"),
                None => self.out.push_str(r"\{"),
            },
            Some('}') => self.out.push_str(r"\}"),
            Some(c @ ('*' | '+' | '?')) => {
                self.out.push(c);
                self.repeat(was_repeated)?;
            }
            Some(c) => self.out.push(c),
            None => {}
        }
        Ok(())
    }

    /// Handles what follows a repetition: `?` makes it lazy, another repetition is an error.
    fn repeat(&mut self, again: bool) -> Result<(), BuiltinFault> {
        if again {
            return failed("error parsing regexp: invalid nested repetition operator");
        }
        if let Some(rest) = self.rest.strip_prefix('?') {
            self.out.push('?');
            self.rest = rest;
        }
        self.repeated = true;
        Ok(())
    }

    fn group(&mut self) -> Result<(), BuiltinFault> {
        self.out.push('(');
        let Some(rest) = self.rest.strip_prefix('?') else { return Ok(()) };
        if rest.starts_with("P<") || rest.starts_with('<') {
            return Ok(());
        }
        let flags = rest.split([':', ')']).next().unwrap_or_default();
        if flags.contains(|c| !matches!(c, 'i' | 'm' | 's' | 'U' | '-')) {
            return failed("error parsing regexp: invalid or unsupported Perl syntax");
        }
        self.out.push('?');
        self.out.push_str(flags);
        self.rest = &rest[flags.len()..];
        Ok(())
    }

    /// Translates what follows a backslash.
    fn escape(&mut self, in_class: bool) -> Result<(), BuiltinFault> {
        let class = |set: &str, negated: bool| match (negated, in_class) {
            (false, true) => set.to_owned(),
            (false, false) => format!("[{set}]"),
            (true, _) => format!("[^{set}]"),
        };
        let Some(c) = self.take() else {
            return failed("error parsing regexp: trailing backslash at end of expression");
        };
        let written = match c {
            'd' | 'D' => class(DIGIT, c == 'D'),
            's' | 'S' => class(SPACE, c == 'S'),
            'w' | 'W' => class(WORD, c == 'W'),
            'b' if !in_class => r"(?-u:\b)".to_owned(),
            // This is Unicode's `\B`; the caller ensures that the text is ASCII, for which both are the same.
            'B' if !in_class => r"\B".to_owned(),
            'A' | 'z' if !in_class => format!("\\{c}"),
            'Q' if !in_class => {
                let (literal, rest) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
                self.rest = rest;
                regex::escape(literal)
            }
            '0'..='7' => return self.octal(c),
            'p' | 'P' => return self.property(c),
            'x' => return self.hexadecimal(),
            'a' | 'f' | 't' | 'n' | 'r' | 'v' => format!("\\{c}"),
            _ if c.is_ascii_alphanumeric() || !c.is_ascii() => {
                return failed(format!("error parsing regexp: invalid escape sequence: `\\{c}`"));
            }
            _ => literal(c),
        };
        self.out.push_str(&written);
        Ok(())
    }

    /// Translates up to three octal digits; a single digit other than zero would be a back-reference, which RE2 does
    /// not support.
    fn octal(&mut self, first: char) -> Result<(), BuiltinFault> {
        let more = self.rest.bytes().take(2).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
        if first != '0' && more == 0 {
            return failed(format!("error parsing regexp: invalid escape sequence: `\\{first}`"));
        }
        let digits = format!("{first}{}", &self.rest[..more]);
        self.rest = &self.rest[more..];
        let code = u32::from_str_radix(&digits, 8).unwrap_or(0);
        self.out.push_str(&format!("\\x{{{code:X}}}"));
        Ok(())
    }

    /// Translates `\x41` and `\x{1F600}`, which are the same in both.
    fn hexadecimal(&mut self) -> Result<(), BuiltinFault> {
        let wrong = || BuiltinFault::Failed("error parsing regexp: invalid escape sequence: `\\x`".to_owned());
        let braced = self.rest.strip_prefix('{').map(|rest| rest.split_once('}').ok_or_else(wrong)).transpose()?;
        let (digits, rest) = match braced {
            Some(split) => split,
            None => self.rest.split_at_checked(2).ok_or_else(wrong)?,
        };
        self.rest = rest;
        let code = u32::from_str_radix(digits, 16).map_err(|_| wrong())?;
        self.out.push_str(&format!("\\x{{{code:X}}}"));
        Ok(())
    }

    /// Translates `\pL`, `\p{Greek}`, `\p{^Greek}`.
    fn property(&mut self, c: char) -> Result<(), BuiltinFault> {
        let mut negated = c == 'P';
        let unclosed = || BuiltinFault::Failed("error parsing regexp: invalid character class range".to_owned());
        let braced = self.rest.strip_prefix('{').map(|rest| rest.split_once('}').ok_or_else(unclosed)).transpose()?;
        let single = self.rest.chars().next().map_or(0, char::len_utf8);
        let (name, rest) = braced.unwrap_or_else(|| self.rest.split_at(single));
        self.rest = rest;
        let bare = name.strip_prefix('^');
        negated ^= bare.is_some();
        let bare = bare.unwrap_or(name);
        self.out.push_str(&match (bare, negated) {
            ("Any", false) => r"[\s\S]".to_owned(),
            (_, false) => format!("\\p{{{bare}}}"),
            (_, true) => format!("\\P{{{bare}}}"),
        });
        Ok(())
    }

    /// Translates a class in brackets.
    fn class(&mut self) -> Result<(), BuiltinFault> {
        self.out.push('[');
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.out.push('^');
            self.rest = rest;
        }
        let mut first = true;
        loop {
            let before = self.rest;
            match self.take() {
                None => return failed("error parsing regexp: missing closing ]"),
                Some(']') if !first => break,
                Some('\\') => self.escape(true)?,
                Some('[') if before.starts_with("[:") && before.contains(":]") => {
                    let end = before.find(":]").map_or(0, |end| end + 2);
                    let name = before[2..end - 2].trim_start_matches('^');
                    if !CLASSES.contains(&name) {
                        return failed(format!("error parsing regexp: invalid character class range: `[:{name}:]`"));
                    }
                    self.out.push_str(&before[..end]);
                    self.rest = &before[end..];
                }
                // A minus between two characters is a range; everywhere else it is literal.
                Some('-') if !first && !self.rest.starts_with(']') => self.out.push('-'),
                Some(c) => self.out.push_str(&literal(c)),
            }
            first = false;
        }
        self.out.push(']');
        Ok(())
    }
}

/// Returns a literal character, escaped where necessary.
fn literal(c: char) -> String {
    if c.is_ascii_punctuation() && !matches!(c, '<' | '>') { format!("\\{c}") } else { c.to_string() }
}

/// Parses a repetition after its opening brace; returns the text inside and the larger number.
fn repetition(text: &str) -> Option<(&str, u32)> {
    let (inner, _) = text.split_once('}')?;
    let (least, most) = inner.split_once(',').unwrap_or((inner, inner));
    let number = |text: &str| -> Option<u32> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // Go accepts no leading zeros here.
        (digits && (text == "0" || !text.starts_with('0'))).then(|| text.parse().unwrap_or(u32::MAX))
    };
    let least = number(least)?;
    if most.is_empty() { Some((inner, least)) } else { Some((inner, number(most)?.max(least))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_syntax_becomes_rust_syntax() {
        for (go, rust) in [
            (r"^{{.*}}$", r"^\{\{.*\}\}$"),
            (r"[[]", r"[\[]"),
            (r"[]a]", r"[\]a]"),
            (r"\d+\.\W", r"[0-9]+\.[^0-9A-Za-z_]"),
            (r"[\d\S_-]", r"[0-9[^\t\n\x0C\r ]\_\-]"),
            (r"a{2,3}b{x}", r"a{2,3}b\{x\}"),
            (r"\Qa.b\E+", r"a\.b+"),
            (r"\_\<", r"\_<"),
            (r"[a&&b~~c]", r"[a\&\&b\~\~c]"),
            (r"[[:alpha:]-]", r"[[:alpha:]\-]"),
            (r"\101\x41", r"\x{41}\x{41}"),
            (r"(?P<x>a)(?i:b)*?", r"(?P<x>a)(?i:b)*?"),
            (r"\p{^Greek}", r"\P{Greek}"),
        ] {
            assert_eq!(translate(go).as_deref(), Ok(rust), "{go}");
            assert!(regex::Regex::new(rust).is_ok(), "{rust}");
        }
        for wrong in ["a**", "a*?+", "a{1001}", r"\1", r"\y", "(?x)a", "[a", r"\", r"a{2}{3}"] {
            assert!(translate(wrong).is_err(), "{wrong}");
        }
    }
}
