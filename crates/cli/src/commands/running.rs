//! `dauntless tools --status` and `switch`: the tools of processes that run.

use std::path::{Path, PathBuf};

use dauntless_contract::DependencyKind;
use dauntless_daemon::control::{Answer, AskError, ProcessStatus, Question, ask};

use crate::args::{ProcessArgs, StatusArgs, SwitchArgs};
use crate::control;
use crate::exit::{Exit, Stop};
use crate::output;
use crate::process::{self, Watching};
use crate::status::{self, Detail};

pub(crate) fn status(name: Option<&str>, shown: StatusArgs, which: &ProcessArgs) -> Result<Exit, Stop> {
    process::block_on(&Watching::default(), async {
        let mut processes: Vec<ProcessStatus> =
            running(which).await?.into_iter().map(|(_, process)| process).collect();
        if let Some(name) = name {
            let known = names(&processes, |_| true);
            processes.retain_mut(|process| {
                process.tools.retain(|tool| &*tool.name == name);
                !process.tools.is_empty()
            });
            if processes.is_empty() {
                return Err(unknown("tool or model", name, &known));
            }
        }
        let detail = if shown.verbose || name.is_some() { Detail::All } else { Detail::Table };
        let mut texts = Vec::new();
        for process in &processes {
            texts.push(match shown.json {
                true => format!("{}\n", serde_json::to_string(process).map_err(internal)?),
                false => status::shown(process, detail),
            });
        }
        output::print(&texts.join(if shown.json { "" } else { "\n" }))?;
        Ok(Exit::COMPLETED)
    })
}

pub(crate) fn switch(args: &SwitchArgs) -> Result<Exit, Stop> {
    process::block_on(&Watching::default(), async {
        let (socket, pid) = the_one_with(&args.name, &args.process).await?;
        let question = Question::Switch { tool: args.name.clone(), to: args.to.into() };
        match ask(&socket, &question).await.map_err(unasked)? {
            Answer::Switched { tool } => {
                let breaker = status::breaker(tool.breaker);
                output::print(&format!("{} in process {pid}: {breaker}\n", tool.name))?;
                Ok(Exit::COMPLETED)
            }
            Answer::Refused { why } => Err(refusal(&socket, &why)),
            Answer::Status(_) => Err(internal("another question was answered")),
        }
    })
}

/// The processes that answer, each with its socket. One that does not is named, and left out.
async fn running(which: &ProcessArgs) -> Result<Vec<(PathBuf, ProcessStatus)>, Stop> {
    let mut found = Vec::new();
    for socket in control::sockets(which)? {
        match ask(&socket, &Question::Status).await {
            Ok(Answer::Status(status)) => found.push((socket, status)),
            Ok(Answer::Refused { why }) => output::tell(&refusal(&socket, &why).message),
            Ok(Answer::Switched { .. }) => return Err(internal("another question was answered")),
            // It ended without removing its socket.
            Err(AskError::Gone(_)) => {}
            Err(error) => output::tell(&unasked(error).message),
        }
    }
    match found.is_empty() {
        false => Ok(found),
        true => Err(nothing_runs(which)),
    }
}

/// The one process that has the tool.
async fn the_one_with(name: &str, which: &ProcessArgs) -> Result<(PathBuf, u32), Stop> {
    let running = running(which).await?;
    let all: Vec<ProcessStatus> = running.iter().map(|(_, process)| process.clone()).collect();
    let has = |process: &ProcessStatus| {
        process.tools.iter().any(|tool| tool.kind == DependencyKind::Tool && &*tool.name == name)
    };
    let mut with: Vec<(PathBuf, u32)> = running
        .into_iter()
        .filter(|(_, process)| has(process))
        .map(|(socket, process)| (socket, process.pid))
        .collect();
    match (with.pop(), with.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some((_, last)), false) => {
            let pids = with.iter().map(|(_, pid)| *pid).chain([last]);
            let pids: Vec<String> = pids.map(|pid| pid.to_string()).collect();
            let pids = pids.join(", ");
            let message = format!("several processes have `{name}`: {pids}; say which is meant with --pid");
            Err(Stop::new(Exit::USAGE, message))
        }
        (None, _) => Err(unknown("tool", name, &names(&all, |kind| kind == DependencyKind::Tool))),
    }
}

fn names(processes: &[ProcessStatus], is_meant: impl Fn(DependencyKind) -> bool) -> Vec<String> {
    let all = processes.iter().flat_map(|process| &process.tools);
    let mut names: Vec<String> =
        all.filter(|tool| is_meant(tool.kind)).map(|tool| tool.name.to_string()).collect();
    names.sort();
    names.dedup();
    names
}

fn unknown(kind: &str, name: &str, known: &[String]) -> Stop {
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Stop::new(Exit::USAGE, format_args!("no running process has a {kind} `{name}`; there are: {known}"))
}

fn nothing_runs(which: &ProcessArgs) -> Stop {
    let what = match (which.pid, &which.control) {
        (Some(pid), _) => format!("process {pid} is not there to be asked"),
        (None, Some(path)) => format!("no process listens at {}", path.display()),
        (None, None) => "nothing is running".to_owned(),
    };
    Stop::new(
        Exit::NOT_RUNNING,
        format_args!(
            "{what}: `dauntless run` and `dauntless rehearse` can be asked while they run, by the user who \
             started them, and unless they were started with --no-control"
        ),
    )
}

fn unasked(error: AskError) -> Stop {
    Stop::new(Exit::NOT_RUNNING, error)
}

fn refusal(socket: &Path, why: &str) -> Stop {
    Stop::new(Exit::USAGE, format_args!("{}: {}", socket.display(), output::one_line(why, 400)))
}

fn internal(error: impl std::fmt::Display) -> Stop {
    Stop::new(Exit::INTERNAL, error)
}
