//! What can be written on the command line. The doc comments are the help.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use dauntless_contract::BreakerSwitch;
use dauntless_daemon::config::ChaosSwitch;
use dauntless_daemon::rehearsal::Scenario;
use dauntless_daemon::wiring::DirectModel;

use crate::exit;

mod runs;

pub(crate) use runs::{
    AnswerArgs, ExportArgs, ForkArgs, OneRunArgs, ReplayArgs, ResumeArgs, RunsArgs, ShowArgs, SubmitArgs,
    WorkArgs,
};

/// Runs agents whose tools may fail.
#[derive(Debug, Parser)]
#[command(name = "dauntless", version, after_long_help = exit::help())]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Check(CheckArgs),
    Submit(SubmitArgs),
    Runs(RunsArgs),
    Show(ShowArgs),
    /// Let a worker take a run that is paused or in quarantine
    Resume(ResumeArgs),
    Work(WorkArgs),
    /// Ask a run to end: it answers the calls it has open, and ends as cancelled
    Cancel(OneRunArgs),
    Answer(AnswerArgs),
    Fork(ForkArgs),
    Replay(ReplayArgs),
    Export(ExportArgs),
    Tools(ToolsArgs),
    Rehearse(RehearseArgs),
    /// Print what helps to write a configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Run a goal to its end and print the answer
///
/// The answer goes to standard output and everything else to standard error, so that
/// `answer=$(dauntless run "…")` holds the answer or nothing. A run that did not complete prints
/// why, and its best partial answer, on standard error.
///
/// On a terminal the calls are shown while they happen. Ctrl-C cancels the run and prints its
/// outcome; a second Ctrl-C ends everything at once.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit::help())]
pub(crate) struct RunArgs {
    /// What the agent shall do; `-` reads it from standard input
    pub(crate) goal: String,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// The agent or the plan; needed when the configuration has more than one
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Run without a configuration and without tools, on this model [default with --base-url: gpt-5-mini]
    ///
    /// The key is read from OPENAI_API_KEY. With --base-url it may be absent.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["config", "agent"])]
    pub(crate) model: Option<String>,
    /// The address of a service that speaks the OpenAI API, like http://127.0.0.1:8080/v1
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "agent"])]
    pub(crate) base_url: Option<String>,
    /// Continue this conversation: a JSON list of messages as chat completions have them
    ///
    /// It may come from another program and be broken: what was repaired is shown.
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// Print every event as one line of JSON on standard output; the last one holds the outcome
    #[arg(long, conflicts_with = "stream")]
    pub(crate) json: bool,
    /// Show the model's words on standard error while it writes them
    #[arg(long)]
    pub(crate) stream: bool,
    /// Show each finished span on standard error: turns, calls and attempts with their times
    #[arg(long)]
    pub(crate) trace: bool,
    /// Keep the run in the journal, so that it survives this process: `dauntless resume` goes on with it
    ///
    /// Ctrl-C then lets go of the run in good order and does not cancel it.
    #[arg(long, conflicts_with_all = ["model", "base_url", "repeat", "chaos", "control", "no_control"])]
    pub(crate) durable: bool,
    /// Run the goal so many times, one run after another
    ///
    /// The exit code is that of the first run that did not complete.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    #[command(flatten)]
    pub(crate) chaos: ChaosArgs,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// Check a configuration and report every mistake in it at once
///
/// Each mistake comes with its line and column, what was expected there, and the key that was
/// probably meant. When the file is right, what it needs of this machine is checked as well:
/// programs, environment variables, scripts.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The configuration
    #[arg(value_name = "FILE", default_value = ConfigArg::DEFAULT)]
    pub(crate) config: PathBuf,
    /// Ask each model as well: can it be reached, is the key good, does it call tools; costs a little
    ///
    /// Each model is sent one small request with one tool, and a second one where the first leaves
    /// open how it can be made to call tools.
    #[arg(long)]
    pub(crate) probe: bool,
}

/// List, describe and call the tools of a configuration; see and switch those of a running process
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct ToolsArgs {
    /// Show how the tools and models of the running processes stand, or all about one of them
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "clap's own form for an option whose value may be absent")]
    pub(crate) status: Option<Option<String>>,
    #[command(flatten)]
    pub(crate) shown: StatusArgs,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
    #[command(subcommand)]
    pub(crate) command: Option<ToolsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    List(ListArgs),
    Describe(DescribeArgs),
    Call(CallArgs),
    Switch(SwitchArgs),
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Show the counters and the latest failures of all of them
    #[arg(long, requires = "status")]
    pub(crate) verbose: bool,
    /// Print each process as one line of JSON instead
    #[arg(long, requires = "status", conflicts_with = "verbose")]
    pub(crate) json: bool,
}

/// Open, close or reset the breaker of a tool in a running process
///
/// It holds for all agents and runs of that process until it is switched again or the process ends.
#[derive(Debug, clap::Args)]
pub(crate) struct SwitchArgs {
    /// The tool
    pub(crate) name: String,
    /// What to do
    #[arg(value_enum)]
    pub(crate) to: SwitchArg,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SwitchArg {
    /// Refuse every call
    Open,
    /// Let every call pass, whatever comes of it
    Close,
    /// Close it, forget all results, and let it decide for itself again
    Reset,
}

/// Which running process.
#[derive(Debug, clap::Args)]
pub(crate) struct ProcessArgs {
    /// Only the process of this id
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// The process that was started with --control PATH
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    pub(crate) control: Option<PathBuf>,
}

/// How a running process is reached.
#[derive(Debug, clap::Args)]
pub(crate) struct ControlArgs {
    /// Let `dauntless tools --status` and `switch` reach this process at this path [default: by its id]
    #[arg(long, value_name = "PATH", conflicts_with = "no_control")]
    pub(crate) control: Option<PathBuf>,
    /// Let nobody look at this process or switch its tools
    #[arg(long)]
    pub(crate) no_control: bool,
}

/// List the tools, and say which cannot start here
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Only the tools of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
}

/// Show all about one tool: its schema, its bounds, and what each kind of failure leads to
#[derive(Debug, clap::Args)]
pub(crate) struct DescribeArgs {
    /// The tool
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
}

/// Call one tool by hand, with all its retries, its breaker and its budget
///
/// The value goes to standard output. A failure goes to standard error as JSON, and the exit code
/// says so.
#[derive(Debug, clap::Args)]
pub(crate) struct CallArgs {
    /// The tool
    pub(crate) name: String,
    /// The arguments as JSON; `-` reads them from standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    pub(crate) arguments: String,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Show each finished span on standard error
    #[arg(long)]
    pub(crate) trace: bool,
}

/// Watch an agent work through every kind of trouble, without a key and without a network
///
/// The tools are real: they speak HTTP to a service that misbehaves on purpose, and start
/// processes. The model follows a script, unless --model or --base-url names a real one. A key in
/// the environment alone never reaches a model here, so a rehearsal costs nothing by accident.
///
/// Everything is printed on standard output, except for what --chaos leads to. The exit code is that of the run: `rehearse terminal`
/// ends with tool_terminal on purpose.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit::help())]
pub(crate) struct RehearseArgs {
    /// Which rehearsal
    #[arg(value_enum, default_value_t = ScenarioArg::Main)]
    pub(crate) scenario: ScenarioArg,
    /// Put this model in the script's place; costs money where it does [default with --base-url: gpt-5-mini]
    ///
    /// The key is read from OPENAI_API_KEY. With --base-url it may be absent.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Put a model of this service in the script's place, like http://127.0.0.1:8080/v1
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Print every event as one line of JSON instead; the last one holds the outcome
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) chaos: ChaosArgs,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ChaosArgs {
    /// Let the tools fail on purpose, at this share of their attempts, from 0 to 1
    ///
    /// What fails how is in [chaos] of the configuration; without it, each tool fails in ways that
    /// pass. A report on standard error says what was injected and what became of it. The tools
    /// are called as always otherwise: where they write, they write.
    #[arg(long, value_name = "RATE", num_args = 0..=1, require_equals = true, value_parser = ratio)]
    #[expect(clippy::option_option, reason = "clap's own form for an option whose value may be absent")]
    chaos: Option<Option<f64>>,
    /// Let the tools fail on purpose, with this seed: with the same seed the same faults strike
    #[arg(long, value_name = "N")]
    chaos_seed: Option<u64>,
}

impl ChaosArgs {
    /// What is asked for, if any of it is.
    pub(crate) fn switch(self) -> Option<ChaosSwitch> {
        let asked = self.chaos.is_some() || self.chaos_seed.is_some();
        asked.then(|| ChaosSwitch { rate: self.chaos.flatten(), seed: self.chaos_seed })
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "use a number from 0 to 1, like 0.3".to_owned())
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ScenarioArg {
    /// About 20 calls through rate limits, timeouts, a dead service and the model's own mistakes
    Main,
    /// A credential that nobody in the run can fix: the run ends and says where
    Terminal,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Print an example with every key, its default and what it means
    Example,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArg {
    /// The configuration [default: dauntless.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigArg {
    const DEFAULT: &str = "dauntless.toml";

    pub(crate) fn path(&self) -> &Path {
        self.config.as_deref().unwrap_or_else(|| Path::new(Self::DEFAULT))
    }

    /// Whether nobody named a file and there is none by the usual name.
    pub(crate) fn is_absent(&self) -> bool {
        self.config.is_none() && !Path::new(Self::DEFAULT).exists()
    }
}

impl From<SwitchArg> for BreakerSwitch {
    fn from(to: SwitchArg) -> Self {
        match to {
            SwitchArg::Open => Self::Open,
            SwitchArg::Close => Self::Close,
            SwitchArg::Reset => Self::Reset,
        }
    }
}

impl From<ScenarioArg> for Scenario {
    fn from(scenario: ScenarioArg) -> Self {
        match scenario {
            ScenarioArg::Main => Self::Main,
            ScenarioArg::Terminal => Self::Terminal,
        }
    }
}

/// The model that was named on the command line, if one was.
pub(crate) fn direct_model(name: Option<String>, base_url: Option<String>) -> Option<DirectModel> {
    match (name, base_url) {
        (None, None) => None,
        (name, base_url) => {
            let name = name.unwrap_or_else(|| "gpt-5-mini".to_owned());
            Some(DirectModel { name, base_url })
        }
    }
}

#[cfg(test)]
mod tests;
