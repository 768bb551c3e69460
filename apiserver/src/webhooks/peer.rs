//! One server that is reached over HTTPS, and the connections to it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::sync::Semaphore;

use super::{address::Address, connection::Connection};

/// Calls of one server at once; further ones wait within their timeouts.
pub(super) const SEATS: usize = 64;
/// Connections of one server that are kept while nothing is called.
const IDLE_MAX: usize = 4;
/// The longest answer: that of the largest request.
const ANSWER_BYTES_MAX: usize = 3 * 1024 * 1024;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// One server as it is reached.
#[derive(Debug)]
pub(crate) struct Peer {
    address: Address,
    seats: Semaphore,
    /// Connections that answered and are not in use. Leaf lock.
    idle: Mutex<Vec<Connection>>,
}

/// Why a request came to no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    /// There is no connection, or it ended.
    #[error("{0}")]
    Unreached(String),
    /// The answer cannot be read, or is too long.
    #[error("{0}")]
    Answer(String),
}

// === impl Peer ===

impl Peer {
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            seats: Semaphore::new(SEATS),
            idle: Mutex::default(),
        }
    }

    /// Makes a server that the operator has named, wherever it is. Nothing is dialled yet.
    ///
    /// # Errors
    /// Why that is no URL of one.
    pub(crate) fn of_operator(url: &str, tls: Arc<ClientConfig>) -> Result<Self, String> {
        Ok(Self::new(Address::of_operator(url, tls)?))
    }

    /// The URL.
    pub(crate) fn url(&self) -> &str {
        self.address.url()
    }

    /// Reads what is at the URL. The caller bounds the time.
    ///
    /// # Errors
    /// No answer; any status is one.
    pub(crate) async fn get(&self) -> Result<(StatusCode, Bytes), ExchangeError> {
        let agent = HeaderValue::from_static(concat!("wheelhouse/", env!("CARGO_PKG_VERSION")));
        // A set of keys has a type of its own, and kube-apiserver answers 406 to who takes JSON alone.
        let any = HeaderValue::from_static("*/*");
        let headers = [(header::USER_AGENT, agent), (header::ACCEPT, any)];
        let headers = headers.into_iter().collect();
        Box::pin(self.exchange(Method::GET, "", &Bytes::new(), &headers)).await
    }

    /// Posts JSON to the URL. The caller bounds the time.
    ///
    /// # Errors
    /// As [`Peer::get`].
    pub(crate) async fn post(
        &self,
        query: &str,
        body: Bytes,
        mut headers: HeaderMap,
    ) -> Result<(StatusCode, Bytes), ExchangeError> {
        headers.insert(header::CONTENT_TYPE, JSON);
        Box::pin(self.exchange(Method::POST, query, &body, &headers)).await
    }

    /// Posts a form to the URL. The caller bounds the time.
    ///
    /// # Errors
    /// As [`Peer::get`].
    pub(crate) async fn post_form(
        &self,
        form: Bytes,
        authorization: Option<HeaderValue>,
    ) -> Result<(StatusCode, Bytes), ExchangeError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, FORM);
        if let Some(authorization) = authorization {
            headers.insert(header::AUTHORIZATION, authorization);
        }
        Box::pin(self.exchange(Method::POST, "", &form, &headers)).await
    }

    /// Large, and seldom awaited: callers box it, for every request carries it otherwise.
    async fn exchange(
        &self,
        method: Method,
        query: &str,
        body: &Bytes,
        headers: &HeaderMap,
    ) -> Result<(StatusCode, Bytes), ExchangeError> {
        let _seat = self.seats.acquire().await;
        // The server may have closed an idle connection meanwhile; what was not sent is sent again.
        let (connection, answer) = loop {
            let idle = self.idle.lock().pop();
            let is_fresh = idle.is_none();
            let mut connection = match idle {
                Some(connection) => connection,
                None => self.open().await?,
            };
            if !is_fresh && !connection.is_open().await {
                continue;
            }
            let request = self.request(&method, query, body, headers);
            match connection.send(request).await {
                Ok(answer) => break (connection, answer),
                Err(error) if !is_fresh && error.is_canceled() => {}
                Err(error) => return Err(ExchangeError::Unreached(error.to_string())),
            }
        };
        let code = answer.status();
        let limited = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
        let bytes = limited.collect().await.map_err(|error| {
            ExchangeError::Answer(format!("the answer cannot be read: {error}"))
        })?;
        self.keep(connection);
        Ok((code, bytes.to_bytes()))
    }

    async fn open(&self) -> Result<Connection, ExchangeError> {
        let opened = Connection::open(&self.address).await;
        opened.map_err(ExchangeError::Unreached)
    }

    fn request(
        &self,
        method: &Method,
        query: &str,
        body: &Bytes,
        headers: &HeaderMap,
    ) -> Request<Full<Bytes>> {
        let separator = if query.is_empty() { "" } else { "?" };
        let uri = format!("{}{separator}{query}", self.address.path());
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = method.clone();
        if let Ok(uri) = uri.parse() {
            *request.uri_mut() = uri;
        }
        *request.headers_mut() = headers.clone();
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.address.authority().clone());
        headers.entry(header::ACCEPT).or_insert(JSON);
        request
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}
