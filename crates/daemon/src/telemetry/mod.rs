//! Where the daemon's own words go: log lines, spans to a collector, and spans to the terminal.
//!
//! Telemetry watches a run and must never hurt it: a collector that is slow, dead or wrong costs
//! spans, which are counted, and never a run, a start that was right, or an end that waits. What
//! spans are called and what they carry is decided by the runtime; here they only leave.

use std::io::{self, Write};
use std::time::Duration;

use tracing::Subscriber;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

mod otlp;
mod trace;

pub use trace::TraceLayer;

/// What is logged when nobody says otherwise.
pub const DEFAULT_FILTER: &str = "warn,dauntless=info";

/// What is said, and where.
#[derive(Clone, Debug)]
pub struct TelemetrySettings {
    /// Which log lines are written, like [`DEFAULT_FILTER`]: a level for all, levels by target.
    pub filter: String,
    /// How log lines on standard error look.
    pub format: LogFormat,
    /// Whether each finished span is shown on standard error.
    pub trace: bool,
    /// The collector; `None` sends nothing.
    pub otlp: Option<OtlpSettings>,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Human {
        /// Whether levels are coloured.
        color: bool,
    },
    /// One JSON object a line, for machines.
    Json,
}

/// A collector that takes OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpSettings {
    /// Its address, like `http://127.0.0.1:4318`; `/v1/traces` is added.
    pub endpoint: String,
    /// The name that the spans are filed under.
    pub service_name: String,
}

/// Telemetry that cannot be set up as asked.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter does not parse.
    #[error("the log filter `{filter}` is not understood ({reason}): write it like `{DEFAULT_FILTER}`")]
    Filter {
        /// The filter.
        filter: String,
        /// What the parser says.
        reason: String,
    },
    /// The endpoint is no address.
    #[error("the OTLP endpoint `{0}` is not an address: write it like `http://127.0.0.1:4318`")]
    Endpoint(String),
    /// The exporter cannot be built.
    #[error("spans cannot be sent to `{endpoint}`: {reason}")]
    Exporter {
        /// The endpoint.
        endpoint: String,
        /// What the exporter says.
        reason: String,
    },
    /// This process has a global subscriber already.
    #[error("telemetry is already set up in this process; call `init` once")]
    AlreadySet,
}

/// How many spans left, and how many did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCount {
    /// The collector has confirmed them.
    pub sent: u64,
    /// They were dropped, refused, or not confirmed in time.
    pub lost: u64,
}

/// Keeps the exporter; ask it to [`shutdown`](Self::shutdown) before the process ends.
#[derive(Debug)]
#[must_use = "spans that wait to be sent are lost without a shutdown"]
pub struct TelemetryGuard {
    otlp: Option<otlp::Otlp>,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            filter: DEFAULT_FILTER.to_owned(),
            format: LogFormat::Human { color: false },
            trace: false,
            otlp: None,
        }
    }
}

impl TelemetryGuard {
    /// Sends what waits, for no longer than `within`, and says what became of all spans.
    ///
    /// Blocks the calling thread. Never fails: a collector that does not answer costs spans.
    pub fn shutdown(self, within: Duration) -> SpanCount {
        self.otlp.map_or_else(SpanCount::default, |otlp| otlp.shutdown(within))
    }
}

/// Sets up telemetry for the whole process.
///
/// # Errors
/// A filter or an endpoint that is not understood, or a second call in one process.
pub fn init(settings: &TelemetrySettings) -> Result<TelemetryGuard, TelemetryError> {
    let (subscriber, guard) = build(settings, BoxMakeWriter::new(io::stderr), io::stderr())?;
    subscriber.try_init().map_err(|_| TelemetryError::AlreadySet)?;
    Ok(guard)
}

fn build<W: Write + Send + 'static>(
    settings: &TelemetrySettings,
    log: BoxMakeWriter,
    trace: W,
) -> Result<(impl Subscriber + Send + Sync, TelemetryGuard), TelemetryError> {
    let filter = EnvFilter::try_new(&settings.filter).map_err(|error| TelemetryError::Filter {
        filter: settings.filter.clone(),
        reason: error.to_string(),
    })?;
    let log = match settings.format {
        LogFormat::Human { color } => fmt::layer().with_writer(log).with_ansi(color).boxed(),
        LogFormat::Json => fmt::layer().with_writer(log).json().flatten_event(true).boxed(),
    };
    let mut layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = vec![log.with_filter(filter).boxed()];
    if settings.trace {
        let ours = Targets::new().with_target("dauntless", LevelFilter::DEBUG);
        layers.push(TraceLayer::new(trace).with_filter(ours).boxed());
    }
    let otlp = settings.otlp.as_ref().map(otlp::Otlp::start).transpose()?;
    if let Some(otlp) = &otlp {
        layers.push(otlp.layer().with_filter(exported()).boxed());
    }
    Ok((Registry::default().with(layers), TelemetryGuard { otlp }))
}

/// What is sent: not the life-long spans of actors, and not the exporter's own requests, each of
/// which would be one more span to send.
fn exported() -> Targets {
    let silent = ["ractor", "hyper", "reqwest", "h2", "opentelemetry"];
    Targets::new()
        .with_default(LevelFilter::INFO)
        .with_targets(silent.map(|target| (target, LevelFilter::OFF)))
}

#[cfg(test)]
mod tests;
