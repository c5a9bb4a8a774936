//! Work that keeps a thread busy: evaluation, files, compression.
//!
//! It runs on tokio's threads for blocking work, beside everything else. A simulation, in which one thread does everything in
//! an order that its seed decides, has it done by tasks instead.

use std::cell::Cell;

use tokio::task::{self, AbortHandle, JoinHandle, JoinSet};

thread_local! {
    static IS_INLINE: Cell<bool> = const { Cell::new(false) };
}

/// Has all such work of this thread done by tasks of its runtime from now on.
pub fn run_in_tasks() {
    IS_INLINE.set(true);
}

/// As [`tokio::task::spawn_blocking`].
pub(crate) fn spawn_blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    if IS_INLINE.get() { task::spawn(async { work() }) } else { task::spawn_blocking(work) }
}

/// As [`JoinSet::spawn_blocking`].
pub(crate) fn spawn_blocking_in<R: Send + 'static>(
    set: &mut JoinSet<R>,
    work: impl FnOnce() -> R + Send + 'static,
) -> AbortHandle {
    if IS_INLINE.get() { set.spawn(async { work() }) } else { set.spawn_blocking(work) }
}
