//! The steps of a run, determined by a seed. Any subset of the steps can also be run.

mod admission_policies;
mod bus;
mod scenarios;
mod sequences;
mod step;
mod troubles;

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

pub use self::step::RunStep;
use self::{admission_policies::AdmissionDraws, bus::BusDraws};
use crate::{
    cluster::{Contents, KINDS, NAMESPACE, ObjectName, WIDGET},
    excuses::Excuse,
    faults::{FaultRates, Outage},
    policies::{BoundObjects, Dialect, Policy, PolicyCondition, policy_name},
    replica::ReplicaSettings,
};

/// The upper bounds of a cluster and its steps.
#[derive(Debug, Clone, Copy)]
struct Size {
    kinds: usize,
    namespaces: u8,
    names: u8,
    teams: u8,
    policies: u8,
    /// Number of objects when kaudit starts.
    objects: usize,
    comparisons: usize,
    /// Number of steps before each comparison.
    steps: usize,
    /// Waits between steps, in milliseconds.
    waits: &'static [u32],
}

/// Waits such that much happens while kaudit evaluates.
const SHORT_WAITS: &[u32] = &[2, 100, 1_000];
/// Waits such that faults last.
const LONG_WAITS: &[u32] = &[10_000, 100_000, 200_000];

const SMALL: Size = Size {
    kinds: 3,
    namespaces: 2,
    names: 4,
    teams: 2,
    policies: 3,
    objects: 12,
    comparisons: 2,
    steps: 10,
    waits: &[10, 1_000, 1_000, 10_000],
};

const LARGE: Size = Size {
    kinds: 6,
    namespaces: 4,
    names: 8,
    teams: 3,
    policies: 6,
    objects: 40,
    comparisons: 3,
    steps: 20,
    waits: &[10, 1_000, 1_000, 10_000, 10_000, 100_000],
};

impl Size {
    /// Returns a random size. Most clusters are small: most failures only need few objects, and they take less time.
    fn any(random: &mut Rng) -> Self {
        let most = if random.u8(..4) > 0 { SMALL } else { LARGE };
        Self {
            kinds: random.usize(2..=most.kinds),
            namespaces: random.u8(1..=most.namespaces),
            names: random.u8(2..=most.names),
            teams: random.u8(1..=most.teams),
            policies: random.u8(1..=most.policies),
            ..most
        }
    }
}

/// The start of a run, in seconds since the epoch.
const BEGIN: i64 = 1_767_225_600;

/// Generates the steps of a run.
#[expect(clippy::struct_excessive_bools, reason = "each is something that a world may have")]
struct Generator {
    random: Rng,
    /// Random numbers for later additions, so that earlier seeds keep their steps.
    others: Rng,
    /// Random numbers for admission policies, so that worlds without them keep their steps.
    admission: AdmissionDraws,
    /// Random numbers for the bus, so that all worlds keep their other steps.
    bus: BusDraws,
    size: Size,
    kinds: Vec<usize>,
    settings: ReplicaSettings,
    /// Whether objects may have owners that not every replica reads.
    has_owners: bool,
    /// Whether policies are files, some of them in Kubescape's layout, which `ConfigMaps` do not support.
    has_library: bool,
    /// The length of the text that follows the messages of policies, in bytes.
    text_bytes: u16,
    /// Whether kaudit is sometimes disconnected for a while, so that it must relist missed changes.
    is_cut_off: bool,
    /// Whether responses for some resources are sometimes delayed or refused, also at the start.
    has_disturbances: bool,
    /// Whether a group is sometimes missing from a discovery.
    misses_groups: bool,
    /// Whether faults last.
    is_patient: bool,
    /// The possible conditions of each policy, and whether it is for Gatekeeper. Packages keep their conditions,
    /// because an open violation gets no Event when a policy changes its message.
    conditions: Vec<([PolicyCondition; 2], bool)>,
    /// The names of the policies by number.
    names: BTreeMap<u8, String>,
    /// The current exceptions.
    excused: Vec<Excuse>,
    faults: bool,
}

/// Returns the steps of a seed.
pub fn steps(seed: u64) -> Vec<RunStep> {
    scenarios::steps(seed).unwrap_or_else(|| random_steps(seed))
}

fn random_steps(seed: u64) -> Vec<RunStep> {
    let mut random = Rng::with_seed(seed);
    let size = Size::any(&mut random);
    let mut kinds: Vec<usize> = (0..KINDS.len()).filter(|kind| *kind != NAMESPACE).collect();
    random.shuffle(&mut kinds);
    kinds.truncate(size.kinds);
    let mut settings = settings(&mut random, &kinds);
    let mut others = Rng::with_seed(!seed);
    let has_library = others.u8(..5) == 0 && settings.excluded.is_none() && !settings.sharded;
    settings.in_cluster &= !has_library;
    settings.slow_events = others.u8(..6) == 0;
    let is_cut_off = others.u8(..4) == 0;
    let (has_disturbances, misses_groups, is_patient) = (others.u8(..3) == 0, others.u8(..4) == 0, others.u8(..4) == 0);
    let (size, text_bytes) = match others.u8(..12) {
        0 | 1 => (Size { waits: SHORT_WAITS, ..size }, 0),
        // Looked-up objects often do not exist.
        2 => (Size { objects: 5, steps: 4, ..size }, 0),
        // The results of a namespace do not fit into one report.
        3 | 4 => (Size { namespaces: size.namespaces.min(2), names: 12, objects: 60, ..size }, 3_500),
        _ => (size, 0),
    };
    let has_transitions = others.u8(..6) == 0;
    let faults = random.u8(..3) > 0;
    let bus = BusDraws::new(seed);
    settings.mirrors = bus.has_bus();
    settings.latency = if others.u8(..3) == 0 { others.u8(1..40) } else { 0 };
    // A shard does not read all owners, nor does a replica that excludes kinds.
    let has_owners = !settings.sharded && settings.excluded.is_none() && !settings.judged_kinds;
    let mut generator = Generator {
        random,
        others,
        admission: AdmissionDraws::new(seed, size.policies),
        bus,
        size,
        kinds,
        settings,
        has_owners,
        has_library,
        text_bytes,
        is_cut_off,
        has_disturbances: has_disturbances && faults,
        misses_groups: misses_groups && faults,
        is_patient,
        conditions: Vec::new(),
        names: BTreeMap::new(),
        excused: Vec::new(),
        faults,
    };
    generator.conditions = (0..size.policies)
        .map(|_| ([generator.condition(), generator.condition()], generator.random.u8(..4) == 0))
        .collect();
    generator.draw_admission_conditions();
    if text_bytes > 0 {
        generator.conditions[0] = ([PolicyCondition::HasTeam, PolicyCondition::HasNoTeam], false);
    }
    if has_transitions {
        generator.conditions[0] = ([PolicyCondition::NoiseStays, generator.conditions[0].0[1]], false);
    }
    generator.steps()
}

/// Returns random settings.
fn settings(random: &mut Rng, kinds: &[usize]) -> ReplicaSettings {
    let mut seldom = |one_of: u8| random.u8(..one_of) == 0;
    let (sharded, several) = (seldom(6), seldom(4));
    let (in_cluster, full_secrets, judged_kinds, by_object, unshared) =
        (seldom(4), seldom(4), seldom(5), seldom(5), seldom(5));
    // kaudit does not start if an excluded kind is not served.
    let excluded = seldom(8).then(|| kinds[random.usize(..kinds.len())]).filter(|kind| *kind != WIDGET);
    ReplicaSettings {
        replicas: if sharded || several { random.u8(2..=3) } else { 1 },
        sharded,
        in_cluster,
        full_secrets,
        excluded,
        judged_kinds,
        by_object,
        share_verdicts: !unshared,
        slow_events: false,
        admission_policies: false,
        mirrors: false,
        latency: 0,
    }
}

impl Generator {
    fn steps(&mut self) -> Vec<RunStep> {
        let mut steps = vec![RunStep::Configure(self.settings)];
        for namespace in 0..self.size.namespaces {
            let name = ObjectName { kind: NAMESPACE, namespace: 0, name: namespace };
            steps.push(RunStep::Write(name, self.contents()));
        }
        for number in (0..).take(self.conditions.len()) {
            steps.push(RunStep::SetPolicy(self.policy(number)));
        }
        for _ in 0..self.random.usize(3..self.size.objects) {
            steps.push(RunStep::Write(self.name(), self.contents()));
        }
        self.write_parameters(&mut steps);
        for _ in 0..self.others.u8(1..4) {
            self.excuse_for_ever(&mut steps);
        }
        if self.random.u8(..10) == 0 {
            steps.push(RunStep::KeepWriting(self.name(), self.random.u32(200..5_000)));
        }
        if self.has_disturbances {
            let rates = self.disturbance();
            steps.push(RunStep::SetFaults(rates));
        }
        self.start(&mut steps);
        for number in 0..self.random.usize(1..=self.size.comparisons) {
            // Only changes after convergence can cause unnecessary writes.
            let is_only_trouble = self.faults && number > 0 && self.random.bool();
            for _ in 0..self.random.usize(2..self.size.steps) {
                let step = if is_only_trouble { self.trouble() } else { self.step() };
                let is_configured = matches!(step, RunStep::Configure(_));
                steps.push(step);
                if self.has_disturbances && self.others.u8(..4) == 0 {
                    self.disturb(&mut steps);
                }
                if self.misses_groups && self.others.u8(..8) == 0 {
                    steps.push(self.miss_group());
                }
                if is_configured {
                    self.start(&mut steps);
                }
                let waits = if is_only_trouble && self.is_patient { LONG_WAITS } else { self.size.waits };
                let longest = waits[self.random.usize(..waits.len())];
                steps.push(RunStep::Wait(self.random.u32(..longest)));
                self.change_admission_policies(&mut steps, is_only_trouble);
                self.change_bus(&mut steps, is_only_trouble);
            }
            if self.faults && self.others.u8(..16) == 0 {
                steps.push(RunStep::TakeLeases);
            }
            if self.has_owners && self.random.u8(..6) == 0 {
                self.roll_out(&mut steps);
            }
            for _ in 0..self.others.u8(..4) {
                self.change_related(&mut steps);
            }
            if self.others.u8(..4) == 0 {
                self.replace_policies(&mut steps);
            }
            if self.others.bool() {
                self.excuse_for_ever(&mut steps);
            }
            if self.faults && self.is_cut_off {
                self.cut_off(&mut steps);
            }
            if self.faults && self.random.u8(..3) == 0 {
                self.outage(&mut steps);
            }
            if self.misses_groups && self.others.bool() {
                steps.push(self.miss_group());
            }
            steps.push(RunStep::Compare);
        }
        match self.random.u8(..5) {
            0 => {
                let is_disturbed = self.faults && self.others.bool();
                let mut rates = if is_disturbed { self.disturbance() } else { FaultRates::default() };
                // Dependents of owners that cannot be read are reported themselves.
                if self.has_owners && matches!(rates.only, Some(Outage::Kind(_))) {
                    rates = FaultRates::default();
                }
                steps.push(RunStep::CompareRestarted(rates));
            }
            1 | 2 => {
                // By then, policies and earlier changes are loaded.
                steps.push(RunStep::Wait(30_000));
                let names: BTreeSet<ObjectName> = (0..self.random.usize(1..6)).map(|_| self.name()).collect();
                for name in names {
                    steps.push(if self.random.bool() {
                        RunStep::Write(name, self.contents())
                    } else {
                        RunStep::Delete(name)
                    });
                }
                if self.settings.slow_events {
                    // Results of changed policies wait longer than those of changed objects.
                    let number = self.number();
                    steps.push(RunStep::SetPolicy(self.policy(number)));
                }
                steps.extend([RunStep::CompareStopped, RunStep::Compare]);
            }
            _ => {}
        }
        steps
    }

    fn start(&self, steps: &mut Vec<RunStep>) {
        steps.extend((0..self.settings.replicas).map(RunStep::Start));
    }

    /// Changes kaudit's settings in a way that does not change the expected results.
    fn configure(&mut self) -> RunStep {
        let other = settings(&mut self.random, &self.kinds);
        let ReplicaSettings {
            sharded, excluded, judged_kinds, slow_events, admission_policies, mirrors, latency, ..
        } = self.settings;
        let replicas = if sharded { other.replicas.max(2) } else { other.replicas };
        let in_cluster = other.in_cluster && !self.has_library;
        self.settings = ReplicaSettings {
            replicas,
            sharded,
            in_cluster,
            admission_policies,
            excluded,
            judged_kinds,
            slow_events,
            mirrors,
            latency,
            ..other
        };
        RunStep::Configure(self.settings)
    }

    fn step(&mut self) -> RunStep {
        match self.random.u8(..100) {
            0..34 => RunStep::Write(self.name(), self.contents()),
            34..45 => RunStep::Delete(self.name()),
            45..50 => RunStep::Recreate(self.name(), self.contents()),
            50..59 => {
                let number = self.number();
                RunStep::SetPolicy(self.policy(number))
            }
            59 | 60 => RunStep::RemovePolicy(self.number()),
            61..66 => RunStep::Excuse(self.excuse()),
            66..71 => self.end_excuse(),
            71 => self.configure(),
            72..79 => self.restart(),
            _ if !self.faults => RunStep::Write(self.name(), self.contents()),
            79 => RunStep::RemoveWidgets,
            80 => RunStep::DefineWidgets(self.has_upgrades() && self.random.bool()),
            _ => self.trouble(),
        }
    }

    /// Returns a step that affects a replica.
    fn restart(&mut self) -> RunStep {
        let replica = self.random.u8(..self.settings.replicas);
        match self.random.u8(..10) {
            // Without faults, everything is announced.
            0..3 if self.faults => RunStep::Kill(replica),
            0..6 => RunStep::Stop(replica),
            _ => RunStep::Start(replica),
        }
    }

    /// Whether Widgets may get another version: Gatekeeper rules and admission policies look up objects by version.
    fn has_upgrades(&self) -> bool {
        let looks_up = |conditions: &[PolicyCondition; 2]| conditions.iter().any(|one| one.concerns(WIDGET));
        !(0..).zip(&self.conditions).any(|(number, (conditions, is_gatekeeper))| {
            (*is_gatekeeper || self.admission.has(number)) && looks_up(conditions)
        })
    }

    fn excuse(&mut self) -> Excuse {
        let number = self.number();
        let policy = match self.names.get(&number) {
            Some(name) if self.random.u8(..4) > 0 => name.clone(),
            _ => policy_name(number, self.random.u8(..2), self.dialect(number)),
        };
        let expires = (self.random.u8(..3) == 0).then(|| self.time());
        let excuse =
            Excuse { policy, namespace: self.random.u8(..self.size.namespaces), by_file: self.random.bool(), expires };
        self.excused.push(excuse.clone());
        excuse
    }

    fn end_excuse(&mut self) -> RunStep {
        if self.excused.is_empty() {
            return RunStep::Excuse(self.excuse());
        }
        let place = self.random.usize(..self.excused.len());
        RunStep::EndExcuse(self.excused.swap_remove(place))
    }

    fn dialect(&mut self, number: u8) -> Dialect {
        if self.admission.has(number) {
            return Dialect::Cel;
        }
        if self.conditions[usize::from(number)].1 {
            return Dialect::Gatekeeper;
        }
        // Other dialects do not provide the state before a change.
        if self.conditions[usize::from(number)].0.contains(&PolicyCondition::NoiseStays) {
            return Dialect::Admission;
        }
        // A Kubescape rule reads one namespace at a time.
        let is_unique = |condition: &PolicyCondition| matches!(condition, PolicyCondition::IsUnique(_));
        if self.has_library && !self.conditions[usize::from(number)].0.iter().any(is_unique) && self.random.bool() {
            return Dialect::Kubescape;
        }
        [Dialect::Conftest, Dialect::ConftestV0, Dialect::Admission, Dialect::Trivy][self.random.usize(..4)]
    }

    fn kind(&mut self) -> usize {
        self.kinds[self.random.usize(..self.kinds.len())]
    }

    fn name(&mut self) -> ObjectName {
        if self.random.u8(..30) == 0 {
            return ObjectName { kind: NAMESPACE, namespace: 0, name: self.random.u8(..self.size.namespaces) };
        }
        let kind = self.kind();
        ObjectName { kind, namespace: self.random.u8(..self.size.namespaces), name: self.random.u8(..self.size.names) }
    }

    fn contents(&mut self) -> Contents {
        let Size { names, teams, .. } = self.size;
        let random = &mut self.random;
        let mut some = |one_of: u8, below: u8| (random.u8(..one_of) == 0).then(|| random.u8(..below));
        let (team, unit, partner) = (some(2, teams), some(3, 3), some(2, names));
        let (odd, noise) = (random.u8(..10) == 0, random.u8(..4));
        let expires = (random.u8(..5) == 0).then(|| self.time());
        let random = &mut self.random;
        let owner = (self.has_owners && random.u8(..3) == 0).then(|| (self.kind(), self.random.u8(..names)));
        Contents { team, unit, partner, expires, odd, noise, owner }
    }

    /// Returns a time near that of the run, in seconds since the epoch.
    fn time(&mut self) -> i64 {
        BEGIN + i64::from(self.random.u8(..60)) * 60
    }

    /// Returns the number of a policy.
    fn number(&mut self) -> u8 {
        u8::try_from(self.random.usize(..self.conditions.len())).unwrap_or(u8::MAX)
    }

    fn condition(&mut self) -> PolicyCondition {
        let other = if self.random.u8(..4) == 0 { WIDGET } else { self.kind() };
        // A shard looks up objects in its own namespaces only.
        let is_seen = !self.settings.sharded || KINDS[other].namespaced;
        match self.random.u8(..9) {
            3..6 if !is_seen => PolicyCondition::HasTeam,
            4 if self.settings.sharded => PolicyCondition::HasNoTeam,
            0 => PolicyCondition::HasTeam,
            1 | 2 => PolicyCondition::HasNoTeam,
            3 => PolicyCondition::HasPartner(other),
            4 => PolicyCondition::IsUnique(other),
            5 => PolicyCondition::HasRoom(other),
            6 => PolicyCondition::HasTeamOfNamespace,
            7 => PolicyCondition::IsValid,
            _ => PolicyCondition::Fails,
        }
    }

    fn policy(&mut self, number: u8) -> Policy {
        let variant = self.random.u8(..2);
        let dialect = self.dialect(number);
        let condition = self.conditions[usize::from(number)].0[usize::from(variant)];
        let kinds = [self.kind(), self.kind()];
        self.names.insert(number, policy_name(number, variant, dialect));
        let bound = if dialect == Dialect::Cel { self.admission.bound(self.size.teams) } else { BoundObjects::All };
        let policy = Policy {
            number,
            variant,
            condition,
            bound,
            // Transitions are rarer than states.
            kinds: if condition == PolicyCondition::NoiseStays { [self.kinds[0], self.kinds[1]] } else { kinds },
            is_warning: self.random.bool() && dialect != Dialect::Trivy,
            dialect,
            edition: self.random.u8(..3),
            // Kubescape rules cannot declare this.
            is_excusable: self.random.bool() && dialect != Dialect::Kubescape,
            text_bytes: if dialect == Dialect::Cel { 0 } else { self.text_bytes },
            is_broken: false,
        };
        self.admission.note(&policy);
        policy
    }
}
