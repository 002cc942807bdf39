//! What an operator does with the runs of a journal.
//!
//! None of it drives a run: that is a worker's.

mod text;

use std::path::Path;

use dauntless_contract::RunMeta;
use dauntless_daemon::config::{self, Config};
use dauntless_daemon::runs::{
    self, Answered, Cancelled, Difference, ExportError, Listed, NewSubmission, Replayed, Runs, RunsError,
    import,
};

use super::run;
use crate::args::{
    AnswerArgs, ConfigArg, ExportArgs, ForkArgs, OneRunArgs, ReplayArgs, RunsArgs, ShowArgs, SubmitArgs,
};
use crate::exit::{Exit, Stop};
use crate::output;
use crate::process::{self, Watching};

/// Who cancels, as the outcome names it.
const OPERATOR: &str = "the operator";

pub(crate) fn submit(args: &SubmitArgs) -> Result<Exit, Stop> {
    let config = config::load(args.config.path())?;
    let submission = run::submission(run::goal(&args.goal)?, args.history.as_deref())?;
    let (agent, key) = (args.agent.clone(), args.key.as_deref().map(Into::into));
    with_runs(&config, async |runs| {
        let submitted = runs.submit(NewSubmission { agent, submission, key }).await?;
        output::print(&format!("{}\n", submitted.run()))?;
        Ok(Exit::COMPLETED)
    })
}

pub(crate) fn list(args: &RunsArgs) -> Result<Exit, Stop> {
    let config = config::load(args.config.path())?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let children = args.all || args.state.is_some() || args.agent.is_some();
    let listed = Listed { state: args.state.map(Into::into), agent: args.agent.clone(), children, limit };
    with_runs(&config, async |runs| {
        let overview = runs.list(&listed).await?;
        output::print(&if args.json { text::overview_json(&overview) } else { text::overview(&overview) })?;
        Ok(Exit::COMPLETED)
    })
}

pub(crate) fn show(args: &ShowArgs) -> Result<Exit, Stop> {
    with_run(&args.run.config, &args.run.run, async |runs, meta| {
        let mut look = runs.look(meta).await?;
        let tree = runs.tree(&mut look).await?;
        output::print(&if args.json { text::look_json(&look, &tree) } else { text::look(&look, &tree) })?;
        Ok(Exit::COMPLETED)
    })
}

pub(crate) fn cancel(args: &OneRunArgs) -> Result<Exit, Stop> {
    with_run(&args.run.config, &args.run.run, async |runs, meta| {
        let run = meta.run;
        let told = match runs.cancel(&meta, OPERATOR).await? {
            Cancelled::Sent => format!("Run {run} is asked to end; the worker that drives it ends it.\n"),
            Cancelled::Waiting => {
                format!("Run {run} is asked to end, and waits for a worker that ends it.\n")
            }
            Cancelled::Before => format!("Run {run} was asked to end before.\n"),
        };
        output::print(&told)?;
        Ok(Exit::COMPLETED)
    })
}

pub(crate) fn answer(args: &AnswerArgs) -> Result<Exit, Stop> {
    with_run(&args.run.config, &args.run.run, async |runs, meta| {
        let (run, call) = (meta.run, args.call);
        let told = match runs.answer(&meta, call, &args.text).await? {
            Answered::Sent => format!("Run {run} is given the answer to {call}.\n"),
            Answered::Before => format!("Run {run} was given this answer to {call} before.\n"),
        };
        output::print(&told)?;
        Ok(Exit::COMPLETED)
    })
}

pub(crate) fn fork(args: &ForkArgs) -> Result<Exit, Stop> {
    with_run(&args.run.config, &args.run.run, async |runs, meta| {
        let fork = runs.fork(&meta, args.at).await?;
        output::print(&format!("{fork}\n"))?;
        Ok(Exit::COMPLETED)
    })
}

pub(crate) fn export(args: &ExportArgs) -> Result<Exit, Stop> {
    with_run(&args.run.config, &args.run.run, async |runs, meta| {
        let lines = runs.export(&meta).await?;
        output::print(&lines)?;
        Ok(Exit::COMPLETED)
    })
}

pub(crate) fn replay(args: &ReplayArgs) -> Result<Exit, Stop> {
    let config = config::load(args.config.path())?;
    match (&args.file, &args.run) {
        (Some(file), _) => {
            let text = read(file)?;
            let exported = import(&text).map_err(|error| unreadable(file, &error))?;
            told(&runs::replay(&exported, &config, &process::environment)?)
        }
        (None, run) => {
            let run = run.clone().unwrap_or_default();
            with_runs(&config, async |runs| {
                let meta = runs.find(&run).await?;
                told(&runs.replay(&meta).await?)
            })
        }
    }
}

fn told(replayed: &Replayed) -> Result<Exit, Stop> {
    match replayed {
        Replayed::Same { events } => {
            let what = if *events == 1 { "event" } else { "events" };
            output::print(&format!("{events} {what}, no difference\n"))?;
            Ok(Exit::COMPLETED)
        }
        Replayed::Differs(Difference { seq, recorded, today }) => {
            let line = |text: &str| output::one_line(text, 600);
            let (recorded, today) = (line(recorded), line(today));
            let what = seq.map_or_else(|| "the end".to_owned(), |seq| format!("event {seq}"));
            output::print(&format!("{what} differs\n  recorded: {recorded}\n  today:    {today}\n"))?;
            Ok(Exit::DIFFERS)
        }
    }
}

fn read(file: &Path) -> Result<String, Stop> {
    match file == Path::new("-") {
        true => output::read_stdin("the run"),
        false => std::fs::read_to_string(file)
            .map_err(|error| Stop::new(Exit::UNREADABLE, format_args!("--file {}: {error}", file.display()))),
    }
}

fn unreadable(file: &Path, error: &ExportError) -> Stop {
    Stop::new(Exit::UNREADABLE, format_args!("--file {}: {error}", file.display()))
}

/// Opens the journal of the configuration.
fn with_runs<F>(config: &Config, command: F) -> Result<Exit, Stop>
where
    F: AsyncFnOnce(&Runs<'_>) -> Result<Exit, Stop>,
{
    process::block_on(&Watching::default(), async {
        let runs = Runs::open(config, &process::environment).await?;
        command(&runs).await
    })
}

/// Opens the journal and finds the run.
fn with_run<F>(config: &ConfigArg, run: &str, command: F) -> Result<Exit, Stop>
where
    F: AsyncFnOnce(&Runs<'_>, RunMeta) -> Result<Exit, Stop>,
{
    let config = config::load(config.path())?;
    with_runs(&config, async |runs| {
        let meta = runs.find(run).await?;
        command(runs, meta).await
    })
}

impl From<RunsError> for Stop {
    fn from(error: RunsError) -> Self {
        let exit = match error {
            RunsError::Agent(error) => return error.into(),
            RunsError::NoRun(_) | RunsError::Ambiguous { .. } => Exit::NO_RUN,
            RunsError::Over { .. } | RunsError::NoQuestion { .. } | RunsError::AnsweredBefore { .. } => {
                Exit::NOT_NOW
            }
            RunsError::OutOfRange { .. } => Exit::USAGE,
            RunsError::Redact(_) => Exit::CONFIGURATION,
            RunsError::Store(_)
            | RunsError::Journal(_)
            | RunsError::Read(_)
            | RunsError::Create(_)
            | RunsError::Append(_) => Exit::JOURNAL,
        };
        Self::new(exit, error)
    }
}
