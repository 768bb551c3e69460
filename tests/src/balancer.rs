//! One address before several replicas, as a Service has it: each connection goes to one that is listed and takes it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// A balancer of connections on loopback. Dropping it ends it and what it carries.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    ports: Arc<Mutex<Vec<u16>>>,
    _tasks: JoinSet<()>,
}

impl Balancer {
    /// Starts one that lists nothing: connections are closed.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let ports = Arc::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(carry(listener, Arc::clone(&ports)));
        Self {
            address,
            ports,
            _tasks: tasks,
        }
    }

    /// Lists the ports on loopback that new connections go to, in turns. Those that are under way stay where they are.
    pub fn list(&self, ports: impl IntoIterator<Item = u16>) {
        let mut listed = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        *listed = ports.into_iter().collect();
    }

    /// Returns the address of all of them.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

async fn carry(listener: TcpListener, ports: Arc<Mutex<Vec<u16>>>) {
    let mut connections = JoinSet::new();
    let mut turn = 0;
    while let Ok((mut near, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let mut ports = ports.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !ports.is_empty() {
            let first = turn % ports.len();
            ports.rotate_left(first);
        }
        turn += 1;
        connections.spawn(async move {
            for port in ports {
                // One that takes no connections any more is passed over.
                if let Ok(mut far) = TcpStream::connect(("127.0.0.1", port)).await {
                    // Either end may reset it: that is what is carried.
                    let _carried = copy_bidirectional(&mut near, &mut far).await;
                    return;
                }
            }
        });
    }
}
