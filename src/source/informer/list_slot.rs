//! Limits how many pages of lists are read at a time.
//!
//! A page that the server does not answer returns its slot and goes on waiting. So lists that hang delay those of other
//! kinds by seconds, however many hang and for however long.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

/// Pages that are read concurrently: more would only slow each other down in the API server.
const LISTS_AT_A_TIME: usize = 8;
/// A page for which the server sends nothing for this long returns its slot.
const SILENT: Duration = Duration::from_secs(2);
/// Every page returns its slot after this long, even if its server sends a few bytes now and then.
const LONGEST: Duration = Duration::from_secs(15);

/// Returns all slots of an informer.
pub(super) fn all() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(LISTS_AT_A_TIME))
}

/// One page's share of the limit.
#[derive(Debug)]
pub(super) struct ListSlot {
    permit: Option<OwnedSemaphorePermit>,
    end: Instant,
}

impl ListSlot {
    /// Waits for a free slot.
    pub(super) async fn acquire(slots: &Arc<Semaphore>) -> Self {
        // Only a closed semaphore returns an error, and this one is never closed.
        let permit = Arc::clone(slots).acquire_owned().await.ok();
        Self { permit, end: Instant::now() + LONGEST }
    }

    /// Waits for an answer of the server, and keeps the slot only if the answer comes soon.
    pub(super) async fn hold_for<T>(&mut self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        if self.permit.is_some() {
            let limit = self.end.min(Instant::now() + SILENT);
            if let Ok(answered) = timeout_at(limit, &mut answer).await {
                return answered;
            }
            self.permit = None;
        }
        answer.await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slots_are_returned_while_the_server_does_not_answer() {
        let (slots, begin) = (all(), Instant::now());
        for _ in 0..LISTS_AT_A_TIME {
            let mut slot = ListSlot::acquire(&slots).await;
            tokio::spawn(async move { slot.hold_for(pending::<()>()).await });
        }
        assert_eq!(slots.available_permits(), 0);
        ListSlot::acquire(&slots).await;
        assert_eq!(begin.elapsed().as_secs(), SILENT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn slots_are_returned_when_the_server_answers_too_slowly() {
        let (slots, begin) = (all(), Instant::now());
        let mut slot = ListSlot::acquire(&slots).await;
        while slots.available_permits() < LISTS_AT_A_TIME {
            slot.hold_for(sleep(Duration::from_millis(1_500))).await;
        }
        assert!((LONGEST..LONGEST + SILENT).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn slots_are_kept_while_the_server_answers() {
        let slots = all();
        let mut slot = ListSlot::acquire(&slots).await;
        for _ in 0..9 {
            slot.hold_for(sleep(Duration::from_millis(1_500))).await;
            assert_eq!(slots.available_permits(), LISTS_AT_A_TIME - 1);
        }
    }
}
