//! The bodies of requests and answers.
//!
//! An answer is one piece of bytes, several pieces (a list made of stored objects, made when the connection asks for
//! them), a stream without end (a watch), or another server's body that is passed on. One enum holds them, so that the
//! common case costs no allocation. What follows a 101 is no body, but goes the same way.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use api::status::Status;
use bytes::Bytes;
use futures::StreamExt as _;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{
    BodyExt, BodyStream, LengthLimitError, Limited, StreamBody, combinators::UnsyncBoxBody,
};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tracing::Span;

use crate::negotiate::Encoding;
use crate::refusal::{BoxError, Refusal};
use crate::request::{Ending, LongRunning, share::Permit};

/// Pieces of a body, made when they are asked for.
pub(super) type Pieces = Box<dyn Iterator<Item = Bytes> + Send>;

/// The body of an answer.
pub struct Body {
    kind: BodyKind,
    /// Counts the request for its user until the body is sent.
    permit: Option<Permit>,
    /// Counts a request that goes on, until its body is sent.
    running: Option<LongRunning>,
    /// What else counts it.
    held: Option<Held>,
    /// The record of a request that goes on, which ends with its answer.
    record: Option<Held>,
}

/// What is kept until a body is sent or dropped.
pub(crate) type Held = Box<dyn fmt::Debug + Send + Sync>;

/// The body of a request: of a connection, of a client in this process, or of a test.
pub struct RequestBody {
    kind: RequestBodyKind,
}

enum BodyKind {
    Empty,
    Full(Option<Bytes>),
    Chunks {
        chunks: Pieces,
        length: Option<u64>,
    },
    Stream(Box<Streaming>),
    Foreign(UnsyncBoxBody<Bytes, BoxError>),
    /// Nothing; the connection of the answer speaks another protocol after it.
    Switched(Box<Switched>),
}

/// What becomes of a connection once its answer, a 101, has been sent.
#[derive(Debug)]
pub(crate) struct Switched {
    /// What is at its other end.
    pub(crate) far: FarEnd,
    /// What ends it.
    pub(crate) ending: Ending,
}

/// What a connection is connected with.
#[derive(Debug)]
pub(crate) enum FarEnd {
    /// A spoke.
    Spoke {
        /// The connection to it.
        connection: client::Upgraded,
        /// Counts the stream for its spoke.
        place: OwnedSemaphorePermit,
    },
    /// A watch, each of whose events is one message of a WebSocket. It has last words of its own.
    Watch {
        /// Whole events.
        events: Body,
        /// How they are encoded.
        encoding: Encoding,
    },
}

/// [`Switched`], with what counts it for its user.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) switched: Switched,
    pub(crate) permit: Option<Permit>,
    pub(crate) running: Option<LongRunning>,
    /// What is written when it ends.
    pub(crate) record: Option<Held>,
}

struct Streaming {
    events: Pin<Box<dyn futures::Stream<Item = Bytes> + Send>>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    ending: Ending,
    last_words: Option<LastWords>,
    /// The span of the request, which ends before its events do.
    span: Span,
}

/// What a body without end says when it is ended for a reason.
pub(crate) type LastWords = fn(&Status) -> Bytes;

enum RequestBodyKind {
    Empty,
    Full(Option<Bytes>),
    Incoming(hyper::body::Incoming),
    Foreign(UnsyncBoxBody<Bytes, BoxError>),
}

// === impl Body ===

impl Body {
    /// Makes a body of no bytes.
    pub const fn empty() -> Self {
        Self {
            kind: BodyKind::Empty,
            permit: None,
            running: None,
            held: None,
            record: None,
        }
    }

    /// Makes a body of one piece.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Self::empty();
        }
        BodyKind::Full(Some(bytes)).into()
    }

    /// Makes a body of pieces that are made when the connection is ready for them.
    ///
    /// A piece becomes a frame or more of its own, so pieces of a few hundred bytes cost more in frames than copying
    /// them together does: aim at 16 KiB to 64 KiB each. `length` is the sum, where it is known.
    pub fn chunks<I>(chunks: I, length: Option<u64>) -> Self
    where
        I: IntoIterator<Item = Bytes>,
        I::IntoIter: Send + 'static,
    {
        BodyKind::Chunks {
            chunks: Box::new(chunks.into_iter()),
            length,
        }
        .into()
    }

    /// Makes a body without end: it ends, as if it were complete, when `events` does or as `ending` says
    /// (give it `RequestContext::ending`).
    pub fn stream<S>(events: S, ending: Ending) -> Self
    where
        S: futures::Stream<Item = Bytes> + Send + 'static,
    {
        Self::streaming(events, ending, None)
    }

    /// The same with last words, for a stream each of whose pieces is whole.
    pub(crate) fn stream_with<S>(events: S, ending: Ending, last_words: LastWords) -> Self
    where
        S: futures::Stream<Item = Bytes> + Send + 'static,
    {
        Self::streaming(events, ending, Some(last_words))
    }

    fn streaming<S>(events: S, ending: Ending, last_words: Option<LastWords>) -> Self
    where
        S: futures::Stream<Item = Bytes> + Send + 'static,
    {
        BodyKind::Stream(Box::new(Streaming {
            events: Box::pin(events),
            end: Box::pin(ending.token().cancelled_owned()),
            ending,
            last_words,
            span: Span::current(),
        }))
        .into()
    }

    /// Passes another body on.
    pub fn foreign<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        BodyKind::Foreign(body.map_err(Into::into).boxed_unsync()).into()
    }

    /// Makes the body of a 101, whose connection is then connected with another one.
    pub(crate) fn switched(switched: Switched) -> Self {
        BodyKind::Switched(Box::new(switched)).into()
    }

    /// Takes what the connection of a 101 is to be connected with, and what counts it.
    pub(crate) fn take_stream(&mut self) -> Option<Stream> {
        match std::mem::replace(&mut self.kind, BodyKind::Empty) {
            BodyKind::Switched(switched) => Some(Stream {
                switched: *switched,
                permit: self.permit.take(),
                running: self.running.take(),
                record: self.record.take(),
            }),
            kind => {
                self.kind = kind;
                None
            }
        }
    }

    /// The bytes of a body of one piece, `None` for every other body.
    pub fn as_full(&self) -> Option<&Bytes> {
        match &self.kind {
            BodyKind::Full(bytes) => bytes.as_ref(),
            _ => None,
        }
    }

    /// Keeps what counts the request until the body is sent or dropped.
    pub(crate) fn hold(&mut self, permit: Option<Permit>, running: Option<LongRunning>) {
        self.permit = permit;
        self.running = running;
    }

    /// Keeps something else until the body is sent or dropped.
    pub(crate) fn keep(&mut self, held: Held) {
        self.held = Some(held);
    }

    /// Keeps the record of the request until the body is sent or dropped.
    pub(crate) fn keep_record(&mut self, record: Held) {
        self.record = Some(record);
    }

    /// Reads a body ahead, which stays as it is: the bytes of one that ends, `Some(None)` where it is longer than `bytes_max`. `None`
    /// for a body that goes on, breaks, or has not ended by the deadline.
    pub(crate) async fn peek(
        &mut self,
        bytes_max: usize,
        deadline: Instant,
    ) -> Option<Option<Bytes>> {
        match std::mem::replace(&mut self.kind, BodyKind::Empty) {
            BodyKind::Empty => Some(Some(Bytes::new())),
            BodyKind::Full(bytes) => {
                let found = bytes.clone().unwrap_or_default();
                self.kind = BodyKind::Full(bytes);
                Some((found.len() <= bytes_max).then_some(found))
            }
            BodyKind::Chunks { mut chunks, length } => {
                let mut begun = Vec::new();
                let mut count = 0;
                while count <= bytes_max
                    && let Some(chunk) = chunks.next()
                {
                    count += chunk.len();
                    begun.push(chunk);
                }
                let whole = (count <= bytes_max).then(|| begun.concat().into());
                self.kind = BodyKind::Chunks {
                    chunks: Box::new(begun.into_iter().chain(chunks)),
                    length,
                };
                Some(whole)
            }
            BodyKind::Foreign(body) => {
                let (kind, found) = peek_foreign(body, bytes_max, deadline).await;
                self.kind = kind;
                found
            }
            kind @ (BodyKind::Stream(_) | BodyKind::Switched(_)) => {
                self.kind = kind;
                None
            }
        }
    }

    /// Puts other content into the place of a body; what it holds stays.
    pub(super) fn replace(&mut self, other: Self) {
        self.kind = other.kind;
    }

    /// Takes the content out of a body; what it holds stays.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(&mut self.kind, BodyKind::Empty).into()
    }

    /// Whether the body has no end of its own.
    pub fn is_stream(&self) -> bool {
        matches!(self.kind, BodyKind::Stream(_))
    }

    /// Takes the pieces of a body that ends, one piece cut into some of `piece_bytes`, or gives the body back.
    pub(super) fn into_pieces(self, piece_bytes: usize) -> Result<Pieces, Self> {
        match self.kind {
            BodyKind::Chunks { chunks, .. } => Ok(chunks),
            BodyKind::Full(Some(mut bytes)) => Ok(Box::new(std::iter::from_fn(move || {
                let length = bytes.len().min(piece_bytes);
                (length > 0).then(|| bytes.split_to(length))
            }))),
            kind => Err(kind.into()),
        }
    }
}

/// Reads another server's body ahead. What was read goes out as one piece: a peer that sends many small ones costs no more memory.
async fn peek_foreign(
    mut body: UnsyncBoxBody<Bytes, BoxError>,
    bytes_max: usize,
    deadline: Instant,
) -> (BodyKind, Option<Option<Bytes>>) {
    let (mut bytes, mut after) = (Vec::new(), Vec::new());
    let is_whole = loop {
        // Cut off while it waits for a frame, it has taken nothing.
        match timeout_at(deadline, body.frame()).await {
            Err(_elapsed) => break None,
            Ok(None) => break Some(true),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => bytes.extend_from_slice(&data),
                // Trailers end a body.
                Err(trailers) => after.push(Ok(trailers)),
            },
            Ok(Some(Err(error))) => {
                after.push(Err(error));
                break None;
            }
        }
        if bytes.len() > bytes_max {
            break Some(false);
        }
    };
    let bytes = Bytes::from(bytes);
    let found = is_whole.map(|is_whole| is_whole.then(|| bytes.clone()));
    let begun = (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)));
    let begun = futures::stream::iter(begun.into_iter().chain(after));
    let rest = begun.chain(BodyStream::new(body));
    let kind = BodyKind::Foreign(StreamBody::new(rest).boxed_unsync());
    (kind, found)
}

impl From<BodyKind> for Body {
    fn from(kind: BodyKind) -> Self {
        Self {
            kind,
            permit: None,
            running: None,
            held: None,
            record: None,
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.kind {
            BodyKind::Empty | BodyKind::Switched(_) => Poll::Ready(None),
            BodyKind::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            BodyKind::Chunks { chunks, length } => {
                let next = chunks.next();
                if let (Some(left), Some(chunk)) = (length.as_mut(), next.as_ref()) {
                    *left = left.saturating_sub(chunk.len() as u64);
                }
                Poll::Ready(next.map(|chunk| Ok(Frame::data(chunk))))
            }
            BodyKind::Stream(streaming) => {
                let _entered = streaming.span.enter();
                if streaming.end.as_mut().poll(cx).is_ready() {
                    let words = streaming.last_words.take();
                    let said = words.zip(streaming.ending.reason());
                    return Poll::Ready(said.map(|(say, why)| Ok(Frame::data(say(why)))));
                }
                let event = std::task::ready!(streaming.events.as_mut().poll_next(cx));
                Poll::Ready(event.map(|event| Ok(Frame::data(event))))
            }
            BodyKind::Foreign(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Empty | BodyKind::Full(None) | BodyKind::Switched(_) => true,
            BodyKind::Full(Some(_)) | BodyKind::Chunks { .. } | BodyKind::Stream(_) => false,
            BodyKind::Foreign(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Empty | BodyKind::Full(None) | BodyKind::Switched(_) => {
                SizeHint::with_exact(0)
            }
            BodyKind::Full(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            BodyKind::Chunks { length, .. } => {
                length.map_or_else(SizeHint::new, SizeHint::with_exact)
            }
            BodyKind::Stream(_) => SizeHint::new(),
            BodyKind::Foreign(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            BodyKind::Empty => "empty",
            BodyKind::Full(_) => "full",
            BodyKind::Chunks { .. } => "chunks",
            BodyKind::Stream(_) => "stream",
            BodyKind::Foreign(_) => "foreign",
            BodyKind::Switched(_) => "switched",
        };
        f.debug_struct("Body")
            .field("kind", &kind)
            .finish_non_exhaustive()
    }
}

// === impl RequestBody ===

impl RequestBody {
    /// Makes a body of no bytes.
    pub const fn empty() -> Self {
        Self {
            kind: RequestBodyKind::Empty,
        }
    }

    /// Makes a body of one piece.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self {
            kind: RequestBodyKind::Full(Some(bytes.into())),
        }
    }

    /// Takes the body of a connection.
    pub fn incoming(body: hyper::body::Incoming) -> Self {
        if body.is_end_stream() {
            return Self::empty();
        }
        Self {
            kind: RequestBodyKind::Incoming(body),
        }
    }

    /// Takes any other body.
    pub fn foreign<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self {
            kind: RequestBodyKind::Foreign(body.map_err(Into::into).boxed_unsync()),
        }
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// 413 for more than `bytes_max`, 400 where the connection breaks, 504 after `deadline`.
    pub async fn read(self, bytes_max: usize, deadline: Instant) -> Result<Bytes, Refusal> {
        let announced = self.size_hint().lower();
        if announced > bytes_max as u64 {
            return Err(Status::too_large(bytes_max).into());
        }
        match self.kind {
            RequestBodyKind::Empty | RequestBodyKind::Full(None) => return Ok(Bytes::new()),
            RequestBodyKind::Full(Some(bytes)) => return Ok(bytes),
            RequestBodyKind::Incoming(_) | RequestBodyKind::Foreign(_) => {}
        }
        let collected = timeout_at(deadline, Limited::new(self, bytes_max).collect()).await;
        match collected {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                Err(Status::too_large(bytes_max).into())
            }
            Ok(Err(error)) => Err(Refusal::new(Status::bad_request(
                "the body of the request could not be read",
            ))
            .because(error)),
            Err(_elapsed) => {
                Err(Status::timeout("request did not complete within the allotted timeout").into())
            }
        }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.kind {
            RequestBodyKind::Empty => Poll::Ready(None),
            RequestBodyKind::Full(bytes) => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            RequestBodyKind::Incoming(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            RequestBodyKind::Foreign(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            RequestBodyKind::Empty | RequestBodyKind::Full(None) => true,
            RequestBodyKind::Full(Some(_)) => false,
            RequestBodyKind::Incoming(body) => body.is_end_stream(),
            RequestBodyKind::Foreign(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            RequestBodyKind::Empty | RequestBodyKind::Full(None) => SizeHint::with_exact(0),
            RequestBodyKind::Full(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            RequestBodyKind::Incoming(body) => body.size_hint(),
            RequestBodyKind::Foreign(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "what a stream of frames holds")]
    fn frame(text: &'static str) -> Result<Frame<Bytes>, BoxError> {
        Ok(Frame::data(Bytes::from_static(text.as_bytes())))
    }

    async fn next(body: &mut Body) -> Bytes {
        let frame = body.frame().await.expect("a frame").expect("no error");
        frame.into_data().expect("data")
    }

    /// The story: a spoke sends a head and half a body, and then nothing. The request waited for ever.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_is_peeked_until_the_deadline_and_stays_whole() {
        let (send, rest) = futures::channel::mpsc::unbounded();
        let foreign = StreamBody::new(rest).boxed_unsync();
        let mut body = Body::from(BodyKind::Foreign(foreign));
        send.unbounded_send(frame("{\"a\"")).expect("open");
        send.unbounded_send(frame(":")).expect("open");
        let deadline = Instant::now() + Duration::from_mins(1);
        assert_eq!(body.peek(100, deadline).await, None);
        assert_eq!(Instant::now(), deadline);
        assert_eq!(next(&mut body).await, "{\"a\":");
        assert!(body.frame().now_or_never().is_none(), "it goes on");
        send.unbounded_send(frame("1}")).expect("open");
        drop(send);
        assert_eq!(next(&mut body).await, "1}");
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_body_that_was_peeked_is_what_it_was() {
        for (bytes_max, want) in [
            (4, Some(Some(Bytes::from_static(b"abcd")))),
            (3, Some(None)),
        ] {
            let frames = [frame("ab"), frame(""), frame("cd")];
            let foreign = StreamBody::new(futures::stream::iter(frames)).boxed_unsync();
            let mut body = Body::from(BodyKind::Foreign(foreign));
            let deadline = Instant::now() + Duration::from_mins(1);
            assert_eq!(body.peek(bytes_max, deadline).await, want);
            let sent = body.collect().await.expect("no error").to_bytes();
            assert_eq!(sent, "abcd");
        }
        // What breaks is broken for the client, too.
        let frames = [frame("ab"), Err("broken".into())];
        let foreign = StreamBody::new(futures::stream::iter(frames)).boxed_unsync();
        let mut body = Body::from(BodyKind::Foreign(foreign));
        assert_eq!(body.peek(100, Instant::now()).await, None);
        assert_eq!(next(&mut body).await, "ab");
        assert!(body.frame().await.expect("a frame").is_err());
    }
}
