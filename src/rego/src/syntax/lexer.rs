//! The lexer, by OPA's rules: a template string is one token that contains the tokens of its expressions.

use std::sync::Arc;

use super::tree::{Position, TextSpan};

/// A syntax error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// The position at which parsing failed.
    pub at: Position,
    /// The reason, with the error code of OPA's documentation.
    pub why: String,
    /// How to fix it, if the error is certain.
    pub help: Option<&'static str>,
}

impl SyntaxError {
    pub(crate) fn new(at: Position, why: impl Into<String>) -> Self {
        Self { at, why: why.into(), help: None }
    }

    /// Returns an error for syntax that can be parsed, but is refused.
    pub(crate) fn refused(at: Position, why: impl Into<String>, help: &'static str) -> Self {
        Self { at, why: why.into(), help: Some(help) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    Name,
    Number,
    /// A string in either form, with its quotes.
    Text,
    Symbol,
    Template(Vec<TemplateSegment>),
    End,
}

/// A part of a template string.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TemplateSegment {
    /// A string literal, with quotes.
    Text(Arc<str>),
    Tokens(Vec<RegoToken>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct RegoToken {
    pub(super) kind: TokenKind,
    pub(super) text: Arc<str>,
    pub(super) at: Position,
    pub(super) span: TextSpan,
    /// The line on which it ends.
    pub(super) last_line: u32,
    /// Whether it follows the previous token without a space.
    pub(super) adjacent: bool,
}

impl RegoToken {
    pub(super) fn is(&self, symbol: &str) -> bool {
        self.kind == TokenKind::Symbol && &*self.text == symbol
    }
}

/// Returns all tokens, including the final `End`.
pub(super) fn tokens(text: &str) -> Result<Vec<RegoToken>, SyntaxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lexer = |text| Lexer { text, offset: 0, place: Position { line: 1, column: 1 }, depth: 0 };
    if let Some(offset) = text.find('\0') {
        let mut before = lexer(&text[..offset]);
        while before.take().is_some() {}
        return Err(SyntaxError::new(before.place, "null characters are not allowed"));
    }
    lexer(text).until_end()
}

struct Lexer<'a> {
    text: &'a str,
    offset: usize,
    place: Position,
    /// The number of enclosing template strings.
    depth: u8,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.offset..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Consumes one character.
    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.offset += next.len_utf8();
        match next {
            '\n' => self.place = Position { line: self.place.line + 1, column: 1 },
            _ => self.place.column += 1,
        }
        Some(next)
    }

    fn until_end(mut self) -> Result<Vec<RegoToken>, SyntaxError> {
        let mut tokens = Vec::new();
        loop {
            let token = self.next()?;
            let end = token.kind == TokenKind::End;
            tokens.push(token);
            if end {
                return Ok(tokens);
            }
        }
    }

    fn next(&mut self) -> Result<RegoToken, SyntaxError> {
        let before = self.offset;
        self.skip_space();
        let (start, at) = (self.offset, self.place);
        let kind = match self.peek() {
            None => TokenKind::End,
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.take();
                }
                TokenKind::Name
            }
            Some(c) if c.is_ascii_digit() => self.number()?,
            Some('"') => {
                self.string()?;
                TokenKind::Text
            }
            Some('`') => {
                self.take();
                while self.take().ok_or_else(|| SyntaxError::new(at, "unterminated string"))? != '`' {}
                TokenKind::Text
            }
            Some('$') => self.template()?,
            Some(_) => self.symbol()?,
        };
        Ok(RegoToken {
            kind,
            text: self.text[start..self.offset].into(),
            at,
            span: TextSpan::new(start, self.offset),
            last_line: self.place.line,
            adjacent: before == start && start > 0,
        })
    }

    fn skip_space(&mut self) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' => {
                    self.take();
                }
                '#' => {
                    let line = self.rest().find('\n').unwrap_or(self.rest().len());
                    self.offset += line;
                }
                _ => return,
            }
        }
    }

    /// Consumes digits; returns their number.
    fn digits(&mut self) -> usize {
        let before = self.offset;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.take();
        }
        self.offset - before
    }

    fn number(&mut self) -> Result<TokenKind, SyntaxError> {
        let at = self.place;
        let error = |why: &str| Err(SyntaxError::new(at, why));
        let zero = self.peek() == Some('0');
        if self.digits() > 1 && zero {
            return error("a number must not begin with a zero");
        }
        if self.peek() == Some('.') {
            self.take();
            if self.digits() == 0 {
                return error("a number needs digits after its point");
            }
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.take();
            if matches!(self.peek(), Some('+' | '-')) {
                self.take();
            }
            if self.digits() == 0 {
                return error("a number needs digits in its exponent");
            }
        }
        if self.peek().is_some_and(|c| c.is_ascii_alphabetic() || c == '_') {
            return error("a number must not be followed by letters");
        }
        Ok(TokenKind::Number)
    }

    /// Consumes the rest of an escape sequence after a backslash.
    fn escape(&mut self) -> Result<(), SyntaxError> {
        let at = self.place;
        let is_escape = match self.take() {
            Some('u') => (0..4).all(|_| self.take().is_some_and(|c| c.is_ascii_hexdigit())),
            Some(c) => "\"\\/bfnrt".contains(c),
            None => false,
        };
        let help = "write \\\\ for a backslash, or put the string into backquotes, in which it needs no escape";
        if is_escape { Ok(()) } else { Err(SyntaxError::refused(at, "invalid escape sequence", help)) }
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        let at = self.place;
        self.take();
        loop {
            match self.take() {
                Some('"') => return Ok(()),
                Some('\\') => self.escape()?,
                None | Some('\n') => return Err(SyntaxError::new(at, "unterminated string")),
                Some(_) => {}
            }
        }
    }

    fn symbol(&mut self) -> Result<TokenKind, SyntaxError> {
        let at = self.place;
        let two = [":=", "==", "!=", "<=", ">="].iter().any(|symbol| self.rest().starts_with(symbol));
        let first = self.take().unwrap_or_default();
        if two {
            self.take();
        } else if !"[]{}(),:+-*/%&|=<>;.".contains(first) {
            return Err(SyntaxError::new(at, format!("unexpected character `{first}`")));
        }
        Ok(TokenKind::Symbol)
    }

    /// Consumes `$"…{expression}…"`, or the same with backquotes, where `\{` is the only escape.
    fn template(&mut self) -> Result<TokenKind, SyntaxError> {
        let at = self.place;
        self.take();
        let Some(quote @ ('"' | '`')) = self.take() else {
            return Err(SyntaxError::new(at, "unexpected character `$`"));
        };
        self.depth += 1;
        if self.depth > 8 {
            return Err(SyntaxError::new(at, "template strings are nested too deeply"));
        }
        let mut parts = Vec::new();
        let mut text = String::new();
        loop {
            match self.take() {
                Some(c) if c == quote => break,
                Some('\\') if self.peek() == Some('{') => text.extend(self.take()),
                Some('\\') if quote == '"' => {
                    let begin = self.offset - 1;
                    self.escape()?;
                    text.push_str(&self.text[begin..self.offset]);
                }
                Some('{') => {
                    push_text(&mut parts, &mut text, quote);
                    parts.push(TemplateSegment::Tokens(self.until_brace()?));
                }
                Some('\n') if quote == '"' => return Err(SyntaxError::new(at, "unterminated string")),
                None => return Err(SyntaxError::new(at, "unterminated string")),
                Some(c) => text.push(c),
            }
        }
        push_text(&mut parts, &mut text, quote);
        self.depth -= 1;
        Ok(TokenKind::Template(parts))
    }

    /// Returns the tokens of one expression in a template string; the closing brace becomes their `End`.
    fn until_brace(&mut self) -> Result<Vec<RegoToken>, SyntaxError> {
        let mut tokens = Vec::new();
        let mut open = 0_usize;
        loop {
            let mut token = self.next()?;
            if token.is("{") {
                open += 1;
            } else if token.is("}") {
                if open == 0 {
                    token.kind = TokenKind::End;
                    tokens.push(token);
                    return Ok(tokens);
                }
                open -= 1;
            } else if token.kind == TokenKind::End {
                return Err(SyntaxError::new(token.at, "unterminated string"));
            }
            tokens.push(token);
        }
    }
}

fn push_text(parts: &mut Vec<TemplateSegment>, text: &mut String, quote: char) {
    if !text.is_empty() {
        let literal =
            if quote == '"' { format!("\"{text}\"") } else { serde_json::Value::from(text.as_str()).to_string() };
        parts.push(TemplateSegment::Text(literal.into()));
        text.clear();
    }
}
