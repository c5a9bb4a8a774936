//! One server process, which ends with this process in any case.
//!
//! A small shell script supervises it: the script holds the read end of our pipe, and the kernel closes the write end
//! when this process ends. All functions here are blocking and quick.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Polling interval.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// The folder of a control plane, removed when the last process that uses it has ended.
pub(crate) struct Home {
    pub(crate) path: PathBuf,
    cleaner: Mutex<Child>,
}

impl Home {
    pub(crate) fn new() -> Result<Self> {
        // The folder contains keys.
        let mine_only = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("kaudit-controlplane-").permissions(mine_only).tempdir()?;
        // Only removed by the cleaner: the servers still write to it when we drop it.
        let path = folder.keep();
        let cleaner = script(include_str!("clean_up.sh")).arg(&path).spawn()?;
        Ok(Self { path, cleaner: Mutex::new(cleaner) })
    }

    /// Removes the folder; its servers must have been stopped.
    pub(crate) fn remove(&self) -> Result<()> {
        let mut cleaner = lock(&self.cleaner);
        drop(cleaner.stdin.take());
        cleaner.wait()?;
        Ok(())
    }
}

/// A server program with its arguments, running or not.
pub(crate) struct Server {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    running: Mutex<Option<ServerProcess>>,
}

/// The process of a running server, and the script that supervises it.
struct ServerProcess {
    supervisor: Child,
    pid: u32,
}

impl Server {
    /// Creates a server that logs to `folder`; [`Self::start`] starts it.
    pub(crate) fn new(name: &'static str, program: PathBuf, arguments: Vec<String>, folder: &Path) -> Self {
        Self { name, program, arguments, folder: folder.to_owned(), running: Mutex::new(None) }
    }

    /// Starts the process; fails if it is running.
    pub(crate) fn start(&self) -> Result<()> {
        ensure!(!self.is_running(), "{} is already running", self.name);
        let mut supervisor = script(include_str!("supervise.sh"))
            .arg(self.log_path())
            .arg(self.folder.join(format!("{}.running", self.name)))
            .arg(&self.program)
            .args(&self.arguments)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", self.name))?;
        let mut pid = String::new();
        let output = supervisor.stdout.take().context("the supervisor has no output")?;
        BufReader::new(output).read_line(&mut pid)?;
        let pid = pid.trim().parse().with_context(|| format!("starting {}: no pid", self.name))?;
        *lock(&self.running) = Some(ServerProcess { supervisor, pid });
        Ok(())
    }

    /// Whether the process exists; also true for a paused one.
    pub(crate) fn is_running(&self) -> bool {
        self.pid().is_some()
    }

    /// Sends a signal, named without `SIG`, to the server itself.
    pub(crate) fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.pid().with_context(|| format!("{} is not running", self.name))?;
        let status = Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).status()?;
        ensure!(status.success(), "kill -{signal} of {} failed", self.name);
        Ok(())
    }

    /// Kills the process and waits for its end.
    pub(crate) fn kill(&self) -> Result<()> {
        self.signal("KILL")?;
        self.wait_until_gone(Duration::from_secs(10))
    }

    /// Stops the process gracefully, or kills it after some seconds.
    pub(crate) fn stop(&self) -> Result<()> {
        if let Some(running) = lock(&self.running).as_mut() {
            drop(running.supervisor.stdin.take());
        }
        self.wait_until_gone(Duration::from_secs(10))
    }

    fn wait_until_gone(&self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        while self.is_running() {
            if Instant::now() > deadline {
                bail!("{} does not end", self.name);
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Returns the server's process id while its supervisor, which reaps it, is running.
    pub(crate) fn pid(&self) -> Option<u32> {
        let mut running = lock(&self.running);
        let gone = match running.as_mut() {
            Some(running) => !matches!(running.supervisor.try_wait(), Ok(None)),
            None => true,
        };
        if gone {
            *running = None;
        }
        running.as_ref().map(|running| running.pid)
    }

    /// Returns the path of the server's log.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    /// Returns the last lines of the server's log.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(30)..];
        let state = if self.is_running() { "running" } else { "ended" };
        format!("--- {} ({state})\n{}\n", self.name, tail.join("\n"))
    }

    /// Whether the server ended because another process uses its port.
    pub(crate) fn lost_its_port(&self) -> bool {
        !self.is_running() && self.log().contains("address already in use")
    }

    pub(crate) fn log(&self) -> String {
        fs::read(self.log_path()).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }
}

/// Returns a shell script with our pipe as standard input.
fn script(text: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", text, "sh"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // In a process group of its own, as terminal signals would end script and server in any order.
        .process_group(0);
    command
}

/// Returns a free port of 127.0.0.1.
pub fn free_port() -> Result<u16> {
    // Below the kernel's range of client ports: a client that connects to a stopped server in that range may take its
    // port, or even connect to itself.
    (0..1000)
        .map(|_| 20_000 + u16::try_from(random() % 10_000).unwrap_or_default())
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .context("no free port")
}

/// Returns a random number; not for secrets.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    // Each state has random keys, so the hashed value does not matter.
    RandomState::new().hash_one(std::process::id())
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded data is consistent after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
