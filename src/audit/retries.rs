//! Objects whose results may differ the next time although nothing changed: a rule ran out of time, or kaudit failed.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::Duration,
};

use futures::future::poll_fn;
use tokio_util::time::DelayQueue;

use crate::{cluster::backoff::Backoff, model::object::ObjectKey};

const BACKOFF: Backoff = Backoff::between(Duration::from_secs(10), Duration::from_mins(10));

/// When such objects are evaluated again: with a longer delay after each attempt.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    due: DelayQueue<ObjectKey>,
    /// Attempts so far, and whether the next one is in `due`.
    attempts: HashMap<ObjectKey, (u32, bool)>,
}

impl Retries {
    /// Notes whether the evaluation of an object is unfinished; `false` also if the object was deleted.
    pub(crate) fn note(&mut self, key: &ObjectKey, unfinished: bool) {
        if !unfinished {
            self.attempts.remove(key);
            return;
        }
        let (attempts, waits) = match self.attempts.entry(key.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert((0, false)),
        };
        if !std::mem::replace(waits, true) {
            *attempts += 1;
            self.due.insert(key.clone(), BACKOFF.after(*attempts));
        }
    }

    /// Waits until an object is due and returns it; `None` if there is none.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<ObjectKey> {
        loop {
            let key = poll_fn(|context| self.due.poll_expired(context)).await?.into_inner();
            // Objects without attempts were evaluated meanwhile, or deleted.
            if let Some((_, waits)) = self.attempts.get_mut(&key) {
                *waits = false;
                return Some(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::model::object::Kind;

    #[tokio::test(start_paused = true)]
    async fn what_stays_unfinished_is_judged_less_and_less_often() {
        let mut retries = Retries::default();
        let key = |name: &str| {
            let kind = Kind::sample("", "pods", "Pod");
            ObjectKey { kind, namespace: None, name: name.into(), copy: 0 }
        };
        retries.note(&key("mended"), true);
        retries.note(&key("mended"), false);
        let mut waited = Vec::new();
        for _ in 0..8 {
            retries.note(&key("slow"), true);
            // A change causes another evaluation meanwhile, which is unfinished as well.
            retries.note(&key("slow"), true);
            let begin = Instant::now();
            assert_eq!(retries.next().await, Some(key("slow")));
            waited.push(begin.elapsed().as_secs());
        }
        assert_eq!(waited, [10, 20, 40, 80, 160, 320, 600, 600]);
        retries.note(&key("slow"), false);
        assert_eq!(retries.next().await, None);
    }
}
