//! Steps that do not change the expected results: faults, and what affects replicas.

use super::{Generator, RunStep};
use crate::{
    cluster::{Contents, KINDS, NAMESPACE},
    faults::{self, FaultRates, Outage},
};

impl Generator {
    /// Returns a step that does not change the expected results.
    pub(super) fn trouble(&mut self) -> RunStep {
        match self.random.u8(..25) {
            0..9 => RunStep::SetFaults(FaultRates::any(&mut self.random)),
            9..11 => RunStep::Compact,
            11..13 => RunStep::ForgetWatchHistory,
            13..15 => RunStep::RestartServer,
            15..17 => RunStep::Forbid(self.kind_or_namespaces()),
            17 => RunStep::Freeze(self.random.u32(..60_000)),
            18 => RunStep::ChangeTimeOfDay(self.random.i32(-50..7_200)),
            19 => RunStep::BreakPolicy(self.number()),
            _ => self.restart(),
        }
    }

    /// Makes a group missing from one discovery or several: from fewer than it takes until kaudit believes it.
    pub(super) fn miss_group(&mut self) -> RunStep {
        let of_kind = |kind: &usize| KINDS[*kind].api_version.split_once('/').map(|(group, _)| group);
        let groups: Vec<&str> = self.kinds.iter().filter_map(of_kind).collect();
        let group = if groups.is_empty() || self.others.u8(..3) == 0 {
            faults::any_group(&mut self.others)
        } else {
            groups[self.others.usize(..groups.len())]
        };
        RunStep::MissGroup(group, self.others.u8(1..=3))
    }

    /// Delays or refuses reads of some resources; sometimes a replica is restarted meanwhile.
    pub(super) fn disturb(&mut self, steps: &mut Vec<RunStep>) {
        steps.push(RunStep::SetFaults(self.disturbance()));
        if self.others.bool() {
            let replica = self.others.u8(..self.settings.replicas);
            let longest = if self.others.bool() { 20_000 } else { 100_000 };
            steps.extend([RunStep::Stop(replica), RunStep::Start(replica), RunStep::Wait(self.others.u32(..longest))]);
        }
    }

    /// Returns a kind that policies depend on, or one that they apply to.
    fn kind_to_disturb(&mut self) -> usize {
        let conditions = self.conditions.iter().flat_map(|(conditions, _)| conditions);
        let mut kinds: Vec<usize> = conditions.filter_map(|condition| condition.looks_up("any")).collect();
        kinds.extend(self.settings.admission_policies.then_some(NAMESPACE));
        if kinds.is_empty() || self.others.u8(..3) == 0 {
            kinds.clone_from(&self.kinds);
        }
        kinds[self.others.usize(..kinds.len())]
    }

    /// Returns one of the kinds of the world, or Namespaces.
    fn kind_or_namespaces(&mut self) -> usize {
        if self.others.u8(..6) == 0 { NAMESPACE } else { self.kind() }
    }

    /// Disconnects kaudit while objects change, and removes these changes from the server's history.
    pub(super) fn cut_off(&mut self, steps: &mut Vec<RunStep>) {
        let replica = self.random.u8(..self.settings.replicas);
        let is_alone = self.settings.replicas > 1 && self.random.bool();
        steps.push(if is_alone {
            RunStep::Disconnect(replica)
        } else {
            RunStep::SetFaults(FaultRates::cut_off(&mut self.random))
        });
        for _ in 0..self.random.usize(1..8) {
            steps.push(match self.random.u8(..6) {
                0..3 => RunStep::Delete(self.name()),
                3 => RunStep::Recreate(self.name(), self.contents()),
                _ => RunStep::Write(self.name(), self.contents()),
            });
            steps.push(RunStep::Wait(self.random.u32(..5_000)));
        }
        steps.push(match self.random.u8(..3) {
            0 => RunStep::Compact,
            1 => RunStep::ForgetWatchHistory,
            _ => RunStep::RestartServer,
        });
        if is_alone {
            // Longer or shorter than the duration of a Lease.
            steps.push(RunStep::Wait(self.random.u32(..120_000)));
            steps.push(RunStep::Reconnect(replica));
        } else {
            steps.push(RunStep::SetFaults(FaultRates::default()));
        }
    }

    /// Returns faults that delay or refuse reads of some resources.
    pub(super) fn disturbance(&mut self) -> FaultRates {
        let what = match self.others.u8(..9) {
            0 => Outage::Reports,
            1 => Outage::Events,
            2..5 => Outage::Exceptions,
            _ => Outage::Kind(self.kind_to_disturb()),
        };
        let random = &mut self.others;
        let is_read = !matches!(what, Outage::Reports | Outage::Events);
        if is_read && random.bool() { FaultRates::unreadable(what, random) } else { FaultRates::late(what, random) }
    }

    /// Adds an outage during changes of objects.
    pub(super) fn outage(&mut self, steps: &mut Vec<RunStep>) {
        let what = match self.random.u8(..3) {
            _ if self.text_bytes > 0 => Outage::ReportWrites,
            0 => Outage::Events,
            1 if self.others.bool() => Outage::ReportWrites,
            1 => Outage::Reports,
            // Coverage by owners depends on more than one kind.
            _ if self.has_owners => return,
            _ => Outage::Kind(self.kind()),
        };
        let changed = self.object_with_violation(steps);
        steps.push(RunStep::BeginOutage(FaultRates::outage(what, &mut self.random)));
        if let Some((name, contents)) = changed {
            let team = if contents.team.is_some() { None } else { Some(0) };
            steps.push(RunStep::Write(name, Contents { team, ..contents }));
            steps.push(RunStep::Wait(self.others.u32(..10_000)));
        }
        if self.text_bytes > 0 {
            self.set_teams(steps);
        }
        for _ in 0..self.random.usize(1..6) {
            steps.push(match self.random.u8(..10) {
                0..5 => RunStep::Write(self.name(), self.contents()),
                5..8 => RunStep::Delete(self.name()),
                8 => RunStep::Recreate(self.name(), self.contents()),
                _ => {
                    let number = self.number();
                    RunStep::SetPolicy(self.policy(number))
                }
            });
            steps.push(RunStep::Wait(self.random.u32(..10_000)));
        }
        steps.push(RunStep::CompareOthers);
        if self.random.bool() {
            return;
        }
        // Pending writes are lost.
        steps.push(RunStep::Kill(self.random.u8(..self.settings.replicas)));
        if let Some((name, contents)) = changed
            && self.others.bool()
        {
            // What was changed is undone before the next replica starts.
            steps.push(RunStep::Write(name, contents));
            steps.push(RunStep::Wait(self.others.u32(..30_000)));
        }
    }
}
