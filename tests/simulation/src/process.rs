//! Runs in processes of their own, so that nothing of one run is left in the next, and one that hangs or aborts ends only itself.

#![expect(unsafe_code, reason = "fork")]

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsRawFd as _, FromRawFd as _},
    panic::AssertUnwindSafe,
    thread,
    time::{Duration, Instant},
};

/// How much stack a run has: futures without optimisation are large.
const STACK: usize = 64 * 1024 * 1024;

/// How much longer a process may take than the processor time that it may use: the machine may be busy.
const WAITING: u32 = 10;

/// A process that has not ended.
#[derive(Debug)]
pub struct Child<T> {
    /// What it is about.
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
    /// Without one: by this exit code, or by a signal as a shell tells it (128 and its number).
    Died(i32),
    /// It took too long, and was killed.
    TimedOut,
}

/// Starts a process that makes an answer, on a thread of its own; the caller has one thread only. It is killed after so many
/// seconds of processor time, or when far more have passed.
///
/// # Errors
///
/// When there can be no further process.
pub fn start<T>(about: T, seconds: u32, work: impl FnOnce() -> Vec<u8> + Send) -> io::Result<Child<T>> {
    let mut ends = [0; 2];
    // SAFETY: there is room for two.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `pipe2` has just opened both, and nothing else owns them.
    let (pipe, mut answers) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: there is no other thread, whose locks would stay taken.
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
            // SAFETY: what the parent has left to do at its exit is not done here.
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

/// Waits until one of the processes has ended, and takes it out.
///
/// # Errors
///
/// When the system refuses to wait.
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

/// Returns the index of a process that has something to say, or should have.
fn ready<T>(children: &[Child<T>]) -> io::Result<(usize, bool)> {
    let mut polled: Vec<libc::pollfd> = children
        .iter()
        .map(|child| libc::pollfd { fd: child.pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let deadlines = children.iter().map(|child| child.deadline).enumerate();
    let (first, deadline) = deadlines.min_by_key(|(_, deadline)| *deadline).expect("there is a process");
    let left = deadline.saturating_duration_since(Instant::now()).as_millis();
    let count = libc::nfds_t::try_from(polled.len()).unwrap_or(libc::nfds_t::MAX);
    // SAFETY: there are so many.
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
