//! Time, stack and memory of an evaluation.

use std::{
    cell::Cell,
    ptr,
    time::{Duration, Instant},
};

use crate::{
    cpu_time::CpuTimer,
    memory::{self, MemoryMeter},
    program::SourceLocation,
};

/// The number of steps between checks of the clock: enough that their cost is not measurable.
const INTERVAL: u32 = 64;

/// The multiple of the time limit that may pass while an evaluation waits for the CPU.
const STARVED: u32 = 16;

/// Estimated size of an element of a collection, including its overhead.
const ELEMENT: usize = 48;

/// Why an evaluation ended without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Halt {
    Failed(RuntimeError),
    TimedOut,
    /// The evaluation used more memory than [`memory::share`].
    OutOfMemory,
}

/// An error of a policy, or a stack that is too deep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuntimeError {
    /// The location of the call, definition or comprehension that failed.
    pub at: Option<SourceLocation>,
    pub reason: String,
    /// The definition with a conflicting value.
    pub other: Option<SourceLocation>,
}

impl Halt {
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(RuntimeError { at: None, reason: reason.into(), other: None })
    }

    /// Adds a location to an error that has none.
    pub(super) fn at(self, place: Option<SourceLocation>) -> Self {
        match self {
            Self::Failed(error) => Self::Failed(RuntimeError { at: error.at.or(place), ..error }),
            halt => halt,
        }
    }
}

/// The limits of an evaluation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// CPU time.
    pub time: Duration,
    /// Bytes of stack.
    pub stack: usize,
    /// Whether failing builtins are errors.
    pub strict: bool,
}

/// The remaining budget of an evaluation.
pub(super) struct Gauge {
    bounds: Bounds,
    ticks: u32,
    /// Started at the first check: most evaluations end before.
    began: Option<(Instant, CpuTimer)>,
    /// The stack pointer at the start.
    stack: usize,
    memory: MemoryMeter,
    /// The most that may be allocated, in bytes.
    most: usize,
    /// The estimated bytes that may still be produced. Dropped values count too, unless the loop element for which they
    /// were made contributed nothing.
    left: usize,
    /// The bytes of cached calls, which are not given back with the values made for them.
    held: usize,
}

impl Gauge {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (memory, most) = (MemoryMeter::start(), memory::share());
        Self { bounds, ticks: 0, began: None, stack: stack_pointer(), memory, most, left: most, held: 0 }
    }

    /// Counts a step, and checks the limits at intervals.
    pub(super) fn tick(&mut self) -> Result<(), Halt> {
        self.ticks += 1;
        if self.ticks < INTERVAL {
            return Ok(());
        }
        self.ticks = 0;
        self.check()
    }

    #[cold]
    fn check(&mut self) -> Result<(), Halt> {
        let (began, cpu) = self.began.get_or_insert_with(|| (Instant::now(), CpuTimer::start()));
        let (limit, passed) = (self.bounds.time, began.elapsed());
        // The thread may have waited for the CPU, which is not the policy's fault.
        if passed >= limit && (passed >= limit * STARVED || cpu.elapsed() >= limit) {
            return Err(Halt::TimedOut);
        }
        if self.memory.used() > self.most { Err(Halt::OutOfMemory) } else { Ok(()) }
    }

    /// Checks the used stack, and counts a step. Called wherever evaluation may nest.
    pub(super) fn enter(&mut self) -> Result<(), Halt> {
        if self.stack.abs_diff(stack_pointer()) > self.bounds.stack {
            return Err(Halt::failed("needs too much stack"));
        }
        self.tick()
    }

    /// Returns the bytes that may still be produced.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Resets the remaining bytes to an earlier amount, for values that were dropped.
    pub(super) fn refund(&mut self, left: usize) {
        self.left = left;
    }

    /// Sets the bytes of cached calls.
    pub(super) fn hold(&mut self, bytes: usize) {
        self.held = bytes;
    }

    /// Charges for created elements.
    pub(super) fn charge(&mut self, elements: usize) -> Result<(), Halt> {
        match self.left.checked_sub(elements * ELEMENT) {
            Some(left) if left >= self.held => {
                self.left = left;
                Ok(())
            }
            _ => Err(Halt::OutOfMemory),
        }
    }
}

#[inline(never)]
fn stack_pointer() -> usize {
    let here = Cell::new(0_u8);
    ptr::from_ref(&here).addr()
}
