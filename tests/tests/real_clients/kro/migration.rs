//! A cluster that kro ran moves to a hub and back: nothing is made or deleted there on the way, by anybody, and no uid changes.
//!
//! What was made and deleted is read from the cluster's own audit log; what is there, before and after, by uid.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;
use wheelhouse_tests::{
    Hub, Kubectl, Spoke, assets, eventually, manifests,
    process::{Process, Scratch},
    spoke::Options,
    wait::within,
};

use super::super::stage::{say, until};

const BESIDE: &str = include_str!("../../../fixtures/migration/beside.yaml");
const DEFINITIONS: &str = include_str!("../../../fixtures/migration/definitions.yaml");
const INSTANCES: &str = include_str!("../../../fixtures/migration/instances.yaml");

/// What is compared by uid, and may not be made or deleted: everything that kro and its definitions can have made.
const KINDS: &[&str] = &[
    "configmaps",
    "secrets",
    "services",
    "deployments.apps",
    "clusterroles.rbac.authorization.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "resourcegraphdefinitions.kro.run",
    "graphrevisions.internal.kro.run",
];

/// How long a migration may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// How long nobody may change anything, once all is as it was.
const QUIET: Duration = Duration::from_secs(3);

/// What a spoke had when somebody looked: the uid of each object, and the states of instances.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    uids: BTreeMap<String, String>,
    states: BTreeMap<String, String>,
}

struct World {
    spoke: Spoke,
    direct: Kubectl,
    definitions: Vec<Value>,
    instances: Vec<Value>,
    /// How much of the audit log is of before.
    mark: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_moves_from_kro_to_a_hub_and_back_without_losing_anything() {
    let Some(program) = assets::built_by("kro", "hack/differential-kro") else {
        return;
    };
    let scratch = Scratch::new("kro-migrated");
    let (mut world, mut hub) = tokio::join!(World::begin(), Hub::start());
    let kro = run_kro(&program, &world.spoke, &scratch);
    world.populate().await;
    drop(kro);
    let before = world.look().await;
    say(&format!("kro left {} objects", before.uids.len()));
    let made = world
        .log()
        .iter()
        .filter(|line| change(line).is_some())
        .count();
    assert!(
        made >= before.uids.len(),
        "the log shows what is made: {made}"
    );
    world.mark = world.log().len();

    hub.join(&world.spoke).await;
    world.plans(&hub).await;
    world.unchanged("a plan", &before).await;
    world.moves(&mut hub).await;
    let moved = world.settled("the hub runs it", &before).await;
    world.unchanged("the hub has taken it over", &moved).await;
    world.as_at_path(&hub).await;

    world.returns(&mut hub).await;
    world.unchanged("the hub has given it back", &moved).await;
    let _kro = run_kro(&program, &world.spoke, &scratch);
    world.repairs("plain-a", "kro").await;
    let back = world.settled("kro runs it", &before).await;
    world.unchanged("kro runs it again", &back).await;
}

fn run_kro(program: &Path, spoke: &Spoke, scratch: &Scratch) -> Process {
    super::start(program, spoke, scratch)
}

/// Names an object for people, and for kubectl.
fn words(object: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let kind = text(&object["kind"]).to_lowercase();
    let name = text(&object["metadata"]["name"]);
    let mut words = vec!["get".to_owned(), format!("{kind}.{group}/{name}")];
    if let Some(namespace) = object["metadata"]["namespace"].as_str() {
        words.extend(["-n".to_owned(), namespace.to_owned()]);
    }
    words
}

async fn read(kubectl: &Kubectl, object: &Value) -> Result<Value, String> {
    let words = words(object);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    kubectl.json(&words).await
}

async fn reaches(kubectl: &Kubectl, object: &Value, state: &str) {
    let what = format!("{:?} is {state}", words(object));
    within(PATIENCE, &what, || async {
        let live = read(kubectl, object).await?;
        if live["status"]["state"] == state {
            return Ok(());
        }
        Err(live["status"].to_string())
    })
    .await;
}

// === impl World ===

impl World {
    /// A cluster with kro's kinds, and what is beside kro.
    async fn begin() -> Self {
        let options = Options {
            audited: true,
            ..Options::default()
        };
        let spoke = Spoke::start_with("east", options).await;
        let direct = spoke.kubectl();
        let crds = assets::built_by("kro", "hack/differential-kro").expect("it was found before");
        let crds = crds.with_file_name("kro-crds").display().to_string();
        direct.must(&["apply", "--server-side", "-f", &crds]).await;
        let established = ["wait", "--for=condition=Established", "crd", "--all"];
        direct.must(&established).await;
        direct.apply(BESIDE).await;
        Self {
            spoke,
            direct,
            definitions: manifests::documents(DEFINITIONS),
            instances: manifests::documents(INSTANCES),
            mark: 0,
        }
    }

    /// Has kro bring all shapes to the state that they are in when it is stopped.
    async fn populate(&self) {
        let direct = &self.direct;
        for definition in &self.definitions {
            direct.apply(&definition.to_string()).await;
        }
        for definition in &self.definitions {
            let is_broken = definition["metadata"]["name"] == "broken";
            let state = if is_broken { "Inactive" } else { "Active" };
            reaches(direct, definition, state).await;
        }
        direct.apply(INSTANCES).await;
        for instance in &self.instances {
            reaches(direct, instance, wanted(instance)).await;
        }
        for round in ["1", "2"] {
            let mut revised = self.definition("revised");
            revised["spec"]["resources"][0]["template"]["data"]["round"] = json!(round);
            direct.apply(&revised.to_string()).await;
            let made = ["get", "configmap", "revised-a"];
            let what = format!("revision {round} is applied");
            until(direct, &made, &what, |map| map["data"]["round"] == round).await;
        }
        let mut worsened = self.definition("worsened");
        worsened["spec"]["resources"][0]["template"]["data"]["text"] = json!("${nobody.spec.x}");
        direct.apply(&worsened.to_string()).await;
        reaches(direct, &worsened, "Inactive").await;
        let pause = ["annotate", "paused/a", "kro.run/reconcile=suspended"];
        direct.must(&pause).await;
        let what = "it says that it is suspended";
        until(direct, &["get", "paused/a"], what, |it| {
            it["status"]["conditions"]
                .to_string()
                .contains("ReconciliationSuspended")
        })
        .await;
    }

    fn definition(&self, name: &str) -> Value {
        let mut all = self.definitions.iter();
        let found = all.find(|it| it["metadata"]["name"] == name);
        found.expect(name).clone()
    }

    /// Looks at everything that may not change.
    async fn look(&self) -> Seen {
        let mut kinds: BTreeSet<String> = KINDS.iter().map(|&it| it.to_owned()).collect();
        for definition in self.instances.iter().chain(&self.definitions) {
            kinds.insert(
                words(definition)[1]
                    .split('/')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        let mut seen = Seen {
            uids: BTreeMap::new(),
            states: BTreeMap::new(),
        };
        for kind in kinds {
            let listed = self.direct.json(&["get", &kind, "--all-namespaces"]).await;
            let listed = listed.expect("it can be listed");
            for object in listed["items"].as_array().into_iter().flatten() {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let metadata = &object["metadata"];
                let of = text(&object["kind"]);
                let name = format!(
                    "{of} {}/{}",
                    text(&metadata["namespace"]),
                    text(&metadata["name"])
                );
                let is_kros = of == "CustomResourceDefinition"
                    || !metadata["labels"]["kro.run/owned"].is_null();
                if is_kros
                    || object["apiVersion"]
                        .as_str()
                        .is_some_and(|it| it.contains("kro.run"))
                {
                    if !object["status"]["state"].is_null() {
                        seen.states
                            .insert(name.clone(), text(&object["status"]["state"]));
                    }
                    seen.uids.insert(name, text(&metadata["uid"]));
                }
            }
        }
        seen
    }

    /// Returns the lines of the audit log.
    fn log(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.spoke.audit_log()).expect("an audit log");
        log.lines().map(str::to_owned).collect()
    }

    /// Requires that nothing was made or deleted since the mark, and that each object is the one that it was.
    async fn unchanged(&self, when: &str, before: &Seen) {
        let log = self.log();
        let changes: Vec<String> = log[self.mark..]
            .iter()
            .filter_map(|line| change(line))
            .collect();
        assert!(changes.is_empty(), "{when}: {}", changes.join("\n"));
        let now = self.look().await;
        assert_eq!(now.uids, before.uids, "{when}");
        assert_eq!(now.states, before.states, "{when}");
    }

    /// Waits until all states are as they were before, and a moment longer, in which somebody could change one.
    async fn settled(&self, what: &str, before: &Seen) -> Seen {
        within(PATIENCE, what, || async {
            let now = self.look().await;
            let differs: Vec<String> = now
                .states
                .iter()
                .filter(|(name, state)| before.states.get(*name) != Some(state))
                .map(|(name, state)| format!("{name} is {state}"))
                .collect();
            if differs.is_empty() {
                return Ok(now);
            }
            Err(differs.join(", "))
        })
        .await;
        // Nothing tells that somebody will do nothing more.
        tokio::time::sleep(QUIET).await;
        self.look().await
    }

    /// A plan names all of it, and changes nothing.
    async fn plans(&self, hub: &Hub) {
        let plan = hub.wheelhouse(&["spoke", "migrate", "east"]).await;
        let told = plan.succeeded("a plan");
        say(&told);
        for definition in &self.definitions {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            assert!(told.contains(&format!("rgd/{name} ")), "{name}: {told}");
        }
        assert!(told.contains("ServiceAccount kro-system/kro"), "{told}");
        let here = hub.at("east").json(&["get", "rgd"]).await.expect("a list");
        assert_eq!(here["items"], json!([]), "nothing is taken over");
    }

    /// The hub takes it over; it is killed in the middle, and goes on.
    async fn moves(&self, hub: &mut Hub) {
        let started = Instant::now();
        {
            let path = hub.at("east");
            let (arguments, begun) = (["spoke", "migrate", "east", "--yes"], ["get", "rgd"]);
            let yes = hub.wheelhouse(&arguments);
            tokio::select! {
                _ended = yes => {}
                _some = until(&path, &begun, "the first is taken", |it| it["items"][0].is_object()) => {}
            }
        }
        hub.kill();
        hub.launch().await;
        let done = hub.wheelhouse(&["spoke", "migrate", "east", "--yes"]).await;
        say(&done.succeeded("a migration"));
        say(&format!("it took {:?}, with a restart", started.elapsed()));
    }

    /// The path of the spoke shows what kro had, under its uids, and the hub runs it.
    async fn as_at_path(&self, hub: &Hub) {
        let path = hub.at("east");
        for object in self.definitions.iter().chain(&self.instances) {
            let here = read(&path, object).await.expect("it is at the path");
            let there = read(&self.direct, object).await.expect("it is there");
            assert_eq!(here["metadata"]["uid"], there["metadata"]["uid"], "{here}");
            assert_eq!(here["status"]["state"], there["status"]["state"], "{here}");
        }
        let names = |list: Value| -> BTreeSet<(String, String)> {
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let metadata = |it: &Value, key: &str| it["metadata"][key].to_string();
            items
                .iter()
                .map(|it| (metadata(it, "name"), metadata(it, "uid")))
                .collect()
        };
        let revisions = ["get", "graphrevisions.internal.kro.run"];
        let here = path.json(&revisions).await.expect("revisions at the path");
        let there = self.direct.json(&revisions).await.expect("revisions there");
        assert_eq!(names(here), names(there), "revisions");
        self.repairs("plain-a", "the hub").await;
        self.repairs("plain-in-a", "the hub, for an instance of an instance")
            .await;
        self.repairs("worsened-a", "the hub, by the last good revision")
            .await;
        let child = ["get", "configmap", "plain-a", "--show-managed-fields"];
        let child = self.direct.json(&child).await.expect("a child");
        let managers = child["metadata"]["managedFields"].to_string();
        assert!(managers.contains("kro.run/applyset"), "{managers}");
    }

    /// Somebody changes a child, and it is put back.
    async fn repairs(&self, child: &str, who: &str) {
        let object = ["get", "configmap", child];
        let text = self.direct.json(&object).await.expect("a child")["data"]["text"].clone();
        let patch = r#"{"data": {"text": "changed"}}"#;
        self.direct
            .must(&["patch", "configmap", child, "--type=merge", "-p", patch])
            .await;
        let what = format!("{child} is repaired by {who}");
        until(&self.direct, &object, &what, |it| {
            it["data"]["text"] == text
        })
        .await;
    }

    /// The hub gives it back; it is killed in the middle, and goes on.
    async fn returns(&self, hub: &mut Hub) {
        {
            let (root, begun) = (hub.root(), ["get", "spoke", "east"]);
            let arguments = ["spoke", "migrate", "east", "--back", "--yes"];
            let yes = hub.wheelhouse(&arguments);
            let is_returning = |it: &Value| it["status"]["migration"]["state"] == "Returning";
            tokio::select! {
                _ended = yes => {}
                _begun = until(&root, &begun, "it is being given back", is_returning) => {}
            }
        }
        hub.kill();
        hub.launch().await;
        let done = hub
            .wheelhouse(&["spoke", "migrate", "east", "--back", "--yes"])
            .await;
        say(&done.succeeded("a return"));
        let what = "the path is the spoke's again";
        eventually(what, || async {
            let here = hub
                .at("east")
                .json(&["get", "graphrevisions.internal.kro.run"])
                .await?;
            let ledgers = hub.at("east").json(&["get", "inventories"]).await?;
            if here["items"] == json!([]) && ledgers["items"] == json!([]) {
                return Ok(());
            }
            Err(format!("{here} {ledgers}"))
        })
        .await;
    }
}

/// The state in which kro leaves an instance.
fn wanted(instance: &Value) -> &str {
    instance["metadata"]["annotations"]["state"]
        .as_str()
        .expect("a state")
}

/// Tells of a request that made or deleted something which is compared.
fn change(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    let reference = &event["objectRef"];
    let resource = reference["resource"].as_str()?;
    let group = reference["apiGroup"].as_str().unwrap_or_default();
    let code = event["responseStatus"]["code"].as_i64()?;
    let is_kros = group.ends_with("kro.run") || group == "shapes.example.com";
    let is_compared = is_kros
        || KINDS
            .iter()
            .any(|kind| kind.split('.').next() == Some(resource));
    let uri = event["requestURI"].as_str().unwrap_or_default();
    let made = code == 201;
    let deleted =
        matches!(event["verb"].as_str(), Some("delete" | "deletecollection")) && code < 300;
    let counts = is_compared && reference["subresource"].is_null() && !uri.contains("dryRun");
    (counts && (made || deleted)).then(|| {
        let (verb, user) = (&event["verb"], &event["user"]["username"]);
        format!("{verb} {resource} {} {code} by {user}", reference["name"])
    })
}
