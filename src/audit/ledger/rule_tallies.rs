//! How many objects each rule applies to, by outcome.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::violation::Violation;
use crate::model::{
    rule_counts::{ObjectOutcome, RuleCounts},
    rule_numbers::{RuleName, RuleNumber, RuleNumbers},
};

/// The counts of all rules.
#[derive(Debug, Default)]
pub(super) struct RuleTallies {
    /// How many objects passed each rule, by its index.
    passes: Vec<usize>,
    /// The sum of these.
    pass: usize,
    /// The objects of which rules have results.
    others: BTreeMap<RuleName, RuleCounts>,
    /// The sets of rules that objects passed. Most objects share theirs with many others.
    sets: HashMap<Arc<RuleNumbers>, u32>,
    /// The same by index, each with how many clean objects have it; an entry that none has may be reused for another set.
    numbered: Vec<(Arc<RuleNumbers>, usize)>,
    unused: Vec<u32>,
}

impl RuleTallies {
    pub(super) fn pass(&self) -> usize {
        self.pass
    }

    /// Returns the set that others share.
    pub(super) fn shared(&self, passed: RuleNumbers) -> Arc<RuleNumbers> {
        self.sets.get_key_value(&passed).map_or_else(|| Arc::new(passed), |(known, _)| Arc::clone(known))
    }

    /// Counts what an object passed.
    pub(super) fn passed(&mut self, passed: &RuleNumbers) {
        for rule in passed.iter() {
            if self.passes.len() <= rule.index() {
                self.passes.resize(rule.index() + 1, 0);
            }
            self.passes[rule.index()] += 1;
            self.pass += 1;
        }
    }

    /// Counts it no longer.
    pub(super) fn not_passed(&mut self, passed: &RuleNumbers) {
        for rule in passed.iter() {
            self.passes[rule.index()] -= 1;
            self.pass -= 1;
        }
    }

    /// Returns the index of the set that a clean object passed, valid until [`RuleTallies::release`] is called as often as this.
    pub(super) fn keep(&mut self, passed: &Arc<RuleNumbers>) -> u32 {
        if let Some(number) = self.sets.get(passed) {
            self.numbered[*number as usize].1 += 1;
            return *number;
        }
        let number = if let Some(number) = self.unused.pop() {
            self.numbered[number as usize] = (Arc::clone(passed), 1);
            number
        } else {
            self.numbered.push((Arc::clone(passed), 1));
            u32::try_from(self.numbered.len() - 1).unwrap_or(u32::MAX)
        };
        self.sets.insert(Arc::clone(passed), number);
        number
    }

    /// Returns the set with the index that a clean object had.
    pub(super) fn release(&mut self, number: u32) -> Arc<RuleNumbers> {
        let (passed, objects) = &mut self.numbered[number as usize];
        *objects -= 1;
        let passed = Arc::clone(passed);
        if self.numbered[number as usize].1 == 0 {
            self.sets.remove(&passed);
            self.unused.push(number);
        }
        passed
    }

    /// Counts an object for the rules that have results about it.
    pub(super) fn add(&mut self, results: &[Violation]) {
        for (rule, outcome) in outcomes(results) {
            *self.others.entry(rule).or_default().of(outcome) += 1;
        }
    }

    /// Counts it no longer.
    pub(super) fn remove(&mut self, results: &[Violation]) {
        for (rule, outcome) in outcomes(results) {
            if let Some(counts) = self.others.get_mut(&rule) {
                *counts.of(outcome) -= 1;
            }
        }
    }

    /// Returns the counts of all rules that are about some object.
    pub(super) fn counts(&self) -> BTreeMap<RuleName, RuleCounts> {
        let mut all: BTreeMap<RuleName, RuleCounts> = BTreeMap::new();
        for (rule, passes) in RuleNumber::names().into_iter().zip(&self.passes).filter(|(_, passes)| **passes > 0) {
            all.entry(rule).or_default().applicable = *passes;
        }
        for (rule, RuleCounts { failing, excused, error, .. }) in &self.others {
            if failing + excused + error > 0 {
                let counts = all.entry(rule.clone()).or_default();
                counts.applicable += failing + excused + error;
                (counts.failing, counts.excused, counts.error) = (*failing, *excused, *error);
            }
        }
        all
    }
}

/// Returns the rules that have results of an object which no owner covers, each with the worst of them.
fn outcomes(results: &[Violation]) -> BTreeMap<RuleName, ObjectOutcome> {
    let mut outcomes: BTreeMap<RuleName, ObjectOutcome> = BTreeMap::new();
    for Violation { finding, .. } in results.iter().filter(|result| result.covered_by.is_none()) {
        let outcome = ObjectOutcome::from(finding.outcome);
        let rule = [&finding.rule.policy, &finding.rule.name].map(Arc::clone);
        outcomes.entry(rule).and_modify(|worst| *worst = outcome.max(*worst)).or_insert(outcome);
    }
    outcomes
}
