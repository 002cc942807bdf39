//! The spans of one run, as a trace store would see them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use expect_test::expect;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use super::*;

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

/// Writes each finished span as a line, indented by its depth.
struct Lines(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        context.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        if !span.metadata().target().starts_with("dauntless") {
            return;
        }
        let depth = span.scope().skip(1).count();
        let extensions = span.extensions();
        let fields = &extensions.get::<Fields>().unwrap().0;
        let shown = [
            "gen_ai.tool.call.id",
            "gen_ai.response.finish_reasons",
            "dauntless.attempts",
            "dauntless.stop_reason",
            "error.type",
        ];
        let shown: Vec<String> =
            shown.iter().filter_map(|name| Some(format!("{name}={}", fields.get(name)?))).collect();
        let line = format!("{:indent$}{} {}", "", fields["otel.name"], shown.join(" "), indent = 2 * depth);
        self.0.lock().unwrap().push(line.trim_end().to_owned());
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_leaves_a_span_for_itself_each_turn_each_call_and_each_attempt() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let subscriber = Registry::default().with(Lines(Arc::clone(&lines)));
    let _guard = tracing::subscriber::set_default(subscriber);
    let tool = reads("find", [Behaviour::Fail(Failure::unavailable("Down.")), Behaviour::ok("found")]);
    let runtime = runtime(calls_then_done(&["find"])).await;
    runtime.run(&Agent::new("clerk").tool(tool), "go").await;
    runtime.shutdown(Duration::from_secs(1)).await;
    drop(runtime);
    tokio::task::yield_now().await;
    let mut seen = lines.lock().unwrap().clone();
    seen.sort();
    expect![[r#"
              attempt 1
              attempt 1
              attempt 1 error.type=unavailable
              attempt 2
            chat scripted gen_ai.response.finish_reasons=stop dauntless.attempts=1
            chat scripted gen_ai.response.finish_reasons=tool_calls dauntless.attempts=1
            execute_tool find gen_ai.tool.call.id=1.0 dauntless.attempts=2
          turn 1
          turn 2
        invoke_agent clerk dauntless.stop_reason=completed
    "#]]
    .assert_eq(&(seen.join("\n") + "\n"));
}
