//! Sets of rules that are small enough to be stored with each object.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

/// The names of a policy and of one of its rules, as in results.
pub type RuleName = [Arc<str>; 2];

/// All rules that have a number: those of all policies that this process has ever loaded.
static KNOWN: LazyLock<Mutex<KnownRules>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct KnownRules {
    names: Vec<RuleName>,
    numbers: HashMap<RuleName, RuleNumber>,
}

fn known_rules() -> MutexGuard<'static, KnownRules> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of a rule in this process. Rules of the same policy and name, which several sources may have, share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RuleNumber(u32);

impl RuleNumber {
    /// Returns the number of a rule, which does not change when policies are loaded again.
    pub fn of(policy: &Arc<str>, rule: &Arc<str>) -> Self {
        let name = [Arc::clone(policy), Arc::clone(rule)];
        let mut known = known_rules();
        if let Some(number) = known.numbers.get(&name) {
            return *number;
        }
        let number = Self(u32::try_from(known.names.len()).unwrap_or(u32::MAX));
        known.names.push(name.clone());
        known.numbers.insert(name, number);
        number
    }

    /// Returns the names of all rules that have a number, in that order.
    pub fn names() -> Vec<RuleName> {
        known_rules().names.clone()
    }

    /// Returns the names of the policy and of the rule.
    pub fn name(self) -> RuleName {
        known_rules().names[self.index()].clone()
    }

    /// Returns it as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of rules: a bit for each, without zeros at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RuleNumbers(Vec<u64>);

impl RuleNumbers {
    /// Adds a rule.
    pub fn insert(&mut self, rule: RuleNumber) {
        let word = rule.index() / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (rule.index() % 64);
    }

    /// Adds all rules of another set.
    pub fn extend(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }

    /// Removes the rules for which `keep` returns `false`.
    pub fn retain(&mut self, mut keep: impl FnMut(RuleNumber) -> bool) {
        let dropped: Vec<RuleNumber> = self.iter().filter(|rule| !keep(*rule)).collect();
        for rule in dropped {
            self.0[rule.index() / 64] &= !(1 << (rule.index() % 64));
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Returns the rules, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = RuleNumber> {
        let words = (0_u32..).zip(&self.0);
        words.flat_map(|(index, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| RuleNumber(index * 64 + bit))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_equal_to_another_of_the_same_rules() {
        let rules: Vec<RuleNumber> =
            (0..200).map(|number| RuleNumber::of(&"set".into(), &format!("rule{number}").into())).collect();
        assert_eq!(RuleNumber::of(&"set".into(), &"rule7".into()), rules[7]);
        assert_eq!(rules[199].name(), ["set".into(), "rule199".into()]);
        let set = |numbers: &[usize]| {
            let mut set = RuleNumbers::default();
            for number in numbers {
                set.insert(rules[*number]);
            }
            set
        };
        let mut some = set(&[3, 150, 199]);
        some.extend(&set(&[4]));
        some.retain(|rule| rule != rules[199] && rule != rules[150]);
        assert_eq!((some.iter().collect::<Vec<_>>(), &some), (vec![rules[3], rules[4]], &set(&[4, 3])));
        some.retain(|_| false);
        assert_eq!(some, RuleNumbers::default());
    }
}
