//! Small worlds in which related things happen close together: an owner changes while its dependents do, or a replica is
//! killed between two writes. In other worlds that is rare.

use fastrand::Rng;

use super::{BEGIN, RunStep};
use crate::{
    bus::{BusFault, LATEST},
    cluster::{Contents, NAMESPACE, ObjectName, WIDGET},
    excuses::Excuse,
    faults::{FaultRates, Outage},
    policies::{BoundObjects, Dialect, ParameterReference, Policy, PolicyCondition, SelectedParameters},
    replica::ReplicaSettings,
};

/// Separates these random numbers from the others of a seed.
const STREAM: u64 = 0x3d0c_96f4_1b7a_e285;
/// Namespaced kinds; each scenario has some of them.
const KINDS: [usize; 6] = [0, 1, 2, 4, 5, 6];
/// Waits, in milliseconds: within an evaluation, between two reads of policies, until Events and reports are written.
const WAITS: [u32; 4] = [60, 1_500, 1_500, 15_000];

/// A scenario and what it consists of so far.
struct Scenario {
    random: Rng,
    settings: ReplicaSettings,
    /// Different kinds in random order.
    kinds: [usize; 6],
    steps: Vec<RunStep>,
}

/// Returns the steps of a seed that has a scenario: one in three has.
pub(super) fn steps(seed: u64) -> Option<Vec<RunStep>> {
    const ALL: [fn(&mut Scenario); 10] = [
        Scenario::owners,
        Scenario::unread_lookups,
        Scenario::parameters,
        Scenario::lost_records,
        Scenario::late_exceptions,
        Scenario::busy_objects,
        Scenario::new_leaders,
        Scenario::unread_kinds,
        Scenario::unconcerned_kinds,
        Scenario::replaced_policies,
    ];
    let mut random = Rng::with_seed(seed ^ STREAM);
    if random.u8(..3) > 0 {
        return None;
    }
    let mut kinds = KINDS;
    random.shuffle(&mut kinds);
    let settings = ReplicaSettings {
        latency: if random.bool() { random.u8(1..40) } else { 0 },
        by_object: random.u8(..4) == 0,
        share_verdicts: random.u8(..4) > 0,
        ..ReplicaSettings::default()
    };
    let run = ALL[random.usize(..ALL.len())];
    let mut scenario = Scenario { random, settings, kinds, steps: Vec::new() };
    run(&mut scenario);
    // The settings may depend on the scenario.
    scenario.steps.insert(0, RunStep::Configure(scenario.settings));
    Some(scenario.steps)
}

const fn object(kind: usize, name: u8) -> ObjectName {
    ObjectName { kind, namespace: 0, name }
}

impl Scenario {
    /// Returns true once in `times` on average.
    fn seldom(&mut self, times: u8) -> bool {
        self.random.u8(..times) == 0
    }

    fn wait(&mut self) {
        let longest = WAITS[self.random.usize(..WAITS.len())];
        self.steps.push(RunStep::Wait(self.random.u32(..longest)));
    }

    fn write(&mut self, name: ObjectName, contents: Contents) {
        self.steps.push(RunStep::Write(name, contents));
    }

    /// Returns contents with which one of [`PolicyCondition::HasTeam`] and [`PolicyCondition::HasNoTeam`] is violated.
    fn contents(&mut self) -> Contents {
        let team = self.random.bool().then(|| self.random.u8(..2));
        Contents { team, noise: self.random.u8(..4), ..Contents::default() }
    }

    /// Writes so many objects of a kind.
    fn write_objects(&mut self, kind: usize, count: u8) {
        for name in 0..count {
            let contents = self.contents();
            self.write(object(kind, name), contents);
        }
    }

    /// Adds a policy of a random dialect.
    fn policy(&mut self, (number, variant): (u8, u8), condition: PolicyCondition, kinds: [usize; 2]) -> Policy {
        const DIALECTS: [Dialect; 5] =
            [Dialect::Conftest, Dialect::ConftestV0, Dialect::Admission, Dialect::Gatekeeper, Dialect::Trivy];
        let has_parameters = matches!(condition, PolicyCondition::HasTeamOfParameters(_));
        let dialect = if has_parameters { Dialect::Cel } else { DIALECTS[self.random.usize(..DIALECTS.len())] };
        let policy = Policy {
            number,
            variant,
            condition,
            kinds,
            bound: BoundObjects::All,
            is_warning: self.random.bool() && dialect != Dialect::Trivy,
            dialect,
            edition: 0,
            is_excusable: true,
            text_bytes: 0,
            is_broken: false,
        };
        self.steps.push(RunStep::SetPolicy(policy));
        policy
    }

    /// Adds the first namespace, which all objects are in, and a policy about the `team` of these kinds.
    fn begin(&mut self, kinds: [usize; 2]) -> Policy {
        let team = self.random.u8(..2);
        self.write(object(NAMESPACE, 0), Contents { team: Some(team), ..Contents::default() });
        let condition = if self.random.bool() { PolicyCondition::HasTeam } else { PolicyCondition::HasNoTeam };
        self.policy((0, 0), condition, kinds)
    }

    fn start(&mut self) {
        self.steps.extend((0..self.settings.replicas).map(RunStep::Start));
    }

    /// Returns faults of the watch of a kind: changes are late, or missing until the next list.
    fn faulty_watch(&mut self, kind: usize) -> FaultRates {
        let only = Some(Outage::Kind(kind));
        FaultRates { seed: self.random.u64(..), watches: 500, only, ..FaultRates::default() }
    }

    /// Like a Deployment, its `ReplicaSet`, for which there is no policy, and Pods: each changes in any order.
    fn owners(&mut self) {
        let [top, middle, part, ..] = self.kinds;
        self.begin([top, part]);
        if self.seldom(3) {
            self.policy((1, 0), PolicyCondition::HasNoTeam, [middle, part]);
        }
        for _ in 0..self.random.u8(1..4) {
            self.change_family([top, middle, part]);
        }
        self.start();
        for _ in 0..3 {
            for _ in 0..self.random.u8(3..9) {
                self.change_family([top, middle, part]);
            }
            self.steps.push(RunStep::Compare);
        }
    }

    fn change_family(&mut self, [top, middle, part]: [usize; 3]) {
        let (contents, name) = (self.contents(), self.random.u8(..2));
        let owned = |owner: usize| Contents { owner: Some((owner, name)), ..contents };
        let number = self.random.u8(..3);
        match self.random.u8(..14) {
            0..4 => self.write(object(top, name), contents),
            4 | 5 => self.write(object(middle, number), owned(top)),
            6 => self.write(object(part, number), owned(middle)),
            7 => self.write(object(part, number), owned(top)),
            8 => self.write(object(part, number), contents),
            9 => self.steps.push(RunStep::Delete(object([top, middle][usize::from(number % 2)], name))),
            10 => self.steps.push(RunStep::Recreate(object(middle, name), owned(top))),
            11 => {
                let late = [top, middle, part][usize::from(number)];
                let faults = self.faulty_watch(late);
                self.steps.push(RunStep::SetFaults(faults));
            }
            _ => {
                if self.random.bool() {
                    let faults = self.faulty_watch(middle);
                    self.steps.push(RunStep::SetFaults(faults));
                }
                self.write(object(top, name), contents);
                self.write(object(middle, name), owned(top));
                for number in 0..3 {
                    self.write(object(part, number), owned(middle));
                }
            }
        }
        self.wait();
    }

    /// A kind that a policy looks up cannot be read for a while. It often has no objects.
    fn unread_lookups(&mut self) {
        let [own, other, ..] = self.kinds;
        let (other, condition) = match self.random.u8(..6) {
            0 => (WIDGET, PolicyCondition::HasPartner(WIDGET)),
            1 => (NAMESPACE, PolicyCondition::HasTeamOfNamespace),
            2 => (other, PolicyCondition::HasRoom(other)),
            3 => (other, PolicyCondition::IsUnique(other)),
            _ => (other, PolicyCondition::HasPartner(other)),
        };
        self.begin([own, own]);
        self.policy((1, 0), condition, [own, own]);
        let mut starts_unread = self.random.bool();
        for _ in 0..2 {
            for name in 0..self.random.u8(..3) {
                self.write_referring(object(own, name));
            }
            if self.seldom(2) {
                self.write_referring(object(other, 0));
            }
            if !starts_unread {
                self.start();
                self.steps.push(RunStep::Wait(self.random.u32(..40_000)));
            }
            self.steps.push(match self.random.u8(..3) {
                0 => RunStep::Forbid(other),
                1 => RunStep::SetFaults(FaultRates::unreadable(Outage::Kind(other), &mut self.random)),
                _ => RunStep::SetFaults(FaultRates::late(Outage::Kind(other), &mut self.random)),
            });
            self.start();
            for _ in 0..self.random.u8(..3) {
                self.wait();
                let kind = if self.random.bool() { own } else { other };
                let name = object(kind, self.random.u8(..3));
                self.write_referring(name);
            }
            self.steps.push(RunStep::Wait(self.random.u32(..90_000)));
            if self.random.bool() {
                self.steps.extend([RunStep::Stop(0), RunStep::Start(0), RunStep::Wait(self.random.u32(..90_000))]);
            }
            self.steps.extend([RunStep::Allow(other), RunStep::SetFaults(FaultRates::default())]);
            self.wait();
            self.steps.push(RunStep::Compare);
            starts_unread = false;
        }
    }

    /// Writes an object that refers to others, which may not exist.
    fn write_referring(&mut self, name: ObjectName) {
        let contents = Contents { partner: Some(0), unit: Some(self.random.u8(..2)), ..self.contents() };
        self.write(name, contents);
    }

    /// Parameters of an admission policy change, or their kind is removed.
    fn parameters(&mut self) {
        let [own, other, ..] = self.kinds;
        self.settings.admission_policies = true;
        self.settings.in_cluster = self.random.bool();
        let kind = if self.random.bool() { WIDGET } else { other };
        let selected = if self.random.bool() { SelectedParameters::Named(0) } else { SelectedParameters::OfUnit(0) };
        let namespace = self.random.bool().then_some(0);
        let reference = ParameterReference { kind, namespace, selected, must_exist: self.seldom(4) };
        self.begin([own, own]);
        self.policy((1, 0), PolicyCondition::HasTeamOfParameters(reference), [own, own]);
        let contents = self.contents();
        self.write(object(own, 0), contents);
        if kind == WIDGET && self.random.bool() {
            self.steps.push(RunStep::RemoveWidgets);
        }
        self.start();
        for _ in 0..3 {
            self.wait();
            for _ in 0..self.random.u8(1..4) {
                let contents = Contents { unit: Some(0), ..self.contents() };
                match self.random.u8(..6) {
                    0 => self.write(object(own, 0), contents),
                    1 => self.steps.push(RunStep::Delete(object(kind, 0))),
                    2 if kind == WIDGET => self.steps.push(RunStep::RemoveWidgets),
                    3 if kind == WIDGET => self.steps.push(RunStep::DefineWidgets(false)),
                    _ => self.write(object(kind, 0), contents),
                }
                self.wait();
            }
            self.steps.push(RunStep::Compare);
        }
    }

    /// Some records cannot be written while violations end and begin again, and kaudit may be killed meanwhile.
    fn lost_records(&mut self) {
        let [kind, ..] = self.kinds;
        self.begin([kind, kind]);
        self.settings.slow_events = self.seldom(4);
        self.write_objects(kind, 3);
        self.start();
        self.steps.push(RunStep::Wait(self.random.u32(..30_000)));
        for _ in 0..2 {
            let outage = [Outage::Events, Outage::Reports, Outage::ReportWrites][self.random.usize(..3)];
            self.steps.push(RunStep::BeginOutage(FaultRates::outage(outage, &mut self.random)));
            let (name, dies) = (object(kind, self.random.u8(..3)), self.random.u8(..4));
            let mut team = self.random.bool();
            for number in 0..4 {
                team = !team;
                self.write(name, Contents { team: team.then_some(0), ..Contents::default() });
                self.wait();
                if number == dies {
                    self.steps.push(RunStep::Kill(0));
                }
            }
            if self.random.bool() {
                self.steps.push(RunStep::SetFaults(FaultRates::default()));
            }
            self.start();
            self.wait();
            self.steps.push(RunStep::Compare);
        }
    }

    /// Exceptions cannot be read for a while, or change soon afterwards.
    fn late_exceptions(&mut self) {
        let [kind, ..] = self.kinds;
        let policy = self.begin([kind, kind]);
        self.write_objects(kind, 3);
        let expires = self.seldom(4).then(|| BEGIN + i64::from(self.random.u8(1..10)) * 60);
        let excuse = Excuse { policy: policy.name(), namespace: 0, by_file: self.seldom(4), expires };
        self.steps.push(RunStep::Excuse(excuse.clone()));
        self.steps.push(match self.random.u8(..4) {
            0 => RunStep::MissGroup("kaudit.dev", self.random.u8(1..4)),
            1 => RunStep::SetFaults(FaultRates::late(Outage::Exceptions, &mut self.random)),
            2 => RunStep::SetFaults(FaultRates::unreadable(Outage::Exceptions, &mut self.random)),
            _ => RunStep::Wait(0),
        });
        self.start();
        self.steps.push(RunStep::Wait(self.random.u32(..120_000)));
        self.steps.push(RunStep::Compare);
        for _ in 0..self.random.u8(1..5) {
            let step = if self.random.bool() { RunStep::Excuse } else { RunStep::EndExcuse };
            self.steps.push(step(excuse.clone()));
            self.wait();
            if self.random.bool() {
                let (name, contents) = (object(kind, self.random.u8(..3)), self.contents());
                self.write(name, contents);
                self.wait();
            }
        }
        self.steps.push(RunStep::Compare);
    }

    /// One object changes again and again, also while it is evaluated.
    fn busy_objects(&mut self) {
        let [kind, other, ..] = self.kinds;
        self.begin([kind, kind]);
        if self.random.bool() {
            self.policy((1, 0), PolicyCondition::HasPartner(other), [kind, kind]);
        }
        self.start();
        for _ in 0..2 {
            for _ in 0..self.random.u8(4..14) {
                let contents = Contents { partner: Some(0), ..self.contents() };
                match self.random.u8(..12) {
                    0 => self.steps.push(RunStep::Delete(object(kind, 0))),
                    1 => self.steps.push(RunStep::Recreate(object(kind, 0), contents)),
                    2 => self.write(object(other, 0), contents),
                    3 => self.steps.push(RunStep::Delete(object(other, 0))),
                    _ => self.write(object(kind, 0), contents),
                }
                self.steps.push(RunStep::Wait(self.random.u32(..1_500)));
            }
            let is_stopped = self.random.bool();
            self.steps.extend(is_stopped.then_some(RunStep::CompareStopped));
            self.start();
            self.steps.push(RunStep::Compare);
        }
    }

    /// Leaders change, or the bucket is lost, while violations begin and end. Late writes of a leader arrive after its end.
    fn new_leaders(&mut self) {
        let [kind, ..] = self.kinds;
        self.settings = ReplicaSettings { replicas: 2, sharded: self.random.bool(), mirrors: true, ..self.settings };
        self.begin([kind, kind]);
        let namespaces = if self.settings.sharded { 4 } else { 1 };
        for namespace in 1..namespaces {
            self.write(object(NAMESPACE, namespace), Contents::default());
        }
        for namespace in 0..namespaces {
            let contents = self.contents();
            self.write(ObjectName { namespace, ..object(kind, 0) }, contents);
        }
        self.start();
        self.steps.push(RunStep::Wait(self.random.u32(..60_000)));
        for _ in 0..2 {
            let name = ObjectName { namespace: self.random.u8(..namespaces), ..object(kind, self.random.u8(..2)) };
            let mut team = self.random.bool();
            if self.seldom(3) {
                self.steps.push(RunStep::BreakBus(BusFault::LoseBucket));
            } else {
                let longest = u16::try_from(LATEST.as_millis()).unwrap_or(u16::MAX);
                self.steps.push(RunStep::BreakBus(BusFault::LateWrites(self.random.u16(5_000..longest))));
            }
            let replica = self.random.u8(..2);
            for number in 0..self.random.u8(2..4) {
                team = !team;
                self.write(name, Contents { team: team.then_some(0), ..Contents::default() });
                self.wait();
                if number == 0 && self.random.bool() {
                    self.steps.push(if self.random.bool() { RunStep::Kill(replica) } else { RunStep::Stop(replica) });
                    // The next leader's writes are not late.
                    self.steps.extend(self.random.bool().then_some(RunStep::RestoreBus));
                }
            }
            self.start();
            self.wait();
            self.steps.push(RunStep::Compare);
        }
    }

    /// A kind that no policy needs is read late.
    fn unread_kinds(&mut self) {
        let [kind, late, ..] = self.kinds;
        self.begin([kind, kind]);
        self.write_objects(kind, 2);
        self.steps.push(RunStep::StartUnread(late, self.random.u16(2_000..20_000)));
        self.wait();
        self.steps.push(RunStep::Compare);
    }

    /// Objects change that no policy applies to.
    fn unconcerned_kinds(&mut self) {
        let [kind, other, ..] = self.kinds;
        self.begin([kind, kind]);
        let contents = self.contents();
        self.write(object(kind, 0), contents);
        self.start();
        for _ in 0..3 {
            self.steps.push(RunStep::Compare);
            for _ in 0..self.random.u8(1..4) {
                let (name, contents) = (object(other, self.random.u8(..2)), self.contents());
                if self.random.bool() {
                    self.write(name, contents);
                } else {
                    self.steps.push(RunStep::Delete(name));
                }
            }
        }
        self.steps.push(RunStep::Compare);
    }

    /// Policies change, also while objects are evaluated, and with what they look up.
    fn replaced_policies(&mut self) {
        let [kind, first, second, ..] = self.kinds;
        self.begin([kind, kind]);
        for other in [first, second] {
            self.write(object(other, 0), Contents { unit: Some(0), ..Contents::default() });
        }
        for name in 0..3 {
            self.write_referring(object(kind, name));
        }
        self.start();
        for _ in 0..2 {
            for _ in 0..self.random.u8(3..10) {
                let other = if self.random.bool() { first } else { second };
                let condition = match self.random.u8(..4) {
                    0 => PolicyCondition::HasPartner(other),
                    1 => PolicyCondition::IsUnique(other),
                    2 => PolicyCondition::HasTeam,
                    _ => PolicyCondition::HasNoTeam,
                };
                // Packages keep their conditions, because an open violation gets no Event when a policy changes its message.
                let (number, variant) = match condition {
                    PolicyCondition::HasPartner(_) => (1, u8::from(other == second)),
                    PolicyCondition::IsUnique(_) => (2, u8::from(other == second)),
                    PolicyCondition::HasTeam => (3, 0),
                    _ => (4, 0),
                };
                match self.random.u8(..6) {
                    0 => self.steps.push(RunStep::RemovePolicy(number)),
                    1 => self.write_referring(object(kind, number % 3)),
                    2 => self.write_referring(object(other, 0)),
                    3 => self.steps.push(RunStep::Delete(object(other, 0))),
                    _ => drop(self.policy((number, variant), condition, [kind, kind])),
                }
                self.wait();
            }
            self.steps.push(RunStep::Compare);
        }
    }
}
