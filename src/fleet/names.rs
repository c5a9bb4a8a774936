//! Names that many results of a fleet share, each kept once.

use std::{collections::HashMap, sync::Arc};

use hyper::body::Bytes;

use super::{packed, part::StoredRule};
use crate::{
    audit::result::PolicySummary,
    model::{digest::Digest, object::ObjectRef},
};

/// Policies, and about the bytes of memory that they take.
type MeasuredPolicies = (Arc<[PolicySummary]>, usize);

/// Rules and kinds by their numbers, and the policies of clusters. Numbers stay the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    rules: Vec<Arc<StoredRule>>,
    rule_numbers: HashMap<Arc<StoredRule>, u32>,
    kinds: Vec<Arc<str>>,
    kind_numbers: HashMap<Arc<str>, u32>,
    /// The policies that clusters have, by the digest of their value: most clusters have the same.
    policies: HashMap<Digest, MeasuredPolicies>,
}

impl Names {
    /// Returns the number of a rule.
    pub(super) fn rule(names: &mut Arc<Self>, rule: &StoredRule) -> u32 {
        if let Some(known) = names.rule_numbers.get(rule) {
            return *known;
        }
        let names = Arc::make_mut(names);
        let number = u32::try_from(names.rules.len()).unwrap_or(u32::MAX);
        let rule = Arc::new(rule.clone());
        names.rules.push(Arc::clone(&rule));
        names.rule_numbers.insert(rule, number);
        number
    }

    /// Returns the number of an object's kind.
    pub(super) fn kind(names: &mut Arc<Self>, object: &ObjectRef) -> u32 {
        let kind = object.kind_with_group();
        if let Some(known) = names.kind_numbers.get(&*kind) {
            return *known;
        }
        let names = Arc::make_mut(names);
        let number = u32::try_from(names.kinds.len()).unwrap_or(u32::MAX);
        let kind: Arc<str> = kind.as_str().into();
        names.kinds.push(Arc::clone(&kind));
        names.kind_numbers.insert(kind, number);
        number
    }

    /// Reads policies, of which equal ones are kept once.
    pub(super) fn policies(names: &mut Arc<Self>, packed: &Bytes) -> Result<MeasuredPolicies, String> {
        let digest = Digest::of(packed);
        if let Some(known) = names.policies.get(&digest) {
            return Ok(known.clone());
        }
        let (policies, bytes) = packed::read_measured::<Vec<PolicySummary>>(packed)?;
        let policies: MeasuredPolicies = (policies.into(), bytes);
        let names = Arc::make_mut(names);
        // Those that no cluster has any more.
        names.policies.retain(|_, (policies, _)| Arc::strong_count(policies) > 1);
        names.policies.insert(digest, policies.clone());
        Ok(policies)
    }

    /// Returns how many rules and kinds there are.
    pub(super) fn count(&self) -> usize {
        self.rules.len() + self.kinds.len()
    }

    /// Returns the rules, by number.
    pub(crate) fn rules(&self) -> &[Arc<StoredRule>] {
        &self.rules
    }

    /// Returns the kinds as `Kind.group`, by number.
    pub(crate) fn kinds(&self) -> &[Arc<str>] {
        &self.kinds
    }
}
