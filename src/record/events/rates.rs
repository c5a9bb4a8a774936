//! How many Events are written in a second: about changes as many as the server bears, about a backlog as many as was asked
//! for.
//!
//! Events must never hurt an API server. What they cost it, and what bounds that:
//!
//! - **Seats.** API Priority and Fairness counts requests in flight, each a seat of its level. There are never more than
//!   [`WRITES_AT_A_TIME`](super::recorder::WRITES_AT_A_TIME), so a server that takes longer for each is asked less often,
//!   whatever the rates here allow.
//! - **Overload.** A 429 or 503, a time-out, a connection that fails, or an answer that takes [`SLOW`] halves the rate and
//!   takes the burst away; each second of writing adds a step again: additive increase and multiplicative decrease, by
//!   which the clients of a congested network come to share it (RFC 5681, section 3.1). How long nothing is written at all
//!   (`Retry-After`) is for [`pauses`](super::pauses) to say.
//! - **Room in etcd**, of which neither answers nor latency tell. An Event is about 1 KB there and stays for `--event-ttl`,
//!   an hour by default. So the rate has an upper end, too: at the default of 50 twice that, 360,000 Events or some 400 MB
//!   in the worst hour, where etcd takes 2 GB by default.
//!
//! A rollout or a bad template violates policies some thousand times and then is over, so changes have a burst of that
//! size; what comes after it is paced. The backlog (what was found at once, at the gate or under new policies) is in nobody's
//! way: it is written when no change waits, at the rate that was asked for or less if the server bears less.

use std::time::{Duration, Instant};

use super::{bucket::Bucket, queue::Priority};

/// Events about changes that may be written at once, as a multiple of the rate that was asked for.
const BURST: f64 = 100.0;
/// The highest and the lowest rate for changes, the first one, and what a second of writing adds, in the same measure.
const HIGHEST: f64 = 2.0;
const LOWEST: f64 = 0.1;
const FIRST: f64 = 1.0;
const STEP: f64 = 0.1;
/// The burst of the backlog, in the same measure.
const BACKLOG_BURST: f64 = 2.0;
/// An answer that takes this long tells of overload. Usual are some milliseconds.
const SLOW: Duration = Duration::from_secs(1);
/// Answers to what was sent before the rate fell say nothing new.
const FALLS_EVERY: Duration = Duration::from_secs(1);

/// The rates of all Events together.
#[derive(Debug)]
pub(super) struct Rates {
    /// Events a second that were asked for.
    asked: f64,
    /// Events a second that the server bears, as far as that is known.
    bearable: f64,
    changes: Bucket,
    backlog: Bucket,
    fell: Option<Instant>,
}

impl Rates {
    /// Makes the rates for so many Events a second.
    pub(super) fn new(asked: f64) -> Self {
        let bearable = asked * FIRST;
        let changes = Bucket::new(asked * BURST, bearable);
        Self { asked, bearable, changes, backlog: Bucket::new(asked * BACKLOG_BURST, asked), fell: None }
    }

    /// Returns when an Event of this priority may be written; now, if it may.
    pub(super) fn ready(&mut self, priority: Priority, now: Instant) -> Instant {
        self.bucket(priority).ready(now)
    }

    /// Counts an attempt to write one.
    pub(super) fn take(&mut self, priority: Priority, now: Instant) {
        // Whoever asks has waited until there is one.
        let _token = self.bucket(priority).take(now);
    }

    /// Notes how long the server took to answer, whatever it said about the Event.
    pub(super) fn answered(&mut self, took: Duration, now: Instant) {
        if took < SLOW {
            self.set((self.bearable + self.asked * STEP / self.bearable).min(self.asked * HIGHEST), now);
        } else {
            self.overloaded(now);
        }
    }

    /// Notes that the server has too much to do, or does not answer.
    pub(super) fn overloaded(&mut self, now: Instant) {
        if self.fell.is_some_and(|fell| now.duration_since(fell) < FALLS_EVERY) {
            return;
        }
        self.fell = Some(now);
        self.set((self.bearable / 2.0).max(self.asked * LOWEST), now);
        self.changes.drain(now);
        self.backlog.drain(now);
    }

    fn set(&mut self, bearable: f64, now: Instant) {
        self.bearable = bearable;
        self.changes.set_rate(bearable, now);
        self.backlog.set_rate(bearable.min(self.asked), now);
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

    /// Writes as many as may be in some seconds, each answered at once; returns how many.
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
    fn changes_have_a_burst_and_then_the_highest_rate_that_is_borne() {
        let (mut rates, start) = (Rates::new(50.0), Instant::now());
        let burst = write(&mut rates, Priority::Change, start, 1);
        assert!((5_000..5_102).contains(&burst), "{burst}");
        let steady = write(&mut rates, Priority::Change, start + Duration::from_secs(1), 60);
        assert!((5_900..=6_100).contains(&steady), "{steady}");
    }

    #[test]
    fn the_backlog_has_the_rate_that_was_asked_for() {
        let (mut rates, start) = (Rates::new(50.0), Instant::now());
        let written = write(&mut rates, Priority::Backlog, start, 60);
        assert!((3_000..=3_101).contains(&written), "{written}");
    }

    #[test]
    fn overload_halves_the_rate_and_takes_the_burst_and_both_come_back() {
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
        assert!(backlog < 20, "the server bears no more: {backlog}");
        // It grows by five a second while there is something to write, and the burst by what was not.
        let later = hour + Duration::from_secs(2);
        write(&mut rates, Priority::Change, later, 30);
        let again = write(&mut rates, Priority::Change, later + Duration::from_secs(30), 10);
        assert!((950..=1_010).contains(&again), "{again}");
        let rested = later + Duration::from_mins(5);
        assert!(write(&mut rates, Priority::Change, rested, 1) >= 5_000);
    }
}
