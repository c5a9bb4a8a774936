//! Limits on the number of statements in bodies: the time to compile a body grows with its square, as each statement is
//! compared with those before it.

use super::{
    lexer::SyntaxError,
    tree::{Module, Position},
};

/// The most statements of one body.
const MOST_STATEMENTS: usize = 1_000;
/// Bodies with more statements count as long.
const LONG: usize = 100;
/// The most statements in all long bodies of modules that are compiled together.
const MOST_IN_LONG_BODIES: usize = 20_000;

/// Counts the statements of the long bodies of several modules.
#[derive(Debug, Default)]
pub struct LongBodies {
    statements: usize,
}

impl LongBodies {
    /// Adds the bodies of a module.
    ///
    /// # Errors
    /// Returns the first statement beyond a limit.
    pub fn add(&mut self, module: &mut Module) -> Result<(), SyntaxError> {
        let mut excess: Option<(Position, &str)> = None;
        let mut statements = self.statements;
        for rule in &mut module.rules {
            rule.each_body(&mut |body| {
                let Some(last) = body.last().filter(|_| body.len() > LONG) else { return };
                statements += body.len();
                let found = match body.get(MOST_STATEMENTS) {
                    Some(one) => (one.at, "a body may have at most 1000 statements, and this one exceeds the limit"),
                    None if statements > MOST_IN_LONG_BODIES => (
                        last.at,
                        "bodies with more than 100 statements have more than 20000 statements in all modules together",
                    ),
                    None => return,
                };
                excess = excess.or(Some(found));
            });
        }
        if let Some((at, why)) = excess {
            let help = "move parts of the body into rules or functions of their own";
            return Err(SyntaxError::refused(at, why, help));
        }
        self.statements = statements;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;

    /// Returns the line and reason of each refusal; each inner list has the numbers of statements in the bodies of one
    /// module.
    fn refused(modules: &[&[usize]]) -> Vec<String> {
        let mut long_bodies = LongBodies::default();
        let of = |bodies: &&[usize]| {
            let rule = |statements: &usize| format!("p if {{\n{}}}\n", "input.a\n".repeat(*statements));
            let text = format!("package p\n{}", bodies.iter().map(rule).collect::<String>());
            let mut module = syntax::read(&text, None).unwrap();
            let problem = long_bodies.add(&mut module).err()?;
            Some(format!("{}: {}", problem.at.line, problem.why))
        };
        modules.iter().filter_map(of).collect()
    }

    #[test]
    fn statements_per_body_are_limited() {
        assert_eq!(refused(&[&[1_000]]), [""; 0]);
        assert_eq!(
            refused(&[&[1_001]]),
            ["1003: a body may have at most 1000 statements, and this one exceeds the limit"]
        );
        assert_eq!(refused(&[&[100; 300], &[100; 300]]), [""; 0], "short bodies do not count");
        let all = "bodies with more than 100 statements have more than 20000 statements in all modules together";
        assert_eq!(refused(&[&[1_000; 20], &[100], &[101], &[100]]), [format!("103: {all}")]);
    }

    #[test]
    fn nested_bodies_count() {
        let inner = "input.a\n".repeat(1_001);
        for body in [
            format!("x := {{y | y := 1\n{inner}}}"),
            format!("every y in input {{\n{inner}}}"),
            format!("count([y | y := 1\n{inner}]) > 1"),
        ] {
            let mut module = syntax::read(&format!("package p\np if {{\n{body}\n}}\n"), None).unwrap();
            assert!(LongBodies::default().add(&mut module).is_err(), "{body}");
        }
    }
}
