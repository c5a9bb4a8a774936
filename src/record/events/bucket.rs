//! How many of something there may be in a time.

use std::time::{Duration, Instant};

/// A token bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    tokens: f64,
    size: f64,
    filled: Option<Instant>,
}

impl Bucket {
    pub(super) fn new(size: f64) -> Self {
        Self { tokens: size.max(1.0), size: size.max(1.0), filled: None }
    }

    /// Returns how long there will be no token; `None` if there is one.
    pub(super) fn wait(&mut self, now: Instant, per_second: f64) -> Option<Duration> {
        self.fill(now, per_second);
        let missing = 1.0 - self.tokens;
        (missing > 0.0).then(|| Duration::from_secs_f64((missing / per_second).clamp(0.001, 3_600.0)))
    }

    /// Takes a token, or returns how long there will be none.
    pub(super) fn take(&mut self, now: Instant, per_second: f64) -> Option<Duration> {
        let wait = self.wait(now, per_second);
        if wait.is_none() {
            self.tokens -= 1.0;
        }
        wait
    }

    fn fill(&mut self, now: Instant, per_second: f64) {
        let since = self.filled.replace(now).map_or(0.0, |before| now.duration_since(before).as_secs_f64());
        self.tokens = (self.tokens + since * per_second).min(self.size);
    }

    pub(super) fn is_full(&mut self, now: Instant, per_second: f64) -> bool {
        self.fill(now, per_second);
        self.tokens >= self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_the_rate() {
        let (mut bucket, start) = (Bucket::new(2.0), Instant::now());
        assert_eq!(bucket.take(start, 0.5), None);
        assert_eq!(bucket.take(start, 0.5), None);
        assert_eq!(bucket.take(start, 0.5), Some(Duration::from_secs(2)));
        assert_eq!(bucket.take(start + Duration::from_secs(2), 0.5), None);
        assert!(!bucket.is_full(start + Duration::from_secs(5), 0.5));
        assert!(bucket.is_full(start + Duration::from_secs(6), 0.5));
    }
}
