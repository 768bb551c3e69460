//! kro itself on one kube-apiserver; a hub with another one as its spoke, and an embedded cluster; root of another hub: the
//! same scenarios to all four, and then the same objects, to the word.
//!
//! The scenarios are data, in `tests/fixtures/differential`: steps that are made in all clusters, conditions that all come to,
//! and objects that are equal then, after what cannot be (uids, times, resource versions) is taken out. What else may differ is
//! listed with its reason in `agreed.yaml`, and nowhere else; an entry that hides nothing fails the trial.

mod compare;
mod examples;
mod migration;
mod pace;
mod scenario;
mod side;

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all, stream};
use serde_json::{Value, json};
use wheelhouse_tests::{
    Hub, Spoke, assets,
    hub::Settings,
    process::{Process, Scratch},
};

use self::{
    compare::{Agreed, equal, normalize},
    scenario::{Definition, Scenario, Step},
    side::{Refused, Side},
};
use super::stage::{INNER, say, until};

/// Between two looks at a condition.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// What the side is called that serves no workloads.
const ROOT: &str = "in root";

/// Flags of both, beside kro's defaults.
const SWITCHES: &[&str] = &[
    "--feature-gates=CELOmitFunction=true",
    "--rgd-max-graph-revisions=3",
    "--rgd-max-collection-size=3",
];

/// Clusters that are served the same scenarios.
struct Sides {
    kro: Arc<Side>,
    /// A hub's: at the path of a real spoke, in an embedded cluster, and in root.
    ours: Vec<Arc<Side>>,
    agreed: Arc<Agreed>,
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_live_at_a_hub_as_with_kro() {
    let Some(program) = assets::built_by("kro", "hack/differential-kro") else {
        return;
    };
    let (kros, east) = tokio::join!(Spoke::start("kros"), Spoke::start("east"));
    let settings = Settings {
        arguments: SWITCHES.iter().map(|&it| it.to_owned()).collect(),
        ..Settings::default()
    };
    // A definition of root is one of every cluster: root has a hub of its own.
    let (hub, alone) = tokio::join!(Hub::start_with(settings.clone()), Hub::start_with(settings));
    hub.join(&east).await;
    hub.root().apply(INNER).await;
    let account = ["get", "serviceaccount", "default", "-n", "default"];
    until(&hub.at("inner"), &account, "inner is served", |_| true).await;
    let scratch = Scratch::new("kro");
    let crds = program.with_file_name("kro-crds").display().to_string();
    let direct = kros.kubectl();
    direct.must(&["apply", "--server-side", "-f", &crds]).await;
    let controller = start(&program, &kros, &scratch);
    let folder = assets::workspace().join("tests/fixtures/differential");
    let file = hub.kubeconfig();
    let sides = Sides {
        kro: Side::connect("kro", kros.kubeconfig(), "").await,
        ours: vec![
            Side::connect("at the path", &file, "/clusters/east").await,
            Side::connect("embedded", &file, "/clusters/inner").await,
            Side::connect(ROOT, &alone.kubeconfig(), "").await,
        ],
        agreed: Agreed::read(&folder.join("agreed.yaml")).into(),
    };
    let mut programs = vec![&controller, hub.process(), alone.process()];
    for spoke in [&kros, &east] {
        programs.extend([spoke.api(), spoke.etcd()]);
    }
    let _slowed = pace::slow(&programs, &scratch);
    let mut scenarios = scenario::read(&folder.join("scenarios"));
    if let Ok(chosen) = std::env::var("WHEELHOUSE_SCENARIO") {
        scenarios.retain(|it| it.name.contains(&chosen));
    }
    play_all(&sides, &scenarios).await;
}

async fn play_all(sides: &Sides, scenarios: &[Scenario]) {
    let refusals = scenarios.iter().filter(|it| it.is_refusal()).count();
    let count = scenarios.len();
    say(&format!("{count} scenarios, {refusals} of them refusals"));
    let played = scenarios.iter().map(|scenario| {
        let sides = sides.that_serve(scenario);
        async move {
            let played = play(&sides, &scenario.steps).await;
            let failed = format!("{}: {}", scenario.name, played.err()?);
            say(&failed);
            Some(failed)
        }
    });
    let failed: Vec<String> = stream::iter(played)
        .buffer_unordered(pace::at_once())
        .filter_map(async |failed| failed)
        .collect()
        .await;
    assert!(
        failed.is_empty(),
        "{} of {count} failed: {}",
        failed.len(),
        failed.join("\n\n")
    );
    let idle = sides.agreed.idle();
    assert!(
        idle.is_empty() || std::env::var_os("WHEELHOUSE_SCENARIO").is_some(),
        "agreed.yaml hides nothing with its entries {idle:?}"
    );
}

fn start(program: &Path, spoke: &Spoke, scratch: &Scratch) -> Process {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(spoke.kubeconfig());
    command.args(["--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    // Many scenarios at once: one worker, ten reconciles a second and waits of 3 s are for one at a time.
    for worker in [
        "resource-graph-definition",
        "graph-revision",
        "dynamic-controller",
    ] {
        command.arg(format!("--{worker}-concurrent-reconciles=16"));
    }
    command.args([
        "--dynamic-controller-rate-limiter-rate-limit=1000",
        "--dynamic-controller-rate-limiter-burst-limit=1000",
        "--client-qps=1000",
        "--client-burst=1000",
        "--rgd-progress-requeue-delay=300ms",
        "--instance-requeue-interval=300ms",
    ]);
    command.args(SWITCHES);
    Process::start(&command, &scratch.file("kro.log"))
}

async fn play(sides: &Sides, steps: &[Step]) -> Result<(), String> {
    for (index, step) in steps.iter().enumerate() {
        let done = match step {
            Step::Define(definition) => define(sides, definition).await,
            Step::Apply { object, state } => apply(sides, object, state.as_deref()).await,
            Step::Patch { object, with } => {
                let asked = join_all(sides.all().map(|side| side.patch(object, with)));
                answered_alike(&format!("patch {object}"), &asked.await)
            }
            Step::Delete(object) => delete(sides, object).await,
            Step::Until { object, path, is } => reach(sides, object, path, is).await,
            Step::Same(objects) => same(sides, objects).await,
        };
        done.map_err(|error| format!("step {}: {error}", index + 1))?;
    }
    Ok(())
}

/// Applies a definition and waits for its state; then all that comes of it is equal.
async fn define(sides: &Sides, definition: &Definition) -> Result<(), String> {
    let name = &definition.name;
    let object = format!("rgd/{name}");
    apply(sides, &definition.object, None).await?;
    let state = json!(definition.state);
    reach(sides, &object, "/status/state", &state).await?;
    let revisions = format!("graphrevisions --field-selector spec.snapshot.name={name}");
    let crds = format!("crds -l kro.run/resource-graph-definition-name={name}");
    same(sides, &[object, revisions, crds]).await
}

/// Applies an object; all sides take it, or refuse it with the same words. Waits for the state of an instance, if one is named.
async fn apply(sides: &Sides, object: &Value, state: Option<&str>) -> Result<(), String> {
    // The kind of a definition that has just become Active is served by all, but not at the same moment.
    let asked = join_all(sides.all().map(async |side| {
        let mut answer = side.apply(object).await;
        let end = tokio::time::Instant::now() + pace::patience();
        while answer.as_ref().is_err_and(Refused::is_absence) && tokio::time::Instant::now() < end {
            tokio::time::sleep(LOOK_INTERVAL).await;
            answer = side.apply(object).await;
        }
        answer
    }));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    answered_alike(&format!("apply {kind} {name}"), &asked.await)?;
    let Some(state) = state else {
        return Ok(());
    };
    let version = text(&object["apiVersion"]);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let mut words = format!("{}.{group}/{name}", kind.to_lowercase());
    if let Some(namespace) = object["metadata"]["namespace"].as_str() {
        words = format!("{words} -n {namespace}");
    }
    reach(sides, &words, "/status/state", &json!(state)).await?;
    same(sides, &[words]).await
}

/// Deletes an object and waits until it is gone; another one may have its name then.
async fn delete(sides: &Sides, object: &str) -> Result<(), String> {
    let uid = |read: &Result<Value, Refused>| {
        let live = read.as_ref().ok();
        live.map(|live| live["metadata"]["uid"].clone())
    };
    let before = join_all(sides.all().map(|side| side.get(object))).await;
    let asked = join_all(sides.all().map(|side| side.delete(object)));
    answered_alike(&format!("delete {object}"), &asked.await)?;
    for (side, before) in sides.all().zip(&before) {
        let gone = tried(|| async {
            match side.get(object).await {
                Err(refused) if refused.is_absence() => Ok(()),
                Err(refused) => Err(refused.message),
                live if uid(&live) != uid(before) => Ok(()),
                Ok(live) => Err(live.to_string()),
            }
        });
        gone.await
            .map_err(|last| format!("{object} stays {}: {last}", side.name))?;
    }
    Ok(())
}

/// Requires that all sides took a write, or refused it with the same words.
fn answered_alike(what: &str, answers: &[Result<Value, Refused>]) -> Result<(), String> {
    let told = answers.iter().map(|answer| match answer {
        Ok(_) => json!("taken"),
        Err(refused) => json!({"code": refused.code, "message": refused.message}),
    });
    let told: Vec<Value> = told.collect();
    told[1..]
        .iter()
        .try_for_each(|ours| equal(what, &told[0], ours))
}

/// Waits until a value of an object is as it should be, on all sides, for its present generation.
async fn reach(sides: &Sides, words: &str, path: &str, wanted: &Value) -> Result<(), String> {
    let holds = |object: &Value| object.pointer(path).unwrap_or(&Value::Null) == wanted;
    for side in sides.all() {
        let looked = tried(|| async {
            let mut object = side.get(words).await.map_err(|refused| refused.message)?;
            normalize(&mut object);
            if holds(&object) && is_current(&object) {
                Ok(())
            } else {
                Err(object["status"].to_string())
            }
        });
        let name = side.name;
        looked.await.map_err(|last| {
            format!("{words} {path} does not become {wanted} ({name}); last: {last}")
        })?;
    }
    Ok(())
}

/// Looks at a condition until it holds; the last reason after [`pace::patience`].
async fn tried<F>(look: impl FnMut() -> F) -> Result<(), String>
where
    F: Future<Output = Result<(), String>>,
{
    tried_for(pace::patience(), look).await
}

/// The same, with its own patience.
async fn tried_for<F>(patience: Duration, mut look: impl FnMut() -> F) -> Result<(), String>
where
    F: Future<Output = Result<(), String>>,
{
    let end = tokio::time::Instant::now() + patience;
    loop {
        match look().await {
            Err(reason) if tokio::time::Instant::now() >= end => return Err(reason),
            Err(_not_yet) => tokio::time::sleep(LOOK_INTERVAL).await,
            Ok(()) => return Ok(()),
        }
    }
}

/// Whether what an object says of itself is of its present generation. kro leaves conditions that it did not get to as they were.
fn is_current(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    let conditions = object["status"]["conditions"].as_array();
    let mut ready = conditions
        .into_iter()
        .flatten()
        .filter(|it| it["type"] == "Ready");
    ready.all(|it| it["observedGeneration"].is_null() || it["observedGeneration"] == *generation)
}

/// Waits until objects are equal.
async fn same(sides: &Sides, objects: &[String]) -> Result<(), String> {
    for words in objects {
        for ours in &sides.ours {
            let looked = tried(|| same_at(sides, ours, words));
            looked
                .await
                .map_err(|reason| format!("{}: {reason}", ours.name))?;
        }
    }
    Ok(())
}

async fn same_at(sides: &Sides, ours: &Side, words: &str) -> Result<(), String> {
    let (kros, ours) = tokio::join!(sides.kro.get(words), ours.get(words));
    match (kros, ours) {
        (Ok(mut kro), Ok(mut ours)) => {
            normalize(&mut kro);
            normalize(&mut ours);
            sides.agreed.take_out(&mut kro, &mut ours);
            equal(words, &kro, &ours)
        }
        (Err(kro), Err(ours)) if kro.is_absence() && ours.is_absence() => Ok(()),
        (kro, ours) => Err(format!("{words}: kro {kro:?}, ours {ours:?}")),
    }
}

// === impl Sides ===

impl Sides {
    /// Returns all of them, kro first.
    fn all(&self) -> impl Iterator<Item = &Side> {
        let all = std::iter::once(&self.kro).chain(&self.ours);
        all.map(|side| &**side)
    }

    /// Those that serve the kinds of a scenario's resources.
    fn that_serve(&self, scenario: &Scenario) -> Self {
        let serves = |side: &&Arc<Side>| !scenario.has_workloads || side.name != ROOT;
        Self {
            kro: Arc::clone(&self.kro),
            ours: self.ours.iter().filter(serves).cloned().collect(),
            agreed: Arc::clone(&self.agreed),
        }
    }
}
