//! Limits the memory of evaluations, as counted by the allocator.
//!
//! One evaluation may use a share of the memory of the process, so that all threads together stay within it. The
//! machine compares the allocations of its thread with that share. regorus' builtins do not track evaluations: they
//! compare the memory of the whole process with its limit.

use std::sync::atomic::{AtomicUsize, Ordering};

use regorus_mimalloc::current_thread_live_bytes;

/// The most that one evaluation may use, however much memory there is.
const MOST_BYTES: usize = 256 << 20;
/// The least that one evaluation may use, however many threads there are.
const LEAST_BYTES: usize = 16 << 20;

/// The current share of one evaluation.
static SHARE: AtomicUsize = AtomicUsize::new(MOST_BYTES);

/// Sets the limits from the memory that the process may use, in bytes, and the number of threads that evaluate.
///
/// All evaluations together may use half of it. regorus' builtins stop when live allocations exceed half: they check
/// only occasionally, and pages retained by the allocator come on top.
pub fn limit_process(bytes: u64, threads: usize) {
    let share = usize::try_from(bytes).unwrap_or(usize::MAX) / 2 / threads.max(1);
    SHARE.store(share.clamp(LEAST_BYTES, MOST_BYTES), Ordering::Relaxed);
    regorus::set_global_memory_limit(Some(bytes / 2));
}

/// Returns the bytes that one evaluation may use.
pub fn share() -> usize {
    SHARE.load(Ordering::Relaxed)
}

/// Measures the memory that the current thread has allocated and not freed since the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryMeter {
    began: i64,
}

impl MemoryMeter {
    pub(crate) fn start() -> Self {
        Self { began: current_thread_live_bytes() }
    }

    /// Returns the number of bytes; 0 if the thread freed more than it allocated.
    pub(crate) fn used(self) -> usize {
        usize::try_from(current_thread_live_bytes().saturating_sub(self.began)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_held_by_the_thread_is_charged() {
        let meter = MemoryMeter::start();
        let held = vec![0_u8; 1 << 20];
        assert!(meter.used() >= 1 << 20, "{}", meter.used());
        std::thread::spawn(|| drop(vec![0_u8; 8 << 20])).join().unwrap();
        assert!(meter.used() < 2 << 20, "other threads are not counted: {}", meter.used());
        drop(held);
        assert!(meter.used() < 1 << 20, "{}", meter.used());
    }
}
