//! Sequences of changes that belong together.

use std::collections::BTreeMap;

use super::{Generator, RunStep};
use crate::{
    cluster::{Contents, NAMESPACE, ObjectName},
    excuses::Excuse,
    policies::{Policy, PolicyCondition, SelectedParameters},
};

/// The shortest and the longest time between related changes, in milliseconds.
const BETWEEN: std::ops::Range<u32> = 20..1_500;
/// The longest time between two versions of policies, in milliseconds: kaudit looks for changes every second.
const BETWEEN_POLICIES: u32 = 4_000;

/// Returns the objects that exist after these steps, unless their namespace was deleted or their owner, and their contents.
fn existing(steps: &[RunStep]) -> BTreeMap<ObjectName, Contents> {
    let mut objects = BTreeMap::new();
    for step in steps {
        match step {
            RunStep::Write(name, contents) | RunStep::Recreate(name, contents) => {
                objects.insert(*name, *contents);
            }
            RunStep::Delete(name) => drop(objects.remove(name)),
            _ => {}
        }
    }
    objects
}

/// Returns the policies after these steps.
fn policies(steps: &[RunStep]) -> BTreeMap<u8, Policy> {
    let mut policies = BTreeMap::new();
    for step in steps {
        match step {
            RunStep::SetPolicy(policy) => drop(policies.insert(policy.number, *policy)),
            RunStep::RemovePolicy(number) => drop(policies.remove(number)),
            _ => {}
        }
    }
    policies
}

impl Generator {
    /// Replaces an owner and its dependents, like a rollout of a Deployment with its `ReplicaSet` and Pods.
    pub(super) fn roll_out(&mut self, steps: &mut Vec<RunStep>) {
        let (owners, parts) = (self.kind(), self.kind());
        let (namespace, names) = (self.random.u8(..self.size.namespaces), self.size.names);
        let contents = Contents { owner: None, ..self.contents() };
        let (old, new) = (self.random.u8(..names), self.random.u8(..names));
        for owner in [old, new] {
            steps.push(RunStep::Write(ObjectName { kind: owners, namespace, name: owner }, contents));
            for name in 0..names {
                let controlled = Contents { owner: Some((owners, owner)), ..contents };
                steps.push(RunStep::Write(ObjectName { kind: parts, namespace, name }, controlled));
            }
            steps.push(RunStep::Wait(self.random.u32(..20_000)));
        }
        steps.push(RunStep::Delete(ObjectName { kind: owners, namespace, name: old }));
    }

    /// Changes an object that another one depends on, and soon afterwards that one, as when an application is installed.
    /// The order is such that no policy is violated in between.
    pub(super) fn change_related(&mut self, steps: &mut Vec<RunStep>) {
        let looking_up = policies(steps).into_values().filter(Policy::looks_up);
        let looking_up: Vec<Policy> = looking_up.collect();
        if looking_up.is_empty() {
            return;
        }
        let policy = looking_up[self.others.usize(..looking_up.len())];
        let own = ObjectName {
            kind: policy.kinds[self.others.usize(..2)],
            namespace: self.others.u8(..self.size.namespaces),
            name: self.others.u8(..self.size.names),
        };
        for step in self.related(&policy, own) {
            steps.extend([step, RunStep::Wait(self.others.u32(BETWEEN))]);
        }
    }

    /// Returns changes of an object of a policy and of one that it depends on.
    fn related(&mut self, policy: &Policy, own: ObjectName) -> Vec<RunStep> {
        let names = self.size.names;
        let (other, base) = (self.others.u8(..names), Contents { team: Some(0), unit: Some(0), ..Contents::default() });
        let in_place = |kind: usize, name: u8| ObjectName { kind, namespace: own.namespace, name };
        let writes = match policy.condition {
            PolicyCondition::HasPartner(kind) => {
                let partner = in_place(kind, other);
                let referring = Contents { partner: Some(other), ..base };
                vec![(partner, base), (own, referring), (own, base)]
            }
            PolicyCondition::IsUnique(kind) => {
                let (first, second) = (Contents { unit: Some(1), ..base }, Contents { unit: Some(2), ..base });
                let holder = in_place(kind, other);
                vec![(holder, base), (own, first), (holder, second), (own, base)]
            }
            PolicyCondition::HasTeamOfNamespace if self.size.teams > 1 => {
                let home = ObjectName { kind: NAMESPACE, namespace: 0, name: own.namespace };
                let (none, second) = (Contents { team: None, ..base }, Contents { team: Some(1), ..base });
                vec![(own, none), (home, second), (own, second), (own, none), (home, base), (own, base)]
            }
            PolicyCondition::HasTeamOfParameters(reference) if self.size.teams > 1 => {
                let (name, unit) = match reference.selected {
                    SelectedParameters::Named(name) => (name, None),
                    SelectedParameters::OfUnit(unit) => (other, Some(unit)),
                };
                let namespace = reference.namespace.unwrap_or(own.namespace);
                let parameter = ObjectName { kind: reference.kind, namespace, name };
                let [none, first, second] =
                    [None, Some(0), Some(1)].map(|team| Contents { team, unit, ..Contents::default() });
                vec![(parameter, first), (own, base), (parameter, none), (own, second), (parameter, second)]
            }
            _ => Vec::new(),
        };
        writes.into_iter().map(|(name, contents)| RunStep::Write(name, contents)).collect()
    }

    /// Excuses a namespace from a policy that allows it, without an end.
    pub(super) fn excuse_for_ever(&mut self, steps: &mut Vec<RunStep>) {
        let excusable = policies(steps).into_values().filter(|policy| policy.is_excusable);
        let excusable: Vec<Policy> = excusable.collect();
        if excusable.is_empty() {
            return;
        }
        let excuse = Excuse {
            policy: excusable[self.others.usize(..excusable.len())].name(),
            namespace: self.others.u8(..self.size.namespaces),
            by_file: self.others.u8(..4) == 0,
            expires: None,
        };
        self.excused.push(excuse.clone());
        steps.push(RunStep::Excuse(excuse));
    }

    /// Returns an object whose team decides whether it violates a policy, or any other, with its contents.
    pub(super) fn object_with_violation(&mut self, steps: &[RunStep]) -> Option<(ObjectName, Contents)> {
        let policies = policies(steps);
        let violates = |(name, contents): &(ObjectName, Contents)| {
            policies.values().filter(|policy| policy.kinds.contains(&name.kind)).any(|policy| match policy.condition {
                PolicyCondition::HasTeam => contents.team.is_none(),
                PolicyCondition::HasNoTeam => contents.team.is_some(),
                _ => false,
            })
        };
        let mut known: Vec<(ObjectName, Contents)> = existing(steps).into_iter().collect();
        if known.iter().any(violates) {
            known.retain(violates);
        }
        (!known.is_empty()).then(|| known[self.others.usize(..known.len())])
    }

    /// Gives all objects in a namespace a team, or takes it away, so that the number of results changes a lot.
    pub(super) fn set_teams(&mut self, steps: &mut Vec<RunStep>) {
        let namespace = self.others.u8(..self.size.namespaces);
        let contents = Contents { team: self.others.bool().then_some(0), ..Contents::default() };
        for kind in self.kinds.clone() {
            let names = (0..self.size.names).map(|name| ObjectName { kind, namespace, name });
            steps.extend(names.map(|name| RunStep::Write(name, contents)));
        }
        steps.push(RunStep::Wait(self.others.u32(..10_000)));
    }

    /// Replaces policies several times in quick succession, while objects change.
    pub(super) fn replace_policies(&mut self, steps: &mut Vec<RunStep>) {
        for _ in 0..self.random.usize(2..6) {
            let number = self.number();
            steps.push(RunStep::SetPolicy(self.policy(number)));
            if self.random.bool() {
                steps.push(RunStep::Write(self.name(), self.contents()));
            }
            steps.push(RunStep::Wait(self.random.u32(..BETWEEN_POLICIES)));
        }
    }
}
