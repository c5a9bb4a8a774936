//! The bus of a plan, and its faults, drawn from random numbers of their own.

use fastrand::Rng;

use super::{Generator, RunStep};
use crate::{
    bus::{BusFault, LATEST},
    cluster::{Contents, KINDS, ObjectName},
};

/// Separates these random numbers from the others of a seed.
const STREAM: u64 = 0x7c3e_21d5_46f8_b09b;

/// Whether a world has a bus, and the random numbers for it.
#[derive(Debug)]
pub(super) struct BusDraws {
    random: Rng,
    has_bus: bool,
}

impl BusDraws {
    /// Chooses whether a world has a bus: one of three has.
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed ^ STREAM);
        let has_bus = random.u8(..3) == 0;
        Self { random, has_bus }
    }

    /// Whether the world has a bus.
    pub(super) const fn has_bus(&self) -> bool {
        self.has_bus
    }

    fn object(&mut self, kinds: &[usize], namespaces: u8, names: u8) -> ObjectName {
        let kind = kinds[self.random.usize(..kinds.len())];
        ObjectName { kind, namespace: self.random.u8(..namespaces), name: self.random.u8(..names) }
    }

    fn contents(&mut self, teams: u8) -> Contents {
        let team = self.random.bool().then(|| self.random.u8(..teams));
        Contents { team, noise: self.random.u8(..4), ..Contents::default() }
    }

    fn late(&mut self, shortest: u16) -> BusFault {
        let longest = u16::try_from(LATEST.as_millis()).unwrap_or(u16::MAX);
        BusFault::LateWrites(self.random.u16(shortest..longest))
    }

    fn fault(&mut self) -> BusFault {
        match self.random.u8(..4) {
            0 => BusFault::Down,
            1 => BusFault::StopAfter(self.random.u8(1..12)),
            2 => BusFault::LoseBucket,
            _ => self.late(0),
        }
    }
}

impl Generator {
    /// Sometimes adds what the bucket depends on, if the world has one: a fault of the bus, or its end, or a change while
    /// no replica runs.
    pub(super) fn change_bus(&mut self, steps: &mut Vec<RunStep>, is_only_trouble: bool) {
        if !self.bus.has_bus {
            return;
        }
        if !is_only_trouble && self.bus.random.u8(..24) == 0 {
            return self.empty_namespace(steps);
        }
        if !self.faults {
            return;
        }
        let replicas = self.settings.replicas;
        match self.bus.random.u8(..10) {
            0..3 => steps.push(RunStep::BreakBus(self.bus.fault())),
            3 => steps.push(RunStep::RestoreBus),
            // The last writes of a leader arrive while another one leads.
            4 => {
                let replica = self.bus.random.u8(..replicas);
                let late = self.bus.late(5_000);
                steps.push(RunStep::BreakBus(late));
                if !is_only_trouble {
                    let changed = self.bus.object(&self.kinds, self.size.namespaces, self.size.names);
                    steps.push(RunStep::Write(changed, self.bus.contents(self.size.teams)));
                }
                steps.push(RunStep::Wait(self.bus.random.u32(..3_000)));
                steps.extend([RunStep::Kill(replica), RunStep::Start(replica)]);
            }
            _ => return,
        }
        let random = &mut self.bus.random;
        let longest = self.size.waits[random.usize(..self.size.waits.len())];
        steps.push(RunStep::Wait(random.u32(..longest)));
    }

    /// Deletes all objects in a namespace while no replica runs, so that only the bucket has results there.
    fn empty_namespace(&mut self, steps: &mut Vec<RunStep>) {
        let (namespace, replicas) = (self.bus.random.u8(..self.size.namespaces), self.settings.replicas);
        steps.extend((0..replicas).map(RunStep::Stop));
        let kinds = self.kinds.iter().filter(|kind| KINDS[**kind].namespaced);
        let names = kinds.flat_map(|kind| (0..self.size.names).map(|name| ObjectName { kind: *kind, namespace, name }));
        steps.extend(names.map(RunStep::Delete));
        steps.extend((0..replicas).map(RunStep::Start));
        steps.push(RunStep::Wait(self.bus.random.u32(..10_000)));
    }
}
