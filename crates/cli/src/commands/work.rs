//! `dauntless work`, `run --durable` and `resume`: runs that are in a journal, driven by this process.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dauntless_contract::{Outcome, Progress, RunId, SharedJournal};
use dauntless_daemon::config::{self, Config};
use dauntless_daemon::runs::{NewSubmission, Runs};
use dauntless_daemon::store;
use dauntless_daemon::wiring::App;
use dauntless_daemon::worker::{Crews, OnWorkerEvent, Worker, WorkerError, WorkerEvent, WorkerOptions};
use tokio::sync::Notify;

use super::run;
use crate::args::{ResumeArgs, RunArgs, WorkArgs};
use crate::control;
use crate::exit::{Exit, Stop};
use crate::output::{self, Reader};
use crate::process::{self, END_WITHIN, Watching};
use crate::screen::Detail;
use crate::signals::Signals;
use crate::view::{self, View};

pub(crate) fn work(args: &WorkArgs) -> Result<Exit, Stop> {
    let config = config::load(args.config.path())?;
    process::block_on(&Watching { telemetry: Some(&config.telemetry), ..Watching::default() }, async {
        let mut options = WorkerOptions::of(&config);
        if let Some(name) = &args.name {
            options.name = name.as_str().into();
        }
        let journal = store::open(&config.journal, &process::environment).await.map_err(unusable)?;
        let address = store::address(&config.journal, &process::environment).map_err(unusable)?;
        let tell: OnWorkerEvent = Arc::new(|event| output::tell(&format!("dauntless: {event}")));
        let worker = Worker::register(journal, options, tell).await.map_err(unusable)?;
        let crews = crews(&worker, &config).await?;
        let mut signals = Signals::listen(crews.app().killer())?;
        let guard = signals.clone();
        let command = async {
            let control = control::open(crews.app(), &args.control).await;
            output::tell(&format!("dauntless: worker {} drives the runs of {address}", worker.name()));
            let app = Arc::clone(crews.app());
            let worked = worker
                .run(crews, async {
                    let signal = signals.first().await.name();
                    output::tell(&format!(
                        "dauntless: {signal}: no more runs are taken; those under way are given back"
                    ));
                })
                .await;
            app.shutdown(END_WITHIN).await;
            drop(control);
            worked.map_err(worker_error)?;
            Ok(Exit::COMPLETED)
        };
        guard.guard(command).await
    })
}

/// One goal as a run in the journal, driven here.
pub(crate) fn run_durable(args: &RunArgs) -> Result<Exit, Stop> {
    let config = config::load(args.config.path())?;
    let submission = run::submission(run::goal(&args.goal)?, args.history.as_deref())?;
    let shown = Shown { json: args.json, stream: args.stream, trace: args.trace };
    drive(&config, &shown, async |journal| {
        let runs = Runs::on(journal, &config, &process::environment)?;
        let new = NewSubmission { agent: args.agent.clone(), submission, key: None };
        let run = runs.submit(new).await?.run();
        output::tell(&format!("dauntless: run {run}"));
        Ok(run)
    })
}

pub(crate) fn resume(args: &ResumeArgs) -> Result<Exit, Stop> {
    let config = config::load(args.run.config.path())?;
    let reopened = async |journal| {
        let runs = Runs::on(journal, &config, &process::environment)?;
        let meta = runs.find(&args.run.run).await?;
        runs.make_ready(&meta, args.change()).await?;
        Ok(meta.run)
    };
    if args.leave {
        return process::block_on(&Watching::default(), async {
            let journal = store::open(&config.journal, &process::environment).await.map_err(unusable)?;
            let run = reopened(journal).await?;
            output::print(&format!("Run {run} waits for a worker.\n"))?;
            Ok(Exit::COMPLETED)
        });
    }
    drive(&config, &Shown { json: args.json, stream: args.stream, trace: false }, reopened)
}

/// How a run is shown.
struct Shown {
    json: bool,
    stream: bool,
    trace: bool,
}

/// Drives the run that `which` names until it is over or a signal comes.
fn drive(
    config: &Config,
    shown: &Shown,
    which: impl AsyncFnOnce(Arc<dyn SharedJournal>) -> Result<RunId, Stop>,
) -> Result<Exit, Stop> {
    let detail = view::detail(shown.json, shown.stream || shown.trace);
    let watching = Watching {
        trace: shown.trace,
        progress: detail != Detail::Hidden,
        telemetry: Some(&config.telemetry),
    };
    process::block_on(&watching, async {
        let journal = store::open(&config.journal, &process::environment).await.map_err(unusable)?;
        let watcher = Arc::new(Watcher::new(View::asked(shown.json, shown.stream, detail)));
        let options = WorkerOptions { watched: true, ..WorkerOptions::of(config) };
        let tell: OnWorkerEvent = {
            let watcher = Arc::clone(&watcher);
            Arc::new(move |event| watcher.see(event))
        };
        let worker = Worker::register(journal, options, tell).await.map_err(unusable)?;
        let crews = crews(&worker, config).await?;
        // Through a handle of its own: a run made through a worker's is that worker's already.
        let outside = store::open(&config.journal, &process::environment).await.map_err(unusable)?;
        let run = which(outside).await?;
        let app = Arc::clone(crews.app());
        let mut signals = Signals::listen(app.killer())?;
        let guard = signals.clone();
        let stop = {
            let watcher = Arc::clone(&watcher);
            async move {
                tokio::select! {
                    _ = signals.first() => {}
                    () = watcher.gone.notified() => {}
                }
            }
        };
        let command = async {
            let worked = worker.run_one(crews, run, stop).await;
            app.shutdown(END_WITHIN).await;
            worked.map_err(worker_error)?;
            watcher.ended(run, &guard, detail)
        };
        guard.guard(command).await
    })
}

/// The agents of the configuration. All of them must be able to run: a run that is claimed and cannot
/// be driven would wait for an operator.
async fn crews(worker: &Worker, config: &Config) -> Result<Crews, Stop> {
    let crews = Crews::of_config(worker.durable(), config, process::environment).await;
    let crews = crews.map_err(|error| Stop::new(Exit::INTERNAL, error))?;
    let app: &App = crews.app();
    if let Some(name) = app.broken().iter().find(|broken| broken.is_agent()).map(|broken| &*broken.name) {
        app.agent(Some(name))?;
    }
    for broken in app.broken() {
        output::tell(&format!("dauntless: {broken}"));
    }
    Ok(crews)
}

/// Shows the one run that is driven here.
struct Watcher {
    seen: Mutex<Seen>,
    /// Nobody reads any more.
    gone: Notify,
}

struct Seen {
    view: View<io::Stderr>,
    outcome: Option<Outcome>,
    /// Why the run is no longer driven here, though it is not over.
    why_not: Option<String>,
}

impl Watcher {
    fn new(view: View<io::Stderr>) -> Self {
        Self { seen: Mutex::new(Seen { view, outcome: None, why_not: None }), gone: Notify::new() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, event: &WorkerEvent) {
        match event {
            WorkerEvent::Progress { run: _, progress } => {
                let mut seen = self.seen();
                if let Progress::RunEnded { outcome } = &**progress {
                    seen.outcome = Some(outcome.clone());
                }
                if !matches!(seen.view.see(progress), Ok(Reader::Listening)) {
                    self.gone.notify_one();
                }
            }
            WorkerEvent::Lost { .. } | WorkerEvent::Paused { .. } => {
                self.seen().why_not = Some(event.to_string());
            }
            WorkerEvent::Claimed { .. }
            | WorkerEvent::Ended { .. }
            | WorkerEvent::HandedOver { .. }
            | WorkerEvent::Stranded { .. } => {}
        }
    }

    /// Says how the run ended, or that it did not.
    fn ended(&self, run: RunId, signals: &Signals, detail: Detail) -> Result<Exit, Stop> {
        let mut seen = self.seen();
        seen.view.close();
        let Some(outcome) = seen.outcome.take() else {
            if let Some(why) = seen.why_not.take() {
                return Err(Stop::new(Exit::NOT_NOW, why));
            }
            output::tell(&format!("dauntless: run {run} is kept; `dauntless resume {run}` goes on with it"));
            return Ok(signals.received().map_or(Exit::COMPLETED, crate::signals::Signal::exit));
        };
        view::told(&seen.view, &outcome, detail)?;
        Ok(Exit::of(&outcome.reason))
    }
}

fn unusable(error: impl std::fmt::Display) -> Stop {
    Stop::new(Exit::JOURNAL, error)
}

fn worker_error(error: WorkerError) -> Stop {
    let exit = match &error {
        WorkerError::Journal(_) => Exit::JOURNAL,
        WorkerError::NotClaimable(_) => Exit::NOT_NOW,
    };
    Stop::new(exit, error)
}
