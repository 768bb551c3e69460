//! B16, the building of definitions alone: our compiler beside kro's builder, each in a process that does nothing else.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use api::{GroupVersionKind, kro::RgdSpec};
use graph::{CompiledGraph, ResolveError, ResolvedKind, SchemaResolver};
use serde_json::Value;
use tokio::time::Instant;
use wheelhouse_tests::{assets, process::usage};

use crate::{
    measure::{Series, float},
    report::{Better, Report, say},
};

/// How long each definition is built again and again.
const SPAN: Duration = Duration::from_secs(2);
/// How many times faster than kro's builder ours is to be.
const TIMES_FASTER: f64 = 4.0;

/// What one build takes, in microseconds.
struct Taken {
    wall_us: f64,
    cpu_us: f64,
}

/// A cluster that serves the kinds of Kubernetes alone.
struct BuiltIn;

impl SchemaResolver for BuiltIn {
    fn resolve(&self, gvk: &GroupVersionKind) -> Result<ResolvedKind, ResolveError> {
        ResolvedKind::built_in(gvk).ok_or_else(|| ResolveError::KindNotFound(gvk.clone()))
    }
}

/// Builds definitions with both. Each has a name for the report; `peer` is the kubeconfig of the cluster that kro's builder asks.
pub(crate) fn run(definitions: &[(String, Value)], peer: Option<&Path>, report: &mut Report) {
    let ours: Vec<Taken> = definitions.iter().map(|(_, it)| build(it)).collect();
    let peers = peer.map(|kubeconfig| build_with_kro(definitions, kubeconfig));
    for (place, (name, _)) in definitions.iter().enumerate() {
        let mut row = |what: &str, of: fn(&Taken) -> f64| {
            let one: Series = ours.get(place).map(of).into_iter().collect();
            let other = peers.as_ref().and_then(|it| it.get(place)).map(of);
            let name = format!("B16 build of {name}, {what}");
            report.row(
                &name,
                "us",
                one,
                other.map_or_else(Series::new, Series::from),
                Better::Less,
            );
            if let Some(other) = other {
                report.wanted(other / TIMES_FASTER);
            }
        };
        row("time", |it| it.wall_us);
        row("CPU", |it| it.cpu_us);
    }
    report.note(format!(
        "B16 build: each definition is built for {} s by the compiler that the hub has, in the benchmark's process, and by kro's builder \
         in one of its own; neither stores or serves anything, and the first build is not counted.",
        SPAN.as_secs()
    ));
}

fn build(definition: &Value) -> Taken {
    let spec =
        RgdSpec::from_value(&definition["spec"]).expect("the benchmark's definitions are read");
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let once = || -> Arc<CompiledGraph> {
        graph::compile(&spec, name, &BuiltIn).expect("the benchmark's definitions compile")
    };
    drop(once());
    let own = std::process::id();
    let (cpu, begun, mut builds) = (usage(own).0, Instant::now(), 0_u64);
    while begun.elapsed() < SPAN {
        drop(once());
        builds += 1;
    }
    let (wall, cpu) = (begun.elapsed(), usage(own).0 - cpu);
    let taken = Taken {
        wall_us: wall.as_secs_f64() * 1e6 / float(builds),
        cpu_us: float(cpu) * 1000.0 / float(builds),
    };
    say(&format!("ours: {name} built in {:.0} us", taken.wall_us));
    taken
}

/// Returns the path of kro's builder, and builds it first where it is not there.
fn kros_builder() -> PathBuf {
    let output = Command::new(assets::workspace().join("hack/kro-builder"))
        .stderr(Stdio::inherit())
        .output()
        .expect("hack/kro-builder can be started");
    assert!(output.status.success(), "hack/kro-builder builds it");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

fn build_with_kro(definitions: &[(String, Value)], kubeconfig: &Path) -> Vec<Taken> {
    let mut command = Command::new(kros_builder());
    command.arg("--kubeconfig").arg(kubeconfig);
    command.arg(format!("--for={}s", SPAN.as_secs()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut peer = command.spawn().expect("kro's builder can be started");
    let mut input = peer.stdin.take().expect("its input is a pipe");
    for (_, definition) in definitions {
        writeln!(input, "{definition}").expect("kro's builder reads");
    }
    drop(input);
    let output = peer.wait_with_output().expect("kro's builder ends");
    assert!(
        output.status.success(),
        "kro's builder builds all definitions"
    );
    let answers = String::from_utf8_lossy(&output.stdout);
    let answers = answers.lines().zip(definitions).map(|(line, (name, _))| {
        let answer: Value = serde_json::from_str(line).expect("it answers in JSON");
        let figure = |name: &str| answer[name].as_f64().unwrap_or(f64::NAN);
        let (wall_us, cpu_us) = (figure("wall_us"), figure("cpu_us"));
        say(&format!(
            "kro: {name} built in {wall_us:.0} us, {:.0} KB allocated",
            figure("bytes") / 1000.0
        ));
        Taken { wall_us, cpu_us }
    });
    answers.collect()
}
