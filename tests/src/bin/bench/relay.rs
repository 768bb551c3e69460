//! P2: what the hub adds to a request that it passes through to a spoke.
//!
//! The same objects are read directly from kube-apiserver and through the hub, in turns. What the hub spends on a request is
//! compared with what kube-apiserver spends on it when it is asked directly: asked through the hub it has to impersonate too.

use std::io;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use tokio::time::Instant;
use wheelhouse_tests::{Hub, Spoke};

use crate::{
    Asked,
    measure::{Cost, Processes, Series, percentile_ms},
    report::{Better, Report, say},
    side::OPTIONS,
    wire::{Target, Wire},
};

const NAME: &str = "east";
const PATH: &str = "/api/v1/namespaces/default/configmaps";
/// Connections of each side.
const CONNECTION_COUNT: usize = 2;
/// Gets of a turn: one after the other, and several at a time.
const LONE_COUNT: usize = 1500;
const CROWD_COUNT: usize = 3000;
const CROWD_WIDTH: usize = 16;
/// Lists of a turn.
const LIST_COUNT: usize = 5;

/// What one side needs for a kind of request, a value of each round.
#[derive(Default)]
struct Needs {
    p50_ms: Series,
    /// CPU of one request, of the hub and of kube-apiserver.
    hub_us: Series,
    api_us: Series,
}

/// The requests that are measured.
#[derive(Clone, Copy)]
enum Kind {
    /// Gets, one after the other.
    Lone,
    /// Gets, several at a time.
    Crowd,
    /// Lists of everything, one after the other.
    List,
}

/// A way to the spoke.
struct Way {
    wire: Wire,
    prefix: String,
    count: usize,
}

const KINDS: [Kind; 3] = [Kind::Lone, Kind::Crowd, Kind::List];

/// Measures both ways, in turns.
pub(super) async fn run(asked: &Asked, report: &mut Report) {
    let count = asked.count.unwrap_or(10_000);
    let (hub, spoke) = tokio::join!(Hub::start(), Spoke::start_with(NAME, OPTIONS));
    hub.join(&spoke).await;
    let directly = Target::of_kubeconfig(spoke.kubeconfig());
    let through = Target::of_kubeconfig(&hub.kubeconfig());
    let ways = [
        Way::new(&directly, String::new(), count).await,
        Way::new(&through, format!("/clusters/{NAME}"), count).await,
    ];
    let bodies = (0..count).map(|index| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name(index),
            "labels": {"app": "bench"}}, "data": {"payload": "x".repeat(700)}});
        Bytes::from(object.to_string())
    });
    ways[0].wire.create(PATH, bodies, 32).await;
    let processes = vec![
        ("hub", hub.process().pid()),
        ("kube-apiserver", spoke.api().pid()),
        ("etcd", spoke.etcd().pid()),
    ];
    // Connections and caches are warm before anything counts.
    for way in &ways {
        for kind in KINDS {
            way.ask(kind, kind.count().div_ceil(5)).await;
        }
    }
    let mut found = KINDS.map(|kind| (kind, [Needs::default(), Needs::default()]));
    for round in 0..asked.rounds.unwrap_or(5) {
        for (kind, needs) in &mut found {
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                turn(*kind, &ways[side], &processes, &mut needs[side]).await;
            }
            say(&format!(
                "P2 {}, round {round}: {}",
                kind.what(),
                line(needs)
            ));
        }
    }
    for (kind, [directly, through]) in found {
        tell(kind, directly, through, report);
    }
    report.note(format!(
        "P2: {count} ConfigMaps of 1.2 KB at a spoke with kube-apiserver and etcd. Ours is the request through the hub, the peer \
         the same request sent to the spoke directly. Gets: {LONE_COUNT} one after the other and {CROWD_COUNT} {CROWD_WIDTH} at a \
         time, lists: {LIST_COUNT}, in each round."
    ));
}

async fn turn(kind: Kind, way: &Way, processes: &Processes, needs: &mut Needs) {
    let count = kind.count();
    let (cost, latencies) = Cost::of(processes, count, way.ask(kind, count)).await;
    needs.p50_ms.push(percentile_ms(&latencies, 50));
    let of = |name: &str| {
        let found = cost.cpu_us.iter().find(|(it, _)| *it == name);
        found.map_or(f64::NAN, |(_, cpu)| *cpu)
    };
    needs.hub_us.push(of("hub"));
    needs.api_us.push(of("kube-apiserver"));
}

fn line([directly, through]: &[Needs; 2]) -> String {
    format!(
        "p50 {:.3} ms and {:.3} ms, kube-apiserver {:.0} µs and {:.0} µs, hub {:.1} µs",
        directly.p50_ms.last(),
        through.p50_ms.last(),
        directly.api_us.last(),
        through.api_us.last(),
        through.hub_us.last(),
    )
}

fn tell(kind: Kind, directly: Needs, through: Needs, report: &mut Report) {
    let (what, less) = (kind.what(), Better::Less);
    let none = Series::default;
    let added = through
        .p50_ms
        .zip(&directly.p50_ms, |ours, peer| ours - peer);
    let share = through
        .hub_us
        .zip(&directly.api_us, |ours, peer| 100.0 * ours / peer);
    let row = format!("P2 {what}, p50");
    report.row(&row, "ms", through.p50_ms, directly.p50_ms, less);
    if !matches!(kind, Kind::Crowd) {
        // With several at a time, it is the queue for two processors that is measured.
        report.row(&format!("P2 {what}, p50 added"), "ms", added, none(), less);
        report.wanted(0.3);
    }
    let row = format!("P2 {what}, CPU of the hub and of kube-apiserver");
    report.row(&row, "µs", through.hub_us, directly.api_us.clone(), less);
    let row = format!("P2 {what}, CPU of the hub as a share of kube-apiserver's");
    report.row(&row, "%", share, none(), less);
    report.wanted(kind.share_max());
    let row = format!("P2 {what}, CPU of kube-apiserver, asked through the hub and directly");
    report.row(&row, "µs", through.api_us, directly.api_us, less);
}

fn name(index: usize) -> String {
    format!("map-{index}")
}

// === impl Kind ===

impl Kind {
    const fn what(self) -> &'static str {
        match self {
            Self::Lone => "get",
            Self::Crowd => "get, 16 at a time",
            Self::List => "list of all",
        }
    }

    const fn count(self) -> usize {
        match self {
            Self::Lone => LONE_COUNT,
            Self::Crowd => CROWD_COUNT,
            Self::List => LIST_COUNT,
        }
    }

    /// What the hub may spend, in percent of what kube-apiserver spends.
    const fn share_max(self) -> f64 {
        match self {
            Self::Lone | Self::Crowd => 12.0,
            Self::List => 20.0,
        }
    }
}

// === impl Way ===

impl Way {
    async fn new(target: &Target, prefix: String, count: usize) -> Self {
        Self {
            wire: target.wire(CONNECTION_COUNT).await,
            prefix,
            count,
        }
    }

    /// Sends requests of a kind; tells how long each took, in microseconds.
    async fn ask(&self, kind: Kind, count: usize) -> Vec<u64> {
        let width = if matches!(kind, Kind::Crowd) {
            CROWD_WIDTH
        } else {
            1
        };
        let requests = (0..count).map(|index| {
            let path = match kind {
                // A stride that is no divisor of any round number, so that objects are not asked for in their order.
                Kind::Lone | Kind::Crowd => format!("{PATH}/{}", name(index * 7919 % self.count)),
                Kind::List => PATH.to_owned(),
            };
            self.get(index, path)
        });
        let asked = stream::iter(requests).buffer_unordered(width);
        asked.try_collect().await.expect("each is answered")
    }

    /// Gets a path and reads the whole answer, piece by piece.
    async fn get(&self, index: usize, path: String) -> io::Result<u64> {
        let start = Instant::now();
        let path = format!("{}{path}", self.prefix);
        let connection = self.wire.connection(index);
        let (code, mut body) = connection
            .open("GET", &path, super::JSON, Bytes::new())
            .await?;
        let mut size = 0;
        while let Some(piece) = body.piece().await? {
            size += piece.len();
        }
        assert_eq!(code, 200, "{path}");
        assert!(size > 700, "{path} has an object: {size} bytes");
        Ok(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}
