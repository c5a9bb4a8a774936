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

/// Returns how many threads may do such work at a time: as many as there are cores, or as the process may use of them (on
/// Linux a CPU limit, the quota of the cgroup, counts); tasks two, on every machine.
pub(crate) fn parallelism() -> usize {
    match DURATION.get() {
        Some(_) => 2,
        None => std::thread::available_parallelism().map_or(2, usize::from),
    }
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
