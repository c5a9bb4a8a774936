//! The tokens of a module, and what is checked on them before it is parsed, because parsing itself could do harm.
//!
//! regorus parses nested brackets in exponential time and walks long expressions with the stack, so a file of a few bytes
//! could keep a process busy for minutes or abort it. Its lexer is linear.

use regorus::unstable::{Lexer, Source, Token, TokenKind};

use super::{file::File, limits::Limits, problem::Problem};

/// Returns the tokens of a module up to the first lexical error; the parser gets no further than that either.
pub(crate) fn read(source: &Source, limits: &Limits) -> Vec<Token> {
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

/// Returns why a module is too complex for the parser, if it is.
pub(crate) fn too_complex(file: &File, tokens: &[Token], limits: &Limits) -> Option<Problem> {
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
    /// What was going on around each open bracket.
    open: Vec<Around>,
    /// How high the tree of the expression so far is: operators and selectors in a row stack up.
    height: usize,
    /// The highest expression in this bracket.
    highest: usize,
    /// Brackets that the parser tries twice, among the open ones.
    doubled: u32,
    /// How often the parser will try a bracket, summed over all.
    tries: u64,
}

struct Around {
    height: usize,
    highest: usize,
    twice: bool,
}

impl Shape {
    /// Takes one token; returns which limit is exceeded, if one is.
    fn step(&mut self, previous: Option<&Token>, token: &Token, limits: &Limits) -> Option<String> {
        let text = text(token);
        let after_operand = previous.is_some_and(ends_operand);
        match text {
            "[" | "{" | "(" | "set(" => {
                let adjacent = previous.is_some_and(|previous| end(previous) == begin(token));
                let selects = after_operand && adjacent && text != "{";
                if after_operand && !selects {
                    self.separate();
                }
                // A rule's own body is parsed once; literals and comprehensions are tried as one, then as the other.
                let twice = matches!(text, "[" | "{") && !selects && !(text == "{" && self.open.is_empty());
                self.open.push(Around { height: self.height, highest: self.highest, twice });
                (self.height, self.highest) = (0, 0);
                self.doubled += u32::from(twice);
                self.tries = self.tries.saturating_add(1_u64.checked_shl(self.doubled).unwrap_or(u64::MAX));
            }
            "]" | "}" | ")" => {
                if let Some(around) = self.open.pop() {
                    let inner = self.height.max(self.highest) + 1;
                    self.height = around.height.max(inner);
                    self.highest = around.highest;
                    self.doubled -= u32::from(around.twice);
                }
            }
            "," | ";" | ":" | ":=" | "=" | "if" | "else" | "contains" => self.separate(),
            _ if is_operator(token) => self.height += 1,
            // Two operands side by side: a new statement.
            _ if after_operand => self.separate(),
            _ => {}
        }
        if self.open.len() > limits.nesting || self.tries > limits.bracket_tries {
            let levels = self.open.len();
            return Some(format!(
                "brackets are nested too deep to be parsed in reasonable time ({levels} levels here)"
            ));
        }
        (self.height > limits.height)
            .then(|| format!("an expression of more than {} operations in a row", limits.height))
    }

    /// Another expression begins.
    fn separate(&mut self) {
        self.highest = self.highest.max(self.height);
        self.height = 0;
    }
}

/// Returns the text of a token, empty for strings so that their contents are never taken for syntax.
pub(crate) fn text(token: &Token) -> &str {
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

pub(crate) fn begin(token: &Token) -> u32 {
    token.1.start - quotes(token)
}

pub(crate) fn end(token: &Token) -> u32 {
    token.1.end + quotes(token)
}

/// Returns whether the module uses a keyword that version 0 knows only after an import that it does not make. Parsing it
/// as version 0 would fail (and regorus would write that to stderr).
pub(crate) fn needs_v1(tokens: &[Token]) -> bool {
    let mut imported: Vec<&str> = Vec::new();
    let words: Vec<&str> = tokens.iter().map(text).collect();
    for (index, word) in words.iter().enumerate() {
        if *word == "import" {
            match words[index + 1..].iter().take(5).copied().collect::<Vec<_>>().as_slice() {
                ["future", ".", "keywords", ".", keyword] => imported.push(keyword),
                ["rego", ".", "v1", ..] | ["future", ".", "keywords", ..] => return false,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<String> {
        let file = File::new("a.rego".into(), crate::rego::file::Form::Rego, text.to_owned());
        let source = Source::from_contents("a.rego".to_owned(), text.to_owned()).unwrap();
        let limits = Limits::default();
        too_complex(&file, &read(&source, &limits), &limits).map(|problem| problem.message)
    }

    #[test]
    fn nesting_is_counted_outside_of_strings_and_comments() {
        let deep = format!("{}1{}", "[".repeat(24), "]".repeat(24));
        assert!(refused(&format!("package a\nx := {deep}")).is_some_and(|why| why.contains("nested too deep")));
        assert_eq!(refused(&format!("package a\nx := \"{deep}\" # {deep}\ny := `{deep}`")), None);
    }

    #[test]
    fn what_stands_side_by_side_costs_nothing() {
        let table = "{\"a\": [{\"b\": [1, 2, {\"c\": x[y[z[0]]]}]}]},\n".repeat(500);
        assert_eq!(refused(&format!("package a\nx := [{table}]")), None);
        let body = "\tx := input.a.b[_].c + f(g(h(1))) * 2\n\tnot x == y\n".repeat(500);
        assert_eq!(refused(&format!("package a\ndeny if {{\n{body}}}")), None);
    }

    #[test]
    fn long_expressions_are_trees_that_are_too_high() {
        let sum = "1 + ".repeat(300) + "1";
        let left = "(".repeat(20) + "1" + &" + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1)".repeat(20);
        for text in [sum, left, format!("x{}", ".a".repeat(300)), "- ".repeat(300) + "1"] {
            let why = refused(&format!("package a\ny := {text}"));
            assert!(why.is_some_and(|why| why.contains("in a row")), "{text}");
        }
    }

    #[test]
    fn keywords_without_import_are_of_version_1() {
        let needs = |text: &str| {
            let source = Source::from_contents("a".to_owned(), format!("package a\n{text}")).unwrap();
            needs_v1(&read(&source, &Limits::default()))
        };
        assert!(needs("deny if true"));
        assert!(needs("import data.x\ndeny[x] { some x in y }"));
        assert!(!needs("deny[x] { x := input.if.in }"));
        assert!(!needs("import future.keywords.in\ndeny[x] { some x in y }"));
        assert!(!needs("import future.keywords\ndeny if true"));
        assert!(!needs("import rego.v1\ndeny if true"));
        assert!(needs("import future.keywords.in\ndeny if true"));
    }
}
