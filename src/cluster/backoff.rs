//! How long to wait before the next attempt.

use std::time::Duration;

/// Exponential back-off: the delay doubles with each failure in a row, up to a longest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub first: Duration,
    /// No delay is longer.
    pub longest: Duration,
}

impl Backoff {
    /// From half a second to ten: what a server that is up again answers soon.
    pub const SHORT: Self = Self::between(Duration::from_millis(500), Duration::from_secs(10));

    /// Doubles from one delay up to another.
    pub const fn between(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// Returns the delay after so many failures in a row; the first is number 1.
    pub fn after(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        self.longest.min(self.first.saturating_mul(1 << doublings))
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
