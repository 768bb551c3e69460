//! Benchmarks: this project and a peer, in turns, in one run. See `hack/bench`.

#[path = "bench/api.rs"]
mod api_bench;
#[path = "bench/apply.rs"]
mod apply_bench;
#[path = "bench/audit.rs"]
mod audit_bench;
#[path = "bench/build.rs"]
mod build_bench;
#[path = "bench/etcd.rs"]
mod etcd;
#[path = "bench/fleet.rs"]
mod fleet;
#[path = "bench/graph.rs"]
mod graph_bench;
#[path = "bench/load.rs"]
mod load;
#[path = "bench/measure.rs"]
mod measure;
#[path = "bench/overload.rs"]
mod overload;
#[path = "bench/replicas.rs"]
mod replicas_bench;
#[path = "bench/report.rs"]
mod report;
#[path = "bench/side.rs"]
mod side;
#[path = "bench/store.rs"]
mod store_bench;
#[path = "bench/view.rs"]
mod view_bench;
#[path = "bench/wire.rs"]
mod wire;
#[path = "bench/world.rs"]
mod world;

use std::process::ExitCode;

use report::Report;

/// As the hub has it: definitions are compiled in this process too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the command line asks for.
#[derive(Debug, Default)]
struct Asked {
    /// The benchmarks of a set, by their names; all where there are none.
    names: Vec<String>,
    /// How many objects.
    count: Option<usize>,
    /// How often each side is measured.
    rounds: Option<usize>,
    /// How many spokes, or clusters.
    spokes: Option<usize>,
    /// How long what lasts a set time lasts.
    seconds: Option<u64>,
    /// Leaves the peers out: to look at ours alone.
    alone: bool,
    /// Compares ours with and without an audit log.
    audit: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let mut arguments = std::env::args().skip(1);
    let which = arguments.next().unwrap_or_default();
    if which == fleet::SERVE {
        return fleet::serve(arguments.collect()).await;
    }
    if which == overload::FLOOD {
        return overload::flood(arguments.collect()).await;
    }
    let mut out = None;
    let mut asked = Asked::default();
    while let Some(flag) = arguments.next() {
        let mut number = || arguments.next().and_then(|count| count.parse().ok());
        match flag.as_str() {
            "--count" => asked.count = number(),
            "--rounds" => asked.rounds = number(),
            "--spokes" => asked.spokes = number(),
            "--seconds" => asked.seconds = number().map(|seconds| seconds as u64),
            "--alone" => asked.alone = true,
            "--audit" => asked.audit = true,
            "--out" => out = arguments.next(),
            name if names_of(&which).contains(&name) => asked.names.push(flag),
            _ => return usage(),
        }
    }
    let mut report = Report::new(&format!("hack/bench {command}"));
    match which.as_str() {
        "apply" => apply_bench::run(asked.count.unwrap_or(200), &mut report).await,
        "api" => {
            let rounds = asked.rounds.unwrap_or(3);
            let count = asked.count.unwrap_or(10_000);
            if asked.audit {
                audit_bench::run(count, rounds, &mut report).await;
            } else {
                api_bench::run(count, rounds, &mut report).await;
            }
        }
        "graph" => graph_bench::run(&asked, &mut report).await,
        "store" => store_bench::run(&asked, &mut report).await,
        "fleet" => fleet::run(&asked, &mut report).await,
        "overload" => overload::run(&asked, &mut report).await,
        "view" => view_bench::run(&asked, &mut report).await,
        "replicas" => store_bench::on_one_thread(&asked, &mut report, replicas_bench::run),
        _ => return usage(),
    }
    report.print();
    if let Some(file) = out {
        report.write(&file);
    }
    ExitCode::SUCCESS
}

/// The benchmarks of a set.
fn names_of(which: &str) -> &'static [&'static str] {
    match which {
        "store" => &store_bench::NAMES,
        "graph" => &graph_bench::NAMES,
        "fleet" => &fleet::NAMES,
        _ => &[],
    }
}

fn usage() -> ExitCode {
    report::say(
        "usage: hack/bench apply|api|graph [B16|B17|B18 ..]|store [B01|B02|B03|B12|B20|B21|B22 ..]|fleet [P2|B19|B15|P1 ..]|replicas|view|overload \
         [--count N] [--rounds N] [--spokes N] [--seconds N] [--alone] [--audit] [--out FILE]",
    );
    ExitCode::from(2)
}
