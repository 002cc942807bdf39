//! What the log and the spans of a case hold, and what panicked.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

/// Everything that was written, line by line.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }

    fn push(&self, target: &str, line: String) {
        // What a library writes about its own bytes is not ours to say.
        if target.starts_with("dauntless") {
            self.0.lock().unwrap().push(line);
        }
    }
}

/// The log and the spans, as two exits.
#[derive(Clone, Default)]
pub(crate) struct Recording {
    pub(crate) log: Lines,
    pub(crate) spans: Lines,
}

impl Recording {
    /// Listens to this thread until the guard is dropped.
    pub(crate) fn start(&self) -> tracing::subscriber::DefaultGuard {
        tracing::subscriber::set_default(Registry::default().with(self.clone()))
    }
}

impl<S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>> Layer<S> for Recording {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.spans.push(
            attributes.metadata().target(),
            line(attributes.metadata(), |text| attributes.record(text)),
        );
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        self.spans.push(span.metadata().target(), line(span.metadata(), |text| values.record(text)));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.log.push(event.metadata().target(), line(event.metadata(), |text| event.record(text)));
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

fn line(metadata: &Metadata<'_>, record: impl FnOnce(&mut Text)) -> String {
    let mut text = Text(metadata.name().to_owned());
    record(&mut text);
    text.0
}

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes panics instead of printing them: those of tools are part of the programme.
pub(crate) fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let in_tool = info.location().is_some_and(|at| at.file().ends_with("cases/tools.rs"));
            if !in_tool {
                print(info);
                PANICS.with_borrow_mut(|panics| panics.push(info.to_string()));
            }
        }));
    });
}

/// The panics of this thread that no tool was told to make.
pub(crate) fn panics() -> Vec<String> {
    PANICS.take()
}
