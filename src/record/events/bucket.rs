//! Token buckets: a burst, and then a rate.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// The burst of Events of one object, as in client-go's event correlator, and the time until it may have one more.
const OBJECT_BURST: f64 = 25.0;
const OBJECT_REFILL: Duration = Duration::from_secs(30);

/// A token bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    tokens: f64,
    size: f64,
    per_second: f64,
    filled: Option<Instant>,
}

impl Bucket {
    pub(crate) fn new(size: f64, per_second: f64) -> Self {
        let size = size.max(1.0);
        Self { tokens: size, size, per_second, filled: None }
    }

    /// Returns when there will be a token; now, if there is one.
    pub(super) fn ready(&mut self, now: Instant) -> Instant {
        self.fill(now);
        let missing = (1.0 - self.tokens).max(0.0);
        if missing == 0.0 {
            now
        } else {
            now + Duration::from_secs_f64((missing / self.per_second).clamp(0.001, 3_600.0))
        }
    }

    /// Takes a token, or returns when there will be one.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let ready = self.ready(now);
        if ready > now {
            return Err(ready);
        }
        self.tokens -= 1.0;
        Ok(())
    }

    /// Changes the rate from now on.
    pub(super) fn set_rate(&mut self, per_second: f64, now: Instant) {
        self.fill(now);
        self.per_second = per_second;
    }

    /// Empties the bucket: the next token comes at the rate.
    pub(super) fn drain(&mut self, now: Instant) {
        self.fill(now);
        self.tokens = 0.0;
    }

    fn fill(&mut self, now: Instant) {
        let since = self.filled.replace(now).map_or(0.0, |before| now.duration_since(before).as_secs_f64());
        self.tokens = (self.tokens + since * self.per_second).min(self.size);
    }

    fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.tokens >= self.size
    }
}

/// A bucket for each object, by uid.
#[derive(Debug, Default)]
pub(super) struct ObjectBuckets(HashMap<Arc<str>, Bucket>);

impl ObjectBuckets {
    /// Takes a token of an object, or returns when there will be one.
    pub(super) fn take(&mut self, uid: &Arc<str>, now: Instant) -> Result<(), Instant> {
        let fresh = || Bucket::new(OBJECT_BURST, 1.0 / OBJECT_REFILL.as_secs_f64());
        self.0.entry(Arc::clone(uid)).or_insert_with(fresh).take(now)
    }

    /// Removes the buckets that are full again.
    pub(super) fn tidy(&mut self, now: Instant) {
        self.0.retain(|_, bucket| !bucket.is_full(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_the_rate() {
        let (mut bucket, start) = (Bucket::new(2.0, 0.5), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!((bucket.take(start), bucket.take(start)), (Ok(()), Ok(())));
        assert_eq!(bucket.take(start), Err(after(2)));
        assert_eq!(bucket.ready(after(1)), after(2));
        assert_eq!(bucket.take(after(2)), Ok(()));
        assert!(!bucket.is_full(after(5)) && bucket.is_full(after(6)));
    }

    #[test]
    fn objects_have_a_burst_each_and_are_forgotten() {
        let (mut objects, now) = (ObjectBuckets::default(), Instant::now());
        let (one, other) = (Arc::from("1"), Arc::from("2"));
        let given = (0..100).filter(|_| objects.take(&one, now).is_ok()).count();
        assert_eq!((given, objects.take(&other, now)), (25, Ok(())));
        objects.tidy(now + OBJECT_REFILL);
        assert_eq!(objects.0.len(), 1);
        assert_eq!(objects.take(&one, now + OBJECT_REFILL), Ok(()));
    }
}
