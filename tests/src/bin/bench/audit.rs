//! `hack/bench api --audit`: what the audit log costs a request.
//!
//! Three hubs stand side by side and are asked in short turns: one without an audit log, one that records every request at
//! level Metadata, and one without a policy, which records changes and refusals. The machine's moods are longer than a turn,
//! so that the difference between neighbours says what the two hubs alone do not; each goes first as often as the others.

use wheelhouse_tests::{Hub, hub::Settings, process::Scratch};

use crate::{
    api_bench::{ALL, LOAD_WIDTH, PATH, define, widget},
    load::Api,
    measure::{Series, cpu_ns, float},
    report::{Better, Report, say},
};

/// Turns of each hub in a round.
const TURN_COUNT: usize = 60;
/// Operations of a turn: side by side, and one at a time.
const WIDE_COUNT: usize = 4_000;
const SINGLE_COUNT: usize = 1_000;
/// What an event may cost, in microseconds.
const WANTED_US: f64 = 5.0;
const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";

/// What is done in a turn.
#[derive(Clone, Copy)]
enum Work {
    Get,
    Create,
    GetAlone,
    ListAlone,
}

const WORKS: [Work; 4] = [Work::Get, Work::Create, Work::GetAlone, Work::ListAlone];

/// A hub under load.
struct Side {
    hub: Hub,
    api: Api,
    /// Objects that it was given.
    count: usize,
}

/// Runs the three hubs in turns.
pub(crate) async fn run(count: usize, rounds: usize, report: &mut Report) {
    let scratch = Scratch::new("audit");
    let policy = scratch.write("policy.yaml", POLICY);
    let log = |name: &str| format!("--audit-log-path={}", scratch.file(name).display());
    let policy = format!("--audit-policy-file={}", policy.display());
    let mut off = Side::start(count, Vec::new()).await;
    let mut metadata = Side::start(count, vec![policy, log("all.log")]).await;
    let mut changes = Side::start(count, vec![log("changes.log")]).await;
    for work in WORKS {
        let mut costs = [const { Series::new() }; 3];
        for turn in 0..rounds * TURN_COUNT {
            let mut sides = [&mut off, &mut metadata, &mut changes];
            for place in 0..sides.len() {
                let place = (turn + place) % sides.len();
                if let (Some(side), Some(costs)) = (sides.get_mut(place), costs.get_mut(place)) {
                    costs.push(side.turn(work).await);
                }
            }
        }
        let [off, metadata, changes] = costs;
        for (what, ours) in [
            ("every request", metadata),
            ("changes and refusals", changes),
        ] {
            let name = format!("{}, {what} recorded", work.name());
            let differences = ours.zip(&off, |ours, off| ours - off);
            let (least, most) = differences.median_bounds();
            let difference = differences.median();
            let text = format!("{name}: {difference:+.1} µs ({least:+.1} to {most:+.1})");
            say(&text);
            report.row(
                &name,
                "µs of processor/operation",
                ours,
                off.clone(),
                Better::Less,
            );
            report.note(format!(
                "{text}, the median of {} pairs of turns and where it lies in 95 of 100 cases; {WANTED_US:.0} are wanted.",
                rounds * TURN_COUNT
            ));
        }
    }
    report.note(format!(
        "Ours: a hub with an audit log. The peer: the same hub without one. {count} objects of 1.2 KB at first; turns of {WIDE_COUNT} \
         requests, {LOAD_WIDTH} under way, or of {SINGLE_COUNT} one at a time."
    ));
}

// === impl Work ===

impl Work {
    const fn name(self) -> &'static str {
        match self {
            Self::Get => "get, 32 under way",
            Self::Create => "create, 32 under way",
            Self::GetAlone => "get, one at a time",
            Self::ListAlone => "list by a label that nothing has, one at a time",
        }
    }
}

// === impl Side ===

impl Side {
    async fn start(count: usize, arguments: Vec<String>) -> Self {
        let settings = Settings {
            arguments,
            ..Settings::default()
        };
        let hub = Hub::start_with(settings).await;
        define(&hub.root()).await;
        let api = Api::connect(&hub.kubeconfig(), "").await;
        let objects: Vec<_> = (0..count).map(|index| widget("w", index)).collect();
        api.create_all(PATH, &objects, LOAD_WIDTH).await;
        Self { hub, api, count }
    }

    /// Does the work of a turn. Returns what an operation cost the hub, in microseconds.
    async fn turn(&mut self, work: Work) -> f64 {
        let objects: Vec<_> = match work {
            Work::Create => (self.count..self.count + SINGLE_COUNT)
                .map(|index| widget("w", index))
                .collect(),
            Work::Get | Work::GetAlone | Work::ListAlone => Vec::new(),
        };
        let before = cpu_ns(self.hub.process().pid());
        let count = match work {
            Work::Create => {
                self.api.create_all(PATH, &objects, LOAD_WIDTH).await;
                SINGLE_COUNT
            }
            Work::Get => self.get(WIDE_COUNT, LOAD_WIDTH).await,
            Work::GetAlone => self.get(SINGLE_COUNT, 1).await,
            Work::ListAlone => self.list().await,
        };
        let used = cpu_ns(self.hub.process().pid()).saturating_sub(before);
        self.count += objects.len();
        float(used) / 1000.0 / float(count as u64)
    }

    async fn get(&self, count: usize, width: usize) -> usize {
        use futures::{StreamExt, stream};
        stream::iter(0..count)
            .for_each_concurrent(width, |index| async move {
                let path = format!("{PATH}/w-{}", (index * 7919) % self.count);
                let (code, _) = self.api.send("GET", &path, None).await;
                assert_eq!(code, 200, "{path}");
            })
            .await;
        count
    }

    async fn list(&self) -> usize {
        let path = format!("{ALL}?labelSelector=app%3Dnone");
        for _ in 0..SINGLE_COUNT {
            let (code, body) = self.api.send("GET", &path, None).await;
            assert_eq!(code, 200, "the list is answered");
            assert!(
                body.len() < 1000,
                "nothing is selected: {} bytes",
                body.len()
            );
        }
        SINGLE_COUNT
    }
}
