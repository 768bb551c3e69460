//! A watch over WebSocket: one message for each event, until the watch ends or the client goes.
//!
//! # Invariants
//! - A client that does not read holds no more than one chunk of events, as of a watch in HTTP.
//! - A watch that has lost its right ends [`LAST_WORDS_TIMEOUT`] later, whether its client has read the last words or not.
//!
//! Source: `apiserver/pkg/endpoints/handlers/watch.go` (`HandleWS`).

use std::{io, time::Duration};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    negotiate::Encoding,
    respond::Body,
    websocket::frame::{self, CloseCode, Heard, Opcode, Reader, Violation},
};

/// Bytes that are read of a client at a time.
const READ_BYTES: usize = 1024;
/// How long the client may take for the last words.
pub(super) const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends the events of a watch until `end`, which they tell themselves: the client may take `last_words` for that.
pub(super) async fn run(
    client: impl AsyncRead + AsyncWrite + Unpin,
    events: Body,
    encoding: Encoding,
    (end, last_words): (&CancellationToken, Duration),
) -> io::Result<()> {
    let mut watching = std::pin::pin!(watch(client, events, encoding));
    tokio::select! {
        biased;
        ended = &mut watching => return ended,
        () = end.cancelled() => {}
    }
    match timeout(last_words, watching).await {
        Ok(ended) => ended,
        Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn watch(
    client: impl AsyncRead + AsyncWrite + Unpin,
    mut events: Body,
    encoding: Encoding,
) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(client);
    let mut reader = Reader::default();
    let mut buffer = vec![0; READ_BYTES];
    let mut out = Vec::new();
    let code = loop {
        tokio::select! {
            biased;
            length = from.read(&mut buffer) => {
                let length = length?;
                if length == 0 {
                    return Ok(());
                }
                match reader.read(buffer.get(..length).unwrap_or_default()) {
                    Ok(Heard { closed: true, .. }) => break CloseCode::Normal,
                    Ok(Heard { ping: Some(payload), .. }) => {
                        frame::write(&mut out, Opcode::Pong, &payload);
                    }
                    Ok(Heard { ping: None, .. }) => {}
                    Err(Violation) => break CloseCode::Violation,
                }
            }
            chunk = events.frame() => match chunk {
                Some(Ok(chunk)) => {
                    messages(&mut out, encoding, &chunk.into_data().unwrap_or_default());
                }
                Some(Err(error)) => return Err(io::Error::other(error)),
                None => break CloseCode::Normal,
            },
        }
        to.write_all(&out).await?;
        to.flush().await?;
        out.clear();
    };
    frame::write_close(&mut out, code);
    to.write_all(&out).await?;
    to.flush().await?;
    to.shutdown().await
}

/// Appends a message for each event of a chunk, which holds whole ones: lines, or messages behind their lengths.
fn messages(out: &mut Vec<u8>, encoding: Encoding, chunk: &Bytes) {
    if encoding != Encoding::Protobuf {
        for line in chunk.split_inclusive(|byte| *byte == b'\n') {
            frame::write(out, Opcode::Text, line);
        }
        return;
    }
    let mut rest: &[u8] = chunk;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let (event, behind) = behind.split_at_checked(length).unwrap_or((behind, &[]));
        frame::write(out, Opcode::Binary, event);
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock};

    use api::status::Status;
    use futures::{StreamExt as _, stream};
    use tokio::io::{DuplexStream, duplex};

    use super::*;
    use crate::request::Ending;

    /// Reads one frame of the server: its first byte and its payload.
    async fn read(client: &mut DuplexStream) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        client.read_exact(&mut head).await.unwrap();
        let mut length = usize::from(head[1]);
        if length == 126 {
            length = usize::from(client.read_u16().await.unwrap());
        }
        let mut payload = vec![0; length];
        client.read_exact(&mut payload).await.unwrap();
        (head[0], payload)
    }

    fn of_watch(chunks: &'static [&'static [u8]], ending: &Ending) -> Body {
        let chunks = stream::iter(chunks).map(|chunk| Bytes::from_static(chunk));
        Body::stream_with(chunks.chain(stream::pending()), ending.clone(), |status| {
            format!("{}\n", status.message).into()
        })
    }

    #[tokio::test]
    async fn each_event_is_a_message_and_pings_are_answered() {
        let (mut client, near) = duplex(4096);
        let end = CancellationToken::new();
        let (chunks, ending): (&[&[u8]], _) = (&[b"{1}\n{2}\n", b"{3}\n"], Ending::of(end.clone()));
        let watching = run(
            near,
            of_watch(chunks, &ending),
            Encoding::Json,
            (&end, LAST_WORDS_TIMEOUT),
        );
        let said = async {
            for event in ["{1}\n", "{2}\n", "{3}\n"] {
                assert_eq!(read(&mut client).await, (0x81, event.into()));
            }
            // What a client says is dropped; a ping is not.
            client
                .write_all(&[0x81, 0x81, 0, 0, 0, 0, b'x'])
                .await
                .unwrap();
            client
                .write_all(&[0x89, 0x81, 0, 0, 0, 1, b'x'])
                .await
                .unwrap();
            assert_eq!(read(&mut client).await, (0x8a, b"x".to_vec()));
            client.write_all(&[0x88, 0x80, 0, 0, 0, 0]).await.unwrap();
            assert_eq!(
                read(&mut client).await,
                (0x88, 1000_u16.to_be_bytes().into())
            );
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "it is closed");
        };
        let (ended, ()) = tokio::join!(watching, said);
        ended.unwrap();
    }

    #[tokio::test]
    async fn who_may_not_go_on_is_told_so_and_who_does_not_read_is_left() {
        let reason = Arc::new(OnceLock::new());
        let end = CancellationToken::new();
        let ending = Ending::with_reason(end.clone(), Arc::clone(&reason));
        let (mut client, near) = duplex(4096);
        let watching = run(
            near,
            of_watch(&[], &ending),
            Encoding::Json,
            (&end, LAST_WORDS_TIMEOUT),
        );
        let said = async {
            reason.set(Box::new(Status::unauthorized())).unwrap();
            end.cancel();
            assert_eq!(read(&mut client).await, (0x81, b"Unauthorized\n".to_vec()));
            assert_eq!(
                read(&mut client).await,
                (0x88, 1000_u16.to_be_bytes().into())
            );
        };
        let (ended, ()) = tokio::join!(watching, said);
        ended.unwrap();
        // The buffer of this one is full before the end comes.
        let (_client, near) = duplex(4);
        let moment = Duration::from_millis(1);
        let ended = run(
            near,
            of_watch(&[b"{1}\n"], &ending),
            Encoding::Json,
            (&end, moment),
        )
        .await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_speaks_otherwise_is_told_so() {
        let (mut client, near) = duplex(4096);
        let end = CancellationToken::new();
        let watching = run(
            near,
            of_watch(&[], &Ending::of(end.clone())),
            Encoding::Json,
            (&end, LAST_WORDS_TIMEOUT),
        );
        let said = async {
            client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
            assert_eq!(
                read(&mut client).await,
                (0x88, 1002_u16.to_be_bytes().into())
            );
        };
        let (ended, ()) = tokio::join!(watching, said);
        ended.unwrap();
    }
}
