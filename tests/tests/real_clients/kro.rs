//! kro itself on one kube-apiserver, a hub with another one as its spoke: the same scenarios to both, and then the same
//! objects, to the word.
//!
//! A scenario is a file of `tests/fixtures/differential`: steps that are made on both sides, conditions that both sides come
//! to, and objects that are equal then, after what cannot be (uids, times, resource versions) is taken out. What else may
//! differ is listed with its reason in `agreed.yaml`, and nowhere else; an entry that hides nothing fails the trial.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::Duration,
};

use futures::{StreamExt, stream};
use serde_json::{Map, Value, json};
use wheelhouse_tests::{
    Hub, Kubectl, Spoke, assets,
    process::{Process, Scratch},
};

use super::stage::say;

/// How long both sides may take to be equal: kro waits 3 s at each step of a definition.
const PATIENCE: Duration = Duration::from_secs(40);

/// Between two looks at a condition: each starts a kubectl on both sides.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Scenarios that are played at the same time.
const AT_ONCE: usize = 8;

/// Flags of both sides, beside kro's defaults.
const SWITCHES: &[&str] = &[
    "--feature-gates=CELOmitFunction=true",
    "--rgd-max-graph-revisions=3",
    "--rgd-max-collection-size=3",
];

/// Two clusters that are served the same scenarios.
struct Sides {
    kro: Kubectl,
    ours: Kubectl,
    agreed: Agreed,
}

/// Differences that there may be.
struct Agreed {
    entries: Vec<Entry>,
    used: Mutex<BTreeSet<usize>>,
}

/// One of them: a pattern of the object (`kind/name`), a JSON pointer in it with `*` for any part, and the reason.
struct Entry {
    object: regex::Regex,
    path: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_live_at_a_hub_as_with_kro() {
    let Some(program) = assets::client("kro") else {
        return;
    };
    let (kros, east) = tokio::join!(Spoke::start("kros"), Spoke::start("east"));
    let arguments = SWITCHES.iter().map(|&it| it.to_owned()).collect();
    let hub = Hub::start_with(wheelhouse_tests::hub::Settings {
        arguments,
        ..Default::default()
    })
    .await;
    hub.join(&east).await;
    let scratch = Scratch::new("kro");
    let crds = program.with_file_name("kro-crds");
    let direct = kros.kubectl();
    direct
        .must(&["apply", "--server-side", "-f", &crds.display().to_string()])
        .await;
    let _controller = start(&program, &kros, &scratch);
    let folder = assets::workspace().join("tests/fixtures/differential");
    let sides = Sides {
        kro: direct,
        ours: hub.at("east"),
        agreed: Agreed::read(&folder.join("agreed.yaml")),
    };
    let scenarios = scenarios(&folder.join("scenarios"));
    say(&format!("{} scenarios", scenarios.len()));
    let played = scenarios.iter().map(|(name, steps)| {
        let played = play(&sides, steps);
        async move {
            let failed = format!("{name}: {}", played.await.err()?);
            say(&failed);
            Some(failed)
        }
    });
    let failed: Vec<String> = stream::iter(played)
        .buffer_unordered(AT_ONCE)
        .filter_map(async |failed| failed)
        .collect()
        .await;
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    let idle = sides.agreed.idle();
    assert!(
        idle.is_empty(),
        "agreed.yaml hides nothing with its entries {idle:?}"
    );
}

fn start(program: &Path, spoke: &Spoke, scratch: &Scratch) -> Process {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(spoke.kubeconfig());
    command.args(["--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    // Eight scenarios at once: one worker and ten reconciles a second are for one at a time.
    for worker in [
        "resource-graph-definition",
        "graph-revision",
        "dynamic-controller",
    ] {
        command.arg(format!("--{worker}-concurrent-reconciles=8"));
    }
    command.args([
        "--dynamic-controller-rate-limiter-rate-limit=1000",
        "--dynamic-controller-rate-limiter-burst-limit=1000",
        "--client-qps=1000",
        "--client-burst=1000",
    ]);
    command.args(SWITCHES);
    Process::start(&command, &scratch.file("kro.log"))
}

/// Reads the scenarios: each document of each file is one, a list of steps by its name.
fn scenarios(folder: &Path) -> Vec<(String, Vec<Value>)> {
    let entries = std::fs::read_dir(folder).expect("there are scenarios");
    let mut files: Vec<PathBuf> = entries.map(|it| it.expect("a file").path()).collect();
    files.sort();
    let mut scenarios = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("it can be read");
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).expect("a file of scenarios is YAML");
        for document in documents {
            let steps = document["steps"].as_array().cloned();
            let name = document["scenario"]
                .as_str()
                .expect("a scenario has a name");
            scenarios.push((name.to_owned(), steps.expect("a scenario has steps")));
        }
    }
    scenarios
}

async fn play(sides: &Sides, steps: &[Value]) -> Result<(), String> {
    for (index, step) in steps.iter().enumerate() {
        let done = if let Some(object) = step.get("apply") {
            apply(sides, object).await
        } else if let Some(words) = step["run"].as_str() {
            run(sides, words).await
        } else if let Some(condition) = step.get("until") {
            until(sides, condition).await
        } else if let Some(objects) = step["same"].as_array() {
            same(sides, objects).await
        } else {
            Err("is no step".to_owned())
        };
        done.map_err(|error| format!("step {}: {error}", index + 1))?;
    }
    Ok(())
}

/// Applies an object; both sides take it, or refuse it with the same words.
async fn apply(sides: &Sides, object: &Value) -> Result<(), String> {
    let text = object.to_string();
    let arguments = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    let (kro, ours) = tokio::join!(
        sides.kro.run_with_input(&arguments, &text),
        sides.ours.run_with_input(&arguments, &text)
    );
    equal("apply", &json!(kro.stderr), &json!(ours.stderr))
}

/// Runs kubectl with these words.
async fn run(sides: &Sides, words: &str) -> Result<(), String> {
    let arguments: Vec<&str> = words.split_whitespace().collect();
    let (kro, ours) = tokio::join!(sides.kro.run(&arguments), sides.ours.run(&arguments));
    equal(words, &json!(kro.code), &json!(ours.code))
        .map_err(|error| format!("{error}: {} {}", kro.stderr, ours.stderr))
}

/// Waits until a value of an object is as it should be, on both sides, for its present generation.
async fn until(sides: &Sides, condition: &Value) -> Result<(), String> {
    let words = condition["object"]
        .as_str()
        .ok_or("until names no object")?;
    let path = condition["path"].as_str().ok_or("until names no path")?;
    let wanted = &condition["is"];
    let holds = |object: &Value| object.pointer(path).unwrap_or(&Value::Null) == wanted;
    for kubectl in [&sides.kro, &sides.ours] {
        let looked = tried(|| async {
            let object = get(kubectl, words).await?;
            if holds(&object) && is_current(&object) {
                Ok(())
            } else {
                Err(object["status"].to_string())
            }
        });
        let looked = looked.await;
        looked.map_err(|last| format!("{words} {path} does not become {wanted}; last: {last}"))?;
    }
    Ok(())
}

/// Looks at a condition until it holds; the last reason after [`PATIENCE`].
async fn tried<F>(mut look: impl FnMut() -> F) -> Result<(), String>
where
    F: Future<Output = Result<(), String>>,
{
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        match look().await {
            Err(reason) if tokio::time::Instant::now() >= end => return Err(reason),
            Err(_not_yet) => tokio::time::sleep(LOOK_INTERVAL).await,
            Ok(()) => return Ok(()),
        }
    }
}

/// Whether every condition of an object is of its present generation.
fn is_current(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    let conditions = object["status"]["conditions"].as_array();
    let mut observed = conditions.into_iter().flatten();
    observed.all(|it| it["observedGeneration"].is_null() || it["observedGeneration"] == *generation)
}

/// Waits until objects are equal.
async fn same(sides: &Sides, objects: &[Value]) -> Result<(), String> {
    for words in objects {
        let words = words
            .as_str()
            .ok_or("an object to be compared is no text")?;
        tried(|| async {
            let (kro, ours) = tokio::join!(get(&sides.kro, words), get(&sides.ours, words));
            match (kro, ours) {
                (Ok(mut kro), Ok(mut ours)) => {
                    sides.agreed.take_out(&mut kro, &mut ours);
                    equal(words, &kro, &ours)
                }
                (Err(kro), Err(ours)) if absent(&kro) && absent(&ours) => Ok(()),
                (kro, ours) => Err(format!("{words}: kro {kro:?}, ours {ours:?}")),
            }
        })
        .await?;
    }
    Ok(())
}

fn absent(error: &str) -> bool {
    error.contains("not found") || error.contains("doesn't have a resource type")
}

async fn get(kubectl: &Kubectl, words: &str) -> Result<Value, String> {
    let arguments: Vec<&str> = ["get", "--show-managed-fields"]
        .into_iter()
        .chain(words.split_whitespace())
        .collect();
    let mut object = kubectl.json(&arguments).await?;
    normalize(&mut object);
    Ok(object)
}

/// Takes out what two clusters never have in common.
fn normalize(object: &mut Value) {
    if let Some(items) = object["items"].as_array_mut() {
        items.iter_mut().for_each(normalize);
        items.sort_by_key(|item| item["metadata"]["name"].to_string());
    }
    let remove = |value: &mut Value, key: &str| {
        if let Some(fields) = value.as_object_mut() {
            fields.remove(key);
        }
    };
    let metadata = &mut object["metadata"];
    for key in ["uid", "resourceVersion", "creationTimestamp"] {
        remove(metadata, key);
    }
    for key in [
        "kro.run/instance-id",
        "kro.run/resource-graph-definition-id",
    ] {
        if metadata["labels"].get(key).is_some() {
            metadata["labels"][key] = json!("a uid");
        }
    }
    for owner in metadata["ownerReferences"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        owner["uid"] = json!("a uid");
    }
    for entry in metadata["managedFields"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        remove(entry, "time");
    }
    // kro sorts them by time, which tells nothing of two clusters.
    if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
        for condition in conditions.iter_mut() {
            remove(condition, "lastTransitionTime");
        }
        conditions.sort_by_key(|it| it["type"].to_string());
    }
}

/// Says where two values differ.
fn equal(what: &str, kro: &Value, ours: &Value) -> Result<(), String> {
    let mut found = Vec::new();
    differences(kro, ours, String::new(), &mut found);
    if found.is_empty() {
        return Ok(());
    }
    let lines = found
        .iter()
        .map(|(path, kro, ours)| format!("\n{path}:\n  kro  {kro}\n  ours {ours}"));
    Err(format!("{what} at {}", lines.collect::<String>()))
}

/// A path, and what each side has there.
type Difference = (String, String, String);

fn differences(kro: &Value, ours: &Value, path: String, found: &mut Vec<Difference>) {
    match (kro, ours) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let at = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                differences(&at(left), &at(right), format!("{path}/{key}"), found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (one, other)) in left.iter().zip(right).enumerate() {
                differences(one, other, format!("{path}/{index}"), found);
            }
        }
        _ if kro == ours => {}
        _ => found.push((path, kro.to_string(), ours.to_string())),
    }
}

// === impl Agreed ===

impl Agreed {
    fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).expect("agreed.yaml is there");
        let read: Vec<Value> = serde_saphyr::from_str(&text).expect("agreed.yaml is a list");
        let field = |entry: &Value, name: &str| {
            let text = entry[name].as_str();
            assert!(text.is_some(), "an entry without {name}: {entry}");
            text.unwrap_or_default().to_owned()
        };
        let entries = read.iter().map(|entry| {
            assert!(field(entry, "reason").len() > 20, "{entry} says why");
            Entry {
                object: regex::Regex::new(&format!("^(?:{})$", field(entry, "object")))
                    .expect("a pattern"),
                path: field(entry, "path")
                    .split('/')
                    .skip(1)
                    .map(str::to_owned)
                    .collect(),
            }
        });
        Self {
            entries: entries.collect(),
            used: Mutex::default(),
        }
    }

    /// Takes agreed differences out of both.
    fn take_out(&self, kro: &mut Value, ours: &mut Value) {
        if let (Some(left), Some(right)) =
            (kro["items"].as_array_mut(), ours["items"].as_array_mut())
        {
            for (one, other) in left.iter_mut().zip(right) {
                self.take_out(one, other);
            }
            return;
        }
        let text = |part: &Value| part.as_str().unwrap_or_default().to_owned();
        let name = format!("{}/{}", text(&kro["kind"]), text(&kro["metadata"]["name"]));
        for (index, entry) in self.entries.iter().enumerate() {
            if !entry.object.is_match(&name) {
                continue;
            }
            let before = (kro.clone(), ours.clone());
            take(kro, &entry.path);
            take(ours, &entry.path);
            let count = |kro: &Value, ours: &Value| {
                let mut found = Vec::new();
                differences(kro, ours, String::new(), &mut found);
                found.len()
            };
            if count(&before.0, &before.1) != count(kro, ours) {
                self.used.lock().expect("nobody panicked").insert(index);
            }
        }
    }

    /// Returns the entries that have hidden nothing.
    fn idle(&self) -> Vec<usize> {
        let used = self.used.lock().expect("nobody panicked");
        (0..self.entries.len())
            .filter(|it| !used.contains(it))
            .collect()
    }
}

/// Removes what a path leads to.
fn take(value: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    let first = first.replace("~1", "/");
    match value {
        Value::Object(fields) if rest.is_empty() => {
            fields.remove(&first);
        }
        Value::Object(fields) => {
            if let Some(field) = fields.get_mut(&first) {
                take(field, rest);
                // Absent and empty are the same.
                if field.as_object().is_some_and(Map::is_empty) {
                    fields.remove(&first);
                }
            }
        }
        Value::Array(items) if first == "*" => items.iter_mut().for_each(|item| take(item, rest)),
        _ => {}
    }
}
