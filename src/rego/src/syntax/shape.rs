//! Limits on the depth and length of expressions. Syntax trees are traversed recursively, so a file of a few bytes
//! could otherwise overflow the stack and end the process.

use super::lexer::{RegoToken, SyntaxError, TemplateSegment, TokenKind};

/// The deepest nesting of brackets.
const NESTING: usize = 32;
/// The highest tree of operators, selectors and brackets in one expression.
const HEIGHT: usize = 250;

/// Checks the tokens of a module.
///
/// # Errors
/// Returns the position at which an expression is too deep or too long.
pub(super) fn check(tokens: &[RegoToken]) -> Result<(), SyntaxError> {
    Shape::default().tokens(tokens)
}

/// The depth and length of expressions at one token.
#[derive(Default)]
struct Shape {
    /// The state around each open bracket.
    open: Vec<Around>,
    /// The height of the expression's tree so far: operators and selectors in a row add up.
    height: usize,
    /// The height of the highest expression in this bracket.
    highest: usize,
}

struct Around {
    height: usize,
    highest: usize,
}

impl Shape {
    fn tokens(&mut self, tokens: &[RegoToken]) -> Result<(), SyntaxError> {
        let mut after_operand = false;
        for token in tokens {
            self.token(token, after_operand)?;
            after_operand = ends_operand(token);
        }
        Ok(())
    }

    /// Processes one token; `after_operand` if the previous token ends an operand.
    fn token(&mut self, token: &RegoToken, after_operand: bool) -> Result<(), SyntaxError> {
        let symbol = if matches!(token.kind, TokenKind::Symbol | TokenKind::Name) { &*token.text } else { "" };
        match symbol {
            "[" | "{" | "(" => {
                let selects = after_operand && token.adjacent && symbol != "{";
                if after_operand && !selects {
                    self.separate();
                }
                self.open();
            }
            "]" | "}" | ")" => self.close(),
            "," | ";" | ":" | ":=" | "=" | "if" | "else" | "contains" => self.separate(),
            _ if is_operator(token) => self.height += 1,
            // Two adjacent operands: a new statement.
            _ if after_operand => self.separate(),
            _ => {}
        }
        if let TokenKind::Template(parts) = &token.kind {
            for part in parts {
                if let TemplateSegment::Tokens(tokens) = part {
                    self.open();
                    self.tokens(tokens)?;
                    self.close();
                }
            }
        }
        let why = if self.open.len() > NESTING {
            format!("brackets are nested too deeply: {} levels, but at most {NESTING} are allowed", self.open.len())
        } else if self.height > HEIGHT {
            format!("an expression has more than {HEIGHT} operations in a row")
        } else {
            return Ok(());
        };
        Err(SyntaxError::refused(token.at, why, "move the inner part into a rule or a function of its own"))
    }

    fn open(&mut self) {
        self.open.push(Around { height: self.height, highest: self.highest });
        (self.height, self.highest) = (0, 0);
    }

    fn close(&mut self) {
        if let Some(around) = self.open.pop() {
            let inner = self.height.max(self.highest) + 1;
            self.height = around.height.max(inner);
            self.highest = around.highest;
        }
    }

    /// Starts another expression.
    fn separate(&mut self) {
        self.highest = self.highest.max(self.height);
        self.height = 0;
    }
}

fn is_operator(token: &RegoToken) -> bool {
    match token.kind {
        TokenKind::Symbol => !matches!(&*token.text, "{" | "}" | "[" | "]" | "(" | ")"),
        TokenKind::Name => matches!(&*token.text, "in" | "with" | "not" | "and" | "or"),
        _ => false,
    }
}

/// Whether an operand can end with this token, so that an adjacent bracket selects or calls.
fn ends_operand(token: &RegoToken) -> bool {
    match token.kind {
        TokenKind::Text | TokenKind::Number | TokenKind::Template(_) => true,
        TokenKind::Name => !is_operator(token),
        TokenKind::Symbol => matches!(&*token.text, "]" | "}" | ")"),
        TokenKind::End => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::lexer::tokens, check};

    fn refused(text: &str) -> Option<String> {
        check(&tokens(text).unwrap()).err().map(|error| error.why)
    }

    #[test]
    fn nesting_is_counted_outside_of_strings_and_comments() {
        let deep = format!("{}1{}", "[".repeat(33), "]".repeat(33));
        assert!(refused(&format!("package a\nx := {deep}")).is_some_and(|why| why.contains("nested too deep")));
        assert_eq!(refused(&format!("package a\nx := \"{deep}\" # {deep}\ny := `{deep}`")), None);
        let template = format!("package a\nx := $\"{{{}1{}}}\"", "[".repeat(32), "]".repeat(32));
        assert!(refused(&template).is_some_and(|why| why.contains("nested too deep")));
    }

    #[test]
    fn sibling_expressions_do_not_add_height() {
        let table = "{\"a\": [{\"b\": [1, 2, {\"c\": x[y[z[0]]]}]}]},\n".repeat(500);
        assert_eq!(refused(&format!("package a\nx := [{table}]")), None);
        let body = "\tx := input.a.b[_].c + f(g(h(1))) * 2\n\tnot x == y\n".repeat(500);
        assert_eq!(refused(&format!("package a\ndeny if {{\n{body}}}")), None);
    }

    #[test]
    fn long_expressions_are_refused_as_too_high() {
        let sum = "1 + ".repeat(300) + "1";
        let left = "(".repeat(20) + "1" + &" + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1)".repeat(20);
        for text in [sum, left, format!("x{}", ".a".repeat(300)), "- ".repeat(300) + "1"] {
            let why = refused(&format!("package a\ny := {text}"));
            assert!(why.is_some_and(|why| why.contains("in a row")), "{text}");
        }
    }
}
