//! Which exceptions may apply to a result, and what is wrong with one under the policies in force.
//!
//! Invariant: what the exceptions of one namespace cost does not grow with those of others.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Deref,
    sync::Arc,
};

use super::exception::{Author, DEFAULT_NAMESPACE, Exception};
use crate::model::{object::ObjectKey, spelling::nearest};

/// The rules in force by policy, and whether teams may excuse their violations.
pub(super) type RulesInForce = BTreeMap<Arc<str>, BTreeMap<Arc<str>, bool>>;

/// An exception that can be read. What is wrong with it is found out once for each set of policies, as it is reported often.
#[derive(Debug)]
pub(super) struct ListedException {
    exception: Arc<Exception>,
    /// Which policy or rule that it names is not in force, and what may be meant.
    pub(super) unknown: Option<String>,
    /// Which policy that it names a team may not excuse.
    pub(super) not_excusable: Option<String>,
}

impl Deref for ListedException {
    type Target = Arc<Exception>;

    fn deref(&self) -> &Arc<Exception> {
        &self.exception
    }
}

impl ListedException {
    pub(super) fn new(exception: Arc<Exception>) -> Self {
        Self { exception, unknown: None, not_excusable: None }
    }

    /// Checks it against the rules in force.
    pub(super) fn check(&mut self, rules: &RulesInForce) {
        (self.unknown, self.not_excusable) = (self.find_unknown(rules), self.find_not_excusable(rules));
    }

    fn find_unknown(&self, known: &RulesInForce) -> Option<String> {
        let meant = |word: &str, known: Vec<&str>| {
            nearest(word, known).map_or(String::new(), |near| format!("; did you mean {near}?"))
        };
        self.policies.iter().find_map(|policy| {
            let Some(rules) = known.get(&policy.name) else {
                let meant = meant(&policy.name, known.keys().map(|name| &**name).collect());
                return Some(format!("there is no policy {}{meant}", policy.name));
            };
            let rule = policy.rules.iter().find(|rule| !rules.contains_key(*rule))?;
            let meant = meant(rule, rules.keys().map(|name| &**name).collect());
            Some(format!("policy {} has no rule {rule}{meant}", policy.name))
        })
    }

    fn find_not_excusable(&self, known: &RulesInForce) -> Option<String> {
        if self.author == Author::Operator {
            return None;
        }
        let refused = self.policies.iter().find(|policy| {
            let rules = known.get(&policy.name).into_iter().flatten();
            let mut named = rules.filter(|(rule, _)| self.names(&policy.name, rule)).peekable();
            named.peek().is_some() && !named.any(|(_, excusable)| *excusable)
        })?;
        Some(format!(
            "policy {} has no rule that a namespace may excuse (custom.excusable: true in its METADATA)",
            refused.name
        ))
    }
}

/// The exceptions of a namespace by policy, in the order of their names.
type NamespaceExceptions = HashMap<Arc<str>, BTreeMap<ObjectKey, Arc<Exception>>>;

/// Exceptions by what they may apply to.
#[derive(Debug, Default)]
pub(super) struct ExceptionIndex {
    /// Those of files by policy, in the order of the files.
    given: HashMap<Arc<str>, Vec<Arc<Exception>>>,
    /// Those of the cluster by namespace.
    found: HashMap<Arc<str>, NamespaceExceptions>,
}

impl ExceptionIndex {
    pub(super) fn replace_given<'a>(&mut self, given: impl Iterator<Item = &'a Arc<Exception>>) {
        self.given.clear();
        for exception in given {
            for policy in policies(exception) {
                self.given.entry(Arc::clone(policy)).or_default().push(Arc::clone(exception));
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.given.is_empty() && self.found.is_empty()
    }

    pub(super) fn add(&mut self, key: &ObjectKey, exception: &Arc<Exception>) {
        let by_policy = self.found.entry(namespace(key)).or_default();
        for policy in policies(exception) {
            by_policy.entry(Arc::clone(policy)).or_default().insert(key.clone(), Arc::clone(exception));
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey, exception: &Exception) {
        let namespace = namespace(key);
        let Some(by_policy) = self.found.get_mut(&namespace) else { return };
        for policy in policies(exception) {
            if let Some(exceptions) = by_policy.get_mut(policy) {
                exceptions.remove(key);
                if exceptions.is_empty() {
                    by_policy.remove(policy);
                }
            }
        }
        if by_policy.is_empty() {
            self.found.remove(&namespace);
        }
    }

    /// Returns those that may apply to results of a policy about objects in these namespaces, the first first.
    pub(super) fn candidates<'a>(
        &'a self,
        policy: &'a str,
        namespaces: &'a BTreeSet<&str>,
    ) -> impl Iterator<Item = &'a Arc<Exception>> {
        let found = namespaces.iter().filter_map(move |namespace| self.found.get(*namespace)?.get(policy));
        self.given.get(policy).into_iter().flatten().chain(found.flat_map(BTreeMap::values))
    }
}

/// Returns the namespace that an object of the cluster or of a manifest is an exception for.
fn namespace(key: &ObjectKey) -> Arc<str> {
    let namespace = key.namespace.clone().filter(|namespace| !namespace.is_empty());
    namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.into())
}

/// Returns the policies that an exception names, each once.
fn policies(exception: &Exception) -> BTreeSet<&Arc<str>> {
    exception.policies.iter().map(|policy| &policy.name).collect()
}
