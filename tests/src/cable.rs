//! A cable between a process and a server on loopback, which a test can cut: what is under way is lost, and nobody is told.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// A cable that is not cut at first. Dropping it ends it.
#[derive(Debug)]
pub struct Cable {
    address: SocketAddr,
    is_cut: Arc<watch::Sender<bool>>,
    _tasks: JoinSet<()>,
}

impl Cable {
    /// Lays a cable to a port on loopback.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let is_cut = Arc::new(watch::Sender::new(false));
        let mut tasks = JoinSet::new();
        tasks.spawn(carry(listener, port, Arc::clone(&is_cut)));
        Self {
            address,
            is_cut,
            _tasks: tasks,
        }
    }

    /// Returns where a process finds its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts it: nothing passes, and connections stay open.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Mends it. Connections of before are gone.
    pub fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

async fn carry(listener: TcpListener, port: u16, is_cut: Arc<watch::Sender<bool>>) {
    let mut connections = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let mut cut = is_cut.subscribe();
        connections.spawn(async move {
            let carried = async {
                let mut far = TcpStream::connect(("127.0.0.1", port)).await?;
                copy_bidirectional(&mut near, &mut far).await
            };
            let is_whole = !*cut.borrow_and_update();
            if is_whole {
                tokio::select! {
                    _ended = carried => return,
                    _is_cut = cut.wait_for(|cut| *cut) => {}
                }
            }
            // Held, so that its peer is not told, until somebody mends the cable.
            drop(cut.wait_for(|cut| !*cut).await);
        });
    }
}
