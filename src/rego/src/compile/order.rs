//! The dependencies between rules, and an order in which each rule follows those that it depends on.

use std::collections::BTreeSet;

use super::{
    term::{
        DATA, Function, ResolvedResult, ResolvedRule, ResolvedStatementKind, ResolvedTerm, ResolvedValue,
        WithTargetValue,
    },
    tree::RuleTree,
    visit,
};

pub(super) struct Order {
    tree: RuleTree,
    sorted: Vec<usize>,
    /// The rules that depend on themselves.
    recursive: BTreeSet<usize>,
    /// For each rule, the rules that depend on it.
    dependents: Vec<BTreeSet<usize>>,
}

impl Order {
    pub(super) fn new(tree: RuleTree, rules: &[ResolvedRule]) -> Self {
        let dependencies: Vec<BTreeSet<usize>> = rules.iter().map(|rule| dependencies(rule, &tree, rules)).collect();
        let mut dependents = vec![BTreeSet::new(); rules.len()];
        for (rule, needed) in dependencies.iter().enumerate() {
            for other in needed {
                dependents[*other].insert(rule);
            }
        }
        let (sorted, recursive) = sort(&dependencies);
        Self { tree, sorted, recursive, dependents }
    }

    /// Whether a rule depends on itself. Unless that is only due to a variable key, another check refuses it.
    pub(super) fn is_recursive(&self, rule: usize) -> bool {
        self.recursive.contains(&rule)
    }

    /// Returns all rules, each after those that it depends on.
    pub(super) fn sorted(&self) -> &[usize] {
        &self.sorted
    }

    /// Returns the rules that a reference below `data` may refer to, and all that depend on them.
    pub(super) fn dependents(&self, keys: &[ResolvedTerm], rules: &[ResolvedRule]) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = self.tree.referenced(keys, rules).into_iter().collect();
        while let Some(rule) = open.pop() {
            if found.insert(rule) {
                open.extend(&self.dependents[rule]);
            }
        }
        found
    }
}

fn dependencies(rule: &ResolvedRule, tree: &RuleTree, rules: &[ResolvedRule]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for rule in rule.chain() {
        let mut refer = |term: &ResolvedTerm| {
            if let ResolvedValue::Ref(items) = &term.value
                && items.first().and_then(ResolvedTerm::as_variable) == Some(DATA)
            {
                found.extend(tree.referenced(&items[1..], rules));
            }
            true
        };
        let (ResolvedResult::Value(result) | ResolvedResult::Element(result)) = &rule.result;
        rule.path.iter().chain([result]).for_each(|term| visit::terms(term, &mut refer));
        rule.body.iter().for_each(|statement| visit::terms_of_statement(statement, &mut refer));
        visit::statements(&rule.body, &mut |statement| {
            if let ResolvedStatementKind::Call(call) = &statement.kind
                && let Function::Rule(path) = &call.function
            {
                found.extend(tree.at(path).into_iter().flat_map(|node| &node.rules));
            }
            for with in &statement.with {
                if let WithTargetValue::Ref(items) = &with.target.value
                    && items.first().and_then(ResolvedTerm::as_variable) == Some(DATA)
                {
                    found.extend(tree.referenced(&items[1..], rules));
                }
            }
        });
    }
    found
}

/// Returns the rules in order, and those that are part of a cycle.
fn sort(dependencies: &[BTreeSet<usize>]) -> (Vec<usize>, BTreeSet<usize>) {
    let mut recursive = BTreeSet::new();
    let mut sorted = Vec::with_capacity(dependencies.len());
    let mut seen = vec![false; dependencies.len()];
    for first in 0..dependencies.len() {
        // Each entry is a rule and its remaining dependencies.
        let mut open = vec![(first, dependencies[first].iter())];
        if std::mem::replace(&mut seen[first], true) {
            continue;
        }
        while let Some((rule, needed)) = open.last_mut() {
            match needed.next() {
                Some(next) if std::mem::replace(&mut seen[*next], true) => {
                    if let Some(first) = open.iter().position(|(rule, _)| rule == next) {
                        recursive.extend(open[first..].iter().map(|(rule, _)| *rule));
                    }
                }
                Some(next) => open.push((*next, dependencies[*next].iter())),
                None => {
                    sorted.push(*rule);
                    open.pop();
                }
            }
        }
    }
    (sorted, recursive)
}
