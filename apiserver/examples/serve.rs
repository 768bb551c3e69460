//! A hub in a temporary directory, to try clients on: `cargo run -p wheelhouse-apiserver --example serve [address]`.
//!
//! Writes the path of its kubeconfig to standard output and serves until interrupted.

use std::io::Write;

use tasks::Tasks;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use wheelhouse_apiserver::{Config, Hub};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("wheelhouse-{}", std::process::id()));
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let tasks = Tasks::new();
    let hub = Hub::open(Config::new(&directory), &tasks).await?;
    let listener = TcpListener::bind(address).await?;
    let kubeconfig = directory.join("kubeconfig");
    std::fs::write(
        &kubeconfig,
        hub.kubeconfig(&format!("https://{}", listener.local_addr()?)),
    )?;
    writeln!(std::io::stdout(), "{}", kubeconfig.display())?;
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    drop(tasks.spawn("interrupt", async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.cancel();
        }
    }));
    hub.serve(listener, shutdown).await?;
    tasks.shutdown(std::time::Duration::from_secs(5)).await;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
