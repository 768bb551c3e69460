//! A collector of traces: it takes spans by OTLP over gRPC, as the collector of OpenTelemetry does, and keeps them.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use futures::stream;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value},
    trace::v1::{ResourceSpans, span::SpanKind},
};
use tokio::{
    net::{TcpListener, UnixListener},
    task::JoinSet,
};
use tonic::transport::{Server, server::TcpIncoming};

use crate::process::Scratch;

/// The socket, in the folder of the collector.
const SOCKET: &str = "collector.sock";

/// A running collector, at a port and at a socket. Dropping it ends it.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    folder: Scratch,
    kept: Kept,
    _server: JoinSet<()>,
}

/// What a collector was sent.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<Span>>>);

/// A span, with what it is called where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The process that sent it.
    pub service: String,
    /// The trace, in hexadecimal digits.
    pub trace: String,
    /// The span, likewise.
    pub id: String,
    /// The span that it is part of, likewise; empty for the first of a trace.
    pub parent: String,
    /// What it is called.
    pub name: String,
    /// Its kind.
    pub kind: SpanKind,
    /// The traces that it is linked to.
    pub links: Vec<String>,
    /// What is said of it.
    pub attributes: BTreeMap<String, String>,
}

impl Collector {
    /// Starts one.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let folder = Scratch::new("collector");
        let socket = UnixListener::bind(folder.file(SOCKET)).expect("a socket");
        let kept = Kept::default();
        let service = TraceServiceServer::new(kept.clone());
        let mut server = JoinSet::new();
        let at_port = Server::builder().add_service(service.clone());
        server.spawn(async move {
            let served = at_port.serve_with_incoming(TcpIncoming::from(listener));
            served.await.expect("the collector serves");
        });
        let at_socket = Server::builder().add_service(service);
        server.spawn(async move {
            let incoming = stream::unfold(socket, |socket| async move {
                let accepted = socket.accept().await.map(|(stream, _)| stream);
                Some((accepted, socket))
            });
            let served = at_socket.serve_with_incoming(incoming);
            served.await.expect("the collector serves");
        });
        Self {
            address,
            folder,
            kept,
            _server: server,
        }
    }

    /// Returns where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a TracingConfiguration that sends spans to the socket, and samples nothing of its own accord.
    pub fn configuration(&self) -> String {
        configuration(&format!("unix://{}", self.folder.file(SOCKET).display()))
    }

    /// Returns the spans of a trace that have come.
    pub fn trace(&self, trace: &str) -> Vec<Span> {
        self.select(|span| span.trace == trace)
    }

    /// Returns the spans that have come, of those that `chosen` chooses.
    pub fn select(&self, chosen: impl Fn(&Span) -> bool) -> Vec<Span> {
        let kept = self.kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().filter(|span| chosen(span)).cloned().collect()
    }
}

/// Returns a TracingConfiguration that sends spans to `endpoint`, and samples nothing of its own accord.
pub fn configuration(endpoint: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: {endpoint}\nsamplingRatePerMillion: 0\n"
    )
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let sent = request.into_inner().resource_spans;
        let spans = sent.into_iter().flat_map(spans_of);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(spans);
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

fn spans_of(sent: ResourceSpans) -> Vec<Span> {
    let resource = sent.resource.unwrap_or_default();
    let service = texts(resource.attributes)
        .remove("service.name")
        .unwrap_or_default();
    let spans = sent.scope_spans.into_iter().flat_map(|scope| scope.spans);
    spans
        .map(|span| Span {
            service: service.clone(),
            trace: digits(&span.trace_id),
            id: digits(&span.span_id),
            parent: digits(&span.parent_span_id),
            kind: span.kind(),
            links: span.links.iter().map(|it| digits(&it.trace_id)).collect(),
            attributes: texts(span.attributes),
            name: span.name,
        })
        .collect()
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value| match value {
        any_value::Value::StringValue(text) => text,
        any_value::Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = attributes.into_iter().filter_map(|it| {
        let value = it.value?.value?;
        Some((it.key, text(value)))
    });
    pairs.collect()
}

fn digits(id: &[u8]) -> String {
    id.iter().fold(String::new(), |mut digits, byte| {
        let _infallible = write!(digits, "{byte:02x}");
        digits
    })
}
