//! The machine of a simulated process: a clock that only advances when everything waits for it, and random numbers
//! determined by a seed.
//!
//! This module overrides the libc functions that the standard library and crates use for time, random numbers and file
//! descriptor events. Outside a simulation they call the originals.

#![expect(unsafe_code, reason = "functions of libc are replaced")]

use std::{
    cell::Cell,
    ffi::{CStr, c_int, c_uint, c_void},
    sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use libc::{clockid_t, epoll_event, size_t, ssize_t, timespec};

/// The start time of each simulation: 2026-01-01T00:00:00Z.
const BEGIN: u64 = 1_767_225_600 * NANOSECONDS;
const NANOSECONDS: u64 = 1_000_000_000;
/// Maximum number of clock reads without progress: the clock cannot advance on each read, as allocators read it at
/// times that the seed does not determine, but a loop that waits for a moment to pass must end.
const MOST_READS: u64 = 100_000;
/// How far it advances on each further read, in nanoseconds.
const READING: u64 = 1_000_000;
/// How long another thread may take to wake this one when nothing else can, in milliseconds of real time.
const OTHERS: c_int = 5_000;
/// The exit code of a simulation in a deadlock.
pub const STUCK: i32 = 97;

/// Whether this process is a simulation.
static ENTERED: AtomicBool = AtomicBool::new(false);
/// Nanoseconds since the simulation began.
static ELAPSED: AtomicU64 = AtomicU64::new(0);
/// Number of reads since the clock advanced.
static READS: AtomicU64 = AtomicU64::new(0);
/// Offset of the time of day, in nanoseconds.
static CHANGED: AtomicI64 = AtomicI64::new(0);
/// The state of the random number generator.
static RANDOM: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this is the main thread of a simulation. Other threads must not affect it: for them the clock stops, and
    /// random numbers are constant.
    static IS_MAIN: Cell<bool> = const { Cell::new(false) };
}

/// Turns this process into a simulation, in all its threads.
pub fn enter(seed: u64) {
    IS_MAIN.set(true);
    RANDOM.store(seed, Relaxed);
    ENTERED.store(true, Relaxed);
}

/// Returns the simulated time since the start.
pub fn elapsed() -> Duration {
    Duration::from_nanos(ELAPSED.load(Relaxed))
}

/// Changes the time of day by these seconds, like an administrator or a time server; timers are not affected.
pub fn change_time_of_day(seconds: i32) {
    CHANGED.fetch_add(i64::from(seconds) * 1_000_000_000, Relaxed);
}

/// Advances the clock without doing anything, as if the process had no processor.
pub fn freeze(time: Duration) {
    ELAPSED.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
}

/// An overridden libc function.
struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Returns the address of the original.
    fn address(&self) -> *mut c_void {
        let mut address = self.address.load(Relaxed);
        if address.is_null() {
            // SAFETY: the name ends with a zero.
            address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.address.store(address, Relaxed);
        }
        assert!(!address.is_null(), "libc has no such function");
        address
    }
}

/// As in libc; in a simulation there is one clock, to which the time of day adds a date.
///
/// # Safety
///
/// As that of libc: `time` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    static REAL: Real = Real::new(c"clock_gettime");
    if !ENTERED.load(Relaxed) {
        // SAFETY: this is the type that libc's function has, and the caller's promise is passed on.
        return unsafe {
            let real: unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int = std::mem::transmute(REAL.address());
            real(clock, time)
        };
    }
    if IS_MAIN.get() && READS.fetch_add(1, Relaxed) > MOST_READS {
        ELAPSED.fetch_add(READING, Relaxed);
    }
    let mut now = ELAPSED.load(Relaxed);
    if matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE) {
        now = (now + BEGIN).saturating_add_signed(CHANGED.load(Relaxed));
    }
    let parts = timespec {
        tv_sec: i64::try_from(now / NANOSECONDS).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(now % NANOSECONDS).unwrap_or_default(),
    };
    // SAFETY: the caller promises it.
    unsafe { time.write(parts) };
    0
}

/// As in libc; in a simulation the numbers are determined by the seed (splitmix64).
///
/// # Safety
///
/// As that of libc: `length` bytes can be written to `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    static REAL: Real = Real::new(c"getrandom");
    if !ENTERED.load(Relaxed) {
        // SAFETY: this is the type that libc's function has, and the caller's promise is passed on.
        return unsafe {
            let real: unsafe extern "C" fn(*mut c_void, size_t, c_uint) -> ssize_t =
                std::mem::transmute(REAL.address());
            real(buffer, length, flags)
        };
    }
    // SAFETY: the caller promises it.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
    let mut state = RANDOM.load(Relaxed);
    for chunk in bytes.chunks_mut(8) {
        let mut number = state;
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chunk.copy_from_slice(&(number ^ (number >> 31)).to_le_bytes()[..chunk.len()]);
    }
    if IS_MAIN.get() {
        RANDOM.store(state, Relaxed);
    }
    ssize_t::try_from(length).unwrap_or(ssize_t::MAX)
}

/// As in libc; in a simulation the clock immediately advances to the timeout if there are no events.
///
/// # Safety
///
/// As for `epoll_wait` of libc: `events` must have space for `most` events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
    static REAL: Real = Real::new(c"epoll_wait");
    // SAFETY: this is the type that libc's function has, and the caller's promise is passed on.
    let wait = |timeout| unsafe {
        let real: unsafe extern "C" fn(c_int, *mut epoll_event, c_int, c_int) -> c_int =
            std::mem::transmute(REAL.address());
        real(epoll, events, most, timeout)
    };
    if !ENTERED.load(Relaxed) {
        return wait(timeout);
    }
    match (wait(0), u64::try_from(timeout)) {
        (0, Ok(milliseconds)) => {
            if milliseconds > 0 {
                READS.store(0, Relaxed);
            }
            ELAPSED.fetch_add(milliseconds * 1_000_000, Relaxed);
            0
        }
        (0, Err(_)) => {
            let happened = wait(OTHERS);
            if happened == 0 {
                // SAFETY: `_exit` only ends this process; the parent reads its exit code.
                unsafe { libc::_exit(STUCK) };
            }
            happened
        }
        (happened, _) => happened,
    }
}
