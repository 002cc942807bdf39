use std::sync::Mutex;

use dauntless_contract::{Effect, Failure};
use dauntless_models::{Scripted, Turn};
use dauntless_runtime::{Agent, Runtime};
use dauntless_testkit::{Behaviour, FaultyTool};
use opentelemetry::trace::{TraceContextExt, TraceId};
use tracing::Span as TracingSpan;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

use super::*;
use crate::telemetry::exported;

/// Keeps what would be sent.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

fn value(attributes: &[opentelemetry::KeyValue], key: &str) -> Option<String> {
    attributes.iter().find(|pair| pair.key.as_str() == key).map(|pair| pair.value.to_string())
}

#[tokio::test]
async fn an_escalated_run_is_told_inside_its_trace_with_its_error() {
    let kept = Kept::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
    let otlp = Otlp { provider, counts: Arc::default() };
    let subscriber = Registry::default().with(otlp.layer().with_filter(exported()));
    let _guard = tracing::subscriber::set_default(subscriber);
    let told: Arc<Mutex<Vec<TraceId>>> = Arc::default();
    let hears = Arc::clone(&told);
    let refused = Behaviour::Fail(Failure::unauthenticated("The key was refused."));
    let tool = FaultyTool::builder("find").effect(Effect::ReadOnly).attempts([refused]);
    let agent = Agent::new("clerk").tool(tool);
    let runtime = Runtime::builder()
        .model(Scripted::new([Turn::new().call("find", serde_json::json!({})), Turn::new().text("never")]))
        .on_escalation(move |escalation| {
            assert_eq!(escalation.span.id(), TracingSpan::current().id());
            hears.lock().unwrap().push(escalation.span.context().span().span_context().trace_id());
        });
    let runtime = runtime.build().await.unwrap();
    assert_eq!(runtime.run(&agent, "go").await.reason.name(), "tool_terminal");
    runtime.shutdown(Duration::from_secs(5)).await;
    drop(runtime);

    let spans = kept.0.lock().unwrap();
    let run = spans.iter().find(|span| span.name == "invoke_agent clerk").unwrap();
    assert_eq!(value(&run.attributes, "error.type").as_deref(), Some("tool_terminal"));
    let trace = run.span_context.trace_id();
    let tool = spans.iter().find(|span| span.name == "execute_tool find").unwrap();
    assert_eq!(tool.span_context.trace_id(), trace, "one trace holds the run and its calls");
    let event = run.events.iter().find(|event| event.name == "run escalated").unwrap();
    assert_eq!(value(&event.attributes, "error.type").as_deref(), Some("tool_terminal"));
    assert_eq!(*told.lock().unwrap(), [trace], "who is called back reads the same");
}
