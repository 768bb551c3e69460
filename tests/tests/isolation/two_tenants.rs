//! S03: two tenants do random things for a long time, and neither notices the other.
//!
//! One script runs on three hubs: on one with both tenants, and on one for each of them in which the other does not exist.
//! A step of a tenant must be answered in the same way on both hubs that have the tenant, and after each step what the
//! tenants see and what stands in their clusters must be the same too. So nothing has to be foretold, and every difference is
//! something that one tenant has decided for the other.

mod sides;
mod steps;

use std::{collections::VecDeque, time::Duration};

use futures::future::join_all;
use serde_json::Value;
use storage_conformance::Trial;
use tokio::time::Instant;

use self::{
    sides::{Side, masked},
    steps::{KINDS, Script, Settle, Step},
};
use super::support::{CRDS, RBAC, RGDS};

const S03: Trial = Trial("S03");

/// Steps of a history. The suite runs one, `hack/soak S03` fifty.
const STEPS: usize = 2_000;
const HISTORIES_OF_A_SOAK: usize = 5;
/// Steps between two looks at everything.
const STEPS_PER_CHECK: usize = 250;
/// Of so many steps one is a restart of all hubs, and one the operator's.
const STEPS_PER_RESTART: usize = 700;
const STEPS_PER_FLEET: usize = 120;
/// Looks at each tenant's world after each step.
const LOOKS: usize = 2;
/// How long controllers may take until both worlds are the same again.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long something may take that may be held up for ever, in both worlds alike.
const PATIENCE_STUCK: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(10);
/// Steps that a failure shows.
const SHOWN: usize = 200;

/// A tenant: the administrator of a cluster, and a user there without rights of its own.
struct Tenant {
    owner: &'static str,
    weak: &'static str,
    cluster: &'static str,
    /// Stands in every value that the tenant writes, and in no answer to the other.
    canary: &'static str,
}

const TENANTS: [Tenant; 2] = [
    Tenant {
        owner: "alice",
        weak: "amy",
        cluster: "a",
        canary: "canary-of-the-first",
    },
    Tenant {
        owner: "bob",
        weak: "ben",
        // What begins with "a" is not in "a".
        cluster: "a-b",
        canary: "canary-of-the-second",
    },
];

impl Tenant {
    fn base(&self) -> String {
        format!("/clusters/{}", self.cluster)
    }
}

/// Which tenant alone does something, to see what the trial finds where there is nothing to find.
fn control() -> Option<usize> {
    std::env::var("WHEELHOUSE_TENANTS_ONLY").ok()?.parse().ok()
}

/// The tenants whose worlds are looked at.
fn judged() -> Vec<usize> {
    control().map_or_else(|| (0..TENANTS.len()).collect(), |only| vec![only])
}

struct World {
    script: Script,
    /// Both tenants; the first alone; the second alone.
    sides: [Side; 3],
    real: bool,
    last: VecDeque<String>,
    looks: [Vec<String>; 2],
}

#[tokio::test(flavor = "multi_thread")]
async fn s03_two_tenants_do_not_notice_each_other() {
    let factor = Trial::factor();
    let histories = if factor == 1 { 1 } else { HISTORIES_OF_A_SOAK };
    for seed in Trial::seeds(histories) {
        let real = factor > 1 || std::env::var_os("WHEELHOUSE_TENANTS_REAL").is_some();
        let mut world = World::start(seed, real).await;
        let outcome = world.run().await;
        let last: Vec<String> = world.last.into_iter().collect();
        let last = last.join("\n  ");
        let variable = if real {
            "WHEELHOUSE_TENANTS_REAL=1 "
        } else {
            ""
        };
        let repeat = format!("{variable}{}", S03.repeat(seed));
        match outcome {
            Ok(figures) => println!("S03: seed {seed}: {figures}"),
            Err(error) => panic!(
                "S03, seed {seed}: {error}\nafter these steps:\n  {last}\nrepeat it: {repeat}"
            ),
        }
    }
}

// === impl World ===

impl World {
    async fn start(seed: u64, real: bool) -> Self {
        let (both, first, second) = tokio::join!(
            Side::start(&[0, 1], real),
            Side::start(&[0], real),
            Side::start(&[1], real)
        );
        Self {
            script: Script::new(seed, control()),
            sides: [both, first, second],
            real,
            last: VecDeque::new(),
            looks: [looks_of(0, real), looks_of(1, real)],
        }
    }

    async fn run(&mut self) -> Result<String, String> {
        let began = Instant::now();
        let mut answers = std::collections::BTreeMap::<u16, usize>::new();
        for count in 1..=STEPS {
            if count % STEPS_PER_RESTART == 0 {
                self.restart().await;
            }
            if count % STEPS_PER_FLEET == 0 {
                self.fleet().await?;
            }
            let mut step = self.script.next();
            if self.real && self.script.below(8) == 0 {
                step = at_real(&step);
            }
            let status = self
                .step(&step)
                .await
                .map_err(|error| format!("step {count}: {step}: {error}"))?;
            *answers.entry(status).or_default() += 1;
            for tenant in judged() {
                for _ in 0..LOOKS {
                    let index = self.script.below(self.looks[tenant].len());
                    self.look(tenant, index)
                        .await
                        .map_err(|error| format!("after step {count}: {error}"))?;
                }
            }
            if count % STEPS_PER_CHECK == 0 {
                self.check()
                    .await
                    .map_err(|error| format!("after step {count}: {error}"))?;
            }
        }
        let took = began.elapsed();
        for wanted in [200, 201, 403, 404, 409] {
            assert!(
                answers.contains_key(&wanted),
                "some steps are answered with {wanted}: {answers:?}"
            );
        }
        Ok(format!("{STEPS} steps in {took:?}; answers {answers:?}"))
    }

    /// One step on both hubs that have the tenant.
    async fn step(&mut self, step: &Step) -> Result<u16, String> {
        self.last.push_back(step.to_string());
        if self.last.len() > SHOWN {
            self.last.pop_front();
        }
        let (both, alone) = (&self.sides[0], &self.sides[1 + step.tenant]);
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            let (left, right) = tokio::join!(both.send(step), alone.send(step));
            let (left, right) = (left?, right?);
            let canary = TENANTS[1 - step.tenant].canary;
            if left.body.to_string().contains(canary) {
                return Err(format!("the other tenant's value: {}", left.body));
            }
            let (seen, wanted) = (masked(&left), masked(&right));
            if seen == wanted {
                break left.status;
            }
            // What was refused in both worlds has changed nothing, and is asked for again: controllers that wait for a
            // right look for it at times of their own.
            let is_repeatable =
                step.method == http::Method::GET || (left.status >= 400 && right.status >= 400);
            if !is_repeatable || Instant::now() > deadline {
                return Err(told(&seen, &wanted));
            }
            tokio::time::sleep(INTERVAL).await;
        };
        if status < 300 {
            self.settle(step).await?;
        }
        Ok(status)
    }

    /// Waits until what a step has set in motion has come to rest, in both worlds.
    async fn settle(&self, step: &Step) -> Result<(), String> {
        let owner = TENANTS[step.tenant].owner;
        let base = TENANTS[step.tenant].base();
        let base = if step.path.contains("-real/") {
            format!("{base}-real")
        } else {
            base
        };
        match &step.settle {
            Settle::No => Ok(()),
            Settle::Gone(path) => {
                self.rest(step.tenant, owner, std::slice::from_ref(path))
                    .await
            }
            Settle::Definition(path) => {
                let (_, plural, _) = KINDS[0];
                let list = format!("{base}/apis/kro.run/v1alpha1/{plural}");
                self.rest(step.tenant, owner, &[path.clone(), list]).await
            }
            Settle::Quiet => self.rest(step.tenant, owner, &moving(&base)).await,
        }
    }

    /// Waits until these paths are the same in both worlds and tell of nothing that goes on.
    async fn rest(&self, tenant: usize, user: &str, paths: &[String]) -> Result<(), String> {
        let began = Instant::now();
        let mut changed = began;
        let mut before: Option<Vec<Value>> = None;
        loop {
            let (both, alone) = (&self.sides[0], &self.sides[1 + tenant]);
            let left = join_all(paths.iter().map(|path| both.look(user, path)));
            let right = join_all(paths.iter().map(|path| alone.look(user, path)));
            let (left, right) = tokio::join!(left, right);
            let left: Vec<_> = left.into_iter().collect::<Result<_, _>>()?;
            let right: Vec<_> = right.into_iter().collect::<Result<_, _>>()?;
            let pairs = || left.iter().zip(&right);
            let same = pairs().all(|(left, right)| left.0 == right.0);
            let still =
                pairs().all(|(left, right)| is_still(&left.1.body) && is_still(&right.1.body));
            // Without masks: what is written again with the same content goes on too.
            let now: Vec<Value> = pairs()
                .flat_map(|(left, right)| [left.1.body.clone(), right.1.body.clone()])
                .collect();
            let unchanged = before.as_ref() == Some(&now);
            before = Some(now);
            if !(same && unchanged) {
                changed = Instant::now();
            }
            if same && unchanged && (still || changed.elapsed() > PATIENCE_STUCK) {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                let differing = pairs()
                    .zip(paths)
                    .find(|((left, right), _)| left.0 != right.0);
                return Err(differing.map_or_else(
                    || format!("{paths:?} do not come to rest"),
                    |((left, right), path)| format!("{path}: {}", told(&left.0, &right.0)),
                ));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// One look at a tenant's world: it is as if the other did not exist, within a while.
    async fn look(&self, tenant: usize, index: usize) -> Result<(), String> {
        let path = &self.looks[tenant][index];
        let owner = TENANTS[tenant].owner;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (both, alone) = (&self.sides[0], &self.sides[1 + tenant]);
            let (left, right) = tokio::join!(both.look(owner, path), alone.look(owner, path));
            let ((seen, answer), (wanted, other)) = (left?, right?);
            if answer.body.to_string().contains(TENANTS[1 - tenant].canary) {
                return Err(format!(
                    "{path} as {owner} has the other tenant's value: {}",
                    answer.body
                ));
            }
            if seen == wanted {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "{path} as {owner}: {}\nbeside the other: {}\nalone: {}",
                    told(&seen, &wanted),
                    answer.body,
                    other.body
                ));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// All looks, and what the watches have delivered.
    async fn check(&self) -> Result<(), String> {
        for tenant in judged() {
            let looks = (0..self.looks[tenant].len()).map(|index| self.look(tenant, index));
            for outcome in join_all(looks).await {
                outcome?;
            }
            let deadline = Instant::now() + PATIENCE;
            loop {
                let (left, right) = (
                    self.sides[0].watched(tenant),
                    self.sides[1 + tenant].watched(tenant),
                );
                if left == right {
                    break;
                }
                if Instant::now() > deadline {
                    let only = |these: &[String], those: &[String]| {
                        these
                            .iter()
                            .filter(|it| !those.contains(it))
                            .take(3)
                            .cloned()
                            .collect::<Vec<_>>()
                    };
                    return Err(format!(
                        "the watch of {}: {} events beside the other, {} alone; only beside: {:?}; only alone: {:?}",
                        TENANTS[tenant].owner,
                        left.len(),
                        right.len(),
                        only(&left, &right),
                        only(&right, &left)
                    ));
                }
                tokio::time::sleep(INTERVAL).await;
            }
        }
        Ok(())
    }

    /// The operator's step, on all hubs: what it says of the fleet is none of the tenants' business.
    async fn fleet(&mut self) -> Result<(), String> {
        let step = self.script.fleet();
        self.last.push_back(format!("the operator: {step}"));
        let sent = join_all(self.sides.iter().map(|side| side.send(&step))).await;
        let mut statuses = Vec::new();
        for answer in sent {
            statuses.push(answer?.status);
        }
        if statuses.iter().any(|status| *status != statuses[0]) {
            return Err(format!("{step}: {statuses:?}"));
        }
        for tenant in judged() {
            let base = TENANTS[tenant].base();
            self.rest(tenant, TENANTS[tenant].owner, &moving(&base))
                .await
                .map_err(|error| format!("{step}: {error}"))?;
        }
        Ok(())
    }

    async fn restart(&mut self) {
        self.last.push_back("a restart of the hubs".to_owned());
        join_all(self.sides.iter_mut().map(Side::restart)).await;
    }
}

/// The same step at the tenant's real spoke.
fn at_real(step: &Step) -> Step {
    let own = format!("{}/", TENANTS[step.tenant].base());
    let real = format!("{}-real/", TENANTS[step.tenant].base());
    let moved = |text: &str| text.replace(&own, &real);
    Step {
        user: moved(&step.user),
        path: moved(&step.path),
        body: serde_json::from_str(&moved(&step.body.to_string())).expect("JSON"),
        settle: match &step.settle {
            Settle::Gone(path) => Settle::Gone(moved(path)),
            Settle::Definition(path) => Settle::Definition(moved(path)),
            other => other.clone(),
        },
        ..step.clone()
    }
}

/// Whether an object or a list tells that nothing goes on: nothing is being deleted, definitions have been judged.
fn is_still(body: &Value) -> bool {
    let items = body["items"]
        .as_array()
        .map_or(std::slice::from_ref(body), Vec::as_slice);
    items.iter().all(|item| {
        if item["metadata"]["deletionTimestamp"].is_string() {
            return false;
        }
        let is_definition = item["spec"]["names"].is_object();
        let is_graph = item["spec"]["schema"].is_object() && item["spec"]["resources"].is_array();
        let judged = ["Established", "NamesAccepted"];
        let conditions = item["status"]["conditions"].as_array();
        match (is_definition, is_graph) {
            (true, _) => conditions.is_some_and(|all| {
                all.iter()
                    .any(|it| judged.contains(&it["type"].as_str().unwrap_or("")))
            }),
            (_, true) => item["status"]["state"].is_string(),
            _ => true,
        }
    })
}

/// What controllers change in a cluster.
fn moving(base: &str) -> Vec<String> {
    let mut paths = vec![
        format!("{base}{RGDS}"),
        format!("{base}{CRDS}"),
        format!("{base}/api/v1/configmaps"),
        format!("{base}/api/v1/serviceaccounts"),
    ];
    for (group, plural, _) in KINDS.iter().take(5) {
        paths.push(format!("{base}/apis/{group}/v1alpha1/{plural}"));
    }
    paths
}

/// What is looked at of a tenant's world.
fn looks_of(tenant: usize, real: bool) -> Vec<String> {
    let own = TENANTS[tenant].base();
    let mut bases = vec![own.clone()];
    if real {
        bases.push(format!("{own}-real"));
    }
    let mut paths = Vec::new();
    for base in bases {
        paths.extend(moving(&base));
        for rest in ["secrets", "namespaces"] {
            paths.push(format!("{base}/api/v1/{rest}"));
        }
        for rest in ["roles", "rolebindings", "clusterrolebindings"] {
            paths.push(format!("{base}{RBAC}/{rest}"));
        }
        paths.push(format!(
            "{base}/apis/internal.kro.run/v1alpha1/graphrevisions"
        ));
        paths.push(format!("{base}/apis"));
        paths.push(format!("{base}/openapi/v3"));
    }
    let other = TENANTS[1 - tenant].base();
    paths.extend([
        "/readyz".to_owned(),
        "/apis".to_owned(),
        "/openapi/v3".to_owned(),
        "/api/v1/namespaces".to_owned(),
        "/apis/wheelhouse.dev/v1alpha1/spokes".to_owned(),
        format!("{other}/api/v1/secrets"),
        format!("{other}/apis"),
        "/clusters/*/api/v1/configmaps".to_owned(),
    ]);
    paths
}

/// Returns where two masked answers differ.
fn told(seen: &Value, wanted: &Value) -> String {
    let mut found = Vec::new();
    let names = ("beside the other", "alone");
    super::mask::difference("", (seen, wanted), names, &mut found);
    found.join("\n    ")
}
