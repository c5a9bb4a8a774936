//! Work that keeps a thread busy: evaluation, files, compression.
//!
//! It runs on tokio's threads for blocking work, beside everything else. A simulation, in which one thread does everything in
//! an order that its seed decides, has it done by tasks instead.

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

/// The stack of threads that evaluate policies or parse: both recurse deeply. The pages are taken only when they are used.
pub(crate) const STACK_BYTES: usize = 64 * 1024 * 1024;

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
        None => thread::available_parallelism().map_or(2, usize::from),
    }
}

/// Does `work` on all items, on this thread and as many others as there are cores for; returns the results in the order of
/// the items. Where tasks do such work, this thread does all of it.
///
/// # Panics
/// Where `work` does.
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
