//! `dauntless run`: one goal, one agent, one answer.

use std::path::Path;

use dauntless_contract::{Attendance, History, Progress, StopReason};
use dauntless_daemon::chaos::ChaosReport;
use dauntless_daemon::config::{self, Config};
use dauntless_daemon::wiring::{Agent, App, DirectModel, Environment, Submission};
use serde_json::Value;

use tokio::sync::mpsc;

use super::work;
use crate::args::{RunArgs, direct_model};
use crate::ask::{self, Keyboard};
use crate::chaos;
use crate::control;
use crate::exit::{Exit, Stop};
use crate::output;
use crate::process::{self, END_WITHIN, Watching};
use crate::screen::Detail;
use crate::signals::Signals;
use crate::view::{self, Ended, View};

pub(crate) fn run(args: RunArgs) -> Result<Exit, Stop> {
    if args.durable {
        return work::run_durable(&args);
    }
    let direct = direct_model(args.model.clone(), args.base_url.clone());
    let mut config = match &direct {
        Some(model) => model.config()?,
        None if args.config.is_absent() => return Err(nothing_to_run()),
        None => config::load(args.config.path())?,
    };
    if let Some(switch) = args.chaos.switch() {
        config.chaos.switch_on(switch);
    }
    let may_ask = config.agents.values().any(|agent| agent.spec.ask_user) && ask::is_possible(&args.goal);
    if may_ask {
        config.attendance = Attendance::Attended;
    }
    let goal = submission(goal(&args.goal)?, args.history.as_deref())?;
    let detail = view::detail(args.json, args.stream || args.trace || may_ask);
    let watching = Watching {
        trace: args.trace,
        progress: detail != Detail::Hidden,
        telemetry: Some(&config.telemetry),
    };
    process::block_on(&watching, async {
        match direct {
            None => answer(&args, &config, &goal, detail, &process::environment).await,
            Some(model) => {
                let environment = DirectModel::environment(&model, &process::environment);
                answer(&args, &config, &goal, detail, &environment).await
            }
        }
    })
}

fn nothing_to_run() -> Stop {
    Stop::new(
        Exit::UNREADABLE,
        "there is no dauntless.toml here: name a configuration with --config (`dauntless config example` \
         prints one with every key), or run without tools with --model NAME or --base-url URL",
    )
}

pub(super) fn goal(written: &str) -> Result<String, Stop> {
    let goal = match written {
        "-" => output::read_stdin("the goal")?,
        text => text.to_owned(),
    };
    match goal.trim() {
        "" => Err(Stop::new(Exit::USAGE, "the goal is empty: say what the agent shall do")),
        goal => Ok(goal.to_owned()),
    }
}

/// The goal, after the conversation in this file.
pub(super) fn submission(goal: String, history: Option<&Path>) -> Result<Submission, Stop> {
    let goal = Submission::new(goal);
    let Some(path) = history else { return Ok(goal) };
    let unreadable = |why: &dyn std::fmt::Display| {
        Stop::new(Exit::UNREADABLE, format!("--history {}: {why}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(&error))?;
    let stored: Value =
        serde_json::from_str(&text).map_err(|error| unreadable(&format!("not JSON: {error}")))?;
    match stored.get("messages").unwrap_or(&stored).as_array() {
        Some(messages) => Ok(goal.after(History::repair(messages))),
        None => Err(unreadable(&"use a list of messages, or an object that holds one as `messages`")),
    }
}

async fn answer(
    args: &RunArgs,
    config: &Config,
    goal: &Submission,
    detail: Detail,
    environment: Environment<'_>,
) -> Result<Exit, Stop> {
    let app = App::assemble(config, environment).await.map_err(|error| Stop::new(Exit::INTERNAL, error))?;
    let signals = Signals::listen(app.killer())?;
    let command = async {
        let control = control::open(&app, &args.control).await;
        let result = repeated(args, &app, &signals, goal, detail).await;
        app.shutdown(END_WITHIN).await;
        drop(control);
        result
    };
    signals.guard(command).await
}

/// Runs the goal as often as asked, and says at the end what came of chaos.
async fn repeated(
    args: &RunArgs,
    app: &App,
    signals: &Signals,
    goal: &Submission,
    detail: Detail,
) -> Result<Exit, Stop> {
    let agent = app.agent(args.agent.as_deref())?;
    for broken in app.broken() {
        output::tell(&format!("dauntless: {broken}"));
    }
    chaos::warn(app);
    let mut report = ChaosReport::default();
    let mut exit = Exit::COMPLETED;
    let mut keyboard = Keyboard::default();
    for _ in 0..args.repeat {
        let ended = watched(args, app, agent, signals, goal, detail, (&mut report, &mut keyboard)).await?;
        if exit == Exit::COMPLETED {
            exit = ended.exit;
        }
        // Whoever cancelled one run wants no more of them.
        if matches!(ended.outcome.reason, StopReason::Cancelled { .. }) || signals.received().is_some() {
            break;
        }
    }
    chaos::tell(app, &report);
    Ok(exit)
}

async fn watched(
    args: &RunArgs,
    app: &App,
    agent: &Agent,
    signals: &Signals,
    goal: &Submission,
    detail: Detail,
    (report, keyboard): (&mut ChaosReport, &mut Keyboard),
) -> Result<Ended, Stop> {
    let stream = app.runtime().stream(agent, goal.clone()).await;
    let stream = stream.map_err(|error| Stop::new(Exit::CANNOT_START, error))?;
    let mut view = View::asked(args.json, args.stream, detail);
    let (asked, questions) = mpsc::unbounded_channel();
    let answering = keyboard.answer(questions, stream.answerer());
    let following = view::follow(stream, signals, &mut view, |event| {
        report.see(event);
        if let Progress::InputRequested(question) = event {
            let _ = asked.send(question.clone());
        }
    });
    let ended = tokio::select! {
        ended = following => ended?,
        never = answering => match never {},
    };
    view::told(&view, &ended.outcome, detail)?;
    Ok(ended)
}
