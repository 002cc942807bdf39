//! `dauntless tools`: what an operator can know and try without a model.

use std::io;

use dauntless_contract::{CallKey, CallRecord, CallVerdict, Progress};
use dauntless_daemon::config::{self, Config, ToolAction, ToolConfig};
use dauntless_daemon::wiring::{App, NoAgent, NoTool, lacks};

use crate::args::{CallArgs, DescribeArgs, ListArgs};
use crate::chaos;
use crate::exit::{Exit, Stop};
use crate::output;
use crate::process::{self, END_WITHIN, Watching};
use crate::progress::Story;
use crate::screen::{Detail, Screen};
use crate::signals::Signals;

mod describe;

pub(crate) fn list(args: &ListArgs) -> Result<Exit, Stop> {
    let config = config::load(args.config.path())?;
    let tools = of_agent(&config, args.agent.as_deref())?;
    let width = tools.iter().map(|tool| tool.spec.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for ToolConfig { spec, action } in &tools {
        let effect = spec.effect.as_str();
        let description = output::one_line(&spec.description, 100);
        text.push_str(&format!("{:<width$}  {:<7}  {effect:<10}  {description}\n", spec.name, kind(action)));
    }
    output::print(&text)?;
    for tool in tools {
        for lack in lacks(tool, &process::environment) {
            output::tell(&format!("dauntless: tool `{}` cannot start here: {lack}", tool.spec.name));
        }
    }
    Ok(Exit::COMPLETED)
}

fn of_agent<'a>(config: &'a Config, agent: Option<&str>) -> Result<Vec<&'a ToolConfig>, Stop> {
    let Some(name) = agent else { return Ok(config.tools.values().collect()) };
    let agent = config.agents.get(name).ok_or_else(|| {
        let known = config.agents.keys().map(|name| &**name).collect::<Vec<_>>().join(", ");
        NoAgent::Unknown { name: name.to_owned(), known }
    })?;
    Ok(agent.tools.iter().filter_map(|tool| config.tools.get(tool)).collect())
}

const fn kind(action: &ToolAction) -> &'static str {
    match action {
        ToolAction::Http(_) => "http",
        ToolAction::Command(_) => "command",
    }
}

pub(crate) fn describe(args: &DescribeArgs) -> Result<Exit, Stop> {
    let config = config::load(args.config.path())?;
    let tool = config.tools.get(&*args.name).ok_or_else(|| NoTool::unknown(&args.name, &config))?;
    output::print(&describe::describe(&tool.spec, kind(&tool.action)))?;
    Ok(Exit::COMPLETED)
}

pub(crate) fn call(args: &CallArgs) -> Result<Exit, Stop> {
    let config = config::load(args.config.path())?;
    let arguments = match &*args.arguments {
        "-" => output::read_stdin("the arguments")?,
        text => text.to_owned(),
    };
    let detail = match (process::is_watched(), args.trace || !output::is_rewritable(&io::stderr())) {
        (false, _) => Detail::Hidden,
        (true, true) => Detail::Final,
        (true, false) => Detail::Live,
    };
    let watching = Watching {
        trace: args.trace,
        progress: detail != Detail::Hidden,
        telemetry: Some(&config.telemetry),
    };
    process::block_on(&watching, async {
        let app = App::with_tool(&config, &args.name, &process::environment).await?;
        chaos::warn(&app);
        let signals = Signals::listen(app.killer())?;
        let command = async {
            let result = called(&app, signals.clone(), &args.name, &arguments, detail).await;
            app.shutdown(END_WITHIN).await;
            result
        };
        signals.guard(command).await
    })
}

async fn called(
    app: &App,
    mut signals: Signals,
    name: &str,
    arguments: &str,
    detail: Detail,
) -> Result<Exit, Stop> {
    let agent = app.agent(None)?;
    let mut screen = Screen::new(io::stderr(), detail, output::is_colorful(&io::stderr()));
    let mut story = Story::default();
    let mut see = |event: &Progress| screen.show(story.see(event).as_ref(), &story.open());
    see(&asked(name, arguments));
    let ended_call = tokio::select! {
        biased;
        signal = signals.first() => {
            screen.clear();
            output::tell(&format!("dauntless: the call was cancelled by {}", signal.name()));
            return Ok(signal.exit());
        }
        by_hand = app.runtime().call_tool(agent, name, arguments, &mut see) => by_hand,
    };
    let by_hand = ended_call.map_err(|error| Stop::new(Exit::CANNOT_START, error))?;
    see(&ended(name, &by_hand.record));
    screen.clear();
    match &by_hand.record.verdict {
        CallVerdict::Succeeded(value) => {
            output::print_answer(&value.text)?;
            Ok(Exit::COMPLETED)
        }
        CallVerdict::Failed(_) => {
            output::tell(&by_hand.observation.text);
            Ok(Exit::CALL_FAILED)
        }
    }
}

const CALL: CallKey = CallKey { turn: 1, index: 0 };

fn asked(name: &str, arguments: &str) -> Progress {
    Progress::CallAsked {
        call: CALL,
        call_id: "by-hand".into(),
        tool: name.into(),
        arguments: arguments.into(),
    }
}

fn ended(name: &str, record: &CallRecord) -> Progress {
    let failure = match &record.verdict {
        CallVerdict::Succeeded(_) => None,
        CallVerdict::Failed(failure) => Some(failure),
    };
    Progress::CallEnded {
        call: CALL,
        call_id: "by-hand".into(),
        tool: name.into(),
        code: failure.map(|failure| failure.code),
        message: failure.map(|failure| failure.message.clone()),
        attempts: record.attempts,
        waited: record.waited,
        stopped_by: record.stopped_by,
    }
}
