//! Ports for servers that cannot tell which one they took.

use std::env;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::net::TcpListener;
use std::ops::Range;
use std::sync::Mutex;

/// Ports that the kernel hands to nobody by itself: Linux takes those of clients, and of servers that ask for port 0,
/// from 32768 on (`net.ipv4.ip_local_port_range`).
const PORTS: Range<u16> = 20_000..32_000;

/// The locks of the ports that this process has taken, until it ends.
static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Finds a free loopback port, and keeps it for this process as far as other trials are concerned. kube-apiserver and
/// etcd cannot tell which port they took, so it is asked for beforehand.
pub fn free_port() -> u16 {
    let folder = env::temp_dir().join("wheelhouse-trial-ports");
    fs::create_dir_all(&folder).expect("the folder of ports can be made");
    let lock = |port: u16| File::create(folder.join(port.to_string())).expect("a lock can be made");
    let start = RandomState::new().hash_one("port") % u64::from(PORTS.end - PORTS.start);
    let start = PORTS.start + u16::try_from(start).expect("it is below the end");
    let (port, lock) = (start..PORTS.end)
        .chain(PORTS.start..start)
        .map(|port| (port, lock(port)))
        .filter(|(_, lock)| lock.try_lock().is_ok())
        .find(|(port, _)| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("one of the ports is free");
    TAKEN.lock().expect("no trial panics here").push(lock);
    port
}
