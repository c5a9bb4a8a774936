//! Evaluates the rules of a CRD on one object, as the API server evaluates them when the object is created.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use kaudit_cel::{Bindings, Budget, CelValue, EvalError, PER_POLICY, schema::SchemaMismatch};
use serde_json::{Map, Value as Json};

use super::{
    field_path::{FieldPath, FieldStep},
    load::{CustomKind, ServedVersion},
    message::{self, quoted},
    rules::{RuleNode, ValidationRule},
};
use crate::{
    judge::{dialects::cel::expression::usable_message, rule::Rule},
    model::verdict::{Finding, Outcome},
};

/// The results of the rules of a CRD for one object.
#[derive(Debug, Default)]
pub(crate) struct CrdResults<'k> {
    pub(crate) findings: Vec<Finding>,
    /// Errors that may not recur for the same object.
    pub(crate) undecided: Vec<Finding>,
    pub(crate) passed: Vec<&'k Rule>,
    /// Whether an evaluation ran out of time.
    pub(crate) unfinished: bool,
}

/// Why an evaluation ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EarlyEnd {
    /// A limit of the API server is exceeded.
    OutOfBudget,
    OutOfTime,
}

impl CustomKind {
    /// Evaluates the rules of the version in which an object was read until a deadline. Defaults of the schema are filled in.
    ///
    /// # Errors
    /// Returns why no rule can be evaluated: the CRD does not serve the version.
    pub(crate) fn evaluate(
        &self,
        version: &str,
        object: &mut Json,
        deadline: Instant,
    ) -> Result<CrdResults<'_>, String> {
        let version = self.read(version, object)?;
        let Some(root) = &version.root else { return Ok(CrdResults::default()) };
        let mut evaluation = CrdEvaluation::new(deadline);
        let ended = evaluation.node(root, &FieldPath::default(), object).err();
        let CrdEvaluation { mut results, not_passed, .. } = evaluation;
        if ended.is_none() {
            root.each_rule(&mut |_, rule| {
                if !not_passed.contains(&rule.rule.number.index()) {
                    results.passed.push(&rule.rule);
                }
            });
        }
        Ok(results)
    }

    /// Returns the version of an object, whose defaults are filled in.
    ///
    /// # Errors
    /// Returns why no rule can be evaluated.
    pub(super) fn read(&self, version: &str, object: &mut Json) -> Result<&ServedVersion, String> {
        let Some(served) = self.versions.get(version) else {
            let served: Vec<&str> = self.versions.keys().map(String::as_str).collect();
            let (name, served) = (&self.name, served.join(", "));
            return Err(format!("the CRD {name} does not serve the version {version}, but {served}"));
        };
        served.defaults.iter().for_each(|defaults| defaults.apply(object));
        Ok(served)
    }
}

/// The evaluation of the rules of a CRD on one object.
struct CrdEvaluation<'k> {
    budget: Budget,
    results: CrdResults<'k>,
    /// The rules with results, by number.
    not_passed: BTreeSet<usize>,
}

/// The value of a rule.
pub(super) enum RuleValue {
    Holds,
    Violated,
    /// It cannot be evaluated, for this reason, in the words of the API server.
    Failed(String),
    /// It ends the evaluation of all rules.
    Ended(EvalError),
}

impl<'k> CrdEvaluation<'k> {
    fn new(deadline: Instant) -> Self {
        let budget = Budget::new(PER_POLICY).until(deadline);
        Self { budget, results: CrdResults::default(), not_passed: BTreeSet::new() }
    }

    /// Evaluates the rules for a value and its parts, in the order of the API server.
    ///
    /// # Errors
    /// Returns why no other rule is evaluated.
    fn node(&mut self, node: &'k RuleNode, path: &FieldPath, value: &Json) -> Result<(), EarlyEnd> {
        // Rules are about values that exist.
        if value.is_null() {
            return Ok(());
        }
        for rule in &node.rules {
            if self.budget.spent() >= PER_POLICY {
                return self.end(node, rule, path, &EvalError::OutOfBudget);
            }
            self.rule(node, rule, path, value)?;
        }
        for part in &node.all_of {
            self.node(part, path, value)?;
        }
        each_part(node, path, value, &mut |part, path, value| self.node(part, path, value))
    }

    fn rule(
        &mut self,
        node: &'k RuleNode,
        rule: &'k ValidationRule,
        path: &FieldPath,
        value: &Json,
    ) -> Result<(), EarlyEnd> {
        match evaluate(node, rule, value, &mut self.budget) {
            RuleValue::Holds => Ok(()),
            RuleValue::Violated => {
                let mut field = path.clone();
                field.steps.extend(rule.field_path.iter().flat_map(|path| path.steps.iter().cloned()));
                match self.detail(rule, value) {
                    Ok(detail) => {
                        let message = rule.reason.message(value, &detail);
                        let text = shown_at(rule, path, &message);
                        let finding = self.finding(rule, Outcome::Fail, &text, details(rule, &field));
                        self.results.findings.push(finding);
                        Ok(())
                    }
                    Err(error) => self.end(node, rule, path, &error),
                }
            }
            RuleValue::Failed(why) => {
                let message = message::invalid_type(&node.type_name, &why);
                let finding = self.finding(rule, Outcome::Error, &at(path, &message), details(rule, path));
                self.results.findings.push(finding);
                Ok(())
            }
            RuleValue::Ended(error) => self.end(node, rule, path, &error),
        }
    }

    /// Returns the text about a violation: that of `messageExpression` if the API server can use it, or else `message`, or
    /// else the rule.
    ///
    /// # Errors
    /// Returns the limit that was exceeded.
    fn detail(&mut self, rule: &ValidationRule, value: &Json) -> Result<String, EvalError> {
        if let Some(expression) = &rule.message_expression {
            // As in the API server, oldSelf has no value in messages.
            let bindings = Bindings::new(&rule.environment).with_self(value);
            match expression.program.evaluate(&bindings, &mut self.budget) {
                Ok(CelValue::String(text)) => {
                    if let Some(text) = usable_message(&text, false) {
                        return Ok(text.to_owned());
                    }
                }
                Ok(_) | Err(EvalError::Failed(_)) => {}
                Err(EvalError::OutOfBudget) => {
                    let why = "messageExpression evaluation failed due to running out of cost budget, no further \
                               validation rules will be run";
                    return Err(EvalError::Failed(why.into()));
                }
                Err(EvalError::CostLimit) => {
                    let text = quoted(&expression.text);
                    let why = format!(
                        "no further validation rules will be run due to call cost exceeds limit for messageExpression: {text}"
                    );
                    return Err(EvalError::Failed(why.into()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(rule
            .message
            .as_deref()
            .map_or_else(|| format!("failed rule: {}", rule.shown()), |text| text.trim().to_owned()))
    }

    /// Records the limit that ends the evaluation at a rule.
    fn end(
        &mut self,
        node: &RuleNode,
        rule: &'k ValidationRule,
        path: &FieldPath,
        error: &EvalError,
    ) -> Result<(), EarlyEnd> {
        let why = match error {
            EvalError::CostLimit => format!(
                "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                rule.shown()
            ),
            error => error.to_string(),
        };
        let message = at(path, &message::invalid_type(&node.type_name, &why));
        let finding = self.finding(rule, Outcome::Error, &message, details(rule, path));
        if *error == EvalError::Deadline {
            self.results.unfinished = true;
            self.results.undecided.push(finding);
            return Err(EarlyEnd::OutOfTime);
        }
        self.results.findings.push(finding);
        Err(EarlyEnd::OutOfBudget)
    }

    fn finding(
        &mut self,
        rule: &'k ValidationRule,
        outcome: Outcome,
        message: &str,
        details: Map<String, Json>,
    ) -> Finding {
        self.not_passed.insert(rule.rule.number.index());
        let severity = rule.rule.metadata.severity.filter(|_| outcome == Outcome::Fail);
        Finding {
            rule: Arc::clone(&rule.descriptor),
            outcome,
            severity,
            message: message.into(),
            details: Some(Arc::new(details)),
            excused: None,
        }
    }
}

/// Calls a function for each part of a value with rules.
///
/// # Errors
/// Returns the first error of the function.
pub(super) fn each_part<'k, E>(
    node: &'k RuleNode,
    path: &FieldPath,
    value: &Json,
    visit: &mut impl FnMut(&'k RuleNode, &FieldPath, &Json) -> Result<(), E>,
) -> Result<(), E> {
    match value {
        Json::Array(elements) => {
            let Some(part) = &node.items else { return Ok(()) };
            for (index, element) in elements.iter().enumerate() {
                visit(part, &path.with(FieldStep::Index(index)), element)?;
            }
        }
        Json::Object(fields) => {
            for (name, value) in fields {
                if let Some(part) = &node.values {
                    visit(part, &path.with(FieldStep::Key(name.clone())), value)?;
                }
                if let Some(part) = node.properties.get(name) {
                    visit(part, &path.with(FieldStep::Property(name.clone())), value)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Evaluates a rule for a value.
pub(super) fn evaluate(node: &RuleNode, rule: &ValidationRule, value: &Json, budget: &mut Budget) -> RuleValue {
    let program = &rule.expression.program;
    if let Err(SchemaMismatch { place, expected, found }) = node.schema.check(value, program.reads()) {
        let place = if place.is_empty() { "the value".to_owned() } else { format!("self{place}") };
        return RuleValue::Failed(format!(
            "the object does not fit the schema: {place} must be of type {expected}, but is {found}; evaluating rule: {}",
            rule.shown()
        ));
    }
    let bindings = Bindings::new(&rule.environment).with_self(value).without_old();
    match program.evaluate(&bindings, budget) {
        Ok(CelValue::Bool(true)) => RuleValue::Holds,
        Ok(_) => RuleValue::Violated,
        Err(EvalError::Failed(why)) if why.starts_with("no such overload") => RuleValue::Failed(format!(
            "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {}",
            rule.shown()
        )),
        Err(EvalError::Failed(why)) => RuleValue::Failed(format!("{why} evaluating rule: {}", rule.shown())),
        Err(error) => RuleValue::Ended(error),
    }
}

/// Returns further output of a result: the field, and the reason.
fn details(rule: &ValidationRule, field: &FieldPath) -> Map<String, Json> {
    let field = field.shown();
    let field = (!field.is_empty()).then(|| ("field".to_owned(), field.into()));
    field.into_iter().chain([("reason".to_owned(), rule.reason.name().into())]).collect()
}

/// Returns a message behind the path of its field, as `kubectl` shows both; that about the whole object has no path.
fn at(path: &FieldPath, message: &str) -> String {
    if path.steps.is_empty() { message.to_owned() } else { format!("{path}: {message}") }
}

/// Returns a message behind the path of the field that a rule names.
fn shown_at(rule: &ValidationRule, path: &FieldPath, message: &str) -> String {
    match &rule.field_path {
        Some(field) if path.steps.is_empty() => format!("{field}: {message}"),
        Some(field) => format!("{path}.{field}: {message}"),
        None => at(path, message),
    }
}
