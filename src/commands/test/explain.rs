//! Why a test failed: the first statement that did not hold, and the values of its parts.
//!
//! The evaluator does not report how it got to a result, so it evaluates more: a module of the same package with rules that
//! stop after the first statement, after the second, and so on, shows how far the body gets; then the parts of the statement
//! that fails are evaluated. These rules are made of pieces of the test's own source, so they mean what they mean in the
//! test.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    time::{Duration, Instant},
};

use regorus::{
    Engine, Value,
    unstable::{Expr, Literal, LiteralStmt, Module, Query, Ref, Rule, RuleHead, Source, Span, Token},
};

use super::{
    masking::SecretMask,
    operands::{inner, operand, variables},
    result::{Explanation, Named},
    show::{self, ModuleText},
};
use crate::{
    judge::tested::Tested,
    rego::{
        evaluator::guarded,
        file::{File, Form},
        limits::Limits,
        references::{self, Path, TEST_PREFIX},
        tokens, value,
    },
};

/// The generated rules. Nobody's rule is called that.
const PROBE: &str = "kaudit_probe";
/// How long the explanation of one test may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many parts of a statement are shown.
const PARTS: usize = 12;

/// What is not true, and to be explained.
pub(super) enum FailedPart<'s> {
    Rule,
    /// One case of a table: the keys behind its name, and their values.
    Case(&'s [TableKey<'s>], &'s [Value]),
}

/// One key behind the name of a table: `[tc.note]`, `.name`.
pub(super) enum TableKey<'a> {
    Index(&'a Expr),
    Field(&'a str),
}

/// Returns what stands behind the name of a table.
pub(super) fn table_keys(rule: &Rule) -> Vec<TableKey<'_>> {
    let mut at: &Expr = references::head(rule).0;
    let mut keys = Vec::new();
    loop {
        match at {
            Expr::RefDot { refr, field, .. } => {
                keys.push(TableKey::Field(field.0.text()));
                at = refr;
            }
            Expr::RefBrack { refr, index, .. } => {
                keys.push(TableKey::Index(index));
                at = refr;
            }
            _ => break,
        }
    }
    keys.reverse();
    // What leads to the test itself belongs to its name.
    let (names, _) = references::head_path(rule);
    let at = names.iter().position(|name| name.starts_with(TEST_PREFIX)).unwrap_or(0);
    keys.drain(..at.min(keys.len()));
    keys
}

/// Evaluates parts of one module.
pub(in crate::commands) struct Explainer<'a> {
    engine: &'a Engine,
    module: &'a Ref<Module>,
    file: &'a str,
    /// As the user wrote it.
    written: &'a str,
    /// As the evaluator has it; the lines are the same.
    text: String,
    tokens: Vec<Token>,
    package: Path,
    /// When it stops to ask.
    until: Instant,
    /// The strings that are not shown.
    mask: Option<&'a SecretMask>,
}

/// Statements that lead to a place, as source.
type Way = Vec<String>;

impl<'a> Explainer<'a> {
    pub(super) fn new(tested: &'a Tested, engine: &'a Engine, module: usize) -> Self {
        let (file, module) = (&tested.sources[module], &tested.modules[module]);
        Self::of(engine, module, (&file.shown, &file.text), PATIENCE)
    }

    /// Explains a module of an engine, whose file has this name and text, for so long.
    pub(in crate::commands) fn of(
        engine: &'a Engine,
        module: &'a Ref<Module>,
        (file, written): (&'a str, &'a str),
        patience: Duration,
    ) -> Self {
        let source: &Source = &module.package.refr.span().source;
        Self {
            engine,
            module,
            file,
            written,
            text: source.contents().clone(),
            tokens: tokens::read(source, &Limits::default()),
            package: references::package(module),
            until: Instant::now() + patience,
            mask: None,
        }
    }

    /// Hides the strings of a mask, if there is one.
    pub(in crate::commands) fn masked(self, mask: Option<&'a SecretMask>) -> Self {
        Self { mask, ..self }
    }

    /// Returns the keys of all cases that a table tries, whether they hold or not.
    ///
    /// As in OPA a case is tried once the statements are through that its name is made of.
    pub(super) fn tried(&self, rule: &Rule, arguments: &[TableKey<'_>]) -> Vec<Vec<Value>> {
        let Rule::Spec { bodies, .. } = rule else { return Vec::new() };
        let pieces = self.pieces();
        let mut tried = Vec::new();
        for body in bodies {
            let way = ways(&pieces, &body.query);
            let names = self.keys(arguments);
            let until = Self::bound(&pieces, &body.query, arguments);
            let question = format!("[{names} | {}]", joined(&way[..until], "true"));
            if let Some(Some(Value::Array(found))) = self.ask(&[question]).pop() {
                tried.extend(found.iter().filter_map(|keys| Some(value::array(keys)?.iter().cloned().collect())));
            }
        }
        tried
    }

    /// Finds what did not hold; `None` if nothing is found.
    pub(super) fn explain(&self, rule: &Rule, failed: &FailedPart<'_>) -> Option<Explanation> {
        let Rule::Spec { head, bodies, .. } = rule else { return None };
        let assigned = match head {
            RuleHead::Compr { assign, .. } | RuleHead::Func { assign, .. } => assign.as_ref(),
            RuleHead::Set { .. } => None,
        };
        if bodies.is_empty() {
            return Some(self.value(&[], &assigned?.value));
        }
        let pieces = self.pieces();
        let mut first = None;
        for body in bodies {
            let mut way = ways(&pieces, &body.query);
            if let FailedPart::Case(arguments, keys) = failed {
                let at = Self::bound(&pieces, &body.query, arguments);
                let keys: Vec<String> = keys.iter().map(show::literal).collect();
                let this = format!("{} == [{}]", self.keys(arguments), keys.join(", "));
                // One piece with the statement before it, so that both lists have one length.
                match at.checked_sub(1) {
                    Some(before) => way[before] = format!("{}\n{this}", way[before]),
                    None => way.iter_mut().take(1).for_each(|first| *first = format!("{this}\n{first}")),
                }
            }
            let found = self.query(&[], &body.query, &way);
            if found.is_some() {
                first = first.or(found);
                continue;
            }
            // The body holds, so its value is what is wrong.
            let value = &body.assign.as_ref().or(assigned)?.value;
            let (passed, value) =
                assignment(&body.query, value).map_or((&way[..], &**value), |(at, value)| (&way[..at], value));
            return Some(self.value(passed, value));
        }
        first
    }

    pub(in crate::commands) fn pieces(&self) -> ModuleText<'_> {
        ModuleText::new(&self.text, &self.tokens)
    }

    /// Writes the keys of a case as an array.
    fn keys(&self, arguments: &[TableKey<'_>]) -> String {
        let pieces = self.pieces();
        let keys = arguments.iter().map(|argument| match argument {
            TableKey::Index(expr) => pieces.expr(expr).to_owned(),
            TableKey::Field(name) => show::literal(&Value::from(*name)),
        });
        format!("[{}]", keys.collect::<Vec<_>>().join(", "))
    }

    /// Returns how many statements it takes until every variable in the keys is bound.
    fn bound(pieces: &ModuleText<'_>, query: &Query, arguments: &[TableKey<'_>]) -> usize {
        let mut names = BTreeSet::new();
        for argument in arguments {
            if let TableKey::Index(expr) = argument {
                variables(expr, &mut names);
            }
        }
        let first = |name: &String| query.stmts.iter().position(|statement| pieces.mentions(&statement.span, name));
        names.iter().filter_map(first).max().map_or(0, |last| last + 1)
    }

    /// Finds the first statement after which no solution is left.
    pub(in crate::commands) fn query(&self, before: &[String], query: &Query, way: &[String]) -> Option<Explanation> {
        let all: Way = before.iter().chain(way).cloned().collect();
        let questions: Vec<String> = (1..=way.len())
            .map(|count| format!("count([1 | {}])", joined(&all[..before.len() + count], "true")))
            .collect();
        let counts = self.ask(&questions);
        // What cannot be asked for by itself needs a statement behind it; it is passed over.
        let last = counts.iter().position(|count| *count == Some(Value::from(0_u64)))?;
        let statement = &query.stmts[last];
        let ways = match last.checked_sub(1).and_then(|before| counts[before].as_ref()) {
            Some(Value::Number(count)) => count.as_u64().unwrap_or(1),
            _ => 1,
        };
        let passed = &all[..before.len() + last];
        self.inside(passed, statement).or_else(|| Some(self.statement(passed, statement, ways)))
    }

    /// Finds the statement inside of an `every` that does not hold.
    fn inside(&self, passed: &[String], statement: &LiteralStmt) -> Option<Explanation> {
        let Literal::Every { key, value, domain, query, .. } = &statement.literal else { return None };
        let pieces = self.pieces();
        let way = ways(&pieces, query);
        let names: Vec<&str> = key.iter().chain([value]).map(Span::text).collect();
        let one = format!("some {} in {}", names.join(", "), pieces.expr(domain));
        let fails = format!("count([1 | {}]) == 0", joined(&way, "true"));
        let before: Way = passed.iter().cloned().chain([one, fails]).collect();
        let mut found = self.query(&before, query, &way)?;
        let of_every: Vec<String> = names.iter().filter(|name| **name != "_").map(|name| (*name).to_owned()).collect();
        self.name(&before, &of_every, "", &mut found.values);
        Some(found)
    }

    /// Explains one statement that does not hold; `ways` is in how many ways it was reached.
    fn statement(&self, passed: &[String], statement: &LiteralStmt, ways: u64) -> Explanation {
        let pieces = self.pieces();
        let with = match statement.with_mods.first() {
            Some(first) => format!(" {}", pieces.between(first.span.start, statement.span.end)),
            None => String::new(),
        };
        let mut parts = Vec::new();
        let mut whole = None;
        match &statement.literal {
            Literal::SomeVars { .. } => {}
            Literal::SomeIn { collection, .. } => operand(&pieces, collection, &mut parts),
            Literal::Every { domain, .. } => operand(&pieces, domain, &mut parts),
            Literal::Expr { expr, .. } => {
                whole = Some(pieces.expr(expr).to_owned());
                inner(&pieces, expr, &mut parts);
                if !matches!(**expr, Expr::AssignExpr { .. } | Expr::BoolExpr { .. } | Expr::Membership { .. }) {
                    operand(&pieces, expr, &mut parts);
                }
            }
            Literal::NotExpr { expr, .. } => operand(&pieces, expr, &mut parts),
        }
        let mut values = Vec::new();
        self.name(passed, &parts, &with, &mut values);
        // Fixtures that are given by name.
        let given: Vec<String> = statement
            .with_mods
            .iter()
            .filter(|with| matches!(*with.r#as, Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. }))
            .map(|with| pieces.expr(&with.r#as).to_owned())
            .collect();
        self.name(passed, &given, "", &mut values);
        let mut reason = match &statement.literal {
            Literal::NotExpr { .. } => "does not hold: what it denies is true",
            Literal::SomeIn { .. } => "finds nothing",
            Literal::Expr { expr, .. } if matches!(**expr, Expr::AssignExpr { .. }) => "is undefined",
            _ => match whole.and_then(|whole| self.ask_value(passed, &whole, &with)) {
                Some(_) => "is false",
                None => "is undefined",
            },
        }
        .to_owned();
        if ways > 1 {
            reason = format!("{reason} in all {ways} ways to get there; the first has");
        }
        self.explanation(passed, statement.span.line, pieces.span(&statement.span), reason, values)
    }

    /// Explains a value that is not true.
    fn value(&self, passed: &[String], expr: &Expr) -> Explanation {
        let pieces = self.pieces();
        let mut parts = Vec::new();
        // The whole of it is in the reason.
        inner(&pieces, expr, &mut parts);
        let mut values = Vec::new();
        self.name(passed, &parts, "", &mut values);
        let reason = match self.ask_value(passed, pieces.expr(expr), "") {
            Some(value) => format!("is {}", show::value(&value, self.mask)),
            None => "is undefined".to_owned(),
        };
        self.explanation(passed, expr.span().line, pieces.expr(expr), reason, values)
    }

    /// Shows the lines as the user wrote them; what the evaluator was given may differ.
    fn explanation(
        &self,
        passed: &[String],
        line: u32,
        given: &str,
        reason: String,
        values: Vec<Named>,
    ) -> Explanation {
        let (written, values) = self.as_written(passed, line, given, values);
        Explanation { file: self.file.to_owned(), line, reason, code: show::code(&written), values }
    }

    /// Returns the lines of a statement as the user wrote them, and the values by the names in them.
    pub(in crate::commands) fn as_written(
        &self,
        passed: &[String],
        line: u32,
        given: &str,
        mut values: Vec<Named>,
    ) -> (String, Vec<Named>) {
        let (first, count) = (line.saturating_sub(1) as usize, given.lines().count().max(1));
        let written = self.written.lines().skip(first).take(count).collect::<Vec<_>>().join(" ");
        values.retain_mut(|named| match show::as_written(&named.name, &written, passed) {
            Some(name) => {
                named.name = name;
                true
            }
            None => false,
        });
        (written, values)
    }

    /// Adds the values of some parts.
    pub(in crate::commands) fn name(&self, passed: &[String], parts: &[String], with: &str, values: &mut Vec<Named>) {
        let mut names: Vec<&String> = Vec::new();
        for part in parts {
            if !names.contains(&part) && names.len() < PARTS {
                names.push(part);
            }
        }
        let questions: Vec<String> = names.iter().map(|name| question(passed, name, with)).collect();
        for (name, answer) in names.iter().zip(self.ask(&questions)) {
            let Some(Value::Array(answer)) = answer else { continue };
            let value = answer.first();
            let value = value.map_or_else(|| "undefined".to_owned(), |value| show::value(value, self.mask));
            if !values.iter().any(|known| known.name == **name) {
                values.push(Named { name: (*name).clone(), value });
            }
        }
    }

    pub(in crate::commands) fn ask_value(&self, passed: &[String], expr: &str, with: &str) -> Option<Value> {
        let answer = self.ask(&[question(passed, expr, with)]).pop()??;
        value::array(&answer)?.first().cloned()
    }

    /// Asks for the values of expressions in the test's package; `None` for what cannot be asked or is undefined.
    pub(in crate::commands) fn ask(&self, questions: &[String]) -> Vec<Option<Value>> {
        if questions.is_empty() || Instant::now() > self.until {
            return vec![None; questions.len()];
        }
        match self.prepare(questions) {
            Some((mut engine, probes)) => {
                let rules: Vec<Ref<Rule>> = probes.policy.iter().rev().take(questions.len()).rev().cloned().collect();
                let ask = |(index, rule): (usize, &Ref<Rule>)| {
                    let ask = || {
                        let data = engine.eval_rule_in_module(&probes, rule, false)?;
                        let package = self.package.iter().fold(data, |value, key| value[key.as_str()].clone());
                        Ok(package[format!("{PROBE}_{index}").as_str()].clone())
                    };
                    guarded(ask).ok().filter(|value| *value != Value::Undefined)
                };
                rules.iter().enumerate().map(ask).collect()
            }
            // A question that does not compile makes the others fail, too.
            None if questions.len() > 1 => {
                questions.iter().map(|question| self.ask(std::slice::from_ref(question)).pop().flatten()).collect()
            }
            None => vec![None],
        }
    }

    fn prepare(&self, questions: &[String]) -> Option<(Engine, Ref<Module>)> {
        let first = self.module.policy.iter().map(|rule| rule.span()).min_by_key(|span| span.start)?;
        let mut text = self.pieces().before(first).to_owned();
        for (index, question) in questions.iter().enumerate() {
            let _ = write!(text, "\n{PROBE}_{index} := {question}\n");
        }
        let source = Source::from_contents(PROBE.to_owned(), text.clone()).ok()?;
        let limits = Limits::default();
        let tokens = tokens::read(&source, &limits);
        let file = File::new(PROBE.into(), Form::Rego, String::new());
        if tokens::too_complex(&file, &tokens, &limits).is_some() {
            return None;
        }
        let mut engine = self.engine.clone();
        engine.set_rego_v0(!self.module.rego_v1);
        guarded(|| engine.add_policy(PROBE.to_owned(), text).map(Value::from)).ok()?;
        let probes = engine.get_modules().last()?.clone();
        let rule = probes.policy.last()?.clone();
        // Only evaluation shows whether it compiles together; an undefined value is no error.
        match guarded(|| engine.eval_rule_in_module(&probes, &rule, false).map(|_| Value::Null)) {
            Ok(_) => Some((engine, probes)),
            Err(_) => None,
        }
    }
}

fn question(passed: &[String], expr: &str, with: &str) -> String {
    format!("[{PROBE} | {}]", joined(passed, &format!("{PROBE} := {expr}{with}")))
}

/// Writes statements one below the other, with another one behind them.
pub(in crate::commands) fn joined(way: &[String], last: &str) -> String {
    way.iter().map(String::as_str).chain([last]).collect::<Vec<_>>().join("\n")
}

/// Returns the statements of a body as source.
pub(in crate::commands) fn ways(pieces: &ModuleText<'_>, query: &Query) -> Way {
    query.stmts.iter().map(|statement| pieces.span(&statement.span).to_owned()).collect()
}

/// Returns the last statement that assigns what an expression names, and what it assigns.
fn assignment<'e>(query: &'e Query, expr: &Expr) -> Option<(usize, &'e Expr)> {
    let Expr::Var { span: name, .. } = expr else { return None };
    query.stmts.iter().enumerate().rev().find_map(|(index, statement)| match &statement.literal {
        Literal::Expr { expr, .. } => match &**expr {
            Expr::AssignExpr { lhs, rhs, .. } if matches!(&**lhs, Expr::Var { span, .. } if span.text() == name.text()) => {
                Some((index, &**rhs))
            }
            _ => None,
        },
        _ => None,
    })
}
