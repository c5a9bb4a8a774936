//! The memory of this process and the limit of its container, beyond which the kernel kills it without a warning.
//!
//! In: the files of the control group. Out: metrics, a line in the log at each crossing, and the condition
//! `MemoryPressure` of the `Audit` object. Without a limit there are none of these.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use crate::{blocking::spawn_blocking, metrics::Metrics};

/// How often the memory is read.
const EVERY: Duration = Duration::from_secs(1);
/// Pressure begins above this percentage of the limit,
const BEGINS: u64 = 90;
/// and ends below this one.
const ENDS: u64 = 85;
/// The least value of a version 1 hierarchy without a limit, which is the largest number of pages.
const UNLIMITED: u64 = 1 << 62;

/// The memory that a control group uses, and its limit, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryUse {
    /// Without the pages that the kernel would reclaim first, as the kubelet counts it.
    pub(crate) used: u64,
    pub(crate) limit: u64,
}

/// Whether the memory is near its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    pub(crate) is_high: bool,
    /// The memory when that was determined.
    pub(crate) memory: MemoryUse,
}

impl Pressure {
    /// Returns the pressure after a reading; values between the two thresholds change nothing.
    fn after(before: Option<Self>, memory: MemoryUse) -> Self {
        let was_high = before.is_some_and(|before| before.is_high);
        let percent = if was_high { ENDS } else { BEGINS };
        let is_high = memory.used >= memory.limit / 100 * percent;
        before.filter(|before| before.is_high == is_high).unwrap_or(Self { is_high, memory })
    }

    /// Describes how near the memory is to its limit, and what to do.
    pub(crate) fn message(self) -> String {
        let MemoryUse { used, limit } = self.memory;
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let advice = "raise resources.limits.memory, or read fewer kinds or namespaces";
        let advice =
            if self.is_high { format!("; above the limit the kernel kills kaudit: {advice}") } else { String::new() };
        format!("{} of {} MiB used{advice}", mib(used), mib(limit))
    }
}

/// The files of the control groups that this process is in, its own first.
#[derive(Debug, Default)]
struct Cgroups(Vec<Cgroup>);

#[derive(Debug)]
struct Cgroup {
    folder: PathBuf,
    limit: &'static str,
    usage: &'static str,
    reclaimable: &'static str,
}

impl Cgroups {
    /// Finds the control groups: `root` is where the hierarchies are mounted, `own` the content of `/proc/self/cgroup`.
    fn find(root: &Path, own: &str) -> Self {
        let lines = own.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some((fields.next()?, fields.next()?))
        });
        let groups = lines.flat_map(|(controllers, path)| {
            let v1 = controllers.split(',').any(|controller| controller == "memory");
            let mount = if v1 { root.join("memory") } else { root.to_owned() };
            // Where a container sees only its own group, that is the root, whatever the path is outside.
            let path = Path::new(path.trim_start_matches('/'));
            let folders = path.ancestors().map(move |part| mount.join(part));
            let is_memory = v1 || controllers.is_empty();
            folders
                .filter(move |_| is_memory)
                .map(move |folder| if v1 { Cgroup::v1(folder) } else { Cgroup::v2(folder) })
        });
        Self(groups.collect())
    }

    /// Returns the memory of the group that is nearest to its limit; `None` if none has one.
    fn memory(&self) -> Option<MemoryUse> {
        let known = self.0.iter().filter_map(Cgroup::memory);
        known.max_by_key(|memory| u128::from(memory.used) * 1_000 / u128::from(memory.limit.max(1)))
    }
}

impl Cgroups {
    /// Returns the smallest limit of all groups, in bytes; `None` if none has one.
    fn limit(&self) -> Option<u64> {
        self.0.iter().filter_map(Cgroup::memory).map(|memory| memory.limit).min()
    }
}

impl Cgroup {
    fn v1(folder: PathBuf) -> Self {
        let (limit, usage) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
        Self { folder, limit, usage, reclaimable: "total_inactive_file" }
    }

    fn v2(folder: PathBuf) -> Self {
        Self { folder, limit: "memory.max", usage: "memory.current", reclaimable: "inactive_file" }
    }

    fn memory(&self) -> Option<MemoryUse> {
        let read = |file: &str| fs::read_to_string(self.folder.join(file)).ok();
        let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
        // In version 2 it is `max` where there is no limit.
        let limit = number(self.limit).filter(|limit| *limit < UNLIMITED)?;
        let stat = read("memory.stat").unwrap_or_default();
        let reclaimable = stat.lines().find_map(|line| line.strip_prefix(self.reclaimable)?.trim().parse::<u64>().ok());
        let used = number(self.usage)?.saturating_sub(reclaimable.unwrap_or_default());
        Some(MemoryUse { used, limit })
    }
}

/// Returns how much memory this process may use, in bytes: the limit of its container or the memory of the machine,
/// whichever is less; `None` if neither is known.
pub fn process_limit() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let container = Cgroups::find(Path::new("/sys/fs/cgroup"), &own).limit();
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text));
    container.into_iter().chain(machine).min()
}

/// Reads the size of the memory from the content of `/proc/meminfo`, in bytes.
fn total_memory(meminfo: &str) -> Option<u64> {
    let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB"))?;
    kib.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Reads the memory of this process at intervals, without end. The pressure stays `None` as long as there is no limit.
pub async fn follow(metrics: Arc<Metrics>, pressure: watch::Sender<Option<Pressure>>) {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = Arc::new(Cgroups::find(Path::new("/sys/fs/cgroup"), &own));
    loop {
        let cgroups = Arc::clone(&groups);
        // An error means that the runtime is shutting down.
        if let Ok(Some(memory)) = spawn_blocking(move || cgroups.memory()).await {
            metrics.set_memory(memory.used, memory.limit);
            pressure.send_if_modified(|known| changed(known, memory));
        }
        sleep(EVERY).await;
    }
}

/// Stores the pressure after a reading, and logs each crossing; returns whether it changed.
fn changed(known: &mut Option<Pressure>, memory: MemoryUse) -> bool {
    let before = *known;
    let now = Pressure::after(before, memory);
    *known = Some(now);
    match before.is_some_and(|before| before.is_high) {
        false if now.is_high => warn!("The memory is near its limit: {}", now.message()),
        true if !now.is_high => info!("The memory is no longer near its limit: {}", now.message()),
        _ => {}
    }
    before != *known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(groups: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in groups {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn the_limit_is_that_of_the_container_in_both_versions() {
        let memory = |used, limit| Some(MemoryUse { used, limit });
        let own = "0::/kubepods/pod1/abc\n";
        let v2 =
            [("memory.max", "1000\n"), ("memory.current", "700\n"), ("memory.stat", "anon 5\ninactive_file 200\n")];
        assert_eq!(Cgroups::find(files(&v2).path(), "0::/\n").memory(), memory(500, 1_000));
        assert_eq!(Cgroups::find(files(&v2).path(), own).memory(), memory(500, 1_000), "its own is the root");
        let nested = [
            ("kubepods/pod1/abc/memory.max", "max\n"),
            ("kubepods/pod1/abc/memory.current", "300\n"),
            ("kubepods/pod1/memory.max", "400\n"),
            ("kubepods/pod1/memory.current", "300\n"),
            ("kubepods/memory.max", "9000\n"),
            ("kubepods/memory.current", "900\n"),
        ];
        assert_eq!(Cgroups::find(files(&nested).path(), own).memory(), memory(300, 400), "the nearest to its limit");
        let v1 = [
            ("memory/docker/abc/memory.limit_in_bytes", "800"),
            ("memory/docker/abc/memory.usage_in_bytes", "700"),
            ("memory/docker/abc/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712"),
            ("memory/memory.usage_in_bytes", "700"),
        ];
        let lines = "12:cpu,cpuacct:/docker/abc\n5:memory:/docker/abc\n0::/\n";
        assert_eq!(Cgroups::find(files(&v1).path(), lines).memory(), memory(600, 800));
    }

    #[test]
    fn the_process_may_use_the_smallest_limit() {
        let nested = [
            ("kubepods/pod1/abc/memory.max", "900\n"),
            ("kubepods/pod1/abc/memory.current", "300\n"),
            ("kubepods/pod1/memory.max", "400\n"),
            ("kubepods/pod1/memory.current", "3\n"),
        ];
        assert_eq!(Cgroups::find(files(&nested).path(), "0::/kubepods/pod1/abc\n").limit(), Some(400));
        assert_eq!(Cgroups::find(files(&[]).path(), "").limit(), None);
        assert_eq!(total_memory("MemFree: 1 kB\nMemTotal:       16 kB\n"), Some(16 << 10));
        assert_eq!(total_memory("MemTotal: many kB\n"), None);
    }

    #[test]
    fn without_a_limit_there_is_no_memory_use() {
        let none = [("memory.max", "max\n"), ("memory.current", "700\n")];
        assert_eq!(Cgroups::find(files(&none).path(), "0::/\n").memory(), None);
        assert_eq!(Cgroups::find(files(&[]).path(), "").memory(), None);
        let odd = [("memory.max", "many\n"), ("memory.current", "")];
        assert_eq!(Cgroups::find(files(&odd).path(), "0::/../..\nodd\n").memory(), None);
    }

    #[test]
    fn pressure_is_reported_once_when_it_begins_and_once_when_it_ends() {
        let mut known = None;
        let readings = [500, 899, 900, 870, 990, 860, 849, 880, 910].map(|used| {
            changed(&mut known, MemoryUse { used, limit: 1_000 }).then(|| known.is_some_and(|known| known.is_high))
        });
        assert_eq!(readings, [Some(false), None, Some(true), None, None, None, Some(false), None, Some(true)]);
        let message = Pressure { is_high: true, memory: MemoryUse { used: 240 << 20, limit: 256 << 20 } }.message();
        assert!(message.starts_with("240 of 256 MiB"), "{message}");
    }
}
