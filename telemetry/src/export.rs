//! Sends spans to a collector, as kube-apiserver does: OTLP over gRPC, in batches, without TLS.
//!
//! **Invariant:** a collector that is away or slow costs the process nothing but spans.
//!
//! Sources: `component-base/tracing/utils.go`, `apiserver/pkg/server/options/tracing.go`.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing::{Level, Metadata, Subscriber, level_filters::LevelFilter, subscriber::Interest};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{DynFilterFn, filter_fn};
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use crate::TRACED;

mod configuration;

pub use configuration::{Configuration, ConfigurationError};

/// How the crates are called whose spans are exported. Others have their own, of each frame of a connection for example.
const OURS: &str = "wheelhouse";

/// Spans of the log that have a twin for the trace.
const TWINS: [&str; 2] = ["request", "reconcile"];

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("spans cannot be exported to {endpoint}")]
pub struct ExportError {
    endpoint: String,
    source: opentelemetry_otlp::ExporterBuildError,
}

/// The export, which goes on until it is ended.
#[derive(Debug)]
pub struct Export {
    provider: SdkTracerProvider,
}

/// Starts the export, in a runtime of Tokio. Nothing is recorded before the layer is part of the process's subscriber.
///
/// `service` is what the process is called in a trace; `OTEL_RESOURCE_ATTRIBUTES` adds to it.
///
/// # Errors
/// Where the endpoint is none. Whether anybody answers there is not asked.
pub fn start<S>(
    configuration: &Configuration,
    service: &'static str,
) -> Result<(impl Layer<S> + use<S>, Export), ExportError>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let endpoint = configuration.endpoint();
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(configuration.url())
        .build()
        .map_err(|source| ExportError {
            endpoint: endpoint.to_owned(),
            source,
        })?;
    let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder()
        .with_service_name(service)
        .with_attribute(version)
        .build();
    let provider = SdkTracerProvider::builder()
        // What begins here was sampled before its span was made.
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
        .with_resource(resource)
        .with_batch_exporter(exporter)
        .build();
    // Spans are begun when somebody asks for their trace or they end, so that they can be joined to another until then.
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(OURS))
        .with_context_activation(false)
        .with_tracked_inactivity(false)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_filter(spans());
    crate::joined::switch_on(configuration.per_million());
    Ok((layer, Export { provider }))
}

/// Passes what is part of a trace: the spans that begin one, and what is within them, as far as it is the hub's own.
fn spans<S>() -> DynFilterFn<
    S,
    impl Fn(&Metadata<'_>, &Context<'_, S>) -> bool,
    impl Fn(&'static Metadata<'static>) -> Interest,
>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    DynFilterFn::new(|metadata: &Metadata<'_>, context: &Context<'_, S>| {
        metadata.target().ends_with(TRACED) || context.lookup_current().is_some()
    })
    .with_callsite_filter(|metadata| {
        let is_kept = metadata.is_span() || *metadata.level() <= Level::WARN;
        if metadata.target().ends_with(TRACED) {
            Interest::always()
        } else if !metadata.target().starts_with(OURS)
            || !is_kept
            || metadata.is_span() && TWINS.contains(&metadata.name())
        {
            Interest::never()
        } else {
            Interest::sometimes()
        }
    })
    .with_max_level_hint(LevelFilter::DEBUG)
}

/// Passes what is the log's. Spans that begin a trace repeat what others say for the log.
pub fn lines<S>() -> impl Filter<S> {
    filter_fn(|metadata| !metadata.target().ends_with(TRACED))
}

// === impl Export ===

impl Export {
    /// Sends what is left, for some seconds at most, and ends the export. It blocks.
    pub fn end(self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::debug!(%error, "the last spans are lost");
        }
    }
}
