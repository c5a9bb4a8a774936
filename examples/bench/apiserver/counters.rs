//! Counts requests, to measure the load that clients cause.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// A current number, and its maximum.
#[derive(Debug, Default)]
struct Gauge {
    now: AtomicI64,
    most: AtomicI64,
}

impl Gauge {
    fn enter(&self) {
        self.most.fetch_max(self.now.fetch_add(1, Relaxed) + 1, Relaxed);
    }

    fn to_json(&self) -> Value {
        json!({"now": self.now.load(Relaxed), "most": self.most.load(Relaxed)})
    }
}

/// Counts requests.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// The number of requests by verb and resource.
    requests: Mutex<BTreeMap<String, u64>>,
    in_flight: Gauge,
    lists: Gauge,
    watches: Gauge,
    bytes: AtomicU64,
    renewals: Mutex<Renewals>,
}

/// The time of the last update of a Lease, and the longest time between two updates, which shows whether a client
/// stalls.
#[derive(Debug, Default)]
struct Renewals {
    last: Option<Instant>,
    longest_gap: Duration,
}

/// A request until its response is sent.
#[derive(Debug)]
pub(crate) struct Flight {
    counters: Arc<Counters>,
    verb: &'static str,
}

impl Counters {
    /// Counts a request.
    pub(crate) fn enter(self: &Arc<Self>, verb: &'static str, resource: &str) -> Flight {
        *self
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(format!("{verb} {resource}"))
            .or_default() += 1;
        if verb == "update" {
            let (mut renewals, now) = (self.renewals(), Instant::now());
            if let Some(last) = renewals.last.replace(now) {
                renewals.longest_gap = renewals.longest_gap.max(now - last);
            }
        }
        let flight = Flight { counters: Arc::clone(self), verb };
        flight.gauges().into_iter().for_each(Gauge::enter);
        flight
    }

    fn renewals(&self) -> MutexGuard<'_, Renewals> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns everything as JSON.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "requests": *self.requests.lock().unwrap_or_else(PoisonError::into_inner),
            "inFlight": self.in_flight.to_json(), "lists": self.lists.to_json(), "watches": self.watches.to_json(),
            "bytes": self.bytes.load(Relaxed), "longestGapMs": self.renewals().longest_gap.as_millis() as u64,
        })
    }

    /// Resets all counters.
    pub(crate) fn reset(&self) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.bytes.store(0, Relaxed);
        self.renewals().longest_gap = Duration::ZERO;
        for gauge in [&self.in_flight, &self.lists, &self.watches] {
            gauge.most.store(gauge.now.load(Relaxed), Relaxed);
        }
    }
}

impl Flight {
    /// Counts bytes of the response.
    pub(crate) fn sends(&self, bytes: usize) {
        self.counters.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Returns the gauges that count the request. As for API priority and fairness, an open watch is not in flight.
    fn gauges(&self) -> Vec<&Gauge> {
        let Counters { in_flight, lists, watches, .. } = &*self.counters;
        match self.verb {
            "watch" => vec![watches],
            "list" => vec![in_flight, lists],
            _ => vec![in_flight],
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        for gauge in self.gauges() {
            gauge.now.fetch_sub(1, Relaxed);
        }
    }
}
