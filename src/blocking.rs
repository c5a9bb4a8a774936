//! Work that blocks a thread: evaluation, files, compression.
//!
//! It runs on tokio's blocking threads. A simulation, which runs everything on one thread in an order given by its
//! seed, runs it in tasks instead.

use std::{
    cell::Cell,
    panic::resume_unwind,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use tokio::{
    task::{self, AbortHandle, JoinHandle, JoinSet},
    time::sleep,
};

/// The stack size of threads that parse or evaluate policies: both recurse deeply. Pages are allocated only when used.
pub(crate) const STACK_BYTES: usize = 64 * 1024 * 1024;

thread_local! {
    /// Returns how long each piece of work takes, if work runs in tasks.
    static DURATION: Cell<Option<fn() -> Duration>> = const { Cell::new(None) };
}

/// Makes this thread run blocking work in tasks of its runtime from now on, each for `duration` of tokio's clock.
pub fn run_in_tasks(duration: fn() -> Duration) {
    DURATION.set(Some(duration));
}

/// Returns how much work may run at a time: one piece for each core that the process may use (on Linux, the CPU quota
/// of its cgroup counts), or with tasks always 2, whatever the machine.
pub(crate) fn parallelism() -> usize {
    match DURATION.get() {
        Some(_) => 2,
        None => thread::available_parallelism().map_or(2, usize::from),
    }
}

/// Runs `work` on all items, on this thread and on one more for each further core; returns the results in the order of
/// the items. If work runs in tasks, this thread does all of it.
///
/// # Panics
/// If `work` panics.
pub(crate) fn in_parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = if DURATION.get().is_some() { 1 } else { parallelism().min(items.len()) };
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || std::iter::from_fn(next).map(|(index, item)| (index, work(item))).collect::<Vec<_>>();
    let mut results = thread::scope(|scope| {
        let start = |_| thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run).ok();
        let others: Vec<_> = (1..threads).filter_map(start).collect();
        let mut results = run();
        for other in others {
            results.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        results
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Spawns blocking work, like [`tokio::task::spawn_blocking`].
pub(crate) fn spawn_blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    match DURATION.get() {
        Some(duration) => task::spawn(in_task(work, duration())),
        None => task::spawn_blocking(work),
    }
}

/// Spawns blocking work in a set, like [`JoinSet::spawn_blocking`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_in_parallel_keeps_the_order_of_the_items() {
        let squares = in_parallel((0..1_000_u32).collect(), |number| number * number);
        assert!(squares.iter().zip(0..).all(|(square, number)| *square == number * number));
        assert_eq!(squares.len(), 1_000);
        assert!(in_parallel(Vec::new(), |number: u32| number).is_empty());
    }
}
