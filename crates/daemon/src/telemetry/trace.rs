//! Spans to the terminal: one line for each that ends, indented by its depth.
//!
//! A line is written when a span ends, so a child comes before its parent. Holding lines back until
//! the root ends would draw the tree the other way round and show nothing of a run that hangs.

use std::fmt;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Longest value that is shown, in characters.
const VALUE_CHARS_MAX: usize = 80;

/// Writes a line for each span that ends: name, time, and its `gen_ai.*`, `error.type` and
/// `dauntless.*` fields.
///
/// A writer that fails is ignored: watching must not hurt what is watched.
#[derive(Debug)]
pub struct TraceLayer<W> {
    out: Mutex<W>,
}

/// What is known of a span that has not ended.
struct Watched {
    started: Instant,
    name: Option<String>,
    fields: Vec<(&'static str, String)>,
}

impl<W: Write> TraceLayer<W> {
    /// Writes to `out`, a line at a time.
    pub const fn new(out: W) -> Self {
        Self { out: Mutex::new(out) }
    }
}

impl<S, W> Layer<S> for TraceLayer<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Write + Send + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut watched = Watched { started: Instant::now(), name: None, fields: Vec::new() };
        attributes.record(&mut watched);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(watched);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(watched) = span.extensions_mut().get_mut::<Watched>()
        {
            values.record(watched);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(watched) = span.extensions_mut().remove::<Watched>() else { return };
        let depth = span.scope().skip(1).count();
        let name = watched.name.as_deref().unwrap_or_else(|| span.name());
        let line = line(depth, name, watched.started.elapsed(), &watched.fields);
        if let Ok(mut out) = self.out.lock() {
            let _ = out.write_all(line.as_bytes());
        }
    }
}

impl Watched {
    fn set(&mut self, field: &Field, value: String) {
        let name = field.name();
        if name == "otel.name" {
            self.name = Some(value);
        } else if name == "error.type" || name.starts_with("gen_ai.") || name.starts_with("dauntless.") {
            // A field that is recorded again has its last value.
            self.fields.retain(|(known, _)| *known != name);
            self.fields.push((name, value));
        }
    }
}

impl Visit for Watched {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }
}

fn line(depth: usize, name: &str, elapsed: Duration, fields: &[(&str, String)]) -> String {
    let mut line = format!("{:indent$}{}  {}", "", shown(name), rounded(elapsed), indent = depth * 2);
    for (index, (name, value)) in fields.iter().enumerate() {
        let gap = if index == 0 { "  " } else { " " };
        line.push_str(&format!("{gap}{name}={}", shown(value)));
    }
    line.push('\n');
    line
}

/// Text from models and tools may hold control characters, which a terminal would obey.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(VALUE_CHARS_MAX) {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    if text.chars().nth(VALUE_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

fn rounded(elapsed: Duration) -> String {
    match elapsed.as_millis() {
        0..1_000 => format!("{} ms", elapsed.as_millis()),
        1_000..60_000 => format!("{:.1} s", elapsed.as_secs_f64()),
        _ => format!("{} min {} s", elapsed.as_secs() / 60, elapsed.as_secs() % 60),
    }
}
