//! The command `dauntless`: runs agents from a terminal or a script.
//!
//! It parses arguments, watches runs and gives exit codes; everything that a run is made of comes
//! from the daemon's crate. Answers go to standard output, all else to standard error, and nothing
//! here panics over a closed pipe, a missing file or a key that is not set.

mod args;
mod ask;
mod chaos;
mod commands;
mod control;
mod exit;
mod output;
mod panics;
mod process;
mod progress;
mod screen;
mod signals;
mod status;
mod view;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command, ConfigCommand, ToolsArgs, ToolsCommand};
use crate::exit::{Exit, Stop};

fn main() -> ExitCode {
    let args = Args::parse();
    panics::install_hook();
    let ended = std::panic::catch_unwind(|| dispatch(args.command)).unwrap_or(Ok(Exit::INTERNAL));
    let exit = ended.unwrap_or_else(|stop| {
        output::tell(&stop.message);
        stop.exit
    });
    ExitCode::from(exit.code)
}

fn dispatch(command: Command) -> Result<Exit, Stop> {
    match command {
        Command::Run(args) => commands::run::run(args),
        Command::Check(args) => commands::check::check(&args),
        Command::Submit(args) => commands::runs::submit(&args),
        Command::Runs(args) => commands::runs::list(&args),
        Command::Show(args) => commands::runs::show(&args),
        Command::Resume(args) => commands::work::resume(&args),
        Command::Work(args) => commands::work::work(&args),
        Command::Cancel(args) => commands::runs::cancel(&args),
        Command::Answer(args) => commands::runs::answer(&args),
        Command::Fork(args) => commands::runs::fork(&args),
        Command::Replay(args) => commands::runs::replay(&args),
        Command::Export(args) => commands::runs::export(&args),
        Command::Tools(args) => tools(args),
        Command::Rehearse(args) => commands::rehearse::rehearse(&args),
        Command::Config(ConfigCommand::Schema) => commands::texts::schema(),
        Command::Config(ConfigCommand::Example) => commands::texts::example(),
        Command::Completions { shell } => commands::texts::completions(shell),
    }
}

fn tools(args: ToolsArgs) -> Result<Exit, Stop> {
    match args.command {
        Some(ToolsCommand::List(args)) => commands::tools::list(&args),
        Some(ToolsCommand::Describe(args)) => commands::tools::describe(&args),
        Some(ToolsCommand::Call(args)) => commands::tools::call(&args),
        Some(ToolsCommand::Switch(args)) => commands::running::switch(&args),
        None => match args.status {
            Some(name) => commands::running::status(name.as_deref(), args.shown, &args.process),
            None => Err(Stop::new(Exit::USAGE, "say what to show of that process: --status")),
        },
    }
}
