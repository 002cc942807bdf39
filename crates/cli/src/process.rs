//! The process around a command: its environment, its log, its tasks, and an end that never hangs.

use std::future::Future;
use std::io::{self, IsTerminal};
use std::time::Duration;

use dauntless_daemon::config::{Problem, Report, TelemetryConfig};
use dauntless_daemon::telemetry::{self, LogFormat, OtlpSettings, TelemetryError, TelemetrySettings};
use dauntless_daemon::wiring::{Cause, ModelError, NoAgent, NoTool};

use crate::exit::{Exit, Stop};
use crate::output;

/// Chooses what is logged, like `warn` or `dauntless=debug`.
pub(crate) const LOG_VARIABLE: &str = "DAUNTLESS_LOG";

/// How long the end of a command may take: for processes, and then for spans.
pub(crate) const END_WITHIN: Duration = Duration::from_secs(5);

/// How long blocked threads are waited for.
const THREADS_WITHIN: Duration = Duration::from_millis(500);

/// What a command lets be seen of itself, besides its output.
#[derive(Debug, Default)]
pub(crate) struct Watching<'a> {
    /// Whether spans are shown.
    pub(crate) trace: bool,
    /// Whether the calls are shown, which then says what warnings would.
    pub(crate) progress: bool,
    /// Where spans are sent.
    pub(crate) telemetry: Option<&'a TelemetryConfig>,
}

/// A variable of the real environment.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Sets up the log, runs the command, and ends within a bound.
pub(crate) fn block_on<F>(watching: &Watching<'_>, command: F) -> Result<Exit, Stop>
where
    F: Future<Output = Result<Exit, Stop>>,
{
    let otlp = watching.telemetry.and_then(|config| {
        let endpoint = config.otlp_endpoint.clone()?;
        Some(OtlpSettings { endpoint, service_name: config.service_name.clone() })
    });
    let quiet = if watching.progress { "error" } else { "warn" };
    let settings = TelemetrySettings {
        filter: environment(LOG_VARIABLE).unwrap_or_else(|| quiet.to_owned()),
        format: LogFormat::Human { color: output::is_colorful(&io::stderr()) },
        trace: watching.trace,
        otlp,
    };
    let guard = telemetry::init(&settings).map_err(|error| match error {
        TelemetryError::Filter { .. } => {
            Stop::new(Exit::CONFIGURATION, format_args!("{LOG_VARIABLE}: {error}"))
        }
        error => Stop::new(Exit::CONFIGURATION, error),
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Stop::new(Exit::INTERNAL, format_args!("no threads to be had: {error}")))?;
    let ended = runtime.block_on(command);
    runtime.shutdown_timeout(THREADS_WITHIN);
    let spans = guard.shutdown(END_WITHIN);
    if let (true, Some(otlp)) = (spans.lost > 0, &settings.otlp) {
        output::tell(&format!(
            "dauntless: {} of {} spans did not reach the collector at {}",
            spans.lost,
            spans.lost + spans.sent,
            otlp.endpoint
        ));
    }
    ended
}

/// Whether standard error is watched by a person.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

impl From<Report> for Stop {
    fn from(report: Report) -> Self {
        let unreadable = report
            .mistakes()
            .iter()
            .any(|mistake| mistake.place.is_none() && matches!(mistake.problem, Problem::Unreadable(_)));
        match unreadable {
            true => Self::new(Exit::UNREADABLE, report),
            false => Self::verbatim(Exit::CONFIGURATION, report),
        }
    }
}

impl From<NoAgent> for Stop {
    fn from(error: NoAgent) -> Self {
        let exit = match &error {
            NoAgent::Unknown { .. } | NoAgent::Which { .. } => Exit::USAGE,
            NoAgent::Broken { cause, .. } => exit_of(cause),
        };
        match error {
            NoAgent::Which { .. } => Self::new(exit, format_args!("{error} (name it with --agent)")),
            NoAgent::Unknown { .. } | NoAgent::Broken { .. } => Self::new(exit, error),
        }
    }
}

impl From<NoTool> for Stop {
    fn from(error: NoTool) -> Self {
        let exit = match &error {
            NoTool::Unknown { .. } => Exit::USAGE,
            NoTool::Broken { cause, .. } => exit_of(cause),
            NoTool::Runtime(_) => Exit::INTERNAL,
        };
        Self::new(exit, error)
    }
}

fn exit_of(cause: &Cause) -> Exit {
    let Cause::Model(error) = cause else { return Exit::CANNOT_START };
    match **error {
        ModelError::NoKey { .. } => Exit::NO_KEY,
        ModelError::ScriptFile { .. } => Exit::UNREADABLE,
        ModelError::Script { .. } => Exit::SCRIPT,
        _ => Exit::CANNOT_START,
    }
}
