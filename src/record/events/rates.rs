//! How many Events are written per second: about changes as many as the server can take, about a backlog the configured
//! rate.
//!
//! Events must never hurt an API server. What they cost it, and what bounds that:
//!
//! - **Seats.** API Priority and Fairness counts requests in flight, each a seat of its level. There are never more
//!   than [`WRITES_AT_A_TIME`](super::recorder::WRITES_AT_A_TIME), so a server that takes longer for each gets fewer
//!   requests, whatever the rates here allow.
//! - **Overload.** A 429 or 503, a timeout, a failed connection, or a response that takes [`SLOW`] halves the rate and
//!   empties the burst; each second of writing adds a step again: additive increase and multiplicative decrease, by
//!   which the clients of a congested network come to share it (RFC 5681, section 3.1). How long nothing is written at
//!   all (`Retry-After`) is decided in [`pauses`](super::pauses).
//! - **Room in etcd**, which neither responses nor latency show. An Event is about 1 KB there and stays for
//!   `--event-ttl`, an hour by default. So the rate has an upper limit, too: at the default of 50 twice that, 360,000
//!   Events or about 400 MB in the worst hour, where etcd takes 2 GB by default.
//!
//! A rollout or a bad template violates policies some thousand times and then stops, so changes have a burst of that
//! size; what comes after it is paced. The backlog (violations found together, at the initial sync or under new
//! policies) delays nothing else: it is written when no change waits, at the configured rate, or less if the server can
//! take less.

use std::time::{Duration, Instant};

use super::{bucket::Bucket, queue::Priority};

/// The burst for changes, as a multiple of the configured rate.
const BURST: f64 = 100.0;
/// The highest, the lowest and the first rate for changes, and what a second of writing adds, as multiples of the
/// configured rate.
const HIGHEST: f64 = 2.0;
const LOWEST: f64 = 0.1;
const FIRST: f64 = 1.0;
const STEP: f64 = 0.1;
/// The burst of the backlog, as a multiple of the configured rate.
const BACKLOG_BURST: f64 = 2.0;
/// A response that takes this long is a sign of overload. A few milliseconds are usual.
const SLOW: Duration = Duration::from_secs(1);
/// Responses to requests that were sent before the rate fell do not lower it again.
const FALLS_EVERY: Duration = Duration::from_secs(1);

/// The rates of all Events together.
#[derive(Debug)]
pub(super) struct Rates {
    /// The configured rate, in Events per second.
    configured: f64,
    /// The rate that the server can take, as estimated.
    sustainable: f64,
    changes: Bucket,
    backlog: Bucket,
    fell: Option<Instant>,
}

impl Rates {
    /// Creates the rates for a configured rate in Events per second.
    pub(super) fn new(configured: f64) -> Self {
        let sustainable = configured * FIRST;
        let changes = Bucket::new(configured * BURST, sustainable);
        Self {
            configured,
            sustainable,
            changes,
            backlog: Bucket::new(configured * BACKLOG_BURST, configured),
            fell: None,
        }
    }

    /// Returns when an Event of this priority may be written; now, if it may.
    pub(super) fn ready(&mut self, priority: Priority, now: Instant) -> Instant {
        self.bucket(priority).ready(now)
    }

    /// Takes the token for an attempt to write an Event.
    pub(super) fn take(&mut self, priority: Priority, now: Instant) {
        // The caller has waited until there is one.
        let _token = self.bucket(priority).take(now);
    }

    /// Notes how long the server took to respond, whatever the response.
    pub(super) fn answered(&mut self, took: Duration, now: Instant) {
        if took < SLOW {
            self.set(
                (self.sustainable + self.configured * STEP / self.sustainable).min(self.configured * HIGHEST),
                now,
            );
        } else {
            self.overloaded(now);
        }
    }

    /// Notes that the server is overloaded or does not respond.
    pub(super) fn overloaded(&mut self, now: Instant) {
        if self.fell.is_some_and(|fell| now.duration_since(fell) < FALLS_EVERY) {
            return;
        }
        self.fell = Some(now);
        self.set((self.sustainable / 2.0).max(self.configured * LOWEST), now);
        self.changes.drain(now);
        self.backlog.drain(now);
    }

    fn set(&mut self, sustainable: f64, now: Instant) {
        self.sustainable = sustainable;
        self.changes.set_rate(sustainable, now);
        self.backlog.set_rate(sustainable.min(self.configured), now);
    }

    fn bucket(&mut self, priority: Priority) -> &mut Bucket {
        match priority {
            Priority::Change | Priority::Own => &mut self.changes,
            Priority::Backlog => &mut self.backlog,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: Duration = Duration::from_millis(3);

    /// Writes as many Events as the rates allow in some seconds, each answered at once; returns how many.
    fn write(rates: &mut Rates, priority: Priority, from: Instant, seconds: u64) -> usize {
        let (mut now, mut written) = (from, 0);
        loop {
            let due = rates.ready(priority, now);
            if due >= from + Duration::from_secs(seconds) {
                return written;
            }
            if due > now {
                now = due;
                continue;
            }
            rates.take(priority, now);
            rates.answered(PROMPT, now);
            written += 1;
        }
    }

    #[test]
    fn changes_have_a_burst_and_then_the_highest_sustainable_rate() {
        let (mut rates, start) = (Rates::new(50.0), Instant::now());
        let burst = write(&mut rates, Priority::Change, start, 1);
        assert!((5_000..5_102).contains(&burst), "{burst}");
        let steady = write(&mut rates, Priority::Change, start + Duration::from_secs(1), 60);
        assert!((5_900..=6_100).contains(&steady), "{steady}");
    }

    #[test]
    fn the_backlog_is_written_at_the_configured_rate() {
        let (mut rates, start) = (Rates::new(50.0), Instant::now());
        let written = write(&mut rates, Priority::Backlog, start, 60);
        assert!((3_000..=3_101).contains(&written), "{written}");
    }

    #[test]
    fn overload_halves_the_rate_and_empties_the_burst_and_both_recover() {
        let (mut rates, start) = (Rates::new(50.0), Instant::now());
        for _ in 0..4 {
            // They were sent together.
            rates.overloaded(start);
        }
        let first = write(&mut rates, Priority::Change, start, 2);
        assert!((45..=65).contains(&first), "25 a second, and a little more: {first}");
        let second = start + Duration::from_secs(2);
        rates.answered(SLOW, second);
        let slower = write(&mut rates, Priority::Change, second, 2);
        assert!(slower < first, "{slower} after {first}");
        for second in 4..60 {
            rates.overloaded(start + Duration::from_secs(second));
        }
        let hour = start + Duration::from_hours(1);
        rates.changes.drain(hour);
        let lowest = write(&mut rates, Priority::Change, hour, 1);
        assert!((4..=10).contains(&lowest), "{lowest}");
        rates.backlog.drain(hour + Duration::from_secs(1));
        let backlog = write(&mut rates, Priority::Backlog, hour + Duration::from_secs(1), 1);
        assert!(backlog < 20, "the server can take no more: {backlog}");
        // The rate grows by five a second while there is something to write, and the burst by the tokens that are not
        // used.
        let later = hour + Duration::from_secs(2);
        write(&mut rates, Priority::Change, later, 30);
        let again = write(&mut rates, Priority::Change, later + Duration::from_secs(30), 10);
        assert!((950..=1_010).contains(&again), "{again}");
        let rested = later + Duration::from_mins(5);
        assert!(write(&mut rates, Priority::Change, rested, 1) >= 5_000);
    }
}
