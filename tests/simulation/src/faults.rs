//! Faults between kaudit and the API server.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use fastrand::Rng;

use crate::{
    cluster::KINDS,
    server::{Faults, RequestFault, RequestInfo, WatchFault},
};

/// The faults and their rates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultRates {
    /// The random seed.
    pub seed: u64,
    /// Faults of requests, each with its rate per thousand requests.
    pub requests: Vec<(RequestFault, u16)>,
    /// Faults per thousand watch events.
    pub watches: u16,
    /// Whether only write requests have faults.
    pub only_writes: bool,
    /// If set, only requests for these resources have faults.
    pub only: Option<Outage>,
    /// A group that is missing from the next discovery, as after a restart of the server.
    pub missing_group: Option<&'static str>,
}

/// How late a request arrives at most: a server does not begin one whose client has closed the connection long ago.
const LATEST: Duration = Duration::from_secs(12);

/// Groups that may be missing from a discovery.
const GROUPS: [&str; 5] = ["apps", "example.com", "openreports.io", "kaudit.dev", "constraints.gatekeeper.sh"];

/// Returns a random one of them.
pub fn any_group(random: &mut Rng) -> &'static str {
    GROUPS[random.usize(..GROUPS.len())]
}

/// Resources whose requests fail while others succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// Events.
    Events,
    /// Reports.
    Reports,
    /// Writes of reports, but not their deletion, as while a quota is used up.
    ReportWrites,
    /// `PolicyException` objects.
    Exceptions,
    /// Objects of a kind, an index of [`KINDS`].
    Kind(usize),
}

impl Outage {
    /// Whether reports are outdated meanwhile.
    pub const fn affects_reports(self) -> bool {
        matches!(self, Self::Reports | Self::ReportWrites)
    }

    fn concerns(self, request: &RequestInfo) -> bool {
        match self {
            Self::Events => request.resource == "events",
            Self::Reports => request.group == "openreports.io",
            Self::ReportWrites => request.group == "openreports.io" && request.verb == "patch",
            Self::Exceptions => request.resource == "policyexceptions",
            Self::Kind(kind) => {
                let group = KINDS[kind].api_version.split_once('/').map_or("", |(group, _)| group);
                (&*request.group, &*request.resource) == (group, KINDS[kind].plural)
            }
        }
    }
}

impl FaultRates {
    /// Returns random rates; one in four has no faults of requests and watches.
    pub fn any(random: &mut Rng) -> Self {
        let mut rates = Self { seed: random.u64(..), only_writes: random.u8(..4) == 0, ..Self::default() };
        rates.missing_group = (random.u8(..3) == 0).then(|| any_group(random));
        if random.u8(..4) == 0 {
            return rates;
        }
        for _ in 0..random.usize(1..=3) {
            let rate = [20, 200, 900][random.usize(..3)];
            rates.requests.push((request_fault(random), rate));
        }
        rates.watches = [0, 0, 50, 500][random.usize(..4)];
        rates
    }

    /// Returns rates with which no request and no watch event arrives.
    pub fn cut_off(random: &mut Rng) -> Self {
        Self {
            seed: random.u64(..),
            requests: vec![(RequestFault::ConnectError, 1_000)],
            watches: 1_000,
            ..Self::default()
        }
    }

    /// Returns rates that delay every response for these resources.
    pub fn late(outage: Outage, random: &mut Rng) -> Self {
        let time = Duration::from_millis(random.u64(1_000..20_000));
        let requests = vec![(RequestFault::DelayAnswer(time), 1_000)];
        Self { seed: random.u64(..), requests, only: Some(outage), ..Self::default() }
    }

    /// Returns rates with which these resources cannot be read.
    pub fn unreadable(outage: Outage, random: &mut Rng) -> Self {
        let code = if random.bool() { 403 } else { 503 };
        let requests = vec![(RequestFault::Refuse(code, None), 1_000)];
        Self { seed: random.u64(..), requests, only: Some(outage), ..Self::default() }
    }

    /// Returns rates with which every request for these resources fails.
    pub fn outage(outage: Outage, random: &mut Rng) -> Self {
        let fault = match random.u8(..5) {
            0 => RequestFault::Refuse(503, None),
            1 => RequestFault::ConnectError,
            2 => RequestFault::Hang,
            3 if !matches!(outage, Outage::Kind(_)) => RequestFault::Refuse(403, None),
            _ => RequestFault::HangAnswer,
        };
        let only_writes = matches!(fault, RequestFault::Refuse(403, _));
        Self {
            only_writes,
            seed: random.u64(..),
            requests: vec![(fault, 1_000)],
            only: Some(outage),
            ..Self::default()
        }
    }

    fn fault(&self, random: &mut Rng) -> RequestFault {
        let fault = self.requests.iter().find(|(_, rate)| random.u16(..1_000) < *rate);
        fault.map_or(RequestFault::None, |(fault, _)| fault.clone())
    }
}

fn request_fault(random: &mut Rng) -> RequestFault {
    let longest = [50, 2_000, 40_000][random.usize(..3)];
    let time = Duration::from_millis(random.u64(..longest));
    let bytes = random.usize(..3_000);
    match random.u8(..10) {
        0 => RequestFault::Delay(time.min(LATEST)),
        1 => RequestFault::DelayAnswer(time),
        2 => {
            let code = [429, 500, 502, 503, 504][random.usize(..5)];
            RequestFault::Refuse(code, random.bool().then(|| random.u64(..5)))
        }
        3 => RequestFault::ConnectError,
        4 => RequestFault::Hang,
        5 => RequestFault::LoseAnswer,
        6 => RequestFault::HangAnswer,
        7 => RequestFault::CutBody(bytes),
        8 => RequestFault::Truncate(bytes),
        _ => RequestFault::Stall(bytes),
    }
}

/// The current faults of a run, shared by all replicas.
#[derive(Debug, Clone, Default)]
pub struct SharedFaults {
    rates: Arc<Mutex<(FaultRates, Option<Rng>)>>,
    /// The group that is missing from the next discoveries, and from how many of them, regardless of the other faults.
    missing: Arc<Mutex<Option<(&'static str, u8)>>>,
}

impl SharedFaults {
    /// Replaces the previous faults.
    pub fn set(&self, rates: FaultRates) {
        let random = Rng::with_seed(rates.seed);
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner) = (rates, Some(random));
    }

    /// Removes a group from the next `times` discoveries.
    pub fn miss(&self, group: &'static str, times: u8) {
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = Some((group, times));
    }

    /// No group is missing from further discoveries.
    pub fn find_all(&self) {
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the group that is missing from this discovery, if there is one.
    fn next_missing(&self) -> Option<&'static str> {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let (group, times) = missing.as_mut().filter(|(_, times)| *times > 0)?;
        *times -= 1;
        Some(group)
    }

    /// Returns the group that is missing from more than one of the next discoveries, if there is one: a replica that starts
    /// then takes its kinds for ones that are not served.
    pub fn misses_again(&self) -> Option<&'static str> {
        let (group, times) = (*self.missing.lock().unwrap_or_else(PoisonError::into_inner))?;
        let also = self.decide(None, |rates, _| rates.missing_group);
        (times + u8::from(also == Some(group)) > 1).then_some(group)
    }

    /// Whether there are no faults.
    pub fn is_clear(&self) -> bool {
        self.decide(true, |rates, _| rates.requests.is_empty() && rates.watches == 0)
    }

    /// Returns the resources whose requests fail, if faults are limited to some.
    pub fn outage(&self) -> Option<Outage> {
        self.decide(None, |rates, _| rates.only)
    }

    fn decide<T>(&self, clear: T, decide: impl FnOnce(&mut FaultRates, &mut Rng) -> T) -> T {
        match &mut *self.rates.lock().unwrap_or_else(PoisonError::into_inner) {
            (rates, Some(random)) => decide(rates, random),
            (_, None) => clear,
        }
    }
}

/// The connection of one replica to the server.
pub struct ReplicaConnection {
    faults: SharedFaults,
    is_cut: AtomicBool,
    /// How many milliseconds requests take at most without faults, and the random numbers for that.
    latency: (u8, Mutex<Rng>),
}

impl fmt::Debug for ReplicaConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaConnection").field("is_cut", &self.is_cut).finish_non_exhaustive()
    }
}

impl ReplicaConnection {
    /// Creates the connection of a starting replica, whose requests take up to `latency` milliseconds; `seed` is that of
    /// their random numbers.
    pub fn new(faults: &SharedFaults, latency: u8, seed: u64) -> Arc<Self> {
        let latency = (latency, Mutex::new(Rng::with_seed(seed)));
        Arc::new(Self { faults: faults.clone(), is_cut: AtomicBool::new(false), latency })
    }

    /// Returns how long the next request takes; `None` if there is no latency.
    fn next_latency(&self) -> Option<Duration> {
        let (longest, random) = &self.latency;
        let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
        (*longest > 0).then(|| Duration::from_millis(random.u64(..=u64::from(*longest))))
    }

    /// Whether it is cut.
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Relaxed)
    }

    /// Cuts or restores the connection.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Relaxed);
    }
}

impl Faults for ReplicaConnection {
    fn decide(&self, request: &RequestInfo) -> RequestFault {
        if self.is_cut() {
            return RequestFault::Hang;
        }
        let is_read = matches!(&*request.verb, "get" | "list" | "watch");
        let fault = self.faults.decide(RequestFault::None, |rates, random| {
            let is_spared = rates.only_writes && is_read || rates.only.is_some_and(|only| !only.concerns(request));
            if is_spared { RequestFault::None } else { rates.fault(random) }
        });
        match (fault, self.next_latency()) {
            (RequestFault::None, Some(latency)) if is_read => RequestFault::DelayAnswer(latency),
            (RequestFault::None, Some(latency)) => RequestFault::Delay(latency),
            (fault, _) => fault,
        }
    }

    fn missing_groups(&self, request: &RequestInfo) -> Vec<String> {
        if request.path != "/apis" {
            return Vec::new();
        }
        let missing = self.faults.next_missing();
        let missing = missing.or_else(|| self.faults.decide(None, |rates, _| rates.missing_group.take()));
        missing.map(str::to_owned).into_iter().collect()
    }

    fn deliver(&self, request: &RequestInfo, _: usize) -> WatchFault {
        if self.is_cut() {
            return WatchFault::Hang;
        }
        self.faults.decide(WatchFault::None, |rates, random| {
            let is_spared = rates.only.is_some_and(|only| !only.concerns(request));
            if is_spared || random.u16(..1_000) >= rates.watches {
                return WatchFault::None;
            }
            match random.u8(..6) {
                0 => WatchFault::Delay(Duration::from_millis(random.u64(..20_000))),
                1 => WatchFault::End,
                2 => WatchFault::Break,
                3 => WatchFault::Cut,
                4 => WatchFault::Expire,
                _ => WatchFault::Hang,
            }
        })
    }
}
