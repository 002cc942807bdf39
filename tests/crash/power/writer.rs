//! The process that writes and says what it was promised. Whoever listens is not on the disk.

use std::fmt;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{Fence, NewRun, Recorded, RunEvent, RunId, Seq, SharedJournal, Timestamp};
use dauntless_tests::chance::Chance;
use dauntless_tests::store::{Error, open};

use crate::Writer;

/// Runs that one process writes at once.
const RUNS: u64 = 8;
/// The record of the file that nobody syncs.
const RECORD: [u8; 64] = [b'.'; 64];

/// What a writer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// This event is on the disk.
    Acknowledged { run: RunId, seq: Seq, hash: u64 },
    /// So many bytes were written to the file that nobody syncs.
    Unsynced(u64),
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acknowledged { run, seq, hash } => write!(f, "ack {run} {seq} {hash}"),
            Self::Unsynced(bytes) => write!(f, "unsynced {bytes}"),
        }
    }
}

impl FromStr for Said {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self, Error> {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["ack", run, seq, hash] => {
                Ok(Self::Acknowledged { run: run.parse()?, seq: seq.parse()?, hash: hash.parse()? })
            }
            ["unsynced", bytes] => Ok(Self::Unsynced(bytes.parse()?)),
            _ => Err(format!("the writer said `{line}`").into()),
        }
    }
}

/// Identifies an event by its content.
pub(crate) fn hash_of(event: &RunEvent) -> Result<u64, Error> {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(event)?.hash(&mut hasher);
    Ok(hasher.finish())
}

/// Whether an event is the last of the batch that it was written in.
pub(crate) fn ends_its_batch(event: &RunEvent) -> bool {
    let RunEvent::CancelRequested { by } = event else { return false };
    by.split(' ').next().and_then(|word| word.split_once('/')).is_some_and(|(place, of)| place == of)
}

fn run(number: u64) -> RunId {
    RunId::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + u128::from(number))
}

/// The right to write a run, which the writer and the judge both know.
pub(crate) fn fence_of(run: RunId) -> Fence {
    Fence { run, epoch: 1, token: !run.as_u128() }
}

/// The writer of one round. Ends with the value.
pub(crate) struct Process {
    child: Child,
    /// What it says about its end.
    log: PathBuf,
}

impl Process {
    pub(crate) fn start(
        address: &str,
        log: PathBuf,
        unsynced: &Path,
        round: u64,
        seed: u64,
        writer: Writer,
    ) -> Result<Self, Error> {
        let child = Command::new(std::env::current_exe()?)
            .args(["power-writer", address])
            .arg(unsynced)
            .args([round.to_string(), seed.to_string()])
            .args((writer == Writer::Lying).then_some("--lie"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()?;
        Ok(Self { child, log })
    }

    /// What it says.
    pub(crate) fn said(&mut self) -> Result<BufReader<ChildStdout>, Error> {
        Ok(BufReader::new(self.child.stdout.take().ok_or("the writer is listened to already")?))
    }

    /// A writer that ends before the cut shows nothing.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        match self.child.try_wait()? {
            Some(_) => {
                Err(format!("the writer ended by itself: {}", std::fs::read_to_string(&self.log)?).into())
            }
            None => Ok(()),
        }
    }

    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ended already, but for a harness that failed.
        let _ = self.kill();
    }
}

/// The next that a writer said; nothing when it has ended.
pub(crate) fn next(said: &mut impl BufRead) -> Result<Option<Said>, Error> {
    let mut line = String::new();
    said.read_line(&mut line)?;
    // A line that was cut off with its writer was not said.
    line.strip_suffix('\n').map(str::parse).transpose()
}

/// The body of the process.
pub(crate) fn write(words: &[&str]) -> Result<(), Error> {
    let (words, writer) = match words {
        [words @ .., "--lie"] => (words, Writer::Lying),
        words => (words, Writer::Honest),
    };
    let [address, unsynced, round, seed] = words else { return Err("the writer's words are wrong".into()) };
    let (round, seed): (u64, u64) = (round.parse()?, seed.parse()?);
    let mut file = File::options().create(true).append(true).open(unsynced)?;
    std::thread::spawn(move || {
        let mut bytes = 0;
        while file.write_all(&RECORD).is_ok() {
            bytes += RECORD.len() as u64;
            say(&Said::Unsynced(bytes));
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let store = open(address).await?;
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..RUNS {
            let number = round * RUNS + n;
            let chance = Chance::new(seed.wrapping_add(number));
            tasks.spawn(grow(Arc::clone(&store), fence_of(run(number)), chance, writer));
        }
        // The first that cannot go on ends the process, as a worker would.
        tasks.join_next().await.map_or(Ok(()), |ended| ended?)
    })
}

/// One run that grows for ever, by batches.
async fn grow(
    store: Arc<dyn SharedJournal>,
    fence: Fence,
    mut chance: Chance,
    writer: Writer,
) -> Result<(), Error> {
    let mut head = 0;
    loop {
        let size = if head == 0 { 1 } else { 1 + chance.below(6) };
        let batch = batch(&mut chance, size);
        let said = (head + 1..).zip(&batch).map(|(seq, recorded)| {
            Ok(Said::Acknowledged { run: fence.run, seq, hash: hash_of(&recorded.event)? })
        });
        let said = said.collect::<Result<Vec<Said>, Error>>()?;
        if writer == Writer::Lying {
            said.iter().for_each(say);
        }
        head = match batch.as_slice() {
            [first] if head == 0 => {
                store.create(NewRun::new(fence, first.clone())).await?;
                1
            }
            _ => store.append(&fence, head, batch).await?,
        };
        if writer == Writer::Honest {
            said.iter().for_each(say);
        }
    }
}

/// Events of up to 3 KB, each with its place in the batch.
pub(crate) fn batch(chance: &mut Chance, size: u64) -> Vec<Recorded> {
    (1..=size)
        .map(|place| {
            let noise: String =
                (0..chance.below(48)).map(|_| format!("{:016x}", chance.below(u64::MAX))).collect();
            let by = format!("{place}/{size} {noise}").into();
            Recorded { at: Timestamp::from_micros(1), event: RunEvent::CancelRequested { by } }
        })
        .collect()
}

/// In one piece, so that a line is whole or is not there.
fn say(said: &Said) {
    let mut out = std::io::stdout().lock();
    // Whoever listened is gone, and so is the reason to write.
    if out.write_all(format!("{said}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
