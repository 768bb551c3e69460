//! What follows a 101: the bytes of a client and of a spoke, each handed to the other as they come, or the messages of a
//! watch ([`watched`]).
//!
//! The task of the connection does it, so that a stream counts as its connection does and ends with it.
//!
//! # Invariants
//! - Nothing of the bytes is read, and no more of them is held than one buffer for each direction: who does not read stops
//!   the other's writing, and nobody else's.
//! - An end is passed on: of one direction alone as that, a broken connection as a broken one.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

mod watched;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::respond::{FarEnd, Stream, Switched};

/// Bytes that are under way in each direction.
const BUFFER_BYTES: usize = 16 * 1024;
/// How long nothing may come in one direction after the end of the other. kube-apiserver, which is behind every spoke, ends
/// both at once. Source: `apimachinery/pkg/util/proxy/upgradeaware.go` (`tryUpgrade`).
const HALF_OPEN_TIMEOUT: Duration = Duration::from_mins(1);

/// Connects a client with the far end until both are done, or the stream has to end.
pub(super) async fn run(on_upgrade: OnUpgrade, stream: Stream, cut: &CancellationToken) {
    let Stream {
        switched,
        permit,
        running,
        record,
    } = stream;
    let Switched { far, ending } = switched;
    let end = ending.token();
    let connected = async {
        let client = on_upgrade.await.map_err(io::Error::other)?;
        let client = TokioIo::new(client);
        match far {
            FarEnd::Spoke {
                connection,
                place: _counted,
            } => {
                tokio::select! {
                    biased;
                    () = end.cancelled() => {
                        tracing::debug!(reason = ?ending.reason(), "a stream is ended");
                        Ok(())
                    }
                    ended = connect(client, connection, HALF_OPEN_TIMEOUT) => ended,
                }
            }
            FarEnd::Watch { events, encoding } => {
                watched::run(
                    client,
                    events,
                    encoding,
                    (&end, watched::LAST_WORDS_TIMEOUT),
                )
                .await
            }
        }
    };
    tokio::select! {
        biased;
        () = cut.cancelled() => tracing::debug!("a stream is cut"),
        ended = connected => {
            if let Err(error) = ended {
                tracing::debug!(error = %error, "a stream ended with an error");
            }
        }
    }
    // Until here it counts.
    drop((permit, running, record));
}

/// Hands the bytes of each to the other until both have said all, or one has and nothing comes of the other for `half_open`. Dropped before,
/// it breaks both connections.
async fn connect<A, B>(client: A, spoke: B, half_open: Duration) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let (from_client, to_client) = tokio::io::split(client);
    let (from_spoke, to_spoke) = tokio::io::split(spoke);
    let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut up = std::pin::pin!(pass(from_client, to_spoke, &sent));
    let mut down = std::pin::pin!(pass(from_spoke, to_client, &received));
    tokio::select! {
        ended = &mut up => {
            ended?;
            rest(down, &received, half_open).await
        }
        ended = &mut down => {
            ended?;
            rest(up, &sent, half_open).await
        }
    }
}

/// Waits for the end of the other direction, for as long as something comes.
async fn rest(
    mut direction: std::pin::Pin<&mut impl Future<Output = io::Result<()>>>,
    count: &AtomicU64,
    half_open: Duration,
) -> io::Result<()> {
    loop {
        let before = count.load(Ordering::Relaxed);
        match timeout(half_open, &mut direction).await {
            Ok(ended) => return ended,
            Err(_elapsed) if count.load(Ordering::Relaxed) == before => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(_elapsed) => {}
        }
    }
}

/// Writes what is read, up to the end and that too. `count` is how often something came.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    count: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        count.fetch_add(1, Ordering::Relaxed);
        to.write_all(buffer.get(..length).unwrap_or_default())
            .await?;
        to.flush().await?;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn each_direction_ends_for_itself() {
        let (mut client, near) = duplex(64);
        let (far, mut spoke) = duplex(64);
        let both = async {
            client.write_all(b"question").await.unwrap();
            client.shutdown().await.unwrap();
            let mut asked = String::new();
            spoke.read_to_string(&mut asked).await.unwrap();
            assert_eq!(asked, "question");
            // The other direction goes on.
            spoke.write_all(b"answer").await.unwrap();
            spoke.shutdown().await.unwrap();
            let mut answered = String::new();
            client.read_to_string(&mut answered).await.unwrap();
            assert_eq!(answered, "answer");
        };
        let (connected, ()) = tokio::join!(connect(near, far, HALF_OPEN_TIMEOUT), both);
        connected.unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_never_ends_its_half_is_left() {
        let (mut client, near) = duplex(64);
        let (far, _spoke) = duplex(64);
        client.shutdown().await.unwrap();
        let connected = connect(near, far, Duration::from_millis(1)).await;
        assert_eq!(connected.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        assert!(all.is_empty(), "the client is told the end");
    }

    #[tokio::test]
    async fn who_does_not_read_stops_the_other() {
        let (client, near) = duplex(64);
        let (far, mut spoke) = duplex(64);
        let mut written = 0;
        let flood = async {
            for _ in 0..BUFFER_BYTES {
                written += spoke.write(&[0; 1024]).await.unwrap();
            }
        };
        tokio::select! {
            _ = connect(near, far, HALF_OPEN_TIMEOUT) => panic!("it goes on"),
            () = flood => panic!("all was taken"),
            // Nothing else is ready: whoever could write has written.
            () = idle() => {}
        }
        drop(client);
        assert!(written < 2 * BUFFER_BYTES, "{written} bytes were taken");
    }

    /// Waits until the other futures of a task had many turns.
    async fn idle() {
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
    }
}
