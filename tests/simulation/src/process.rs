//! Runs each simulation in its own process, so that no state is left for the next one, and a run that hangs or aborts
//! only ends itself.

#![expect(unsafe_code, reason = "fork")]

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsRawFd as _, FromRawFd as _},
    panic::AssertUnwindSafe,
    thread,
    time::{Duration, Instant},
};

/// Stack size of a run: unoptimized futures are large.
const STACK: usize = 64 * 1024 * 1024;

/// Maximum ratio of elapsed time to processor time: the machine may be busy.
const WAITING: u32 = 10;

/// A running process.
#[derive(Debug)]
pub struct Child<T> {
    /// The caller's data about it.
    pub about: T,
    id: libc::pid_t,
    pipe: File,
    answer: Vec<u8>,
    deadline: Instant,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With this answer.
    Answered(Vec<u8>),
    /// Without one: with this exit code, or by a signal in shell notation (128 plus its number).
    Died(i32),
    /// It exceeded its time limit, and was killed.
    TimedOut,
}

/// Starts a process that computes an answer on a thread; the caller must be single-threaded. It is killed after these
/// seconds of processor time, or a multiple of elapsed time.
///
/// # Errors
///
/// If no process can be created.
pub fn start<T>(about: T, seconds: u32, work: impl FnOnce() -> Vec<u8> + Send) -> io::Result<Child<T>> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `pipe2` has just opened both, and nothing else owns them.
    let (pipe, mut answers) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: there is no other thread whose locks would stay locked.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(pipe);
            let limit = libc::rlimit { rlim_cur: seconds.into(), rlim_max: seconds.into() };
            // SAFETY: the limit is valid for the call.
            unsafe { libc::setrlimit(libc::RLIMIT_CPU, &raw const limit) };
            let answer = thread::scope(|scope| {
                let running = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, AssertUnwindSafe(work).0);
                running.ok().and_then(|running| running.join().ok())
            });
            let written = answer.is_some_and(|answer| answers.write_all(&answer).is_ok());
            // SAFETY: the parent's exit handlers must not run here.
            unsafe { libc::_exit(if written { 0 } else { 101 }) }
        }
        id => Ok(Child {
            about,
            id,
            pipe,
            answer: Vec::new(),
            deadline: Instant::now() + Duration::from_secs(seconds.into()) * WAITING,
        }),
    }
}

/// Waits until one of the processes has ended, and removes it.
///
/// # Errors
///
/// If waiting fails.
///
/// # Panics
///
/// Without a process.
pub fn wait<T>(children: &mut Vec<Child<T>>) -> io::Result<(T, Ended)> {
    loop {
        let (index, overdue) = ready(children)?;
        let child = &mut children[index];
        let mut chunk = [0; 8 * 1024];
        let length = if overdue { 0 } else { child.pipe.read(&mut chunk)? };
        child.answer.extend_from_slice(&chunk[..length]);
        if length > 0 {
            continue;
        }
        let child = children.swap_remove(index);
        return Ok((child.about, end(child.id, child.answer, overdue)?));
    }
}

/// Returns the index of a process that has answered, or exceeded its time limit.
fn ready<T>(children: &[Child<T>]) -> io::Result<(usize, bool)> {
    let mut polled: Vec<libc::pollfd> = children
        .iter()
        .map(|child| libc::pollfd { fd: child.pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let deadlines = children.iter().map(|child| child.deadline).enumerate();
    let (first, deadline) = deadlines.min_by_key(|(_, deadline)| *deadline).expect("there is a process");
    let left = deadline.saturating_duration_since(Instant::now()).as_millis();
    let count = libc::nfds_t::try_from(polled.len()).unwrap_or(libc::nfds_t::MAX);
    // SAFETY: `count` is the length of the array.
    let happened =
        unsafe { libc::poll(polled.as_mut_ptr(), count, i32::try_from(left).unwrap_or(i32::MAX).saturating_add(1)) };
    match happened {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok((first, true)),
        _ => Ok((polled.iter().position(|one| one.revents != 0).unwrap_or_default(), false)),
    }
}

fn end(id: libc::pid_t, answer: Vec<u8>, overdue: bool) -> io::Result<Ended> {
    let mut status = 0;
    // SAFETY: the process is a child of this one and has not been waited for.
    unsafe {
        if overdue {
            libc::kill(id, libc::SIGKILL);
        }
        if libc::waitpid(id, &raw mut status, 0) != id {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(if overdue {
        Ended::TimedOut
    } else if libc::WIFSIGNALED(status) {
        Ended::Died(128 + libc::WTERMSIG(status))
    } else if libc::WEXITSTATUS(status) == 0 {
        Ended::Answered(answer)
    } else {
        Ended::Died(libc::WEXITSTATUS(status))
    })
}
