//! The admission policies of a plan, and their changes, drawn from random numbers of their own.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::{Generator, RunStep};
use crate::{
    cluster::{Contents, KINDS, NAMESPACE, ObjectName, WIDGET},
    policies::{BoundObjects, Dialect, ParameterReference, Policy, PolicyCondition, SelectedParameters},
};

/// Separates these random numbers from the others of a seed.
const STREAM: u64 = 0x5bd1_e995_9d1f_3a17;
/// The group of admission policies.
const GROUP: &str = "admissionregistration.k8s.io";

/// The admission policies of a world, and the random numbers for them.
#[derive(Debug)]
pub(super) struct AdmissionDraws {
    random: Rng,
    numbers: BTreeSet<u8>,
    /// The last version of each.
    last: BTreeMap<u8, Policy>,
}

impl AdmissionDraws {
    /// Chooses those of the policies that are admission policies: some in one of three worlds, none in others.
    pub(super) fn new(seed: u64, policies: u8) -> Self {
        let mut random = Rng::with_seed(seed ^ STREAM);
        let first = (random.u8(..3) == 0).then(|| random.u8(..policies));
        let others = (0..policies).filter(|_| first.is_some() && random.bool());
        let numbers = others.chain(first).collect();
        Self { random, numbers, last: BTreeMap::new() }
    }

    /// Whether the policy with this number is one.
    pub(super) fn has(&self, number: u8) -> bool {
        self.numbers.contains(&number)
    }

    /// Returns random objects for a binding; `teams` is the number of teams.
    pub(super) fn bound(&mut self, teams: u8) -> BoundObjects {
        match self.random.u8(..8) {
            0 | 1 => BoundObjects::OfNamespacesWithTeam(self.random.u8(..teams)),
            2 => BoundObjects::OfUnit(self.random.u8(..3)),
            _ => BoundObjects::All,
        }
    }

    /// Records a policy that is written.
    pub(super) fn note(&mut self, policy: &Policy) {
        if policy.dialect == Dialect::Cel {
            self.last.insert(policy.number, *policy);
        }
    }

    /// Changes only the binding of a policy, or only its text; `None` if there is no policy.
    fn rebound(&mut self, teams: u8) -> Option<Policy> {
        let mut policy = *self.last.values().nth(self.random.usize(..self.last.len().max(1)))?;
        match self.random.u8(..3) {
            0 => policy.bound = self.bound(teams),
            1 => policy.is_warning = !policy.is_warning,
            _ => policy.edition = self.random.u8(..3),
        }
        self.note(&policy);
        Some(policy)
    }
}

impl Generator {
    /// Replaces the conditions of admission policies.
    pub(super) fn draw_admission_conditions(&mut self) {
        self.settings.admission_policies = !self.admission.numbers.is_empty();
        for number in self.admission.numbers.clone() {
            let conditions = [self.admission_condition(), self.admission_condition()];
            self.conditions[usize::from(number)] = (conditions, false);
        }
    }

    fn admission_condition(&mut self) -> PolicyCondition {
        match self.admission.random.u8(..9) {
            0 => PolicyCondition::HasTeam,
            1 => PolicyCondition::HasNoTeam,
            2 | 3 => PolicyCondition::HasTeamOfNamespace,
            4 => PolicyCondition::Fails,
            _ => PolicyCondition::HasTeamOfParameters(self.parameters()),
        }
    }

    fn parameters(&mut self) -> ParameterReference {
        let (random, is_sharded) = (&mut self.admission.random, self.settings.sharded);
        // A shard looks up objects in its own namespaces only.
        let kinds: Vec<usize> =
            self.kinds.iter().copied().chain([WIDGET]).filter(|kind| !is_sharded || KINDS[*kind].namespaced).collect();
        let kind = kinds[random.usize(..kinds.len())];
        let is_elsewhere = random.u8(..4) == 0 && KINDS[kind].namespaced && !is_sharded;
        let namespace = is_elsewhere.then(|| random.u8(..self.size.namespaces));
        let selected = if random.bool() {
            SelectedParameters::Named(random.u8(..self.size.names.min(3)))
        } else {
            SelectedParameters::OfUnit(random.u8(..3))
        };
        ParameterReference { kind, namespace, selected, must_exist: random.u8(..4) == 0 }
    }

    /// Adds parameters in some namespaces.
    pub(super) fn write_parameters(&mut self, steps: &mut Vec<RunStep>) {
        for _ in 0..self.admission.numbers.len() * usize::from(self.size.namespaces) {
            steps.extend(self.parameter().map(|(name, contents)| RunStep::Write(name, contents)));
        }
    }

    /// Returns a parameter with random contents, if a policy has parameters.
    fn parameter(&mut self) -> Option<(ObjectName, Contents)> {
        let of_policies = self.admission.numbers.iter().flat_map(|number| self.conditions[usize::from(*number)].0);
        let references: Vec<ParameterReference> = of_policies.filter_map(PolicyCondition::parameters).collect();
        let random = &mut self.admission.random;
        let reference = *references.get(random.usize(..references.len().max(1)))?;
        let namespace = reference.namespace.unwrap_or_else(|| random.u8(..self.size.namespaces));
        let (mut name, mut unit) = (random.u8(..self.size.names), None);
        match reference.selected {
            SelectedParameters::Named(own) => name = own,
            SelectedParameters::OfUnit(own) => unit = Some(own),
        }
        let team = (random.u8(..6) > 0).then(|| random.u8(..self.size.teams));
        let contents = Contents { team, unit, noise: random.u8(..4), ..Contents::default() };
        Some((ObjectName { kind: reference.kind, namespace, name }, contents))
    }

    /// Sometimes adds a change of what only admission policies depend on, or a fault, if there are such policies.
    pub(super) fn change_admission_policies(&mut self, steps: &mut Vec<RunStep>, is_only_trouble: bool) {
        if self.admission.numbers.is_empty() {
            return;
        }
        let random = &mut self.admission.random;
        match random.u8(..12) {
            0 if self.faults => steps.push(RunStep::MissGroup(GROUP, 1)),
            _ if is_only_trouble => return,
            1 | 2 => {
                let namespace = ObjectName { kind: NAMESPACE, namespace: 0, name: random.u8(..self.size.namespaces) };
                let team = (random.u8(..4) > 0).then(|| random.u8(..self.size.teams));
                steps.push(RunStep::Write(namespace, Contents { team, ..Contents::default() }));
            }
            3 | 4 => {
                let Some(policy) = self.admission.rebound(self.size.teams) else { return };
                steps.push(RunStep::SetPolicy(policy));
            }
            5..8 => {
                let Some((name, contents)) = self.parameter() else { return };
                let is_deleted = self.admission.random.u8(..4) == 0;
                steps.push(if is_deleted { RunStep::Delete(name) } else { RunStep::Write(name, contents) });
            }
            _ => return,
        }
        let random = &mut self.admission.random;
        let longest = self.size.waits[random.usize(..self.size.waits.len())];
        steps.push(RunStep::Wait(random.u32(..longest)));
    }
}
