//! Work that keeps a thread busy: evaluation, files, compression.
//!
//! It runs on tokio's threads for blocking work, beside everything else. A simulation, in which one thread does everything in
//! an order that its seed decides, has it done by tasks instead.

use std::{cell::Cell, time::Duration};

use tokio::{
    task::{self, AbortHandle, JoinHandle, JoinSet},
    time::sleep,
};

thread_local! {
    /// How long each work takes, if tasks do it.
    static DURATION: Cell<Option<fn() -> Duration>> = const { Cell::new(None) };
}

/// Has all such work of this thread done by tasks of its runtime from now on, each of which takes so long on tokio's clock.
pub fn run_in_tasks(duration: fn() -> Duration) {
    DURATION.set(Some(duration));
}

/// As [`tokio::task::spawn_blocking`].
pub(crate) fn spawn_blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    match DURATION.get() {
        Some(duration) => task::spawn(in_task(work, duration())),
        None => task::spawn_blocking(work),
    }
}

/// As [`JoinSet::spawn_blocking`].
pub(crate) fn spawn_blocking_in<R: Send + 'static>(
    set: &mut JoinSet<R>,
    work: impl FnOnce() -> R + Send + 'static,
) -> AbortHandle {
    match DURATION.get() {
        Some(duration) => set.spawn(in_task(work, duration())),
        None => set.spawn_blocking(work),
    }
}

async fn in_task<R>(work: impl FnOnce() -> R, duration: Duration) -> R {
    if !duration.is_zero() {
        sleep(duration).await;
    }
    work()
}
