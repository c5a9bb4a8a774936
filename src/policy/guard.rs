//! What is checked before a module is parsed, because parsing it would be the harm.
//!
//! regorus parses nested brackets in exponential time and walks long expressions with the stack, so a file of a few bytes
//! could hold kaudit for minutes or abort it. Its lexer is linear; everything here works on tokens alone.

use regorus::unstable::{Lexer, Source, Token, TokenKind};

use super::{Limits, files::File, problem::Problem};

/// Returns the tokens of a module up to the first that is none; the parser gets no further than that either.
pub(crate) fn tokens(source: &Source, limits: &Limits) -> Vec<Token> {
    let mut lexer = Lexer::new(source);
    lexer.set_max_col(limits.columns);
    let mut tokens = Vec::new();
    while let Ok(token) = lexer.next_token() {
        if token.0 == TokenKind::Eof {
            break;
        }
        tokens.push(token);
    }
    tokens
}

/// Returns why a module must not be given to the parser, if it must not.
pub(crate) fn refuse(file: &File, tokens: &[Token], limits: &Limits) -> Option<Problem> {
    let mut shape = Shape::default();
    let mut previous: Option<&Token> = None;
    for token in tokens {
        let message = shape.step(previous, token, limits);
        if let Some(message) = message {
            let help = "take the inner part out into a rule or a function of its own";
            return Some(Problem::refused(&file.shown, message).at(&file.text, token.1.line, token.1.col).help(help));
        }
        previous = Some(token);
    }
    None
}

/// How deep and how long expressions are at one token.
#[derive(Default)]
struct Shape {
    /// Open brackets; the length of the chain around each, and whether the parser tries it twice.
    open: Vec<(usize, bool)>,
    /// Operators and selectors since the expression began.
    chain: usize,
    /// Brackets that the parser tries twice, among the open ones.
    doubled: u32,
    /// How often the parser will try a bracket, summed over all.
    tries: u64,
}

impl Shape {
    /// Takes one token; returns what is too much, if something is.
    fn step(&mut self, previous: Option<&Token>, token: &Token, limits: &Limits) -> Option<String> {
        let text = text(token);
        let after_operand = previous.is_some_and(ends_operand);
        let adjacent = previous.is_some_and(|previous| end(previous) == begin(token));
        match text {
            "[" | "{" | "(" | "set(" => {
                let selects = after_operand && adjacent && text != "{";
                if after_operand && !selects {
                    self.chain = 0;
                }
                // A rule's own body is parsed once; literals and comprehensions are tried as one, then as the other.
                let twice = matches!(text, "[" | "{") && !selects && !(text == "{" && self.open.is_empty());
                self.open.push((self.chain + 1, twice));
                self.doubled += u32::from(twice);
                self.chain = 0;
                self.tries = self.tries.saturating_add(1_u64.checked_shl(self.doubled).unwrap_or(u64::MAX));
            }
            "]" | "}" | ")" => {
                if let Some((chain, twice)) = self.open.pop() {
                    self.chain = chain;
                    self.doubled -= u32::from(twice);
                }
            }
            "," | ";" | ":" | ":=" | "=" | "if" | "else" | "contains" => self.chain = 0,
            _ if is_operator(token) => self.chain += 1,
            // Two operands side by side: a new statement.
            _ if after_operand && !previous.is_some_and(|previous| self::text(previous) == ".") => self.chain = 0,
            _ => {}
        }
        if self.open.len() > limits.nesting || self.tries > limits.bracket_tries {
            return Some(format!(
                "brackets are nested too deep to be parsed in reasonable time ({} levels here)",
                self.open.len()
            ));
        }
        (self.chain > limits.chain).then(|| format!("an expression of more than {} operators in a row", limits.chain))
    }
}

/// Returns the text of a token, empty for strings so that their contents are never taken for syntax.
fn text(token: &Token) -> &str {
    match token.0 {
        TokenKind::String | TokenKind::RawString | TokenKind::Number => "",
        _ => token.1.text(),
    }
}

fn is_operator(token: &Token) -> bool {
    match token.0 {
        TokenKind::Symbol => !matches!(text(token), "{" | "}" | "[" | "]" | "(" | ")"),
        TokenKind::Ident => matches!(text(token), "in" | "with" | "not" | "and" | "or"),
        _ => false,
    }
}

/// Whether an operand can end with this token, so that a bracket right behind it selects or calls.
fn ends_operand(token: &Token) -> bool {
    match token.0 {
        TokenKind::String | TokenKind::RawString | TokenKind::Number => true,
        TokenKind::Ident => !is_operator(token),
        _ => matches!(text(token), "]" | "}" | ")"),
    }
}

/// Strings are spanned without their quotes.
fn quotes(token: &Token) -> u32 {
    u32::from(matches!(token.0, TokenKind::String | TokenKind::RawString))
}

fn begin(token: &Token) -> u32 {
    token.1.start - quotes(token)
}

fn end(token: &Token) -> u32 {
    token.1.end + quotes(token)
}

/// Returns whether the module uses a keyword that version 0 knows only after an import that it does not make. Parsing it
/// as version 0 would lead nowhere (and regorus would say so on stderr).
pub(crate) fn needs_v1(tokens: &[Token]) -> bool {
    let mut imported: Vec<&str> = Vec::new();
    let words: Vec<&str> = tokens.iter().map(text).collect();
    for (index, word) in words.iter().enumerate() {
        if *word == "import" {
            match words[index + 1..].iter().take(5).copied().collect::<Vec<_>>().as_slice() {
                ["rego", ".", "v1", ..] => return false,
                ["future", ".", "keywords", ".", keyword] => imported.push(keyword),
                ["future", ".", "keywords", ..] => return false,
                _ => {}
            }
        }
    }
    let knows = |word: &str| imported.contains(&word) || (word == "in" && imported.contains(&"every"));
    words
        .iter()
        .enumerate()
        .any(|(index, word)| matches!(*word, "if" | "in") && !knows(word) && (index == 0 || words[index - 1] != "."))
}
