//! Judging: a pure function of an object and the policies.
//!
//! Of the object's JSON what the policies can read becomes a value, once; every unit is asked for all its results in one question. Only if that question
//! fails is each rule asked by itself, so that one broken rule costs the others nothing. Whatever a policy does, it ends as
//! a finding.

mod gatekeeper;
mod input;
mod results;

use std::{sync::Arc, time::Instant};

use regorus::Value;

use self::{
    input::{Documents, Moment, Parts, Review},
    results::Results,
};
use crate::{
    judge::{
        dialect::Dialect,
        gatekeeper::column,
        metadata::Metadata,
        set::PolicySet,
        unit::{Entry, Group, Unit},
    },
    model::{
        object::Object,
        verdict::{Finding, Outcome, Source, Verdict},
    },
    rego::{
        evaluator::{Failure, LARGEST_VALUE},
        limits::Limits,
        value,
    },
};

/// What is judged.
#[derive(Debug, Clone)]
pub struct Job {
    /// The object as it is now.
    pub object: Object,
    /// The object as it was before the change that is the reason to judge, for policies that look at transitions.
    pub previous: Option<Object>,
    /// Whether the change was its deletion; `object` is its last state then.
    pub deleted: bool,
    /// The Namespace that the object is in, where a policy asks for it and it is known.
    pub namespace: Option<Object>,
    /// The policies to judge by.
    pub policies: Arc<PolicySet>,
}

/// Judges one object.
///
/// Standing results are what the policies say of the object as it is: in the admission dialect at its creation, in that
/// of Gatekeeper at its audit. Where the job tells of a change, policies that look at changes are asked once more, and
/// what they have to add are the verdict's transitions. A deleted object has no others.
pub fn evaluate(job: &Job) -> Verdict {
    evaluate_parts(job, Parts::Read)
}

/// Judges one object by all of it, not only by what the policies can read.
#[cfg(test)]
pub(crate) fn evaluate_whole(job: &Job) -> Verdict {
    evaluate_parts(job, Parts::All)
}

fn evaluate_parts(job: &Job, parts: Parts) -> Verdict {
    let began = Instant::now();
    let set = &*job.policies;
    let constraints = set.constraints.candidates(&set.units, &job.object.key.kind);
    let mut standing = Results::default();
    let mut transitions = Results::default();
    // An object that nobody is asked about is not even read.
    if !constraints.is_empty() || set.units.iter().any(Unit::asks_everything) {
        match Documents::read(job, parts) {
            Err(why) => standing.push(unreadable(&why)),
            Ok(documents) => {
                let ask = |moment, whom, results: &mut Results| {
                    Judge { limits: &set.limits, began, whom, results }.all(job, &constraints, &documents, moment);
                };
                // Of a deleted object nothing stands; it is only asked for what is no news at its end.
                ask(Moment::Standing, if job.deleted { Whom::LookAtChanges } else { Whom::All }, &mut standing);
                if let Some(change) = Documents::change(job) {
                    ask(change, Whom::LookAtChanges, &mut transitions);
                }
            }
        }
    }
    let (mut results, mut passed) = standing.finish();
    let (mut transitions, _) = transitions.finish();
    transitions.retain(|finding| !results.iter().any(|standing| results::same(standing, finding)));
    if job.deleted {
        (results, passed) = (Vec::new(), 0);
    }
    Verdict {
        key: job.object.key.clone(),
        uid: job.object.uid.clone(),
        results,
        transitions,
        passed,
        policies: set.digest,
        took: began.elapsed(),
    }
}

/// Judges an `AdmissionReview` that someone wrote, by the Gatekeeper Constraints alone.
///
/// # Errors
/// Returns what the review lacks.
pub fn evaluate_review(
    policies: &PolicySet,
    review: serde_json::Value,
    namespace: Option<&Object>,
) -> Result<Vec<Finding>, String> {
    let namespace = namespace.map(input::read).transpose()?;
    let review = value::from_tree(review).map_err(|why| why.to_string())?;
    let review = Review::given(&review, namespace.as_ref())?;
    let mut results = Results::default();
    let began = Instant::now();
    let mut judge = Judge { limits: &policies.limits, began, whom: Whom::All, results: &mut results };
    for unit in &policies.units {
        unit.constraints.iter().for_each(|constraint| judge.constraint(unit, constraint, &review, None));
    }
    Ok(results.finish().0)
}

/// Asks a rule whether it is one of those that are asked about the kind or not, for tests; whether it says something.
#[cfg(test)]
pub(crate) fn says_anything(job: &Job, unit: &Unit, group: &Group, index: usize) -> Result<bool, Failure> {
    let documents = Documents::read(job, Parts::All).map_err(Failure::error)?;
    let input = match group.dialect {
        Dialect::Conftest => documents.object.clone(),
        Dialect::Admission => documents.admission(Moment::Standing),
        Dialect::Gatekeeper => {
            let parameters = unit.constraints.first().map_or(Value::Undefined, |first| first.parameters.clone());
            input::fields([("review", documents.review(Moment::Standing).document), ("parameters", parameters)])
        }
    };
    Ok(!results::findings(&group.entries[index], &unit.ask(&input, &group.one(index))?).is_empty())
}

/// The finding for an object that no policy can be asked about.
fn unreadable(why: &str) -> Finding {
    Finding {
        policy: "kaudit".into(),
        rule: "object".into(),
        outcome: Outcome::Error,
        severity: None,
        category: None,
        message: format!("the object cannot be read: {why}").into(),
        details: None,
        source: Source { file: "".into(), line: 0 },
    }
}

/// Which policies are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whom {
    All,
    LookAtChanges,
}

/// Judging of one object.
struct Judge<'a> {
    limits: &'a Limits,
    began: Instant,
    whom: Whom,
    results: &'a mut Results,
}

impl Judge<'_> {
    /// Asks all policies that have a say at a moment; `constraints` are those whose kind it is.
    fn all(&mut self, job: &Job, constraints: &[(usize, usize)], documents: &Documents<'_>, moment: Moment) {
        let (set, all) = (&*job.policies, self.whom == Whom::All);
        let kind = &job.object.key.kind.kind;
        for unit in set.units.iter().filter(|unit| unit.asks_everything()) {
            for group in &unit.groups {
                match group.dialect {
                    Dialect::Conftest if all => self.group(unit, group, kind, &documents.object),
                    Dialect::Admission if all || group.entries.iter().any(|entry| entry.transition) => {
                        self.group(unit, group, kind, &documents.admission(moment));
                    }
                    _ => {}
                }
            }
        }
        let concerned = |(unit, _): &&(usize, usize)| all || set.units[*unit].depends.transition;
        let mut constraints = constraints.iter().filter(concerned).peekable();
        if constraints.peek().is_some() && !set.settings.exempts(&job.object.key, &documents.object) {
            let review = documents.review(moment);
            for (unit, constraint) in constraints {
                let unit = &set.units[*unit];
                self.constraint(unit, &unit.constraints[*constraint], &review, Some(kind));
            }
        }
    }

    /// Asks for everything at once that can say something of the kind, and one by one if that fails or not all are asked.
    fn group(&mut self, unit: &Unit, group: &Group, kind: &str, input: &Value) {
        let Some(scope) = group.scopes.of(kind).filter(|scope| !scope.asked.is_empty()) else {
            return group.entries.iter().for_each(|_| self.results.pass());
        };
        let wanted =
            |index: usize| self.whom == Whom::All || group.entries.get(index).is_none_or(|entry| entry.transition);
        let together = scope.asked.iter().all(|index| wanted(*index));
        let all = together.then(|| unit.ask(input, &group.all(scope.question)).ok()).flatten();
        let all = all.as_ref().and_then(|all| all.as_array().ok()).filter(|all| all.len() == scope.asked.len());
        let mut answers: Vec<Result<Value, Failure>> = vec![Ok(Value::Undefined); group.len()];
        for (place, index) in scope.asked.iter().enumerate().filter(|(_, index)| wanted(**index)) {
            answers[*index] = match all {
                Some(all) => Ok(all[place][0_usize].clone()),
                None => self.alone(unit, group, *index, input),
            };
        }
        let (answers, exceptions) = answers.split_at(group.entries.len());
        for (exception, answer) in group.exceptions.iter().zip(exceptions) {
            if let Err(failure) = answer {
                let rule: Arc<str> = "exception".into();
                self.results.push(self.failed(unit, &exception.policy, &rule, &exception.source, failure));
            }
        }
        for (entry, answer) in group.entries.iter().zip(answers) {
            match answer {
                Ok(answer) => self.entry(unit, entry, answer, exceptions, input),
                Err(failure) => {
                    self.results.push(self.failed(unit, &entry.policy, &entry.rule.name, &entry.rule.source, failure));
                }
            }
        }
    }

    /// Asks for one rule, unless the object has used up its time.
    fn alone(&self, unit: &Unit, group: &Group, index: usize, input: &Value) -> Result<Value, Failure> {
        if self.began.elapsed() > self.limits.object {
            return Err(Failure::OutOfTime);
        }
        unit.ask(input, &group.one(index))
    }

    /// Turns the value of one rule into findings.
    fn entry(
        &mut self,
        unit: &Unit,
        entry: &Entry,
        answer: &Value,
        exceptions: &[Result<Value, Failure>],
        input: &Value,
    ) {
        let mut findings = results::findings(entry, answer);
        if findings.is_empty() {
            return self.results.pass();
        }
        results::attribute(&mut findings, entry, &Metadata::default(), |definition| {
            let value = unit.ask_definition(input, entry, definition).ok()?;
            Some(results::findings(entry, &value))
        });
        let excepted = entry.exception.as_ref().is_some_and(|(index, suffix)| {
            exceptions.get(*index).is_some_and(|answer| answer.as_ref().is_ok_and(|lists| lists_suffix(lists, suffix)))
        });
        for mut finding in findings {
            if excepted {
                finding.outcome = Outcome::Skip;
            }
            self.results.push(finding);
        }
    }

    /// The finding for a rule that could not be evaluated.
    fn failed(&self, unit: &Unit, policy: &Arc<str>, rule: &Arc<str>, source: &Source, failure: &Failure) -> Finding {
        let mut source = source.clone();
        let message = match failure {
            Failure::Error(error) => match &error.place {
                Some((file, line, own)) => {
                    let column = column(&unit.blocks, *line, *own);
                    if **file == *source.file {
                        source.line = *line;
                    } else {
                        source = Source { file: file.as_str().into(), line: *line };
                    }
                    format!("{file}:{line}:{column}: {}", error.reason)
                }
                None => format!("{}:{}: {}", source.file, source.line, error.reason),
            },
            Failure::TooLarge => format!("says more than {} MiB about one object", LARGEST_VALUE >> 20),
            other => other.reason(self.limits),
        };
        Finding {
            policy: Arc::clone(policy),
            rule: Arc::clone(rule),
            outcome: Outcome::Error,
            severity: None,
            category: None,
            message: message.into(),
            details: None,
            source,
        }
    }
}

/// Whether one of the lists of an `exception` rule names a rule: `exception[_][_] == suffix`.
fn lists_suffix(lists: &Value, suffix: &Value) -> bool {
    items(lists).any(|list| items(list).any(|item| item == suffix))
}

/// Returns the values of a collection; of anything else none.
fn items(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Set(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.iter_sorted().map(|(_, value)| value)),
        _ => Box::new(std::iter::empty()),
    }
}
