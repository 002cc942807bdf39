//! The arguments of what an operator does with the runs of a journal.

use std::path::PathBuf;

use clap::ValueEnum;
use dauntless_contract::{CallKey, RunState, Seq};

use super::{ConfigArg, ControlArgs};
use crate::exit;

/// Leave a goal to the workers, and print the id of its run
///
/// The run is in the journal when the id is printed, pinned to the agent as it is configured now, and
/// any worker takes it. Questions of the agent wait for `dauntless answer`.
#[derive(Debug, clap::Args)]
pub(crate) struct SubmitArgs {
    /// What the agent shall do; `-` reads it from standard input
    pub(crate) goal: String,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// The agent or the plan; needed when the configuration has more than one
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Continue this conversation: a JSON list of messages as chat completions have them
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// Your own name for the run: submitted again with the same one, it is the same run
    #[arg(long, value_name = "NAME")]
    pub(crate) key: Option<String>,
}

/// List the runs of the journal, the newest first, and above them those that wait for an operator
///
/// What the runs below a run used is counted in its own line. They have lines of their own with --all,
/// --state and --agent.
#[derive(Debug, clap::Args)]
pub(crate) struct RunsArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Only the runs that stand there
    #[arg(long, value_enum, value_name = "STATE")]
    pub(crate) state: Option<StateArg>,
    /// Only the runs of this agent or plan
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// List the runs that others asked for as well
    #[arg(long)]
    pub(crate) all: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u32,
    /// Print one line of JSON instead
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum StateArg {
    /// Waits for a worker
    Ready,
    /// A worker drives it
    Driven,
    /// Waits for an operator
    Paused,
    /// Ended its workers again and again, and waits for an operator
    Quarantined,
    /// Over
    Ended,
}

impl From<StateArg> for RunState {
    fn from(state: StateArg) -> Self {
        match state {
            StateArg::Ready => Self::Ready,
            StateArg::Driven => Self::Driven,
            StateArg::Paused => Self::Paused,
            StateArg::Quarantined => Self::Quarantined,
            StateArg::Ended => Self::Ended,
        }
    }
}

/// Which run of the journal.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArg {
    /// The run: its id, or as much of the beginning or the end as no other has
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneRunArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,
}

/// Go on with a run of the journal: after a death of its process, a pause, or quarantine
///
/// It is driven here to its end, unless --leave leaves it to a worker. Ctrl-C lets go of it again.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit::help())]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,
    /// Leave it to whichever worker claims it
    #[arg(long, conflicts_with_all = ["json", "stream"])]
    pub(crate) leave: bool,
    /// Where its agent is configured otherwise now: go on with what it is
    #[arg(long)]
    pub(crate) adopt: bool,
    /// Where its agent is configured otherwise now: go on with what it was
    #[arg(long, conflicts_with = "adopt")]
    pub(crate) keep: bool,
    /// Print every event as one line of JSON on standard output; the last one holds the outcome
    #[arg(long, conflicts_with = "stream")]
    pub(crate) json: bool,
    /// Show the model's words on standard error while it writes them
    #[arg(long)]
    pub(crate) stream: bool,
}

impl ResumeArgs {
    /// Which configuration the run shall go on with, if that was said.
    pub(crate) const fn change(&self) -> Option<bool> {
        match (self.adopt, self.keep) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }
}

/// Claim runs of the journal and drive them, until told to stop
///
/// Any number of workers may share a journal. SIGTERM or Ctrl-C: no more runs are taken, calls may end
/// within the grace period, and what is left is given back for others to go on with. A second signal
/// ends everything at once, which loses nothing but time.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit::help())]
pub(crate) struct WorkArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Its name, unique among the workers of the journal, in place of the configured one
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// Show what happened in a run, event by event, what it waits for, and the runs below it
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,
    /// Print one line of JSON instead
    #[arg(long)]
    pub(crate) json: bool,
}

/// Answer a question of a run
#[derive(Debug, clap::Args)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,
    /// The call that asks, like 2.0; `dauntless show` names it
    #[arg(value_parser = call)]
    pub(crate) call: CallKey,
    /// The words; "" when there is no answer
    pub(crate) text: String,
}

/// Make a new run that goes on from an event of this one
///
/// The new run has the events up to there, and the agent that the run is pinned to. What was under way
/// at that event is begun again, or is answered as unknown, as after an interruption. The run itself
/// is not touched.
#[derive(Debug, clap::Args)]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,
    /// The last event that the new run has, as `dauntless show` numbers them
    #[arg(long, value_name = "EVENT")]
    pub(crate) at: Seq,
}

/// Fold a run again with the agent as it is configured now, and say where it would go otherwise
///
/// Nothing is asked and nothing is called: each recorded answer is given to the run, and must answer
/// something that the run asks today. So runs that went well are regression tests of their agents.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit::help())]
pub(crate) struct ReplayArgs {
    /// The run: its id, or as much of the beginning or the end as no other has
    #[arg(value_name = "RUN", required_unless_present = "file", conflicts_with = "file")]
    pub(crate) run: Option<String>,
    /// A run that was exported, in place of one in the journal
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
}

/// Print a run as lines of JSON, without secrets: whose it is, then its events
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,
}

fn call(text: &str) -> Result<CallKey, String> {
    let parts =
        text.split_once('.').and_then(|(turn, index)| Some((turn.parse().ok()?, index.parse().ok()?)));
    let (turn, index) = parts.ok_or("use the turn and the place of the call, like 2.0")?;
    Ok(CallKey { turn, index })
}
