//! Appends per second and their longest waits, against what the disk gives to one writer that does
//! nothing else. The disk is measured between the stores, so that a machine that changes its speed
//! changes both; figures of one run compare, figures of two runs do not.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dauntless_contract::{
    ClaimFilter, Fence, NewRun, Recorded, RunEvent, RunId, SharedJournal, Timestamp, WorkerInfo,
};
use dauntless_journal::{Postgres, PostgresConfig, Sqlite};

const USAGE: &str =
    "usage: bench journal [--seconds N] [--rounds N] [--dir PATH] [--postgres URL] [--start-gigabytes N]";
const RECORD_BYTES: usize = 1000;

type Problem = Box<dyn std::error::Error>;
type Store = Arc<dyn SharedJournal>;

struct Plan {
    seconds: u64,
    rounds: usize,
    dir: PathBuf,
    postgres: Option<String>,
    /// Measure a start on a file of this size, and nothing else.
    start_gigabytes: Option<i64>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let measured = plan(&words).and_then(|plan| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            match plan.start_gigabytes {
                Some(gigabytes) => start(&plan, gigabytes).await,
                None => measure(&plan).await,
            }
        })
    });
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn plan(words: &[String]) -> Result<Plan, Problem> {
    let mut plan =
        Plan { seconds: 3, rounds: 3, dir: std::env::temp_dir(), postgres: None, start_gigabytes: None };
    for pair in words.chunks(2) {
        match pair {
            [name, value] if name == "--seconds" => plan.seconds = value.parse()?,
            [name, value] if name == "--rounds" => plan.rounds = value.parse()?,
            [name, value] if name == "--dir" => plan.dir = value.into(),
            [name, value] if name == "--postgres" => plan.postgres = Some(value.clone()),
            [name, value] if name == "--start-gigabytes" => plan.start_gigabytes = Some(value.parse()?),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(plan)
}

/// One figure: appends per second and the time that 99 of 100 stay under.
struct Figure {
    per_second: f64,
    p99: Duration,
}

async fn measure(plan: &Plan) -> Result<(), Problem> {
    let dir = plan.dir.join(format!("journal-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let mut stores: Vec<(&str, Store)> = vec![("sqlite", Arc::new(Sqlite::open(dir.join("journal.db"))?))];
    if let Some(url) = &plan.postgres {
        stores.push(("postgres", Arc::new(Postgres::connect(PostgresConfig::new(url)).await?)));
    }
    println!("records of {RECORD_BYTES} bytes, {} s each, median of {} rounds", plan.seconds, plan.rounds);
    println!("store     runs  appends/s  p99 ms  raw/s  ratio");
    let length = Duration::from_secs(plan.seconds);
    let mut run = 0;
    for (name, store) in &stores {
        for writers in [1, 32] {
            let mut rounds = Vec::new();
            for _ in 0..plan.rounds {
                let raw = raw(&dir, length)?;
                let figure = appends(store, &mut run, writers, length).await?;
                rounds.push((figure.per_second / raw, raw, figure));
            }
            rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((ratio, raw, Figure { per_second, p99 })) = rounds.get(rounds.len() / 2) {
                let p99_ms = p99.as_secs_f64() * 1e3;
                println!(
                    "{name:<8}  {writers:>4}  {per_second:>9.0}  {p99_ms:>6.1}  {raw:>5.0}  {ratio:>5.2}"
                );
            }
        }
    }
    drop(stores);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Makes a file of that size, and starts a worker on it.
async fn start(plan: &Plan, gigabytes: i64) -> Result<(), Problem> {
    let dir = plan.dir.join(format!("journal-start-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let path = dir.join("journal.db");
    let store: Store = Arc::new(Sqlite::open(&path)?);
    for run in 1..=32 {
        let fence = Fence { run: started_id(run)?, epoch: 1, token: 1 };
        let event = RunEvent::CancelRequested { by: "start".into() };
        store.create(NewRun::new(fence, Recorded { at: Timestamp::from_micros(1), event })).await?;
    }
    drop(store);
    let file = rusqlite::Connection::open(&path)?;
    for megabytes in (0..gigabytes * 1000).step_by(250) {
        let fill = "WITH RECURSIVE many (seq) AS (SELECT 2 UNION ALL SELECT seq + 1 FROM many LIMIT 15625)
                    INSERT INTO event (run, seq, epoch, kind, v, at, written_at, body)
                    SELECT 1, seq + ?1 * 100, 1, 'filler', 1, 0, 0, randomblob(16000) FROM many";
        file.execute(fill, [megabytes])?;
    }
    drop(file);
    let bytes = std::fs::metadata(&path)?.len();
    let asked = Instant::now();
    let store = Sqlite::open(&path)?;
    let (name, host) = ("bench".into(), "here".into());
    store.register(WorkerInfo { name, host, ttl: Duration::from_secs(60) }).await?;
    let claims = store.claim(32, ClaimFilter::default()).await?.len();
    let ready_ms = asked.elapsed().as_millis();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim();
    println!(
        "a file of {bytes} bytes: {claims} runs claimed {ready_ms} ms after the start, peak memory {peak}"
    );
    drop(store);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Appends to a file and waits for the disk each time.
fn raw(dir: &Path, length: Duration) -> Result<f64, Problem> {
    let path = dir.join("raw");
    let mut file = File::create(&path)?;
    let (record, started, mut count) = (vec![b'x'; RECORD_BYTES], Instant::now(), 0_u32);
    while started.elapsed() < length {
        file.write_all(&record)?;
        file.sync_data()?;
        count += 1;
    }
    let per_second = f64::from(count) / started.elapsed().as_secs_f64();
    std::fs::remove_file(&path)?;
    Ok(per_second)
}

async fn appends(store: &Store, run: &mut u128, writers: usize, length: Duration) -> Result<Figure, Problem> {
    let event = Recorded {
        at: Timestamp::from_micros(1),
        event: RunEvent::CancelRequested { by: noise(RECORD_BYTES - 10).into() },
    };
    let mut tasks = tokio::task::JoinSet::new();
    let started = Instant::now();
    for _ in 0..writers {
        *run += 1;
        let id = started_id(*run)?;
        let (store, event) = (Arc::clone(store), event.clone());
        tasks.spawn(async move {
            let fence = Fence { run: id, epoch: 1, token: 1 };
            store.create(NewRun::new(fence, event.clone())).await.map_err(|error| error.to_string())?;
            let (mut head, mut waits) = (1, Vec::new());
            while started.elapsed() < length {
                let asked = Instant::now();
                head = store
                    .append(&fence, head, vec![event.clone()])
                    .await
                    .map_err(|error| error.to_string())?;
                waits.push(asked.elapsed());
            }
            Ok::<_, String>(waits)
        });
    }
    let mut waits = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        waits.extend(ended??);
    }
    let elapsed = started.elapsed().as_secs_f64();
    waits.sort_unstable();
    let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or_default();
    let count = u32::try_from(waits.len())?;
    Ok(Figure { per_second: f64::from(count) / elapsed, p99 })
}

/// A run id that no earlier measurement has used.
fn started_id(n: u128) -> Result<RunId, Problem> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(RunId::from_u128((now.as_millis() << 80) | (7 << 76) | (8 << 60) | n))
}

/// Text that does not compress.
fn noise(bytes: usize) -> String {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'A' + u8::try_from(state >> 59).unwrap_or_default())
    };
    std::iter::repeat_with(next).filter(char::is_ascii_alphabetic).take(bytes).collect()
}
