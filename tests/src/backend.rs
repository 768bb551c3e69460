//! An application in a pod: what proxies and port-forwards of trials lead to.

use std::{
    convert::Infallible,
    net::{SocketAddr, UdpSocket},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
};

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Bytes of a piece of a large answer.
const PIECE_BYTES: usize = 64 * 1024;

/// A server on all addresses of this machine; it ends when it is dropped.
#[derive(Debug)]
pub struct Backend {
    /// Its port.
    pub port: u16,
    _accepting: JoinSet<()>,
}

// === impl Backend ===

impl Backend {
    /// Starts a web server: `/echo` says what it was asked, `/to?<location>` redirects, `/large?<pieces>` answers with so many
    /// pieces of 64 KiB, and whatever asks for another protocol is sent its bytes back.
    pub async fn web() -> Self {
        Self::start(|stream| async move {
            let switched = Arc::new(Mutex::new(None));
            let service = hyper::service::service_fn(|mut request| {
                let upgrade = hyper::upgrade::on(&mut request);
                let switched = Arc::clone(&switched);
                async move {
                    if request.headers().contains_key(header::UPGRADE) {
                        let mut switched = switched.lock().unwrap_or_else(PoisonError::into_inner);
                        *switched = Some(upgrade);
                    }
                    Ok::<_, Infallible>(answer(request).await)
                }
            });
            let served = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            drop(served.await);
            let upgrade = switched
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(upgrade) = upgrade
                && let Ok(stream) = upgrade.await
            {
                let (mut read, mut write) = tokio::io::split(TokioIo::new(stream));
                drop(tokio::io::copy(&mut read, &mut write).await);
            }
        })
        .await
    }

    /// Starts a server that reads to the end of what it is sent, and then sends it back.
    pub async fn mirror() -> Self {
        Self::start(|mut stream| async move {
            let mut all = Vec::new();
            if stream.read_to_end(&mut all).await.is_ok() {
                drop(stream.write_all(&all).await);
                drop(stream.shutdown().await);
            }
        })
        .await
    }

    async fn start<F>(serve: impl Fn(tokio::net::TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("0.0.0.0:0").await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream));
            }
        });
        Self {
            port,
            _accepting: accepting,
        }
    }
}

/// Returns an address of this machine that is not loopback, which kube-apiserver is a proxy of no pod at; `None` where there is none.
pub fn address() -> Option<String> {
    // Connecting sends nothing: it chooses the way, and with it the address.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    let SocketAddr::V4(address) = socket.local_addr().ok()? else {
        return None;
    };
    let ip = address.ip();
    (!ip.is_loopback() && !ip.is_link_local()).then(|| ip.to_string())
}

async fn answer(request: Request<Incoming>) -> Response<Body> {
    if let Some(protocol) = request.headers().get(header::UPGRADE).cloned() {
        return Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, protocol)
            .body(text(""))
            .expect("an answer");
    }
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    match head.uri.path() {
        "/to" => Response::builder()
            .status(StatusCode::FOUND)
            .header(header::LOCATION, query)
            .body(text(""))
            .expect("a location of the trial's"),
        "/large" => {
            let count = query.parse().unwrap_or_default();
            let piece = Bytes::from(vec![b'x'; PIECE_BYTES]);
            let pieces = std::iter::repeat_n(piece, count);
            let pieces = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
            Response::new(StreamBody::new(futures::stream::iter(pieces)).boxed_unsync())
        }
        path => {
            let mut length = 0;
            let mut body = body;
            while let Some(Ok(frame)) = body.frame().await {
                length += frame.data_ref().map_or(0, Bytes::len);
            }
            let told = ["cookie", "authorization", "x-mine"].map(|name| {
                let value = head.headers.get(name);
                value
                    .map_or("-", |value| value.to_str().unwrap_or("?"))
                    .to_owned()
            });
            let said = format!(
                "{} {path} {query} {length} {}\n",
                head.method,
                told.join(" ")
            );
            let mut response = Response::new(text(&said));
            let headers = response.headers_mut();
            headers.insert("x-mine", http::HeaderValue::from_static("back"));
            headers.insert("set-cookie", http::HeaderValue::from_static("a=b"));
            response
        }
    }
}

fn text(text: &str) -> Body {
    let body = http_body_util::Full::new(Bytes::copy_from_slice(text.as_bytes()));
    body.boxed_unsync()
}
