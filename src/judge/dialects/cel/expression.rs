//! Compiles the expressions of policies that are Kubernetes objects, and reports problems at their positions in the file.

use std::sync::Arc;

use kaudit_cel::{CelProgram, CelType, CompileError, Environment};

use super::reads::UnknownPart;
use crate::{
    judge::policy_document::PolicyDocument,
    model::verdict::Source,
    rego::{FileText, Position, Problem, analysis::yaml::YamlNode},
};

/// The longest message of a `messageExpression`, in bytes, as in the API server.
const MESSAGE_BYTES: usize = 5 * 1024;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) text: Arc<str>,
    pub(crate) source: Source,
    pub(crate) program: CelProgram,
    /// What it needs and an audit does not know.
    pub(crate) unknown: Option<UnknownPart>,
}

/// Compiles the expression at a node of a document, whose value must be of one of these types, or of any if there are none;
/// `None` if it is refused, with the reasons added to `problems`.
pub(crate) fn compile(
    (document, node): (&PolicyDocument<'_>, &YamlNode),
    environment: &Environment,
    text: &str,
    types: &[CelType],
    problems: &mut Vec<Problem>,
) -> Option<Expression> {
    let mut refuse_as = |message: &str| {
        problems.push(document.problem(node, format!("{}: {message}", document.label())));
    };
    if text.trim().is_empty() {
        refuse_as("the expression is missing");
        return None;
    }
    let program = match environment.compile(text) {
        Ok(program) => program,
        Err(error) => {
            refuse((document, node), text, &error, problems);
            return None;
        }
    };
    if !types.is_empty() && !types.contains(program.output_type()) {
        let names: Vec<String> = types.iter().map(ToString::to_string).collect();
        let (names, found) = (names.join(" or "), program.output_type());
        refuse_as(&format!("the expression must evaluate to {names}, but it evaluates to {found}"));
        return None;
    }
    let file = document.file;
    let line = node.at.line + u32::from(is_block(&file.text, node.at));
    let source = Source { file: Arc::clone(&file.shown), line };
    Some(Expression { text: text.into(), source, program, unknown: None })
}

/// Reports the problems of an expression, at their positions if the file has it on lines of its own.
pub(crate) fn refuse(
    (document, node): (&PolicyDocument<'_>, &YamlNode),
    text: &str,
    error: &CompileError,
    problems: &mut Vec<Problem>,
) {
    for error in [error].into_iter().chain(&error.more) {
        let message = format!("{}: {}", document.label(), error.message.trim());
        let at = position(document, node, text, error);
        let mut problem = document.problem_at(at, message);
        if at == node.at && text.lines().count() > 1 && error.line > 0 {
            problem = problem.help(format!("at line {}, column {} of the expression", error.line, error.column));
        }
        problems.push(problem);
    }
}

/// Returns the message that a `messageExpression` evaluated to; `None` if it is empty, too long or of several lines, unless
/// it may have these, so that the API server does not use it.
pub(crate) fn usable_message(text: &str, may_have_lines: bool) -> Option<&str> {
    let text = text.trim();
    let is_short = !text.is_empty() && text.len() <= MESSAGE_BYTES;
    (is_short && (may_have_lines || !text.contains('\n'))).then_some(text)
}

/// Whether a scalar is a block, whose text begins on the line below.
fn is_block(text: &FileText, at: Position) -> bool {
    let column = at.column.saturating_sub(1) as usize;
    text.line(at.line).chars().nth(column).is_some_and(|first| matches!(first, '|' | '>'))
}

/// Returns the position in the file of a position in an expression: exact for plain and block scalars, whose lines are
/// lines of the file; the start of the scalar otherwise.
fn position(document: &PolicyDocument<'_>, node: &YamlNode, text: &str, error: &CompileError) -> Position {
    let Some(wanted) = error.line.checked_sub(1).and_then(|index| text.lines().nth(index)) else { return node.at };
    let first = node.at.line as usize;
    let lines = document.file.text.lines().enumerate().skip(first.saturating_sub(1)).take(text.lines().count() + 1);
    let mut found = lines.filter_map(|(index, line)| Some((index, line.find(wanted).filter(|_| !wanted.is_empty())?)));
    let Some((index, start)) = found.find(|(index, _)| index + 1 >= first + error.line - 1) else { return node.at };
    let before = document.file.text.lines().nth(index).map_or(0, |line| line[..start].chars().count());
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Position { line: number(index + 1), column: number(before + error.column) }
}
