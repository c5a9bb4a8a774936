//! What goes wrong between kaudit and the API server.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use fastrand::Rng;

use crate::server::{Faults, RequestFault, RequestInfo, WatchFault};

/// What may go wrong, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Weather {
    /// Decides when.
    pub seed: u64,
    /// Faults of requests, each with how many of a thousand requests have it.
    pub requests: Vec<(FaultKind, u16)>,
    /// How many of a thousand events of watches have a fault.
    pub watches: u16,
    /// Only requests that write have faults.
    pub only_writes: bool,
}

/// A fault of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "as RequestFault")]
pub enum FaultKind {
    Delay,
    DelayAnswer,
    Refuse,
    ConnectError,
    Hang,
    LoseAnswer,
    HangAnswer,
    CutBody,
    Truncate,
    Stall,
}

const FAULTS: [FaultKind; 10] = [
    FaultKind::Delay,
    FaultKind::DelayAnswer,
    FaultKind::Refuse,
    FaultKind::ConnectError,
    FaultKind::Hang,
    FaultKind::LoseAnswer,
    FaultKind::HangAnswer,
    FaultKind::CutBody,
    FaultKind::Truncate,
    FaultKind::Stall,
];

impl Weather {
    /// Returns any weather; one of four is fair.
    pub fn any(random: &mut Rng) -> Self {
        let mut weather = Self { seed: random.u64(..), only_writes: random.u8(..4) == 0, ..Self::default() };
        if random.u8(..4) == 0 {
            return weather;
        }
        for _ in 0..random.usize(1..=3) {
            let rate = [20, 200, 900][random.usize(..3)];
            weather.requests.push((FAULTS[random.usize(..FAULTS.len())], rate));
        }
        weather.watches = [0, 0, 50, 500][random.usize(..4)];
        weather
    }

    fn fault(&self, random: &mut Rng) -> RequestFault {
        for (kind, rate) in &self.requests {
            if random.u16(..1_000) < *rate {
                return kind.fault(random);
            }
        }
        RequestFault::None
    }
}

impl FaultKind {
    fn fault(self, random: &mut Rng) -> RequestFault {
        let longest = [50, 2_000, 40_000][random.usize(..3)];
        let time = Duration::from_millis(random.u64(..longest));
        let bytes = random.usize(..3_000);
        match self {
            Self::Delay => RequestFault::Delay(time),
            Self::DelayAnswer => RequestFault::DelayAnswer(time),
            Self::Refuse => {
                let code = [429, 500, 502, 503, 504][random.usize(..5)];
                RequestFault::Refuse(code, random.bool().then(|| random.u64(..5)))
            }
            Self::ConnectError => RequestFault::ConnectError,
            Self::Hang => RequestFault::Hang,
            Self::LoseAnswer => RequestFault::LoseAnswer,
            Self::HangAnswer => RequestFault::HangAnswer,
            Self::CutBody => RequestFault::CutBody(bytes),
            Self::Truncate => RequestFault::Truncate(bytes),
            Self::Stall => RequestFault::Stall(bytes),
        }
    }
}

/// The weather of a run, which all replicas share.
#[derive(Debug, Clone, Default)]
pub struct Sky(Arc<Mutex<(Weather, Option<Rng>)>>);

impl Sky {
    /// Changes the weather.
    pub fn set(&self, weather: Weather) {
        let random = Rng::with_seed(weather.seed);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (weather, Some(random));
    }

    /// Whether nothing goes wrong.
    pub fn is_clear(&self) -> bool {
        self.decide(true, |weather, _| weather.requests.is_empty() && weather.watches == 0)
    }

    fn decide<T>(&self, clear: T, decide: impl FnOnce(&Weather, &mut Rng) -> T) -> T {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            (weather, Some(random)) => decide(weather, random),
            (_, None) => clear,
        }
    }
}

/// The way from one replica to the server.
pub struct ReplicaConnection {
    sky: Sky,
    is_cut: AtomicBool,
}

impl fmt::Debug for ReplicaConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaConnection").field("is_cut", &self.is_cut).finish_non_exhaustive()
    }
}

impl ReplicaConnection {
    /// Makes the way of a replica that starts.
    pub fn new(sky: &Sky) -> Arc<Self> {
        Arc::new(Self { sky: sky.clone(), is_cut: AtomicBool::new(false) })
    }

    /// Lets nothing through any more.
    pub fn cut(&self) {
        self.is_cut.store(true, Relaxed);
    }
}

impl Faults for ReplicaConnection {
    fn decide(&self, request: &RequestInfo) -> RequestFault {
        if self.is_cut.load(Relaxed) {
            return RequestFault::Hang;
        }
        let is_read = matches!(&*request.verb, "get" | "list" | "watch");
        self.sky.decide(RequestFault::None, |weather, random| {
            if weather.only_writes && is_read { RequestFault::None } else { weather.fault(random) }
        })
    }

    fn deliver(&self, _: &RequestInfo, _: usize) -> WatchFault {
        if self.is_cut.load(Relaxed) {
            return WatchFault::Hang;
        }
        self.sky.decide(WatchFault::None, |weather, random| {
            if random.u16(..1_000) >= weather.watches {
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
