//! kro's own examples, at the path of a real spoke and in an embedded cluster: each gets the verdict that kro gave, with its
//! conditions, its order and its CRD. What kro said is recorded in the shared test data, so no kro runs here.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use serde_saphyr::DuplicateKeyPolicy;
use wheelhouse_tests::{Hub, Spoke, assets, hub::Settings};

use super::{compare::equal, side::Side, tried_for};
use crate::real_clients::stage::{INNER, say, until};

/// How long an example may take that waits for the kind of another.
const PATIENCE: Duration = Duration::from_secs(90);

/// The examples and what kro said of them.
struct Corpus {
    folder: PathBuf,
    verdicts: Value,
}

/// An example as it is applied.
struct Example {
    slug: String,
    object: Value,
}

#[tokio::test(flavor = "multi_thread")]
async fn examples_get_kros_verdict_at_a_hub() {
    // Whoever asks for kro asks for this trial too.
    let (Some(_kro), Some(folder)) = (
        assets::built_by("kro", "hack/differential-kro"),
        assets::corpus(),
    ) else {
        return;
    };
    let settings = Settings {
        arguments: vec!["--allow-crd-deletion=true".to_owned()],
        ..Settings::default()
    };
    let (hub, east) = tokio::join!(Hub::start_with(settings), Spoke::start("east"));
    hub.join(&east).await;
    hub.root().apply(INNER).await;
    let account = ["get", "serviceaccount", "default", "-n", "default"];
    until(&hub.at("inner"), &account, "inner is served", |_| true).await;
    let crds = folder.join("crds").display().to_string();
    for kubectl in [east.kubectl(), hub.at("inner")] {
        let apply = ["apply", "--server-side", "--recursive", "-f", &crds];
        kubectl.must(&apply).await;
    }
    let corpus = Corpus::open(&folder.join("kro-examples"));
    let file = hub.kubeconfig();
    let path = Side::connect("at the path", &file, "/clusters/east").await;
    let inner = Side::connect("embedded", &file, "/clusters/inner").await;
    let rounds = corpus.rounds();
    say(&format!("{} rounds of examples", rounds.len()));
    let mut failed = Vec::new();
    for round in &rounds {
        for side in [&path, &inner] {
            failed.extend(play(&corpus, side, round).await);
        }
    }
    assert!(
        failed.is_empty(),
        "{} differ:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// Makes the definitions of a round, compares what becomes of them, and takes them away. Returns what differs.
async fn play(corpus: &Corpus, side: &Side, round: &[Example]) -> Vec<String> {
    let mut failed = Vec::new();
    for example in round {
        let verdict = &corpus.verdicts[&example.slug];
        let told = side.create(&example.object).await.err();
        let told = told.map(|refused| refused.message).unwrap_or_default();
        // Before it, kubectl says which file it is.
        let want = verdict["message"].as_str().unwrap_or_default();
        let want = want.rsplit_once("rgd.yaml\": ").map_or(want, |it| it.1);
        if told != want {
            let Example { slug, .. } = example;
            failed.push(format!("{} {slug}: told {told:?}, kro {want:?}", side.name));
        }
    }
    for example in round {
        let verdict = &corpus.verdicts[&example.slug];
        if verdict["stage"] == "apply" {
            continue;
        }
        let looked = tried_for(PATIENCE, || judged(side, example, verdict)).await;
        let reason = looked.err();
        failed.extend(reason.map(|it| format!("{} {}: {it}", side.name, example.slug)));
    }
    for example in round {
        let words = format!("rgd/{}", example.name());
        if side.get(&words).await.is_ok() {
            drop(side.delete(&words).await);
            let gone = tried_for(PATIENCE, || async {
                let read = side.get(&words).await;
                read.map_or(Ok(()), |live| Err(format!("{words} stays: {live}")))
            });
            failed.extend(gone.await.err());
        }
    }
    failed
}

/// Compares a definition with what kro said of it.
async fn judged(side: &Side, example: &Example, verdict: &Value) -> Result<(), String> {
    let words = format!("rgd/{}", example.name());
    let read = side.get(&words).await;
    let live = read.map_err(|refused| refused.message)?;
    let conditions = live["status"]["conditions"].as_array();
    let conditions = conditions.into_iter().flatten().map(|it| {
        let told =
            json!({"status": it["status"], "reason": it["reason"], "message": it["message"]});
        (it["type"].as_str().unwrap_or_default().to_owned(), told)
    });
    let conditions: BTreeMap<String, Value> = conditions.collect();
    equal(&words, &verdict["conditions"], &json!(conditions))?;
    let order = &live["status"]["topologicalOrder"];
    equal(&words, &verdict["topologicalOrder"], order)?;
    if let Some(name) = verdict
        .pointer("/crd/metadata/name")
        .and_then(Value::as_str)
    {
        let words = format!("crd/{name}");
        let read = side.get(&words).await;
        let crd = read.map_err(|refused| refused.message)?;
        equal(&words, &verdict["crd"]["spec"], &crd["spec"])?;
    }
    Ok(())
}

// === impl Corpus ===

impl Corpus {
    fn open(folder: &Path) -> Self {
        let text = std::fs::read_to_string(folder.join("verdicts.json")).expect("it is there");
        Self {
            folder: folder.to_owned(),
            verdicts: serde_json::from_str(&text).expect("it is JSON"),
        }
    }

    fn example(&self, slug: &str) -> Example {
        let file = self.folder.join(slug).join("rgd.yaml");
        let text = std::fs::read_to_string(&file).expect("it can be read");
        // One of them repeats a key: the last one counts, as for kubectl.
        let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
        let object = serde_saphyr::from_str_with_options(&text, options);
        Example {
            slug: slug.to_owned(),
            object: object.expect("it is YAML"),
        }
    }

    /// Sorts all examples into rounds: with those that they need, and without two of one name or of one kind.
    fn rounds(&self) -> Vec<Vec<Example>> {
        let verdicts = self.verdicts.as_object().expect("a map");
        let mut rounds: Vec<BTreeSet<String>> = Vec::new();
        for (slug, verdict) in verdicts {
            let needs = verdict["needs"].as_array().into_iter().flatten();
            let mut wanted: BTreeSet<String> =
                needs.filter_map(Value::as_str).map(str::to_owned).collect();
            wanted.insert(slug.clone());
            let fits = |round: &&mut BTreeSet<String>| {
                let together: BTreeSet<&String> = round.union(&wanted).collect();
                let mut taken = BTreeSet::new();
                together.iter().all(|slug| {
                    let example = self.example(slug);
                    taken.insert(example.name().to_owned()) && taken.insert(example.kind())
                })
            };
            match rounds.iter_mut().find(fits) {
                Some(round) => round.extend(wanted),
                None => rounds.push(wanted),
            }
        }
        let rounds = rounds.into_iter();
        rounds
            .map(|round| round.iter().map(|slug| self.example(slug)).collect())
            .collect()
    }
}

// === impl Example ===

impl Example {
    fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().expect("a name")
    }

    fn kind(&self) -> String {
        let schema = &self.object["spec"]["schema"];
        let group = schema["group"].as_str().unwrap_or("kro.run");
        format!("{}.{group}", schema["kind"].as_str().expect("a kind"))
    }
}
