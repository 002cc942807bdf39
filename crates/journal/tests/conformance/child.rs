//! A worker in a process of its own, which a test can kill, stop and let go on.
//!
//! It is this test program, started again: with an address in its environment, one test of it is
//! the worker, and says on its output what it has been acknowledged.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dauntless_contract::{AppendError, NewRun};
use dauntless_journal::{Postgres, PostgresConfig, Sqlite};

use crate::cast::{Store, event, fence, noise, worker};

const ADDRESS: &str = "JOURNAL_TEST_ADDRESS";
const ROLE: &str = "JOURNAL_TEST_ROLE";

/// A worker process. Ends with the value.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(address: &str, role: &str) -> Self {
        Self::start_by(Command::new(std::env::current_exe().unwrap()), address, role)
    }

    /// A worker whose files may have half a mebibyte each, and that is told so by failing writes.
    pub(crate) fn start_on_a_small_disk(address: &str, role: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$0\" \"$@\""]);
        shell.arg(std::env::current_exe().unwrap());
        Self::start_by(shell, address, role)
    }

    /// A worker by a command that starts this program.
    pub(crate) fn start_by(mut command: Command, address: &str, role: &str) -> Self {
        let mut child = command
            .args(["--ignored", "--exact", "child::be_a_worker", "--nocapture", "--test-threads=1"])
            .env(ADDRESS, address)
            .env(ROLE, role)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line that the worker says to the test, without the marker.
    pub(crate) fn says(&mut self) -> Option<String> {
        loop {
            let line = self.lines.next()?.unwrap();
            // The test harness may have begun the line.
            if let Some((_, said)) = line.split_once("journal: ") {
                return Some(said.to_owned());
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn open(address: &str) -> Store {
    match address.split_once(':') {
        Some(("sqlite", path)) => Arc::new(Sqlite::open(path).unwrap()),
        Some(("postgres", url)) => Arc::new(Postgres::connect(PostgresConfig::new(url)).await.unwrap()),
        other => panic!("no such store: {other:?}"),
    }
}

fn say(text: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "journal: {text}").unwrap();
    out.flush().unwrap();
}

#[test]
#[ignore = "the body of the processes that other tests start"]
fn be_a_worker() {
    let (Ok(address), Ok(role)) = (std::env::var(ADDRESS), std::env::var(ROLE)) else { return };
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = open(&address).await;
        match role.split(' ').collect::<Vec<_>>().as_slice() {
            ["append", ttl_ms, pause_ms] => append_for_ever(&store, ttl_ms, pause_ms).await,
            ["parent", ttl_ms] => {
                let mut lasting = Command::new("sleep").arg("30").stdout(Stdio::null()).spawn().unwrap();
                say(format_args!("child {}", lasting.id()));
                append_for_ever(&store, ttl_ms, "1").await;
                lasting.wait().unwrap();
            }
            ["live", ttl_ms, n] => live(&store, ttl_ms, n).await,
            ["steal", name, millis] => steal(&store, name, millis).await,
            ["ready"] => ready(&store, started).await,
            ["fill"] => fill(&store).await,
            ["load", first_run, seconds] => load(&store, first_run, seconds).await,
            other => panic!("no such role: {other:?}"),
        }
    });
}

/// Four runs that grow with a pause after each event; says each acknowledged place.
async fn append_for_ever(store: &Store, ttl_ms: &str, pause_ms: &str) {
    let millis = |text: &str| Duration::from_millis(text.parse().unwrap());
    let pause = millis(pause_ms);
    store.register(worker("victim", millis(ttl_ms))).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 1..=4_u128 {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let fence = fence(n);
            store.create(NewRun::new(fence, event("start"))).await.unwrap();
            let mut head = 1;
            loop {
                say(format_args!("ack {n} {head}"));
                tokio::time::sleep(pause).await;
                match store.append(&fence, head, vec![event(&head.to_string())]).await {
                    Ok(new) => head = new,
                    Err(AppendError::Fenced { .. }) => return say(format_args!("fenced {n} {head}")),
                    Err(error) => return say(format_args!("error {error}")),
                }
            }
        });
    }
    tasks.join_all().await;
    say(format_args!("end"));
}

/// A run whose worker renews and does nothing else; says which time it thinks it is.
async fn live(store: &Store, ttl_ms: &str, n: &str) {
    let ttl = Duration::from_millis(ttl_ms.parse().unwrap());
    store.register(worker(n, ttl)).await.unwrap();
    store.create(NewRun::new(fence(n.parse().unwrap()), event("start"))).await.unwrap();
    say(format_args!("live {}", std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()));
    loop {
        tokio::time::sleep(ttl / 4).await;
        store.renew().await.unwrap();
    }
}

/// Claims for a while; says how many runs it got.
async fn steal(store: &Store, name: &str, millis: &str) {
    let until = Instant::now() + Duration::from_millis(millis.parse().unwrap());
    store.register(worker(name, Duration::from_secs(60))).await.unwrap();
    let mut stolen = 0;
    while Instant::now() < until {
        stolen += crate::cast::claim(store, 9).await.len();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    say(format_args!("stole {stolen}"));
}

/// Claims; says how many runs it got, how long after its start, and how much memory that took.
async fn ready(store: &Store, started: Instant) {
    store.register(worker("ready", Duration::from_secs(60))).await.unwrap();
    let claims = crate::cast::claim(store, 32).await.len();
    let ready_ms = started.elapsed().as_millis();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak_kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
    say(format_args!("ready {claims} {ready_ms} {}", peak_kib.unwrap().trim()));
}

/// A run that grows until the disk is full; says how the append after that failed as well.
async fn fill(store: &Store) {
    let fence = fence(1);
    store.create(NewRun::new(fence, event("start"))).await.unwrap();
    let text = noise(40_000, 1);
    let mut head = 1;
    let first = loop {
        match store.append(&fence, head, vec![event(&text)]).await {
            Ok(new) => head = new,
            Err(error) => break error,
        }
        say(format_args!("ack {head}"));
    };
    let second = store.append(&fence, head, vec![event("x")]).await.unwrap_err();
    let kind = |error: &AppendError| if matches!(error, AppendError::Fatal(_)) { "fatal" } else { "other" };
    say(format_args!("{} {} {second}", kind(&first), kind(&second)));
}

/// 32 runs that grow for a while; says how many appends there were and the longest wait of one.
async fn load(store: &Store, first_run: &str, seconds: &str) {
    let (first, seconds): (u128, u64) = (first_run.parse().unwrap(), seconds.parse().unwrap());
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut tasks = tokio::task::JoinSet::new();
    for n in first..first + 32 {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let fence = fence(n);
            store.create(NewRun::new(fence, event("start"))).await.unwrap();
            let (mut head, mut longest) = (1, Duration::ZERO);
            while Instant::now() < until {
                let started = Instant::now();
                head = store.append(&fence, head, vec![event("x")]).await.unwrap();
                longest = longest.max(started.elapsed());
            }
            (head, longest)
        });
    }
    let ended = tasks.join_all().await;
    let (appends, longest) =
        (ended.iter().map(|(head, _)| head).sum::<u64>(), ended.iter().map(|(_, wait)| *wait).max());
    say(format_args!("load {appends} {}", longest.unwrap_or_default().as_millis()));
}
