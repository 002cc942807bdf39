//! Kills workers in the middle of runs, and judges what came of the runs.
//!
//! The workers are processes of the real command that share one journal. The model and the tools
//! are outside of them, in this process, and see every request; so they know when a worker is at the
//! point where it is to be struck. Nothing in a worker knows of the harness.

pub mod judge;
pub mod ledger;
mod report;
mod services;
pub mod trees;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use dauntless_contract::{ClaimFilter, ListQuery, RunEvent, RunId, RunMeta, RunState, SharedJournal};

use crate::chance::Chance;
use crate::postgres::{self, Server};
use crate::store::{Error, Kind, open};
use judge::{Blow, Evidence, Record, Strike, judge};
use ledger::{Aim, Class, Hit, Ledger, Point};
pub use report::Report;
use trees::Shape;
use workers::{Site, TTL, Worker};

/// How long an aim waits for its moment.
const AIMS: Duration = Duration::from_secs(2);
/// How long what was hit goes without an answer, so that the worker dies before.
const HOLDS: Duration = Duration::from_secs(20);
/// Aims in a row that may find no moment; with more of them nothing goes on.
const MISSES_MAX: u32 = 20;
/// Requests of each run between two blows, about.
const BREATH: u64 = 4;
/// So often a request may have been made before its run is given time; a run gives up after six.
const ATTEMPTS: u32 = 4;
/// How much time.
const RECOVERS: Duration = Duration::from_secs(8);
/// How long all runs may take to end after the last blow.
const ENDS: Duration = Duration::from_secs(180);

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The command `dauntless`.
    pub program: PathBuf,
    /// Where everything of it is, journal and logs included; made here, and removed when all holds.
    pub folder: PathBuf,
    /// The store.
    pub store: Kind,
    /// How many blows.
    pub strikes: u64,
    /// What chance starts from.
    pub seed: u64,
    /// Workers at once.
    pub workers: u64,
    /// Runs at once, not counting those below others.
    pub runs: u64,
    /// Turns that call tools, of a run alone.
    pub turns: u32,
}

/// One round of it.
struct Round {
    plan: Plan,
    site: Site,
    chance: Chance,
    store: Arc<dyn SharedJournal>,
    hits: Receiver<Hit>,
    workers: Vec<Worker>,
    next_worker: u64,
    /// All runs that were seen, by the number in their goal.
    numbers: BTreeMap<RunId, u64>,
    submitted: u64,
    cancelled: BTreeSet<RunId>,
    strikes: Vec<Strike>,
    incidents: Vec<String>,
    reopened: u64,
}

impl Plan {
    /// Strikes as planned, waits until all runs have ended, and judges.
    ///
    /// # Errors
    /// What could not be tried, or every rule that does not hold, with the seed and where to look.
    pub fn carry_out(&self) -> Result<Report, Error> {
        std::fs::create_dir_all(&self.folder)?;
        let server = match self.store {
            Kind::Sqlite => None,
            Kind::Postgres => Some(Server::new(&self.folder.join("server"))),
        };
        let journal = match self.store {
            Kind::Sqlite => format!("sqlite:{}", self.folder.join("journal.db").display()),
            Kind::Postgres => postgres::address(&self.folder.join("server")),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let result = runtime.block_on(async {
            let (sender, hits) = channel();
            let ledger = Arc::new(Ledger::new(sender));
            let tools = services::tools(&ledger)?;
            let site = Site {
                program: self.program.clone(),
                folder: self.folder.clone(),
                seed: self.seed,
                turns: self.turns,
                ledger,
            };
            site.configure(&journal, &tools.url())?;
            let mut round = Round {
                plan: self.clone(),
                site,
                chance: Chance::new(self.seed),
                store: open(&journal).await?,
                hits,
                workers: Vec::new(),
                next_worker: 0,
                numbers: BTreeMap::new(),
                submitted: 0,
                cancelled: BTreeSet::new(),
                strikes: Vec::new(),
                incidents: Vec::new(),
                reopened: 0,
            };
            round.play().await
        });
        let result = result.and_then(|(evidence, report)| {
            let broken = judge(&evidence);
            if broken.is_empty() {
                return Ok(report);
            }
            let lines: Vec<String> = broken.iter().map(|broken| format!("  {broken}")).collect();
            Err(format!("{report}{} times a rule is broken:\n{}", lines.len(), lines.join("\n")).into())
        });
        match result {
            Ok(report) => {
                drop(server);
                std::fs::remove_dir_all(&self.folder)?;
                Ok(report)
            }
            Err(error) => {
                // The cluster stays where it is, for whoever looks.
                if let Some(server) = server {
                    server.leave();
                }
                let (seed, folder) = (self.seed, self.folder.display());
                Err(format!("{error}\nseed {seed}; journal, configuration and logs are in {folder}").into())
            }
        }
    }
}

impl Round {
    async fn play(&mut self) -> Result<(Evidence, Report), Error> {
        let started = Instant::now();
        for _ in 0..self.plan.workers {
            self.start_worker()?;
        }
        let mut misses = 0;
        while (self.strikes.len() as u64) < self.plan.strikes {
            self.top_up().await?;
            self.tend()?;
            misses = if self.strike()? { 0 } else { misses + 1 };
            if misses > MISSES_MAX {
                let lines: Vec<String> = self.list(None).await?.iter().map(ToString::to_string).collect();
                return Err(
                    format!("no worker gets to where it is to be struck:\n{}", lines.join("\n")).into()
                );
            }
            self.breathe();
        }
        let struck = started.elapsed();
        self.wait_for_ends().await?;
        for mut worker in std::mem::take(&mut self.workers) {
            if !worker.end()? {
                self.incidents.push(format!("worker {} did not end in order on SIGTERM", worker.number));
            }
            self.incidents.extend(worker.violations());
        }
        let evidence = self.evidence().await?;
        let report = Report::new(&self.plan, &evidence, struck, self.reopened);
        Ok((evidence, report))
    }

    /// Lets the runs get on between two blows: what is interrupted too often in a row is given up by
    /// the run itself, because it could be what ends the workers.
    fn breathe(&mut self) {
        let ledger = Arc::clone(&self.site.ledger);
        let book = || ledger.book();
        let enough = book().requests.len() as u64 + BREATH * self.plan.runs;
        let weary = book().at_a_standstill(ATTEMPTS);
        let started = Instant::now();
        while (book().requests.len() as u64) < enough && started.elapsed() < AIMS {
            std::thread::sleep(Duration::from_millis(5));
        }
        while !book().at_a_standstill(ATTEMPTS).is_disjoint(&weary) && started.elapsed() < RECOVERS {
            std::thread::sleep(Duration::from_millis(5));
        }
        // They had their chance, or have ended.
        book().forget(&weary);
        std::thread::sleep(Duration::from_millis(self.chance.below(80)));
    }

    fn start_worker(&mut self) -> Result<(), Error> {
        self.next_worker += 1;
        self.workers.push(self.site.start(self.next_worker)?);
        Ok(())
    }

    /// Keeps the number of runs at the top up, and cancels what is to be cancelled on its way.
    async fn top_up(&mut self) -> Result<(), Error> {
        let runs = self.look().await?;
        let alive = |run: &&RunMeta| matches!(run.state, RunState::Ready | RunState::Driven);
        let tops: Vec<&RunMeta> = runs.iter().filter(|run| run.parent.is_none()).filter(alive).collect();
        for _ in tops.len() as u64..self.plan.runs {
            let number = trees::top(self.submitted);
            self.submitted += 1;
            self.numbers.insert(self.site.submit(number)?, number);
        }
        let has_children = |top: RunId| runs.iter().any(|run| run.root == Some(top) && run.parent.is_some());
        for top in tops {
            let dropped =
                self.numbers.get(&top.run).is_some_and(|number| Shape::of(*number) == Shape::Dropped);
            if dropped && has_children(top.run) && self.cancelled.insert(top.run) {
                self.site.cancel(top.run)?;
            }
        }
        Ok(())
    }

    /// All runs, after those that are over were noted.
    async fn look(&mut self) -> Result<Vec<RunMeta>, Error> {
        let runs = self.list(None).await?;
        let mut over = Vec::new();
        for run in &runs {
            let number = match self.numbers.get(&run.run) {
                Some(number) => *number,
                None => {
                    let first = self.store.read(run.run, 0, 1).await?;
                    let number = number(first.first().map(|first| &first.event))?;
                    self.numbers.insert(run.run, number);
                    number
                }
            };
            if run.state == RunState::Ended {
                over.push(number);
            }
        }
        // The next try has the same number.
        self.site.ledger.over(over.into_iter().filter(|number| trees::tries(*number) == 1));
        Ok(runs)
    }

    /// Puts others in the places of those that are gone.
    fn tend(&mut self) -> Result<(), Error> {
        let mut gone = Vec::new();
        for (at, worker) in self.workers.iter_mut().enumerate() {
            if worker.has_ended()? {
                gone.push(at);
            }
        }
        for at in gone.into_iter().rev() {
            let worker = self.workers.swap_remove(at);
            let log = std::fs::read_to_string(self.site.log(worker.number))?;
            self.incidents.push(format!("worker {} ended by itself: {log}", worker.number));
            self.start_worker()?;
        }
        Ok(())
    }

    /// Waits for a moment and strikes whoever is in it; false when it did not come.
    fn strike(&mut self) -> Result<bool, Error> {
        let point = Point::ALL.into_iter().cycle().nth(self.strikes.len()).unwrap_or(Point::Random);
        let class = self.chance.pick(&Class::ALL).unwrap_or(Class::Once);
        let standing = self.workers.iter().filter(|worker| worker.stands()).count();
        // Whoever only stands still is answered in the end, and so its call had its effect.
        let stops = standing > 1 && point != Point::BeforeEffect && self.chance.below(4) == 0;
        let blow = if stops { Blow::Stop } else { Blow::Kill };
        let length = match self.plan.store {
            // Whoever stands still keeps its runs in a file, and may keep the others from writing.
            Kind::Sqlite => Duration::from_millis(200 + self.chance.below(600)),
            Kind::Postgres => TTL + Duration::from_millis(300 + self.chance.below(1500)),
        };
        let Some(hit) = self.aim(point, class, if blow == Blow::Stop { length } else { HOLDS }) else {
            return Ok(false);
        };
        let Some(at) = self.workers.iter().position(|worker| worker.number == hit.worker && worker.stands())
        else {
            return Ok(false);
        };
        self.strikes.push(Strike { point, blow, worker: hit.worker, intent: hit.intent });
        match (blow, self.workers.get_mut(at)) {
            (Blow::Stop, Some(worker)) => worker.stop(length)?,
            (Blow::Stop, None) | (Blow::Kill, _) => {
                let mut worker = self.workers.swap_remove(at);
                worker.kill()?;
                self.incidents.extend(worker.violations());
                self.start_worker()?;
            }
        }
        Ok(true)
    }

    fn aim(&mut self, point: Point, class: Class, hold: Duration) -> Option<Hit> {
        if point == Point::Random {
            std::thread::sleep(Duration::from_millis(self.chance.below(150)));
            let standing: Vec<u64> =
                self.workers.iter().filter(|worker| worker.stands()).map(|worker| worker.number).collect();
            return self.chance.pick(&standing).map(|worker| Hit { worker, intent: None });
        }
        self.site.ledger.aim(Some(Aim { point, class, hold }));
        let hit = self.hits.recv_timeout(AIMS).ok();
        self.site.ledger.aim(None);
        // A moment that came in between is a blow that nobody waits for.
        let hit = hit.or_else(|| self.hits.try_recv().ok());
        if matches!(point, Point::BeforeIntent | Point::ChildEnded) {
            // The reply is on its way, and arrives about now.
            std::thread::sleep(services::THINKS + Duration::from_millis(self.chance.below(12)));
        }
        hit
    }

    async fn wait_for_ends(&mut self) -> Result<(), Error> {
        let started = Instant::now();
        while started.elapsed() < ENDS {
            self.tend()?;
            self.look().await?;
            for run in self.list(Some(RunState::Quarantined)).await? {
                // What an operator would do: it was no run that killed its workers.
                self.reopened += u64::from(self.store.reopen(run.run).await?);
            }
            let counts = self.store.counts(ClaimFilter::default()).await?;
            let standing = self.workers.iter().all(|worker| worker.stands());
            if standing && counts.ready + counts.driven + counts.orphaned + counts.quarantined == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // The rule about ends says which are left.
        Ok(())
    }

    async fn list(&self, state: Option<RunState>) -> Result<Vec<RunMeta>, Error> {
        Ok(self.store.list(ListQuery { state, root: None, after: None, limit: 100_000 }).await?)
    }

    async fn evidence(&mut self) -> Result<Evidence, Error> {
        let mut records = Vec::new();
        for meta in self.look().await? {
            let mut events = Vec::new();
            loop {
                let page = self.store.read(meta.run, events.len() as u64, 1000).await?;
                if page.is_empty() {
                    break;
                }
                events.extend(page.into_iter().map(|recorded| recorded.event));
            }
            let shown = match meta.parent {
                None => Some(self.site.show(meta.run)?),
                Some(_) => None,
            };
            records.push(Record {
                number: number(events.first())?,
                run: meta.run,
                parent: meta.parent,
                shown,
                end: meta.reason.clone().filter(|_| meta.state == RunState::Ended),
                line: meta.to_string(),
                head: meta.head,
                epoch: meta.epoch,
                late_results: meta.late_results,
                events,
            });
        }
        let tops = records.iter().filter(|record| record.parent.is_none()).count() as u64;
        if tops != self.submitted {
            return Err(format!("{} runs were submitted, {tops} are there", self.submitted).into());
        }
        let book = self.site.ledger.book();
        Ok(Evidence {
            requests: book.requests.clone(),
            observed: book.observed.clone(),
            strikes: self.strikes.clone(),
            records,
            incidents: self.incidents.clone(),
        })
    }
}

/// The number of a run that begins with this.
fn number(first: Option<&RunEvent>) -> Result<u64, Error> {
    match first {
        Some(RunEvent::RunStarted { goal, .. }) => services::number(goal),
        _ => None,
    }
    .ok_or_else(|| "the journal has a run that nobody asked for".into())
}
