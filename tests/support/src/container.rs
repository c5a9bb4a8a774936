//! A memory limit like that of a container: a separate control group, which needs Linux and root.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

/// The default limit of the chart.
pub const CHART_LIMIT: u64 = 512 << 20;

/// A control group with a memory limit. It is removed when dropped; its processes must have ended by then.
pub struct Container {
    folder: PathBuf,
    /// The file through which processes enter the group.
    entry: &'static str,
}

impl Container {
    /// Creates a group below that of this process.
    pub fn new(limit: u64) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("kaudit-test-{}-{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let path = |controllers: &str| {
            let of =
                |line: &str| Some(line.split_once(':')?.1.strip_prefix(controllers)?.strip_prefix(":/")?.to_owned());
            own.lines().find_map(of)
        };
        let root = Path::new("/sys/fs/cgroup");
        let (folder, limits, entry) = match path("memory") {
            Some(own) => (root.join("memory").join(own), &["memory.limit_in_bytes"][..], "tasks"),
            // In cgroup v2 a group with processes cannot limit its children, so it is created at the root.
            None => (root.to_owned(), &["memory.max", "memory.swap.max"][..], "cgroup.procs"),
        };
        let container = Self { folder: folder.join(name), entry };
        fs::create_dir(&container.folder)?;
        for (index, file) in limits.iter().enumerate() {
            let value = if index == 0 { limit } else { 0 };
            let written = fs::write(container.folder.join(file), value.to_string());
            // Without swap the file does not exist.
            if index == 0 { written? } else { drop(written) }
        }
        Ok(container)
    }

    /// Returns a command that runs a program in the group.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let entry = self.folder.join(self.entry);
        command.args(["-c", r#"echo $$ > "$0" && exec "$@""#]).arg(entry).arg(program);
        command
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // A group that cannot be removed is empty and harmless.
        drop(fs::remove_dir(&self.folder));
    }
}
