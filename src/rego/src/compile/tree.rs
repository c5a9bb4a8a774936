//! Rules by their paths below `data`: which ones a reference may refer to, and which conflict.
//!
//! These are OPA's stages `SetRuleTree` and `CheckRuleConflicts`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    fault::{Code, Fault},
    term::{ResolvedResult, ResolvedRule, ResolvedTerm, path_text},
};
use crate::{constant::Constant, syntax::Position};

/// The rules at one path, and the paths below it.
#[derive(Debug, Default)]
pub(super) struct RuleTree {
    /// Indices of the rules.
    pub(super) rules: Vec<usize>,
    children: BTreeMap<Constant, Self>,
}

impl RuleTree {
    pub(super) fn new(rules: &[ResolvedRule]) -> Self {
        let mut tree = Self::default();
        for (index, rule) in rules.iter().enumerate() {
            let mut node = &mut tree;
            for key in rule.ground_path() {
                node = node.children.entry(key).or_default();
            }
            node.rules.push(index);
        }
        tree
    }

    /// Adds a path without rules.
    pub(super) fn insert(&mut self, path: &[Constant]) {
        path.iter().fold(self, |node, key| node.children.entry(key.clone()).or_default());
    }

    /// Returns one of the rules at this path or below it.
    pub(super) fn first(&self) -> Option<usize> {
        self.rules.first().copied().or_else(|| self.children.values().find_map(Self::first))
    }

    pub(super) fn children(&self) -> impl Iterator<Item = (&Constant, &Self)> {
        self.children.iter()
    }

    /// Whether there are no rules below it.
    pub(super) fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    pub(super) fn child(&self, key: &Constant) -> Option<&Self> {
        self.children.get(key)
    }

    /// Returns the node of a path.
    pub(super) fn at<'k>(&self, path: impl IntoIterator<Item = &'k Constant>) -> Option<&Self> {
        path.into_iter().try_fold(self, |node, key| node.child(key))
    }

    /// Returns the rules that a reference below `data` may refer to; a variable key matches all.
    pub(super) fn referenced(&self, keys: &[ResolvedTerm], rules: &[ResolvedRule]) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        self.collect(keys, 0, rules, &mut found);
        found
    }

    fn collect(&self, keys: &[ResolvedTerm], depth: usize, rules: &[ResolvedRule], found: &mut BTreeSet<usize>) {
        let fits = |index: &&usize| {
            let path = &rules[**index].path;
            path.iter().zip(keys).skip(depth).all(|(key, wanted)| match (key.constant(), wanted.constant()) {
                (Some(key), Some(wanted)) => key == wanted,
                _ => true,
            })
        };
        match keys.get(depth) {
            None => self.below(found),
            Some(key) => {
                found.extend(self.rules.iter().filter(fits));
                match key.constant() {
                    Some(key) => {
                        self.child(&key).into_iter().for_each(|node| node.collect(keys, depth + 1, rules, found));
                    }
                    None => self.children.values().for_each(|node| node.collect(keys, depth + 1, rules, found)),
                }
            }
        }
    }

    /// Adds all rules at this path and below it.
    fn below(&self, found: &mut BTreeSet<usize>) {
        found.extend(&self.rules);
        self.children.values().for_each(|node| node.below(found));
    }
}

/// The packages, each with its modules.
pub(super) struct Packages<'a> {
    modules: BTreeMap<&'a [Constant], Vec<(usize, Position)>>,
}

impl<'a> Packages<'a> {
    /// Returns the packages, given the index, path and position of each module's package.
    pub(super) fn new(packages: impl Iterator<Item = (usize, &'a [Constant], Position)>) -> Self {
        let mut modules: BTreeMap<&[Constant], Vec<(usize, Position)>> = BTreeMap::new();
        for (index, path, at) in packages {
            modules.entry(path).or_default().push((index, at));
        }
        Self { modules }
    }

    fn place(&self, module: usize) -> Option<Position> {
        self.modules.values().flatten().find(|(index, _)| *index == module).map(|(_, at)| *at)
    }

    /// Returns the conflicts between rules and packages.
    fn conflicts(&self, rules: &[ResolvedRule]) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut seen = BTreeSet::new();
        for rule in rules.iter().filter(|rule| rule.ground() == rule.path.len()) {
            let path = rule.ground_path();
            for (module, at) in self.modules.get(path.as_slice()).into_iter().flatten() {
                if !seen.insert((rule.module, path.clone(), *module)) {
                    continue;
                }
                let name = path_text(&path);
                let message = format!("package {name} conflicts with rule {name}, at line {}", rule.at.line);
                let place = self.place(rule.module).unwrap_or(rule.at);
                faults.push(Fault::new(Code::Type, rule.module, place, message).help(HELP));
                let message = format!("package {name} conflicts with the rule {name} of another module");
                faults.push(Fault::new(Code::Type, *module, *at, message).help(HELP));
            }
        }
        faults
    }
}

const HELP: &str = "rename one of the two";

/// Returns all conflicts; each is reported for every module involved.
pub(super) fn conflicts(tree: &RuleTree, rules: &[ResolvedRule], packages: &Packages<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    conflicts_at(tree, rules, packages, &mut faults);
    faults.extend(packages.conflicts(rules));
    faults
}

fn conflicts_at(node: &RuleTree, rules: &[ResolvedRule], packages: &Packages<'_>, faults: &mut Vec<Fault>) {
    for child in node.children.values() {
        conflicts_of(child, rules, packages, faults);
        conflicts_at(child, rules, packages, faults);
    }
}

/// Checks the rules of one path against each other, and against those below it.
fn conflicts_of(node: &RuleTree, rules: &[ResolvedRule], packages: &Packages<'_>, faults: &mut Vec<Fault>) {
    let own: Vec<&ResolvedRule> = node.rules.iter().map(|index| &rules[*index]).collect();
    let Some(first) = own.first() else { return };
    let name = path_text(&first.ground_path());
    let below = overlapping(node, &own, rules);
    let mut refuse = |parties: &[&ResolvedRule], message: String, help: &'static str| {
        let mut seen = BTreeSet::new();
        for party in parties.iter().filter(|party| seen.insert(party.module)) {
            faults.push(Fault::new(Code::Type, party.module, party.at, &message).help(help));
        }
    };
    if let Some(other) = below.first() {
        let message =
            format!("rule {name} conflicts with rule {}, which is a part of it", path_text(&other.ground_path()));
        let parties: Vec<&ResolvedRule> = own.iter().chain(&below).copied().collect();
        return refuse(&parties, message, HELP);
    }
    if let Some(other) = own.iter().find(|rule| kind(rule) != kind(first)) {
        let place =
            if other.module == first.module { format!("line {}", other.at.line) } else { "in another file".to_owned() };
        let message = format!("conflicting rules {name} found, at line {} and {place}", first.at.line);
        let help = "all rules with one name must be of one kind: values, elements of a set, entries of an object, or functions with the same number of parameters";
        return refuse(&own, message, help);
    }
    let defaults: Vec<&ResolvedRule> = own.iter().filter(|rule| rule.default).copied().collect();
    if let [first, _, ..] = defaults.as_slice() {
        let lines: Vec<String> = defaults.iter().map(|rule| rule.at.line.to_string()).collect();
        let message = format!("multiple default rules {name} found, at lines {}", lines.join(" and "));
        let place = packages.place(first.module).unwrap_or(first.at);
        let at = |rule: &ResolvedRule| if rule.module == first.module { place } else { rule.at };
        let mut seen = BTreeSet::new();
        for party in defaults.iter().filter(|party| seen.insert(party.module)) {
            let fault = Fault::new(Code::Type, party.module, at(party), &message);
            faults.push(fault.help("keep only one of them"));
        }
    }
}

/// Returns the properties that all definitions of one name must share.
fn kind(rule: &ResolvedRule) -> (bool, bool, usize) {
    let element = matches!(rule.result, ResolvedResult::Element(_));
    let ground = rule.ground() == rule.path.len();
    (element, ground, rule.arity())
}

/// Returns the rules below a path that conflict with its own rules.
fn overlapping<'r>(node: &RuleTree, own: &[&ResolvedRule], rules: &'r [ResolvedRule]) -> Vec<&'r ResolvedRule> {
    if node.children.is_empty() {
        return Vec::new();
    }
    let mut below = BTreeSet::new();
    node.children.values().for_each(|child| child.below(&mut below));
    let below = below.into_iter().map(|index| &rules[index]);
    if own.iter().any(|rule| rule.ground() == rule.path.len()) {
        below.collect()
    } else {
        below.filter(|rule| rule.is_function()).collect()
    }
}
