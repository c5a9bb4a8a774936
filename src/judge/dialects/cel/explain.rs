//! Explains the results of a bound policy for one object: the value of each validation, and those of the variables and
//! fields in it.

use std::{sync::Arc, time::Instant};

use kaudit_cel::{
    Bindings, Budget, CelReads, CelValue, Root,
    reads::{CelReadPath, ReadStep},
};
use serde_json::Value as Json;

use super::{
    binding::BoundPolicy,
    evaluation::{Evaluation, MatchConditions, NotEvaluated, Validity},
    expression::Expression,
    request::Subject,
};
use crate::{judge::reads::Segment, model::verdict::Source};

/// How a policy comes to its results for an object.
pub(crate) enum PolicyExplanation {
    /// It is not evaluated, for this reason.
    NotEvaluated(String),
    /// The validations; once for each parameter.
    Evaluated(Vec<ExplainedExpression>),
}

/// The evaluation of one expression.
pub(crate) struct ExplainedExpression {
    pub(crate) source: Source,
    pub(crate) text: Arc<str>,
    /// Why it does not hold; `None` if it does.
    pub(crate) failed: Option<String>,
    /// Names and values, as CEL, of the variables and fields that it names.
    pub(crate) values: Vec<(String, String)>,
    /// The only field of the object that it reads; `None` if it reads several.
    pub(crate) field: Option<Vec<Segment>>,
}

/// Explains a policy for an object.
pub(crate) fn explain(
    bound: &BoundPolicy,
    subject: &Subject<'_>,
    request: &Json,
    deadline: Instant,
) -> PolicyExplanation {
    let params = match bound.params(subject) {
        Ok(params) => params,
        Err(NotEvaluated::NotApplicable(why) | NotEvaluated::Error(why) | NotEvaluated::Undecided(why)) => {
            return PolicyExplanation::NotEvaluated(why);
        }
    };
    let (mut explained, mut reasons) = (Vec::new(), Vec::new());
    let own_request = bound.own_request(subject, request);
    let request = own_request.as_ref().unwrap_or(request);
    let exempted = bound.exempted(&bound.evaluation(subject, request, None, deadline));
    for param in &params {
        let evaluation = bound.evaluation(subject, request, param.as_ref(), deadline);
        match (Evaluation { exceptions: exempted.allowed(), ..evaluation }).explain() {
            Ok(own) => explained.extend(own),
            Err(why) => reasons.push(why),
        }
    }
    match reasons.into_iter().next() {
        Some(why) if explained.is_empty() => PolicyExplanation::NotEvaluated(why),
        _ => PolicyExplanation::Evaluated(explained),
    }
}

impl<'e> Evaluation<'e> {
    /// Explains the validations.
    ///
    /// # Errors
    /// Returns why they are not evaluated: a match condition.
    pub(crate) fn explain(&self) -> Result<Vec<ExplainedExpression>, String> {
        match self.conditions() {
            MatchConditions::DoNot(name) => Err(format!("its match condition {name} is false")),
            MatchConditions::Failed(why) => Err(why),
            MatchConditions::Interrupted(error) => Err(error.to_string()),
            MatchConditions::Hold | MatchConditions::Unknown(..) => Ok(self.explain_validations()),
        }
    }

    fn explain_validations(&self) -> Vec<ExplainedExpression> {
        let mut budget = Budget::new(self.policy.budget).until(self.deadline);
        let validities = match self.validations(&mut budget) {
            Ok(validities) => validities,
            Err(error) => self.policy.validations.iter().map(|_| Validity::Failed(error.to_string())).collect(),
        };
        let bindings = self.bindings(true);
        let explain = |(validity, expression): (Validity, &'e Expression)| ExplainedExpression {
            source: expression.source.clone(),
            text: Arc::clone(&expression.text),
            failed: match validity {
                Validity::Holds => None,
                Validity::Violated => Some("is false".to_owned()),
                Validity::Unknown(part) => Some(format!("cannot be evaluated: it {part}")),
                Validity::Failed(why) => Some(format!("fails: {why}")),
            },
            values: self.values(expression, &bindings),
            field: field(expression.program.reads()),
        };
        validities.into_iter().zip(self.policy.validations.iter().map(|one| &one.expression)).map(explain).collect()
    }

    /// Returns the values of the variables that an expression uses, and of the fields that these or the expression name.
    fn values(&self, expression: &'e Expression, bindings: &Bindings<'e>) -> Vec<(String, String)> {
        let mut texts = vec![&*expression.text];
        let mut values = Vec::new();
        // A variable uses only variables before it.
        for variable in self.policy.variables.iter().rev() {
            let name = format!("variables.{}", variable.name);
            if texts.iter().any(|text| mentions(text, &name)) {
                texts.push(&variable.expression.text);
                let value = variable.expression.program.evaluate(bindings, &mut Budget::default().until(self.deadline));
                values.push((name, value.map_or_else(|error| format!("error: {error}"), |value| value.to_string())));
            }
        }
        values.reverse();
        let shown = |path: &CelReadPath| self.has_value(path.root);
        named_values(&texts, expression.program.reads(), shown, &mut values, |path| {
            self.value(path).map(CelValue::from)
        });
        values
    }

    /// Whether a variable has a value to show.
    fn has_value(&self, root: Root) -> bool {
        match root {
            Root::Variables => false,
            root if root.has_functions_only() => false,
            Root::Exceptions => self.exceptions.is_some(),
            _ => true,
        }
    }

    fn value(&self, path: &CelReadPath) -> Option<&Json> {
        let root = match path.root {
            Root::Object => Some(self.object),
            Root::Params => self.params,
            Root::NamespaceObject => self.namespace,
            Root::Request => Some(self.request),
            Root::Exceptions => self.exceptions,
            _ => None,
        };
        path.steps.iter().try_fold(root?, |value, step| match step {
            ReadStep::Field(name) => value.get(&**name),
            ReadStep::Any => None,
        })
    }
}

/// Adds the values of the fields that texts name and an expression reads, as far as they are shown, except for those with a
/// part that is also named; `value` finds them.
pub(crate) fn named_values<'v>(
    texts: &[&str],
    reads: &CelReads,
    is_shown: impl Fn(&CelReadPath) -> bool,
    values: &mut Vec<(String, String)>,
    value: impl Fn(&CelReadPath) -> Option<CelValue<'v>>,
) {
    let paths = || reads.whole.iter().chain(&reads.seen).filter(|path| is_shown(path));
    let named = paths().filter_map(|path| Some((path, name(path)?)));
    let named: Vec<_> = named.filter(|(_, name)| texts.iter().any(|text| mentions(text, name))).collect();
    for (path, name) in &named {
        let is_part = |(other, _): &(&CelReadPath, String)| {
            other.root == path.root && other.steps.len() > path.steps.len() && other.steps.starts_with(&path.steps)
        };
        if named.iter().any(is_part) || values.iter().any(|(known, _)| known == name) {
            continue;
        }
        values.push((name.clone(), value(path).map_or_else(|| "missing".to_owned(), |value| value.to_string())));
    }
}

/// Returns a path as expressions write it; `None` if it leads to more than one value.
fn name(path: &CelReadPath) -> Option<String> {
    path.steps.iter().try_fold(path.root.name().to_owned(), |text, step| match step {
        ReadStep::Field(name) => Some(format!("{text}.{name}")),
        ReadStep::Any => None,
    })
}

/// Whether a text has a name that no longer name begins with.
fn mentions(text: &str, name: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    text.match_indices(name).any(|(at, _)| is_end(&text[at + name.len()..]))
}

/// Returns the only field of the object that is read.
fn field(reads: &CelReads) -> Option<Vec<Segment>> {
    let paths: Vec<&CelReadPath> =
        reads.whole.iter().chain(&reads.seen).filter(|path| path.root == Root::Object).collect();
    let longest = paths.iter().max_by_key(|path| path.steps.len())?;
    let is_only =
        paths.iter().all(|path| longest.steps.starts_with(&path.steps)) && !longest.steps.contains(&ReadStep::Any);
    let segments = longest.steps.iter().filter_map(|step| match step {
        ReadStep::Field(name) => Some(Segment::Field(Arc::clone(name))),
        ReadStep::Any => None,
    });
    is_only.then(|| segments.collect())
}
