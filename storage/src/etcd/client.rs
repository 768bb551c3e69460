//! The calls to etcd that the engine makes, each with a deadline.
//!
//! Reads are linearizable: a member asks the others before it answers, so an answer is never older
//! than anything that was acknowledged before the question.

use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codec::Streaming;
use tonic::metadata::MetadataValue;
use tonic_prost::ProstCodec;

use super::connection::{Connection, Endpoint};
use super::failure::Failure;
use super::wire::{
    CompactionRequest, CompactionResponse, KeyValue, RangeRequest, RangeResponse, ResponseHeader,
    StatusRequest, StatusResponse, TxnRequest, TxnResponse, WatchCreateRequest,
    WatchProgressRequest, WatchRequest, WatchResponse, end_of, watch_request,
};
use crate::key::{Key, KeyRange};

/// The largest answer taken in: a range's page, or a revision's events, is far below it.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes that a page of a range should have; how many keys that is, is found out page by page.
const PAGE_BYTES: usize = 2 * 1024 * 1024;
const PAGE_KEYS: i64 = 64;
const PAGE_KEYS_MAX: i64 = 2048;

/// Requests on a stream of watches that were not sent yet: one to begin, and progress requests.
const WATCH_REQUESTS: usize = 8;

/// What the member said beside the answer. Etcd always says it.
const NO_HEADER: &str = "no header";

/// A member of etcd that is connected.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    grpc: Grpc<Connection>,
}

/// A watch.
#[derive(Debug)]
pub(crate) struct WatchStream {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

// === impl Client ===

impl Client {
    pub(crate) fn new(connection: Connection, endpoint: &Endpoint) -> Self {
        let grpc = Grpc::with_origin(connection, endpoint.uri.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX);
        Self { grpc }
    }

    /// Reads one key, and the latest revision.
    pub(crate) async fn get(
        &self,
        key: &Key,
        within: Duration,
    ) -> Result<(ResponseHeader, Option<KeyValue>), Failure> {
        let answer = self.range(RangeRequest::of(key), within).await?;
        let mut kvs = answer.kvs;
        Ok((header(answer.header, "a read")?, kvs.pop()))
    }

    /// Reads a range.
    pub(crate) async fn range(
        &self,
        request: RangeRequest,
        within: Duration,
    ) -> Result<RangeResponse, Failure> {
        let path = PathAndQuery::from_static("/etcdserverpb.KV/Range");
        self.unary("a read", path, request, within).await
    }

    /// Reads all keys of a range at one revision, page by page, and hands them over.
    pub(crate) async fn range_at(
        &self,
        range: &KeyRange,
        revision: i64,
        within: Duration,
        mut take: impl FnMut(KeyValue) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut request = RangeRequest {
            range_end: end_of(range),
            limit: PAGE_KEYS,
            revision,
            ..RangeRequest::of(&range.start)
        };
        loop {
            let page = match self.range(request.clone(), within).await {
                // Small objects were followed by large ones.
                Err(failure) if failure.is_too_large() && request.limit > 1 => {
                    request.limit = (request.limit / 8).max(1);
                    continue;
                }
                page => page?,
            };
            let bytes: usize = page.kvs.iter().map(|kv| kv.value.len()).sum();
            request.limit = if bytes < PAGE_BYTES {
                request.limit.saturating_mul(2).min(PAGE_KEYS_MAX)
            } else {
                (request.limit / 2).max(1)
            };
            let Some(last) = page.kvs.last() else {
                return Ok(());
            };
            request.key = [&last.key, &b"\0"[..]].concat().into();
            page.kvs.into_iter().try_for_each(&mut take)?;
            if !page.more {
                return Ok(());
            }
        }
    }

    /// Runs a transaction.
    pub(crate) async fn transact(
        &self,
        request: TxnRequest,
        within: Duration,
    ) -> Result<(ResponseHeader, TxnResponse), Failure> {
        let path = PathAndQuery::from_static("/etcdserverpb.KV/Txn");
        let mut answer: TxnResponse = self.unary("a transaction", path, request, within).await?;
        Ok((header(answer.header.take(), "a transaction")?, answer))
    }

    /// Gives history below a revision up.
    pub(crate) async fn compact(&self, revision: i64, within: Duration) -> Result<(), Failure> {
        let request = CompactionRequest {
            revision,
            physical: false,
        };
        let path = PathAndQuery::from_static("/etcdserverpb.KV/Compact");
        let done: Result<CompactionResponse, _> =
            self.unary("a compaction", path, request, within).await;
        match done {
            // Another replica was faster.
            Ok(_) | Err(Failure::Compacted { .. }) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Asks the member how it is.
    pub(crate) async fn status(&self, within: Duration) -> Result<StatusResponse, Failure> {
        let path = PathAndQuery::from_static("/etcdserverpb.Maintenance/Status");
        self.unary("for its status", path, StatusRequest {}, within)
            .await
    }

    /// Begins to watch a range, from a revision on.
    pub(crate) async fn watch(
        &self,
        range: &KeyRange,
        start: i64,
        within: Duration,
    ) -> Result<WatchStream, Failure> {
        const WHAT: &str = "a watch";
        let (requests, outgoing) = mpsc::channel(WATCH_REQUESTS);
        let create =
            watch_request::RequestUnion::CreateRequest(WatchCreateRequest::of(range, start));
        let first = WatchRequest {
            request_union: Some(create),
        };
        requests.try_send(first).expect("a new channel has room");
        let mut request = tonic::Request::new(ReceiverStream::new(outgoing));
        // The member ends the watch when it is cut off from the others, instead of falling silent.
        request
            .metadata_mut()
            .insert("hasleader", MetadataValue::from_static("true"));
        let begin = async {
            let mut grpc = self.grpc.clone();
            grpc.ready().await.map_err(|error| broken(WHAT, error))?;
            let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
            let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
            let answer = grpc.streaming(request, path, codec).await;
            answer.map_err(|status| refused(WHAT, status))
        };
        let answer = deadline(WHAT, within, begin).await?;
        Ok(WatchStream {
            requests,
            responses: answer.into_inner(),
        })
    }

    /// Asks for one thing.
    pub(crate) async fn unary<Q, A>(
        &self,
        what: &'static str,
        path: PathAndQuery,
        request: Q,
        within: Duration,
    ) -> Result<A, Failure>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut request = tonic::Request::new(request);
        // The member gives up too: what nobody waits for is not to be done late.
        request.set_timeout(within);
        let call = async {
            let mut grpc = self.grpc.clone();
            grpc.ready().await.map_err(|error| broken(what, error))?;
            let answer = grpc
                .unary(request, path, ProstCodec::<Q, A>::default())
                .await;
            answer.map_err(|status| refused(what, status))
        };
        Ok(deadline(what, within, call).await?.into_inner())
    }
}

async fn deadline<T>(
    what: &'static str,
    within: Duration,
    call: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let answered = tokio::time::timeout(within, call).await;
    answered.unwrap_or(Err(Failure::Deadline { what, within }))
}

fn header(header: Option<ResponseHeader>, what: &'static str) -> Result<ResponseHeader, Failure> {
    header.ok_or(Failure::Protocol {
        what,
        reason: NO_HEADER,
    })
}

fn broken(what: &'static str, error: hyper::Error) -> Failure {
    Failure::Status {
        what,
        source: tonic::Status::from_error(Box::new(error)),
    }
}

fn refused(what: &'static str, source: tonic::Status) -> Failure {
    if source
        .message()
        .contains("required revision has been compacted")
    {
        return Failure::Compacted { revision: 0 };
    }
    Failure::Status { what, source }
}

// === impl WatchStream ===

impl WatchStream {
    /// The next thing that the member says.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<WatchResponse, Failure> {
        let message = self.responses.message().await;
        let response = message.map_err(|status| refused("a watch", status))?;
        response.ok_or_else(|| Failure::WatchEnded {
            reason: "the member closed the stream".to_owned(),
        })
    }

    /// Asks up to where everything has been told. The member does not answer while it has more to
    /// tell.
    pub(crate) fn ask_for_progress(&self) {
        let request = WatchRequest {
            request_union: Some(watch_request::RequestUnion::ProgressRequest(
                WatchProgressRequest {},
            )),
        };
        // A full channel has such a request already.
        drop(self.requests.try_send(request));
    }
}
