//! Judging: a pure function of an object and the policies.
//!
//! The object's JSON becomes a value once; every unit is asked for all its results in one question. Only if that question
//! fails is each rule asked by itself, so that one broken rule costs the others nothing. Whatever a policy does, it ends as
//! a finding.

mod input;
mod results;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use regorus::Value;

use self::results::Results;
use crate::{
    object::Object,
    policy::{
        Dialect, Limits, PolicySet,
        reads::Scope,
        unit::{Entry, Failure, Group, Unit},
    },
    verdict::{Finding, Outcome, Source, Verdict},
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
pub fn evaluate(job: &Job) -> Verdict {
    let began = Instant::now();
    let mut results = Results::default();
    match input::read(&job.object) {
        Err(why) => results.push(unreadable(&why)),
        Ok(object) => {
            let mut judge = Judge { limits: &job.policies.limits, began, results: &mut results };
            for unit in &job.policies.units {
                for group in &unit.groups {
                    let scope = group.scopes.of(&job.object.key.kind.kind);
                    let Some(scope) = scope.filter(|scope| !scope.asked.is_empty()) else {
                        group.entries.iter().for_each(|_| judge.results.pass());
                        continue;
                    };
                    let input = match group.dialect {
                        Dialect::Conftest => object.clone(),
                        Dialect::Admission => input::review(&job.object, object.clone()),
                        // Refused at load.
                        Dialect::Gatekeeper => continue,
                    };
                    judge.group(unit, group, scope, &input);
                }
            }
        }
    }
    let (results, passed) = results.finish();
    Verdict {
        key: job.object.key.clone(),
        uid: job.object.uid.clone(),
        results,
        moments: Vec::new(),
        passed,
        policies: job.policies.digest,
        took: began.elapsed(),
    }
}

/// The input of policies of one dialect, for tests.
#[cfg(test)]
pub(crate) fn input(object: &Object, dialect: Dialect) -> Value {
    let value = input::read(object).unwrap_or(Value::Null);
    if dialect == Dialect::Admission { input::review(object, value) } else { value }
}

/// Whether the value of a rule stands for any result, for tests.
#[cfg(test)]
pub(crate) fn says_something(entry: &Entry, value: &Value) -> bool {
    !results::findings(entry, value).is_empty()
}

/// The finding for an object that no policy can be asked about.
fn unreadable(why: &str) -> Finding {
    Finding {
        policy: "kaudit".into(),
        rule: "object".into(),
        outcome: Outcome::Error,
        severity: None,
        message: format!("the object cannot be read: {why}").into(),
        details: None,
        source: Source { file: "".into(), line: 0 },
    }
}

/// Judging of one object.
struct Judge<'a> {
    limits: &'a Limits,
    began: Instant,
    results: &'a mut Results,
}

impl Judge<'_> {
    /// Asks for everything at once that can say something, and one by one if that fails.
    fn group(&mut self, unit: &Unit, group: &Group, scope: &Scope, input: &Value) {
        let mut answers: Vec<Result<Value, Failure>> = vec![Ok(Value::Undefined); group.len()];
        let all = unit.ask(input, &group.all(scope.question)).ok();
        let all = all.as_ref().and_then(|all| all.as_array().ok()).filter(|all| all.len() == scope.asked.len());
        for (place, index) in scope.asked.iter().enumerate() {
            answers[*index] = match all {
                Some(all) => Ok(all[place][0_usize].clone()),
                None => self.alone(unit, group, *index, input),
            };
        }
        let (answers, exceptions) = answers.split_at(group.entries.len());
        for (exception, answer) in group.exceptions.iter().zip(exceptions) {
            if let Err(failure) = answer {
                let rule: Arc<str> = "exception".into();
                self.results.push(self.failed(&exception.policy, &rule, &exception.source, failure));
            }
        }
        for (entry, answer) in group.entries.iter().zip(answers) {
            match answer {
                Ok(answer) => self.entry(unit, entry, answer, exceptions, input),
                Err(failure) => {
                    self.results.push(self.failed(&entry.policy, &entry.rule.name, &entry.rule.source, failure));
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
        results::attribute(&mut findings, entry, |definition| unit.ask_definition(input, entry, definition).ok());
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
    fn failed(&self, policy: &Arc<str>, rule: &Arc<str>, source: &Source, failure: &Failure) -> Finding {
        let mut source = source.clone();
        let message = match failure {
            Failure::Told(told) => match &told.place {
                Some((file, line, column)) => {
                    if **file == *source.file {
                        source.line = *line;
                    } else {
                        source = Source { file: file.as_str().into(), line: *line };
                    }
                    format!("{file}:{line}:{column}: {}", told.reason)
                }
                None => told.reason.clone(),
            },
            Failure::Panicked => "the evaluator failed on this rule".to_owned(),
            Failure::TimedOut => format!("took longer than {}", seconds(self.limits.evaluation)),
            Failure::OutOfTime => {
                format!("not evaluated: the rules before it took longer than {}", seconds(self.limits.object))
            }
        };
        Finding {
            policy: Arc::clone(policy),
            rule: Arc::clone(rule),
            outcome: Outcome::Error,
            severity: None,
            message: message.into(),
            details: None,
            source,
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
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
