//! Benchmarks: this project and a peer, in turns, in one run. See `hack/bench`.

#[path = "bench/api.rs"]
mod api_bench;
#[path = "bench/apply.rs"]
mod apply_bench;
#[path = "bench/load.rs"]
mod load;
#[path = "bench/report.rs"]
mod report;

use std::process::ExitCode;

use report::Report;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let which = arguments.next().unwrap_or_default();
    let mut out = None;
    let mut count = None;
    while let Some(flag) = arguments.next() {
        match flag.as_str() {
            "--out" => out = arguments.next(),
            "--count" => count = arguments.next().and_then(|count| count.parse().ok()),
            _ => return usage(),
        }
    }
    let mut report = Report::new(&which);
    match which.as_str() {
        "apply" => apply_bench::run(count.unwrap_or(200), &mut report).await,
        "api" => api_bench::run(count.unwrap_or(10_000), &mut report).await,
        _ => return usage(),
    }
    report.print();
    if let Some(file) = out {
        report.write(&file);
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    report::say("usage: hack/bench apply|api [--count N] [--out FILE]");
    ExitCode::from(2)
}
