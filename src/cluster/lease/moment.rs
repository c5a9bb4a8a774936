//! Points in time on a clock that continues while the machine is suspended.

use std::{ops::Add, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// A point in time on two clocks. Timers and [`Instant`] stop while the machine is suspended, but a Lease expires.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// On the clock of timers.
    pub(super) instant: Instant,
    /// On the clock that continues during suspension, since boot.
    pub(super) since_boot: Duration,
}

impl Moment {
    /// Returns the current time.
    pub(super) fn now() -> Self {
        Self { instant: Instant::now(), since_boot: since_boot() }
    }

    /// Whether it has passed on one of the clocks.
    pub(super) fn has_passed(self) -> bool {
        Instant::now() >= self.instant || since_boot() >= self.since_boot
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self { instant: self.instant + duration, since_boot: self.since_boot + duration }
    }
}

fn since_boot() -> Duration {
    // On other systems the monotonic clock is the closest one.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    // Never negative.
    clock_gettime(CLOCK).try_into().unwrap_or_default()
}
