//! The time that a thread computes, which is not the time that passes.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Measures the CPU time of the thread that it is used on.
#[derive(Debug, Clone, Copy)]
pub struct CpuTimer(Duration);

impl CpuTimer {
    /// Starts a timer for this thread.
    pub fn start() -> Self {
        Self(thread_time())
    }

    /// Returns how long this thread has computed since.
    pub fn elapsed(self) -> Duration {
        thread_time().saturating_sub(self.0)
    }
}

fn thread_time() -> Duration {
    // Never negative.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
