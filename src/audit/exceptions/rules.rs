//! The rules in force, and which of them an exception names.
//!
//! Exceptions are resolved once for each set of policies, not for each result: anything that may write into a namespace may
//! write exceptions, with many patterns.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::exception::{Author, Exception, PolicyRules, is_pattern};
use crate::{
    judge::{excusable::Excusability, rule_pattern::RulePattern, rule_settings::SkippedRule, set::PolicySet},
    model::{glob::Glob, spelling::nearest},
};

/// The index of a rule in [`RulesInForce`].
pub(super) type RuleIndex = usize;

/// The indexes of rules, as a set of bits.
#[derive(Debug, Clone, Default)]
pub(super) struct RuleIndexes(Box<[u64]>);

impl RuleIndexes {
    fn new(indexes: &BTreeSet<RuleIndex>) -> Self {
        let mut bits = vec![0; indexes.last().map_or(0, |last| last / 64 + 1)];
        for index in indexes {
            if let Some(word) = bits.get_mut(index / 64) {
                *word |= 1 << (index % 64);
            }
        }
        Self(bits.into())
    }

    pub(super) fn contains(&self, index: RuleIndex) -> bool {
        self.0.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RuleIndex> {
        (0..self.0.len() * 64).filter(|index| self.contains(*index))
    }
}

/// The rules that an exception names, and what is wrong with its names.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedRules {
    pub(super) rules: RuleIndexes,
    /// A name that matches no rule in force, and the nearest that does.
    pub(super) unknown: Option<String>,
    /// A name that matches only rules which a namespace may not excuse.
    pub(super) not_excusable: Option<String>,
    /// How many of the rules a namespace may not excuse, if the exception is one of a namespace.
    pub(super) refused: usize,
}

#[derive(Debug, Clone)]
struct RuleInForce {
    policy: Arc<str>,
    rule: Arc<str>,
    ids: BTreeSet<Arc<str>>,
    excusable: Excusability,
    /// Whether it is a rule of the builtin library.
    is_builtin: bool,
}

impl RuleInForce {
    fn ids(&self) -> impl Iterator<Item = &str> {
        self.ids.iter().map(AsRef::as_ref)
    }
}

/// The rules in force, and whether namespaces may excuse their violations.
#[derive(Debug, Clone, Default)]
pub(super) struct RulesInForce {
    rules: Vec<RuleInForce>,
    by_policy: BTreeMap<Arc<str>, BTreeMap<Arc<str>, RuleIndex>>,
    /// By policy, rule and id.
    by_word: HashMap<Arc<str>, BTreeSet<RuleIndex>>,
}

impl RulesInForce {
    pub(super) fn new(policies: &PolicySet) -> Self {
        let mut all = Self::default();
        for policy in &policies.policies {
            for rule in &policy.rules {
                all.add((&policy.name, policy.is_builtin), &rule.name, rule.metadata.ids(), rule.excusable);
            }
        }
        // An exception from a rule that is switched off, or that the profile does not contain, is not wrong.
        let changes = &policies.rule_changes;
        for SkippedRule { policy, rule, id, .. } in changes.skipped.iter().chain(&changes.unselected) {
            if all.find(policy, rule).is_none() {
                all.add((policy, false), rule, id.as_deref().into_iter(), Excusability::Always);
            }
        }
        all
    }

    fn add<'a>(
        &mut self,
        (policy, is_builtin): (&Arc<str>, bool),
        rule: &Arc<str>,
        ids: impl Iterator<Item = &'a str>,
        excusable: Excusability,
    ) {
        let ids: BTreeSet<Arc<str>> = ids.map(Arc::from).collect();
        let new = self.rules.len();
        let index = *self.by_policy.entry(Arc::clone(policy)).or_default().entry(Arc::clone(rule)).or_insert(new);
        for word in ids.iter().chain([policy, rule]) {
            self.by_word.entry(Arc::clone(word)).or_default().insert(index);
        }
        if let Some(known) = self.rules.get_mut(index) {
            // Two sources may have a rule of one name, if one of them is a Constraint: neither decides for the other.
            known.excusable = known.excusable.and(excusable);
            known.is_builtin &= is_builtin;
            known.ids.extend(ids);
        } else {
            let (policy, rule) = (Arc::clone(policy), Arc::clone(rule));
            self.rules.push(RuleInForce { policy, rule, ids, excusable, is_builtin });
        }
    }

    pub(super) fn find(&self, policy: &str, rule: &str) -> Option<RuleIndex> {
        self.by_policy.get(policy)?.get(rule).copied()
    }

    pub(super) fn excusability(&self, index: RuleIndex) -> Excusability {
        self.rules.get(index).map(|rule| rule.excusable).unwrap_or_default()
    }

    /// Returns the rules that an exception names.
    pub(super) fn named_by(&self, exception: &Exception) -> NamedRules {
        let mut indexes = BTreeSet::new();
        let mut named = NamedRules::default();
        for entry in &exception.policies {
            for (rule, found) in self.matches(entry) {
                if found.is_empty() {
                    named.unknown.get_or_insert_with(|| self.unknown(entry, rule));
                } else if exception.author == Author::Team
                    && !found.iter().any(|index| self.excusability(*index).is_possible())
                {
                    named.not_excusable.get_or_insert_with(|| self.not_excusable(entry, rule));
                }
                indexes.extend(found);
            }
        }
        if exception.author == Author::Library {
            indexes.retain(|index| self.rules.get(*index).is_some_and(|rule| rule.is_builtin));
        }
        if exception.author == Author::Team {
            named.refused = indexes.iter().filter(|index| !self.excusability(**index).is_possible()).count();
        }
        named.rules = RuleIndexes::new(&indexes);
        named
    }

    /// Returns the rules that each name of an entry matches; without names of rules, those that the entry's own name matches.
    fn matches<'e>(&self, entry: &'e PolicyRules) -> Vec<(Option<&'e str>, Vec<RuleIndex>)> {
        if entry.rules.is_empty() {
            return vec![(None, self.by_pattern(&entry.name))];
        }
        let of_policies: Vec<RuleIndex> = if is_pattern(&entry.name) {
            let glob = Glob::new(&entry.name);
            let policies = self.by_policy.iter().filter(|(policy, _)| glob.matches(policy));
            policies.flat_map(|(_, rules)| rules.values().copied()).collect()
        } else {
            self.by_policy.get(&entry.name).into_iter().flatten().map(|(_, index)| *index).collect()
        };
        let rules = || of_policies.iter().filter_map(|index| Some((*index, self.rules.get(*index)?)));
        let mut by_word: HashMap<&str, Vec<RuleIndex>> = HashMap::new();
        for (index, rule) in rules() {
            let words: BTreeSet<&str> = rule.ids().chain([&*rule.rule]).collect();
            for word in words {
                by_word.entry(word).or_default().push(index);
            }
        }
        let matching = |name: &str| {
            if !is_pattern(name) {
                return by_word.get(name).cloned().unwrap_or_default();
            }
            let glob = Glob::new(name);
            let matches = |rule: &RuleInForce| glob.matches(&rule.rule) || rule.ids().any(|id| glob.matches(id));
            rules().filter(|(_, rule)| matches(rule)).map(|(index, _)| index).collect()
        };
        entry.rules.iter().map(|rule| (Some(&**rule), matching(rule))).collect()
    }

    fn by_pattern(&self, text: &str) -> Vec<RuleIndex> {
        if !is_pattern(text) {
            return self.by_word.get(text).into_iter().flatten().copied().collect();
        }
        let pattern = RulePattern::new(text);
        let matches = |rule: &RuleInForce| pattern.matches_ids(&rule.policy, &rule.rule, rule.ids());
        self.rules.iter().enumerate().filter(|(_, rule)| matches(rule)).map(|(index, _)| index).collect()
    }

    /// Returns the message for a name that matches no rule, with the nearest name that does.
    fn unknown(&self, entry: &PolicyRules, rule: Option<&str>) -> String {
        let policy = &entry.name;
        let near = |word: &str, known: Vec<&str>| {
            nearest(word, known).map_or(String::new(), |near| format!("; did you mean {near}?"))
        };
        let of_policy = self.by_policy.get(policy);
        match (rule, of_policy) {
            (None, _) => {
                let known = self.by_word.keys().map(AsRef::as_ref).collect::<BTreeSet<&str>>();
                format!("there is no policy or rule {policy}{}", near(policy, known.into_iter().collect()))
            }
            (Some(rule), Some(rules)) => {
                let ids = rules.values().filter_map(|index| self.rules.get(*index)).flat_map(RuleInForce::ids);
                let known = rules.keys().map(AsRef::as_ref).chain(ids).collect();
                format!("policy {policy} has no rule {rule}{}", near(rule, known))
            }
            (Some(_), None) if !is_pattern(policy) => {
                format!(
                    "there is no policy {policy}{}",
                    near(policy, self.by_policy.keys().map(AsRef::as_ref).collect())
                )
            }
            (Some(rule), None) => format!("no policy that matches {policy} has a rule {rule}"),
        }
    }

    /// Returns the message for a name whose rules a namespace may not excuse.
    fn not_excusable(&self, entry: &PolicyRules, rule: Option<&str>) -> String {
        let policy = &entry.name;
        match rule {
            None if self.by_policy.contains_key(policy) => {
                format!("rules of policy {policy} cannot be excused by a namespace")
            }
            None if is_pattern(policy) => format!("rules that match {policy} cannot be excused by a namespace"),
            None => format!("rule {policy} cannot be excused by a namespace"),
            Some(rule) => format!("rule {rule} of policy {policy} cannot be excused by a namespace"),
        }
    }
}
