//! Cuts the power of the disk under a journal that is written to, again and again, and looks for
//! every event that was acknowledged.
//!
//! A file beside the journal, which is written to and never synced, is the proof that a cut loses
//! something: where it is whole after all cuts, nothing was shown.

mod device;
mod writer;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use dauntless_contract::{Recorded, RunId, Seq, SharedJournal};
use dauntless_tests::chance::Chance;
use dauntless_tests::postgres::{self, Server};
use dauntless_tests::store::{Error, Kind, open};

pub(crate) use writer::write;

use crate::{Options, Writer};
use device::Device;
use writer::{Process, Said};

/// How long a writer may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);

/// By place, the hashes of the events of each run that were acknowledged.
type Acknowledged = BTreeMap<RunId, BTreeMap<Seq, u64>>;

pub(crate) fn run(options: &Options, writer: Writer) -> Result<(), Error> {
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Err("a power cut needs root: it mounts a filesystem of its own and shuts it down".into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // Without this a Ctrl-C would leave the disk mounted. Its writer ends by it, and so does the round.
    runtime.spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
    let mut lost = 0;
    for kind in &options.stores {
        let folder = std::env::temp_dir().join(format!("dauntless-power-{}", std::process::id()));
        let mut bench = Bench { device: Device::new(&folder)?, kind: *kind, writer, server: None };
        lost += bench.cut_again_and_again(options, &runtime)?;
    }
    if lost > 0 { Err(format!("{lost} acknowledged events are gone").into()) } else { Ok(()) }
}

/// A disk with a journal on it.
struct Bench {
    kind: Kind,
    writer: Writer,
    /// Ends before its disk does.
    server: Option<Server>,
    device: Device,
}

/// What was found after a cut.
#[derive(Default)]
struct Found {
    /// Events that had not been acknowledged and are there all the same.
    beyond: u64,
    problems: Vec<String>,
    /// Acknowledged events that are gone or other ones.
    lost: u64,
}

impl Bench {
    fn cut_again_and_again(
        &mut self,
        options: &Options,
        runtime: &tokio::runtime::Runtime,
    ) -> Result<u64, Error> {
        println!("{}, seed {}, disk at {}", self.kind.as_str(), options.seed, self.device.place().display());
        println!(
            "{:>4} {:>7} {:>13} {:>7} {:>6} {:>20}",
            "cut", "after", "acknowledged", "beyond", "lost", "unsynced lost"
        );
        let mut chance = Chance::new(options.seed);
        let (mut known, mut lost, mut proven) = (Acknowledged::new(), 0, 0);
        self.start_server();
        // A server that was set up before the power failed.
        self.device.sync()?;
        for round in 0..options.count {
            let unsynced = self.device.place().join(format!("unsynced-{round}"));
            let mut process = Process::start(
                &self.address(),
                self.device.beside("writer.log"),
                &unsynced,
                round,
                options.seed,
                self.writer,
            )?;
            let after = Duration::from_millis(50 + chance.below(1200));
            let bytes = self.write_until_cut(&mut process, after, &mut known)?;
            self.device.start_again()?;
            self.start_server();
            let there = std::fs::metadata(&unsynced).map_or(0, |file| file.len());
            let found = runtime.block_on(async { judge(&*open(&self.address()).await?, &known).await })?;
            runtime.block_on(async { write_on(&*open(&self.address()).await?, &mut known).await })?;
            let acknowledged: usize = known.values().map(BTreeMap::len).sum();
            println!(
                "{:>4} {:>4} ms {acknowledged:>13} {:>7} {:>6} {:>8} of {bytes:>8}",
                round + 1,
                after.as_millis(),
                found.beyond,
                found.lost,
                bytes.saturating_sub(there),
            );
            found.problems.iter().take(10).for_each(|problem| println!("     {problem}"));
            lost += found.lost;
            proven += u64::from(there < bytes);
        }
        if proven == 0 {
            return Err("no cut lost anything that was not synced, so nothing is shown".into());
        }
        println!(
            "{proven} of {} cuts lost what was not synced; {lost} acknowledged events are gone\n",
            options.count
        );
        Ok(lost)
    }

    /// Answers how much the file that nobody syncs was given.
    fn write_until_cut(
        &mut self,
        process: &mut Process,
        after: Duration,
        known: &mut Acknowledged,
    ) -> Result<u64, Error> {
        let mut said = process.said()?;
        let (begun, begin) = mpsc::channel();
        let listener = std::thread::spawn(move || {
            let mut heard = Vec::new();
            while let Some(said) = writer::next(&mut said)? {
                if matches!(said, Said::Acknowledged { .. }) {
                    // Only the first is waited for.
                    let _ = begun.send(());
                }
                heard.push(said);
            }
            Ok::<_, Error>(heard)
        });
        // Counts from the first event on: before it there is nothing to lose.
        begin.recv_timeout(PATIENCE).map_err(|_| "the writer writes nothing")?;
        std::thread::sleep(after);
        process.check()?;
        self.device.cut()?;
        process.kill()?;
        if let Some(server) = self.server.take() {
            server.crash();
        }
        // What it said before it died counts, wherever it was on its way.
        let mut bytes = 0;
        for said in listener.join().map_err(|_| "the listener panicked")?? {
            match said {
                Said::Acknowledged { run, seq, hash } => {
                    known.entry(run).or_default().insert(seq, hash);
                }
                Said::Unsynced(written) => bytes = written,
            }
        }
        Ok(bytes)
    }

    fn address(&self) -> String {
        match self.kind {
            Kind::Sqlite => format!("sqlite:{}", self.device.place().join("journal.db").display()),
            Kind::Postgres => postgres::address(&self.server_folder()),
        }
    }

    fn server_folder(&self) -> PathBuf {
        self.device.place().join("server")
    }

    fn start_server(&mut self) {
        if self.kind == Kind::Sqlite {
            return;
        }
        let folder = self.server_folder();
        let made = folder.join("data/PG_VERSION").exists();
        self.server = Some(if made { Server::start(&folder, &[]) } else { Server::new(&folder) });
    }
}

/// Appends to the newest run: what came back is a journal like any other.
async fn write_on(store: &dyn SharedJournal, known: &mut Acknowledged) -> Result<(), Error> {
    let Some((run, acknowledged)) = known.iter_mut().next_back() else { return Ok(()) };
    let head = read_all(store, *run).await?.len() as Seq;
    let event = writer::batch(&mut Chance::new(head), 1);
    for (seq, recorded) in (head + 1..).zip(&event) {
        acknowledged.insert(seq, writer::hash_of(&recorded.event)?);
    }
    store.append(&writer::fence_of(*run), head, event).await?;
    Ok(())
}

/// Holds what is there against what was acknowledged.
async fn judge(store: &dyn SharedJournal, known: &Acknowledged) -> Result<Found, Error> {
    let mut found = Found::default();
    for (run, acknowledged) in known {
        let there = read_all(store, *run).await;
        let there = there.unwrap_or_else(|error| {
            found.problems.push(format!("run {run} cannot be read: {error}"));
            Vec::new()
        });
        for (seq, hash) in acknowledged {
            let recorded = usize::try_from(seq - 1).ok().and_then(|at| there.get(at));
            let same = recorded.map(|recorded| writer::hash_of(&recorded.event)).transpose()?;
            if same != Some(*hash) {
                found.lost += 1;
                let what = if same.is_none() { "gone" } else { "another one" };
                found.problems.push(format!("run {run}: event {seq} was acknowledged and is {what}"));
            }
        }
        found.beyond += (there.len() as u64).saturating_sub(acknowledged.len() as u64);
        if there.last().is_some_and(|last| !writer::ends_its_batch(&last.event)) {
            found.lost += 1;
            found.problems.push(format!("run {run} ends in the middle of a batch"));
        }
    }
    Ok(found)
}

async fn read_all(store: &dyn SharedJournal, run: RunId) -> Result<Vec<Recorded>, Error> {
    let mut events = Vec::new();
    loop {
        let page = store.read(run, events.len() as Seq, 1000).await?;
        if page.is_empty() {
            return Ok(events);
        }
        events.extend(page);
    }
}
