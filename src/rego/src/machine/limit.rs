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

/// A look at the clock every so many steps costs nothing that can be measured.
const INTERVAL: u32 = 64;

/// How many times the time limit may pass while an evaluation waits for the CPU.
const STARVED: u32 = 16;

/// An element of a collection, with what lies around it.
const ELEMENT: usize = 48;

/// Why an evaluation ended without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Halt {
    Failed(RuntimeError),
    TimedOut,
    /// It used more memory than [`memory::share`].
    TooMuch,
}

/// An error of a policy, or too much stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuntimeError {
    /// What failed: a call, a definition, or the key of a comprehension.
    pub at: Option<SourceLocation>,
    pub reason: String,
    /// The definition whose value is another one.
    pub other: Option<SourceLocation>,
}

impl Halt {
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(RuntimeError { at: None, reason: reason.into(), other: None })
    }

    /// Returns an error without a place as one at this place.
    pub(super) fn at(self, place: Option<SourceLocation>) -> Self {
        match self {
            Self::Failed(error) => Self::Failed(RuntimeError { at: error.at.or(place), ..error }),
            halt => halt,
        }
    }
}

/// What an evaluation may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// CPU time.
    pub time: Duration,
    /// Bytes of stack.
    pub stack: usize,
    /// Whether builtins that fail are errors.
    pub strict: bool,
}

/// What is left of it.
pub(super) struct Gauge {
    bounds: Bounds,
    ticks: u32,
    /// Both begin at the first look: most evaluations end before.
    began: Option<(Instant, CpuTimer)>,
    /// Where the stack was.
    stack: usize,
    memory: MemoryMeter,
    /// The most that may be allocated, in bytes.
    most: usize,
    /// What may still be made, in bytes as estimated: what is dropped again counts, too, unless the element of a loop for which
    /// it was made left nothing behind.
    left: usize,
    /// What is remembered of calls, in bytes: it is not taken back with what was made for them.
    held: usize,
}

impl Gauge {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (memory, most) = (MemoryMeter::start(), memory::share());
        Self { bounds, ticks: 0, began: None, stack: stack_pointer(), memory, most, left: most, held: 0 }
    }

    /// To be called for whatever may happen again and again.
    pub(super) fn tick(&mut self) -> Result<(), Halt> {
        self.ticks += 1;
        if self.ticks < INTERVAL {
            return Ok(());
        }
        self.ticks = 0;
        self.look()
    }

    #[cold]
    fn look(&mut self) -> Result<(), Halt> {
        let (began, cpu) = self.began.get_or_insert_with(|| (Instant::now(), CpuTimer::start()));
        let (limit, passed) = (self.bounds.time, began.elapsed());
        // The thread may have waited for the CPU, which is not the policy's fault.
        if passed >= limit && (passed >= limit * STARVED || cpu.elapsed() >= limit) {
            return Err(Halt::TimedOut);
        }
        if self.memory.used() > self.most { Err(Halt::TooMuch) } else { Ok(()) }
    }

    /// To be called for whatever may be nested.
    pub(super) fn enter(&mut self) -> Result<(), Halt> {
        if self.stack.abs_diff(stack_pointer()) > self.bounds.stack {
            return Err(Halt::failed("needs too much stack"));
        }
        self.tick()
    }

    /// Returns how much may still be made, in bytes.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Takes back that something was made since so much was left.
    pub(super) fn take_back(&mut self, left: usize) {
        self.left = left;
    }

    /// Sets how much is remembered of calls, in bytes.
    pub(super) fn hold(&mut self, bytes: usize) {
        self.held = bytes;
    }

    /// To be called for what is made.
    pub(super) fn made(&mut self, elements: usize) -> Result<(), Halt> {
        match self.left.checked_sub(elements * ELEMENT) {
            Some(left) if left >= self.held => {
                self.left = left;
                Ok(())
            }
            _ => Err(Halt::TooMuch),
        }
    }
}

#[inline(never)]
fn stack_pointer() -> usize {
    let here = Cell::new(0_u8);
    ptr::from_ref(&here).addr()
}
