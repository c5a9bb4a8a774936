//! CPU time of a thread, as opposed to wall-clock time.

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

    /// Returns the CPU time of this thread since the start.
    pub fn elapsed(self) -> Duration {
        thread_time().saturating_sub(self.0)
    }
}

fn thread_time() -> Duration {
    // Never negative.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
