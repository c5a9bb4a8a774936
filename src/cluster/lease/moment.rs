//! Points in time that also pass while the machine is suspended.

use std::{ops::Add, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// A point in time by two clocks: timers and [`Instant`] stand still while a machine is suspended, a Lease goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// By the clock of timers.
    pub(super) instant: Instant,
    /// By the clock that counts suspension, since the machine was started.
    pub(super) since_boot: Duration,
}

impl Moment {
    /// Returns the present.
    pub(super) fn now() -> Self {
        Self { instant: Instant::now(), since_boot: since_boot() }
    }

    /// Whether it has come by one of the clocks.
    pub(super) fn has_come(self) -> bool {
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
    // Elsewhere the monotonic clock is the nearest there is.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    // Never negative.
    clock_gettime(CLOCK).try_into().unwrap_or_default()
}
