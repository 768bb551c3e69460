//! `hack/bench store`: what the store decides, seen through the API: starts, durable creates, memory and disk, restarts,
//! reconnecting watchers, and a mixed soak.
//!
//! Beside kube-apiserver with etcd, and beside etcd alone where it is a fair peer. Each round starts both sides anew, so
//! that no side has more in its store than the other.

mod cold;
mod create;
mod herd;
mod memory;
mod restart;
mod soak;
mod watcher;

pub(crate) use watcher::{Watcher, newest};

use crate::{Asked, report::Report};

/// The benchmarks, by the names that the plan gives them.
pub(crate) const NAMES: [&str; 7] = ["B01", "B02", "B03", "B12", "B20", "B21", "B22"];

/// Runs what is asked for.
pub(crate) async fn run(asked: &Asked, report: &mut Report) {
    for name in NAMES {
        if !asked.names.is_empty() && !asked.names.iter().any(|it| it == name) {
            continue;
        }
        match name {
            "B01" => cold::run(asked, report).await,
            "B02" => on_one_thread(asked, report, create::lone),
            "B03" => on_one_thread(asked, report, create::storm),
            "B12" => memory::run(asked, report).await,
            "B20" => restart::run(asked, report).await,
            "B21" => herd::run(asked, report).await,
            _ => soak::run(asked, report).await,
        }
    }
}

/// Runs what needs few threads on one: where client and server share two cores, each thread of the client that has to be
/// woken costs more than what it does.
pub(crate) fn on_one_thread(
    asked: &Asked,
    report: &mut Report,
    run: impl AsyncFnOnce(&Asked, &mut Report) + Send,
) {
    let thread = move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().expect("a runtime");
        runtime.block_on(run(asked, report));
    };
    std::thread::scope(|scope| scope.spawn(thread).join().expect("it ran"));
}

/// The sides of a round: ours, and the peer unless it is left out.
fn sides(asked: &Asked) -> &'static [bool] {
    if asked.alone { &[true] } else { &[true, false] }
}
