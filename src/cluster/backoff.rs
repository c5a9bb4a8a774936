//! Delays between attempts.

use std::time::Duration;

/// Exponential back-off: the delay doubles with each consecutive failure, up to a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// The maximum delay.
    pub longest: Duration,
}

impl Backoff {
    /// From half a second to ten seconds, so that work resumes soon after the server is available again.
    pub const SHORT: Self = Self::between(Duration::from_millis(500), Duration::from_secs(10));

    /// Creates a back-off that doubles from `first` up to `longest`.
    pub const fn between(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// Returns the delay after `failures` consecutive failures, from 1.
    pub fn after(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        self.longest.min(self.first.saturating_mul(1 << doublings))
    }

    /// Returns that delay, changed at random by up to a quarter, so that clients that failed together do not retry together.
    pub fn with_jitter(self, failures: u32) -> Duration {
        self.after(failures).mul_f64(0.75 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let millis = |failures| Backoff::SHORT.after(failures).as_millis();
        assert_eq!([1, 2, 3, 4, 5, 6, u32::MAX].map(millis), [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    }
}
