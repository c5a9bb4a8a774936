//! Work on many clusters in a few threads.

use std::thread::{available_parallelism, scope};

/// The most threads: a page must not take all processors.
const MOST_THREADS: usize = 4;
/// Fewer items than this are worked on in one thread.
const FEW: usize = 32;

/// Splits items into one slice for each thread, and returns what the threads return, in the order of the items.
pub(super) fn in_threads<T: Send, R: Send>(items: &mut [T], work: impl Fn(&mut [T]) -> R + Sync) -> Vec<R> {
    let threads = if items.len() < FEW { 1 } else { available_parallelism().map_or(1, usize::from).min(MOST_THREADS) };
    if threads == 1 {
        return vec![work(items)];
    }
    let slices = items.chunks_mut(items.len().div_ceil(threads));
    scope(|scope| {
        let running: Vec<_> = slices.map(|slice| scope.spawn(|| work(slice))).collect();
        // A panic of a thread is one of the page, which the server answers with an error.
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
