//! Finds what a run leaves behind: descriptors, child processes, threads, tasks and memory.
//!
//! Take a snapshot, run the cycle, look again. It looks at the whole process, so it belongs in a
//! test that has its process for itself, as every test has under nextest. It reads `/proc` and so
//! works on Linux only. A process that was given away to init is nobody's child and not seen.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use dauntless_contract::Bytes;
use tokio::runtime::Handle;

#[cfg(test)]
mod tests;

/// How much more there may be than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakBounds {
    /// Open descriptors. Default 0.
    pub descriptors: usize,
    /// Descendant processes, those not yet reaped included. Default 0.
    pub processes: usize,
    /// Threads. Default 8: tokio keeps threads for blocking work for 10 s.
    pub threads: usize,
    /// Tasks of the current tokio runtime. Default 0.
    pub tasks: usize,
    /// Memory in RAM. Default 64 MiB: an allocator does not give everything back at once.
    pub memory: Bytes,
    /// How long things may take to go. Default 2 s.
    pub patience: Duration,
}

impl Default for LeakBounds {
    fn default() -> Self {
        Self {
            descriptors: 0,
            processes: 0,
            threads: 8,
            tasks: 0,
            memory: Bytes(64 * 1024 * 1024),
            patience: Duration::from_secs(2),
        }
    }
}

/// What a process holds at one moment.
///
/// # Examples
/// ```
/// use dauntless_testkit::LeakCheck;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let before = LeakCheck::snapshot()?;
/// // … many cycles of what is under test …
/// before.assert_no_leak().await;
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakCheck {
    /// Descriptor to what it stands for.
    descriptors: BTreeMap<u32, String>,
    /// Process to its name and state.
    processes: BTreeMap<u32, String>,
    /// Thread to its name.
    threads: BTreeMap<u32, String>,
    tasks: usize,
    memory: Bytes,
}

/// What there is more than before, and may not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakReport {
    /// Each kind that grew beyond its bound, with what is new, a line each.
    pub lines: Vec<String>,
}

impl fmt::Display for LeakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("\n"))
    }
}

impl LeakCheck {
    /// What this process holds now. Tasks are those of the tokio runtime it is called in, if any.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn snapshot() -> io::Result<Self> {
        let tasks = Handle::try_current().map_or(0, |handle| handle.metrics().num_alive_tasks());
        Ok(Self {
            descriptors: descriptors()?,
            processes: descendants()?,
            threads: threads()?,
            tasks,
            memory: resident()?,
        })
    }

    /// Compares with the present, again and again until it is within the bounds or patience ends.
    ///
    /// Waits on tokio's clock between two looks, so under a paused clock timers run on; patience
    /// is real time. Dropping the future stops looking.
    ///
    /// # Errors
    /// A report of what stayed.
    pub async fn check(&self, bounds: LeakBounds) -> Result<(), LeakReport> {
        let start = Instant::now();
        loop {
            let report = match Self::snapshot() {
                Ok(now) => now.growth_over(self, bounds),
                Err(error) => LeakReport { lines: vec![format!("/proc cannot be read: {error}")] },
            };
            if report.lines.is_empty() {
                return Ok(());
            }
            if start.elapsed() >= bounds.patience {
                return Err(report);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The same with the default bounds, for the end of a test.
    ///
    /// # Panics
    /// When something stayed, naming it.
    #[expect(clippy::panic, reason = "the test that leaks has to fail")]
    pub async fn assert_no_leak(&self) {
        if let Err(report) = self.check(LeakBounds::default()).await {
            panic!("something was left behind:\n{report}");
        }
    }

    fn growth_over(&self, before: &Self, bounds: LeakBounds) -> LeakReport {
        let mut lines = Vec::new();
        let kinds = [
            ("descriptors", &before.descriptors, &self.descriptors, bounds.descriptors),
            ("processes", &before.processes, &self.processes, bounds.processes),
            ("threads", &before.threads, &self.threads, bounds.threads),
        ];
        for (kind, old, now, bound) in kinds {
            if now.len() > old.len() + bound {
                lines.push(grown(kind, old.len(), now.len(), bound));
                let new = now.iter().filter(|(id, what)| old.get(*id) != Some(*what));
                lines.extend(new.map(|(id, what)| format!("  {id}: {what}")));
            }
        }
        if self.tasks > before.tasks + bounds.tasks {
            lines.push(grown("tasks", before.tasks, self.tasks, bounds.tasks));
        }
        if self.memory > before.memory + bounds.memory {
            lines.push(grown("memory", before.memory, self.memory, bounds.memory));
        }
        LeakReport { lines }
    }
}

fn grown<T: fmt::Display>(kind: &str, before: T, now: T, bound: T) -> String {
    format!("{kind}: {now}, before {before}, allowed growth {bound}")
}

/// The entries of a folder of `/proc` that are numbers.
fn numbers_in(folder: &str) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// The list is read before its entries are, so the descriptor that reads it is closed by then.
fn descriptors() -> io::Result<BTreeMap<u32, String>> {
    let target = |fd| Some((fd, fs::read_link(format!("/proc/self/fd/{fd}")).ok()?.display().to_string()));
    Ok(numbers_in("/proc/self/fd")?.into_iter().filter_map(target).collect())
}

fn threads() -> io::Result<BTreeMap<u32, String>> {
    let name = |tid| {
        let name = fs::read_to_string(format!("/proc/self/task/{tid}/comm")).ok()?;
        Some((tid, name.trim().to_owned()))
    };
    Ok(numbers_in("/proc/self/task")?.into_iter().filter_map(name).collect())
}

/// Reads the line `VmRSS:    12345 kB`.
fn resident() -> io::Result<Bytes> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| Bytes(kib * 1024)).ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))
}

fn descendants() -> io::Result<BTreeMap<u32, String>> {
    let all: BTreeMap<u32, Process> =
        numbers_in("/proc")?.into_iter().filter_map(|pid| Some((pid, Process::read(pid)?))).collect();
    let own = std::process::id();
    let is_descendant = |pid: u32| {
        // A chain of parents is no longer than the list, whatever changed while it was read.
        std::iter::successors(Some(pid), |pid| all.get(pid).map(|process| process.parent))
            .skip(1)
            .take(all.len())
            .any(|parent| parent == own)
    };
    Ok(all
        .iter()
        .filter(|(pid, _)| is_descendant(**pid))
        .map(|(pid, process)| (*pid, process.name.clone()))
        .collect())
}

struct Process {
    parent: u32,
    name: String,
}

impl Process {
    /// Reads `pid (name) state parent …`; the name may hold spaces and parentheses.
    fn read(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (head, tail) = stat.rsplit_once(')')?;
        let mut fields = tail.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let name = head.split_once('(')?.1;
        let note = if state == "Z" { " (ended, not reaped)" } else { "" };
        Some(Self { parent, name: format!("{name}{note}") })
    }
}
