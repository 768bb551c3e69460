//! A real socket, with a peer that reads as it likes.

use std::future::poll_fn;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

async fn pair() -> (Corked, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (here, there) = tokio::join!(
        TcpStream::connect(listener.local_addr().unwrap()),
        listener.accept()
    );
    (Corked::new(here.unwrap()), there.unwrap().0)
}

/// Bytes that tell their place.
fn bytes(from: usize, len: usize) -> Vec<u8> {
    (from..from.saturating_add(len))
        .map(|n| u8::try_from(n % 251).unwrap())
        .collect()
}

fn gathered(socket: &Corked) -> usize {
    socket.0.lock().gathered.len()
}

/// Pieces of any size, some flushed and some not, arrive as they were written, though the peer begins to read late.
#[tokio::test]
async fn bytes_leave_in_the_order_in_which_they_came() {
    let (socket, mut peer) = pair().await;
    let sizes: Vec<usize> = (0..600_usize)
        .map(|n| match n % 7 {
            0 => LARGE_BYTES.saturating_add(n),
            1 => LARGE_BYTES.saturating_sub(1),
            _ => n.wrapping_mul(37) % 900,
        })
        .collect();
    let total = sizes.iter().sum::<usize>();
    let mut writer = socket.clone();
    let connection = async move {
        let mut sent = 0;
        for (n, size) in sizes.into_iter().enumerate() {
            writer.write_all(&bytes(sent, size)).await?;
            sent = sent.saturating_add(size);
            if n % 3 == 0 {
                writer.flush().await?;
            }
            if n % 50 == 0 {
                tokio::task::yield_now().await;
            }
        }
        writer.shutdown().await
    };
    let mut read = Vec::new();
    let (ended, received) =
        tokio::join!(Turns::new(connection, socket), peer.read_to_end(&mut read));
    ended.unwrap();
    assert_eq!(received.unwrap(), total);
    assert!(read == bytes(0, total), "in order, and all");
}

#[tokio::test]
async fn small_pieces_leave_together_when_others_have_had_their_turn() {
    let (socket, mut peer) = pair().await;
    let mut writer = socket.clone();
    let connection = async move {
        for piece in 0..10 {
            writer.write_all(&bytes(piece, 1)).await?;
            writer.flush().await?;
        }
        // Waits for ever, as a connection does that has nothing to do.
        std::future::pending::<io::Result<()>>().await
    };
    let mut turns = Turns::new(connection, socket.clone());
    poll_fn(|cx| {
        assert!(Pin::new(&mut turns).poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    assert_eq!(gathered(&socket), 10, "others may add to it");
    poll_fn(|cx| {
        assert!(Pin::new(&mut turns).poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    let mut read = [0; 10];
    peer.read_exact(&mut read).await.unwrap();
    assert_eq!(read.to_vec(), bytes(0, 10));
    let cork = socket.0.lock();
    assert_eq!(cork.gathered.capacity(), 0, "an idle one holds no buffer");
}

#[tokio::test]
async fn what_has_gathered_leaves_though_nothing_follows() {
    let (socket, mut peer) = pair().await;
    let mut writer = socket.clone();
    let connection = async move {
        writer.write_all(b"the end").await?;
        Ok::<_, io::Error>(())
    };
    Turns::new(connection, socket.clone()).await.unwrap();
    let mut read = [0; 7];
    peer.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"the end");
    // Whoever took the socket over writes to it at once.
    let mut successor = socket;
    successor.write_all(b"more").await.unwrap();
    peer.read_exact(&mut read[..4]).await.unwrap();
    assert_eq!(&read[..4], b"more");
}

/// A peer that does not read holds the writer back, and no more than the buffer gathers.
#[tokio::test]
async fn a_peer_that_does_not_read_costs_one_buffer() {
    let (socket, mut peer) = pair().await;
    let mut writer = socket.clone();
    let connection = async move {
        for piece in 0..20_000 {
            writer.write_all(&bytes(piece, 700)).await?;
        }
        writer.shutdown().await
    };
    let turns = Turns::new(connection, socket.clone());
    let reader = async {
        let mut received = 0_usize;
        let mut buffer = vec![0; 4096];
        // Reads a little, then lets the writer run into the full socket again.
        loop {
            let read = peer.read(&mut buffer).await.unwrap();
            if read == 0 {
                return received;
            }
            received = received.saturating_add(read);
            assert!(gathered(&socket) <= GATHER_BYTES_MAX);
            tokio::task::yield_now().await;
        }
    };
    let (ended, received) = tokio::join!(turns, reader);
    ended.unwrap();
    assert_eq!(received, 20_000 * 700);
}
