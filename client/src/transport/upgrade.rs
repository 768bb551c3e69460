//! Switching protocols: from HTTP/1.1 to bytes that nobody here reads.
//!
//! A connection to a spoke is authenticated as the hub. Whoever may write bytes on one that still speaks HTTP is the hub
//! there (CVE-2018-1002105). So the raw bytes of a connection are to be had here alone:
//!
//! # Invariants
//! - A connection is [`Switched`] only by an answer 101 that names the protocol that was asked for.
//! - What is asked for is one of [`Protocol`]: no protocol in which requests with other identities can be sent.
//! - A connection that was asked to switch serves no other request, however it was answered.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ResponseBody;
use crate::error::{Error, SwitchError};

/// A protocol that a connection is switched to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RFC 6455.
    WebSocket,
    /// The frames of SPDY/3.1, as `kubectl exec` sends them.
    Spdy,
}

/// What a server says to a request for another protocol.
#[derive(Debug)]
pub enum Upgrade {
    /// It speaks that protocol from now on.
    Switched(Switched),
    /// It answers in HTTP; the connection ends with the answer.
    Answered(Response<ResponseBody>),
}

/// A connection that speaks another protocol.
#[derive(Debug)]
pub struct Switched {
    /// The 101.
    pub head: response::Parts,
    /// The bytes that follow it, both ways.
    pub stream: Upgraded,
}

/// The bytes of a connection that speaks another protocol.
#[derive(Debug)]
pub struct Upgraded(TokioIo<hyper::upgrade::Upgraded>);

/// Marks a request as one for another protocol.
pub(crate) fn ask<B>(request: &mut Request<B>, protocol: Protocol) {
    request.extensions_mut().insert(protocol);
}

/// Returns the protocol that a request was marked with.
pub(super) fn asked<B>(request: &Request<B>) -> Option<Protocol> {
    request.extensions().get::<Protocol>().copied()
}

// === impl Protocol ===

impl Protocol {
    /// Returns the protocol of this name in an `Upgrade` header.
    pub fn of(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("websocket") {
            return Some(Self::WebSocket);
        }
        name.eq_ignore_ascii_case("SPDY/3.1").then_some(Self::Spdy)
    }

    /// Returns the name in an `Upgrade` header.
    pub const fn value(self) -> HeaderValue {
        match self {
            Self::WebSocket => HeaderValue::from_static("websocket"),
            Self::Spdy => HeaderValue::from_static("SPDY/3.1"),
        }
    }

    /// Returns whether headers name this protocol and no other one.
    fn is_named_by(self, headers: &HeaderMap) -> bool {
        let mut named = headers.get_all(header::UPGRADE).iter();
        let first = named.next().and_then(|value| value.to_str().ok());
        first.and_then(|name| Self::of(name.trim())) == Some(self) && named.next().is_none()
    }
}

// === impl Upgrade ===

impl Upgrade {
    /// Reads the answer to a request for `protocol`.
    ///
    /// # Errors
    /// [`Error::Switch`] for a 101 that does not say what was asked for.
    pub(crate) async fn of(
        mut answer: Response<ResponseBody>,
        protocol: Protocol,
    ) -> Result<Self, Error> {
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Self::Answered(answer));
        }
        if !protocol.is_named_by(answer.headers()) {
            return Err(SwitchError::Other.into());
        }
        let upgraded = hyper::upgrade::on(&mut answer).await;
        let upgraded = upgraded.map_err(|_gone| SwitchError::NoStream)?;
        let (head, _) = answer.into_parts();
        Ok(Self::Switched(Switched {
            head,
            stream: Upgraded(TokioIo::new(upgraded)),
        }))
    }
}

// === impl Upgraded ===

impl AsyncRead for Upgraded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
