//! Spans to a collector, in batches, from a thread of the exporter's own.
//!
//! The SDK drops spans when its queue is full and says so only in a log; the two wrappers here
//! count, so that the end of a process can say how many spans were lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter as OtlpExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, SdkTracerProvider, Span, SpanData, SpanExporter, SpanProcessor,
};
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::Registry;

use super::{OtlpSettings, SpanCount, TelemetryError};

/// Longest time of one request to the collector, its repetitions included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The running exporter.
#[derive(Debug)]
pub(super) struct Otlp {
    provider: SdkTracerProvider,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    ended: AtomicU64,
    sent: AtomicU64,
}

impl Otlp {
    pub(super) fn start(settings: &OtlpSettings) -> Result<Self, TelemetryError> {
        let url = traces_url(&settings.endpoint)?;
        let exporter = OtlpExporter::builder()
            .with_http()
            .with_endpoint(url)
            .with_timeout(REQUEST_TIMEOUT)
            .build()
            .map_err(|error| TelemetryError::Exporter {
                endpoint: settings.endpoint.clone(),
                reason: error.to_string(),
            })?;
        let counts = Arc::new(Counts::default());
        let exporter = CountSent { inner: exporter, counts: Arc::clone(&counts) };
        let batches = BatchSpanProcessor::builder(exporter).build();
        let resource = Resource::builder().with_service_name(settings.service_name.clone()).build();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_span_processor(CountEnded { inner: batches, counts: Arc::clone(&counts) })
            .build();
        Ok(Self { provider, counts })
    }

    /// Turns tracing spans into OpenTelemetry spans.
    ///
    /// Only what a span says itself is sent: no source lines, threads or idle times, and no error
    /// texts lifted out of events, which may quote what the other side said.
    pub(super) fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("dauntless"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false)
            .with_error_fields_to_exceptions(false)
            .with_error_events_to_exceptions(false)
            .with_error_records_to_exceptions(false)
    }

    pub(super) fn shutdown(self, within: Duration) -> SpanCount {
        // Whatever it says, the counts say it better.
        let _ = self.provider.shutdown_with_timeout(within);
        let sent = self.counts.sent.load(Ordering::Relaxed);
        let ended = self.counts.ended.load(Ordering::Relaxed);
        SpanCount { sent, lost: ended.saturating_sub(sent) }
    }
}

fn traces_url(endpoint: &str) -> Result<String, TelemetryError> {
    let host = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
    let is_host = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
    let is_whole = !endpoint.contains(|c: char| c.is_whitespace() || c == '?' || c == '#');
    if !host.is_some_and(is_host) || !is_whole {
        return Err(TelemetryError::Endpoint(endpoint.to_owned()));
    }
    let base = endpoint.trim_end_matches('/');
    Ok(if base.ends_with("/v1/traces") { base.to_owned() } else { format!("{base}/v1/traces") })
}

/// Counts the spans that ended, sent or not.
#[derive(Debug)]
struct CountEnded {
    inner: BatchSpanProcessor,
    counts: Arc<Counts>,
}

impl SpanProcessor for CountEnded {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        self.counts.ended.fetch_add(1, Ordering::Relaxed);
        self.inner.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Counts the spans that the collector has confirmed.
#[derive(Debug)]
struct CountSent<E> {
    inner: E,
    counts: Arc<Counts>,
}

impl<E: SpanExporter> SpanExporter for CountSent<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        self.inner.export(batch).await?;
        self.counts.sent.fetch_add(spans, Ordering::Relaxed);
        Ok(())
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.inner.shutdown()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests;
