//! Evaluates the rules of a group, and handles their values, exceptions and failures.

use std::sync::Arc;

use regorus::Value;

use super::{
    part::PartOfGroup,
    results::{self, ObjectFindings},
};
use crate::{
    judge::{
        dialect::Dialect,
        dialects::gatekeeper::template::column,
        metadata::LookupNeed,
        reads::KindQuery,
        result_values::items,
        rule::Entrypoint,
        unit::{Group, Unit},
    },
    model::verdict::{Finding, Outcome, RuleDescriptor, Source},
    rego::{Answer, Failure, Limits, analysis::cpu_time::CpuTimer},
};

/// The evaluation of one object, with its results so far.
pub(super) struct ObjectEvaluation<'a> {
    pub(super) limits: &'a Limits,
    /// The namespace of the object.
    pub(super) namespace: Option<&'a str>,
    /// The CPU time spent on the object so far.
    pub(super) spent: CpuTimer,
    pub(super) results: &'a mut ObjectFindings,
}

/// Whether a rule reports what does not exist: objects that have not been read can only remove its results.
fn is_complete(entrypoint: &Entrypoint) -> bool {
    entrypoint.rule.metadata.lookups() == LookupNeed::Complete
}

impl ObjectEvaluation<'_> {
    /// Evaluates the rules of a group that can have results for the kind: by one query, or one by one if that fails.
    pub(super) fn group(&mut self, unit: &Unit, group: &Group, part: PartOfGroup<'_>, kind: &str, input: &Value) {
        let Some(query) = group.queries.of(kind).filter(|query| !query.rules.is_empty()) else { return };
        let answers = self.answers(unit, group, part, kind, query, input);
        let (answers, exceptions) = answers.split_at(group.entrypoints.len());
        for (exception, answer) in group.exceptions.iter().zip(exceptions) {
            if let Err(failure) = answer {
                let rule: Arc<str> = "exception".into();
                self.fail(unit, &exception.policy, &rule, &exception.source, failure);
            }
        }
        let evaluated = group.entrypoints.iter().zip(answers).enumerate();
        // A rule that does not apply to the kind has not passed.
        let is_evaluated = |rule: usize| part.has_entrypoint(rule) && query.rules.binary_search(&rule).is_ok();
        let evaluated =
            evaluated.filter(|(rule, (entrypoint, _))| is_evaluated(*rule) && entrypoint.kinds.contain(kind));
        for (rule, (entrypoint, answer)) in evaluated {
            let has_passed = |answer: &Answer| (group.dialect.findings)(entrypoint, &answer.value).is_empty();
            let is_passed = || is_complete(entrypoint) && answer.as_ref().is_ok_and(has_passed);
            if let Some(why) = self.unread(query, group, rule).filter(|_| !is_passed()) {
                let Entrypoint { policy, rule, .. } = entrypoint;
                self.results.push_undecided(error(policy, &rule.name, rule.source.clone(), &why));
                continue;
            }
            match answer {
                Ok(answer) => self.entrypoint((group.dialect, entrypoint), answer, exceptions),
                Err(failure) => {
                    let Entrypoint { policy, rule, .. } = entrypoint;
                    self.fail(unit, policy, &rule.name, &rule.source, failure);
                }
            }
        }
    }

    /// Returns the values of all rules of a group, exceptions last; rules that are not selected have none.
    fn answers(
        &mut self,
        unit: &Unit,
        group: &Group,
        part: PartOfGroup<'_>,
        kind: &str,
        query: &KindQuery,
        input: &Value,
    ) -> Vec<Result<Answer, Failure>> {
        let is_for = |index: usize| group.entrypoints.get(index).is_none_or(|rule| rule.kinds.contain(kind));
        let wanted = query.rules.iter().copied().filter(|index| part.evaluates(group, *index) && is_for(*index));
        let is_evaluated = |index: &usize| {
            query.unread(*index, self.namespace).is_none() || group.entrypoints.get(*index).is_some_and(is_complete)
        };
        let wanted: Vec<usize> = wanted.filter(is_evaluated).collect();
        if let Ok(all) = unit.rules(group, &wanted, input) {
            return all.into_iter().map(Ok).collect();
        }
        let mut answers: Vec<_> = (0..group.len()).map(|_| Ok(Value::Undefined.into())).collect();
        if let PartOfGroup::Shared(_) = part {
            // If one rule fails, nothing is shared: each rule is evaluated on the object itself.
            self.results.incomplete = true;
            return answers;
        }
        for index in wanted {
            answers[index] = self.alone(unit, group, index, input);
        }
        answers
    }

    /// Returns why a rule or its exceptions cannot be evaluated: a lookup has not been read yet.
    fn unread(&self, query: &KindQuery, group: &Group, rule: usize) -> Option<String> {
        let exception = group.entrypoints[rule].exception.as_ref().map(|(index, _)| group.entrypoints.len() + index);
        [Some(rule), exception].into_iter().flatten().find_map(|index| query.unread(index, self.namespace))
    }

    /// Evaluates one rule, unless the object has used up its time.
    pub(super) fn alone(&mut self, unit: &Unit, group: &Group, index: usize, input: &Value) -> Result<Answer, Failure> {
        if self.spent.elapsed().saturating_sub(self.results.shared_time) > self.limits.input {
            return Err(Failure::NotStarted(self.limits.input));
        }
        unit.rule(group, index, input)
    }

    /// Converts the value of one rule into results.
    fn entrypoint(
        &mut self,
        (dialect, entrypoint): (Dialect, &Entrypoint),
        answer: &Answer,
        exceptions: &[Result<Answer, Failure>],
    ) {
        let mut findings = (dialect.findings)(entrypoint, &answer.value);
        if findings.is_empty() {
            return self.results.pass(&entrypoint.rule);
        }
        results::attribute(&mut findings, entrypoint, (&entrypoint.descriptors, None), |index| {
            Some((dialect.findings)(entrypoint, answer.definition(index)?))
        });
        let excepted = entrypoint.exception.as_ref().is_some_and(|(index, suffix)| {
            exceptions
                .get(*index)
                .is_some_and(|answer| answer.as_ref().is_ok_and(|lists| lists_suffix(&lists.value, suffix)))
        });
        for mut finding in findings {
            if excepted {
                finding.outcome = Outcome::Skip;
            }
            self.results.push(finding);
        }
    }

    /// Records that a rule could not be evaluated.
    pub(super) fn fail(&mut self, unit: &Unit, policy: &Arc<str>, rule: &Arc<str>, source: &Source, failure: &Failure) {
        let unfinished = matches!(failure, Failure::TimedOut(_) | Failure::NotStarted(_));
        self.results.unfinished |= unfinished;
        let mut source = source.clone();
        let message = match failure {
            Failure::Error(error) => match &error.place {
                Some((file, line, own)) => {
                    let column = column(unit.template().map_or(&[], |template| &template.blocks), *line, *own);
                    if **file == *source.file {
                        source.line = *line;
                    } else {
                        source = Source { file: file.as_str().into(), line: *line };
                    }
                    format!("{file}:{line}:{column}: {}", error.reason)
                }
                None => format!("{}:{}: {}", source.file, source.line, error.reason),
            },
            Failure::TooLarge(bytes) if *bytes == self.limits.value_bytes => {
                format!("its result for one object is larger than {} MiB", bytes >> 20)
            }
            other => other.reason(),
        };
        let error = error(policy, rule, source, &message);
        if unfinished { self.results.push_undecided(error) } else { self.results.push(error) }
    }
}

/// Returns the result of a rule that could not be evaluated.
pub(super) fn error(policy: &Arc<str>, rule: &Arc<str>, source: Source, message: &str) -> Finding {
    // An error may refer to another line, and has no title; few results are errors.
    let rule = RuleDescriptor { source, ..RuleDescriptor::named(Arc::clone(policy), Arc::clone(rule)) };
    Finding {
        rule: Arc::new(rule),
        outcome: Outcome::Error,
        severity: None,
        message: message.into(),
        details: None,
        excused: None,
    }
}

/// Whether one of the lists of an `exception` rule contains a rule: `exception[_][_] == suffix`.
fn lists_suffix(lists: &Value, suffix: &Value) -> bool {
    items(lists).any(|list| items(list).any(|item| item == suffix))
}
