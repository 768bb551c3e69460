//! Argo CD: two logical clusters are its destinations, added with `argocd cluster add`, and an ApplicationSet keeps both.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use wheelhouse_tests::{Hub, Kubectl, Spoke, eventually, pods, wait::within};

use super::{
    argo::{Argo, PATIENCE, Repository},
    stage::{say, until},
};

/// The definition of the instances that are synced.
const WEBAPP: &str = include_str!("../../fixtures/webapp.yaml");

/// The clusters that are its destinations, both real spokes.
const CLUSTERS: [&str; 2] = ["east", "west"];

const INSTANCE: &str = "apiVersion: kro.run/v1alpha1
kind: WebApp
metadata: {name: shop, namespace: default}
spec: {message: MESSAGE}
";

const WORKLOAD: &str = "apiVersion: v1
kind: Service
metadata: {name: plain, namespace: default}
spec: {selector: {app: plain}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: plain, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: plain}}
  template:
    metadata: {labels: {app: plain}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: plain, image: registry.example/plain:1}]
";

#[tokio::test(flavor = "multi_thread")]
async fn an_application_set_keeps_two_logical_clusters() {
    let (mut hub, mut east, west) =
        tokio::join!(Hub::start(), Spoke::start("east"), Spoke::start("west"));
    // It lives beside the hub, not in it: what it shows must not depend on the hub.
    let Some(argo) = Argo::start(&west).await else {
        return;
    };
    tokio::join!(hub.join(&east), hub.join(&west));
    let named = "name: webapp\n";
    let owning = format!("{named}  annotations: {{wheelhouse.dev/owner-references: 'true'}}\n");
    hub.root().apply(&WEBAPP.replacen(named, &owning, 1)).await;
    hub.root()
        .must(&[
            "wait",
            "--for=condition=Ready",
            "rgd/webapp",
            "--timeout=30s",
        ])
        .await;
    for cluster in CLUSTERS {
        add_cluster(&argo, &hub, cluster).await;
    }
    let repository = Repository::new();
    let trial = Trial {
        argo: Arc::new(argo),
    };
    trial.first_sync(&hub, &repository, [&east, &west]).await;
    trial.change_and_prune(&hub, &repository).await;
    trial.heals(&hub).await;

    let kept = trial.uids(&hub).await;
    let watched = trial.watch_for_missing();
    trial.hub_restarted(&mut hub).await;
    trial.spoke_away(&hub, &mut east, &repository).await;
    let seen = watched.end().await;
    assert_eq!(
        seen,
        BTreeSet::new(),
        "shown missing or pruned while the hub or a spoke was away"
    );
    let after = trial.uids(&hub).await;
    for (object, uid) in &kept {
        assert_eq!(
            after.get(object),
            Some(uid),
            "{object} is the same as before"
        );
    }
    trial.end(&hub).await;
}

/// `argocd cluster add`, with the kubeconfig that `wheelhouse kubeconfig` prints.
async fn add_cluster(argo: &Argo, hub: &Hub, cluster: &str) {
    let printed = hub
        .wheelhouse(&["kubeconfig", cluster])
        .await
        .succeeded("wheelhouse kubeconfig");
    let config: Value = serde_saphyr::from_str(&printed).expect("a kubeconfig");
    let context = config["current-context"]
        .as_str()
        .expect("it has a context")
        .to_owned();
    let file = argo.file(&format!("{cluster}.kubeconfig"), &printed);
    let arguments = [
        "cluster",
        "add",
        &context,
        "--kubeconfig",
        &file,
        "--name",
        cluster,
        "--label",
        "fleet=trial",
        "--yes",
    ];
    let ran = argo.run(&arguments).await;
    let told = ran.succeeded("argocd cluster add");
    assert!(told.contains("added"), "{told}");
    say(&format!("cluster add {cluster}: {}", told.trim()));
}

struct Trial {
    argo: Arc<Argo>,
}

/// What Argo CD showed as absent, while it was watched.
struct Watched {
    seen: Arc<Mutex<BTreeSet<String>>>,
    task: JoinSet<()>,
}

impl Watched {
    async fn end(mut self) -> BTreeSet<String> {
        self.task.shutdown().await;
        self.seen.lock().expect("no panic holds it").clone()
    }
}

impl Trial {
    async fn first_sync(&self, hub: &Hub, repository: &Repository, spokes: [&Spoke; 2]) {
        repository.commit(&[
            ("first", &config_map("first", "-1", "one")),
            ("instance", &INSTANCE.replace("MESSAGE", "hello")),
            ("workload", WORKLOAD),
            ("extra", &config_map("extra", "0", "one")),
            ("last", &config_map("last", "1", "one")),
        ]);
        self.argo
            .control()
            .apply(&application_set(&repository.url()))
            .await;
        for (cluster, spoke) in CLUSTERS.into_iter().zip(spokes) {
            let path = hub.at(cluster);
            // The second wave is applied; the third waits until it is healthy.
            present(&path, &["get", "webapp", "shop"], &self.argo).await;
            present(&path, &["get", "deployment", "plain"], &self.argo).await;
            let last = path.run(&["get", "configmap", "last"]).await;
            assert!(
                last.stderr.contains("NotFound"),
                "the last wave waits: {last:?}"
            );
            pods::make_ready(&spoke.kubectl(), "shop").await;
            pods::make_ready(&spoke.kubectl(), "plain").await;
            present(&path, &["get", "configmap", "last"], &self.argo).await;
            self.synced(cluster, "").await;
            say(&format!("{cluster}: synced and healthy"));
            let object = path
                .json(&["get", "configmap", "first", "--show-managed-fields"])
                .await;
            let fields = object.expect("it is synced")["metadata"]["managedFields"].to_string();
            assert!(fields.contains("\"Apply\""), "server-side apply: {fields}");
            self.shows_children(cluster).await;
        }
    }

    /// What an instance owns is shown under it.
    async fn shows_children(&self, cluster: &str) {
        within(
            PATIENCE,
            "children are shown under the instance",
            || async {
                let name = application(cluster);
                let arguments = ["app", "get", &name, "--output", "tree"];
                let tree = self.argo.run(&arguments).await.ok()?;
                let below = tree
                    .lines()
                    .skip_while(|line| !line.starts_with("WebApp/shop"));
                let below: Vec<&str> = below
                    .skip(1)
                    .take_while(|line| line.starts_with(['├', '└', '│', ' ']))
                    .collect();
                let shows = |child: &str| below.iter().any(|line| line.contains(child));
                let all = [
                    "ConfigMap/shop-config",
                    "Deployment/shop",
                    "Service/shop",
                    "Pod/shop",
                ];
                all.into_iter().all(shows).then_some(()).ok_or(tree)
            },
        )
        .await;
        say(&format!("{cluster}: shows the children of an instance"));
    }

    async fn change_and_prune(&self, hub: &Hub, repository: &Repository) {
        for cluster in CLUSTERS {
            let diff = self.argo.run(&["app", "diff", &application(cluster)]).await;
            assert_eq!(diff.code, 0, "nothing differs: {diff:?}");
        }
        let revision = repository.commit(&[
            ("instance", &INSTANCE.replace("MESSAGE", "changed")),
            ("extra", ""),
        ]);
        for cluster in CLUSTERS {
            self.argo.refresh(&application(cluster)).await;
            self.synced(cluster, &revision).await;
            let path = hub.at(cluster);
            let extra = path.run(&["get", "configmap", "extra"]).await;
            assert!(extra.stderr.contains("NotFound"), "pruned: {extra:?}");
            let child = ["get", "configmap", "shop-config"];
            until(&path, &child, "the change reaches the child", |it| {
                it["data"]["message"] == "changed"
            })
            .await;
            let diff = self.argo.run(&["app", "diff", &application(cluster)]).await;
            assert_eq!(diff.code, 0, "nothing differs: {diff:?}");
            say(&format!("{cluster}: changed and pruned"));
        }
    }

    async fn heals(&self, hub: &Hub) {
        for cluster in CLUSTERS {
            let path = hub.at(cluster);
            let patch = r#"{"data":{"text":"by hand"}}"#;
            path.must(&["patch", "configmap", "first", "--type=merge", "-p", patch])
                .await;
            let patch = r#"{"spec":{"message":"by hand"}}"#;
            path.must(&["patch", "webapp", "shop", "--type=merge", "-p", patch])
                .await;
            path.must(&["delete", "configmap", "last"]).await;
            let look = |kind: &'static str, name: &'static str| ["get", kind, name];
            self.healed(&path, &look("configmap", "first"), |it| {
                it["data"]["text"] == "one"
            })
            .await;
            self.healed(&path, &look("webapp", "shop"), |it| {
                it["spec"]["message"] == "changed"
            })
            .await;
            self.healed(&path, &look("configmap", "last"), |_| true)
                .await;
            self.synced(cluster, "").await;
            say(&format!("{cluster}: healed"));
        }
    }

    async fn healed(&self, path: &Kubectl, arguments: &[&str], holds: impl Fn(&Value) -> bool) {
        within(PATIENCE, &format!("{arguments:?} is healed"), || async {
            let object = path.json(arguments).await?;
            if holds(&object) {
                Ok(())
            } else {
                Err(format!("{object} {}", self.argo.logs()))
            }
        })
        .await;
    }

    /// The hub is killed and comes back: what Argo CD holds open goes on.
    async fn hub_restarted(&self, hub: &mut Hub) {
        let away = "connection refused";
        let before = self.argo.said(away);
        hub.kill();
        // Argo CD must have noticed, or nothing is tried.
        for cluster in CLUSTERS {
            self.argo.refresh(&application(cluster)).await;
        }
        within(PATIENCE, "Argo CD notices", || async {
            let noticed = self.argo.said(away) > before;
            noticed.then_some(()).ok_or_else(|| self.argo.logs())
        })
        .await;
        hub.launch().await;
        for cluster in CLUSTERS {
            self.argo.refresh(&application(cluster)).await;
            self.synced(cluster, "").await;
            say(&format!("{cluster}: synced again after the hub's restart"));
        }
    }

    /// A spoke goes away in the middle of a sync, and comes back.
    async fn spoke_away(&self, hub: &Hub, east: &mut Spoke, repository: &Repository) {
        // The second wave cannot become healthy by itself, so the sync is in its middle.
        let slow = WORKLOAD.replace("plain", "slow");
        let revision = repository.commit(&[
            ("early", &config_map("early", "-1", "one")),
            ("slow", &slow),
            ("late", &config_map("late", "1", "one")),
        ]);
        self.argo.refresh(&application("east")).await;
        let path = hub.at("east");
        present(&path, &["get", "deployment", "slow"], &self.argo).await;
        east.stop_api();
        until(
            &hub.root(),
            &["get", "spoke", "east"],
            "the hub notices",
            |spoke| {
                spoke["status"]["conditions"]
                    .to_string()
                    .contains("\"False\"")
            },
        )
        .await;
        self.argo.refresh(&application("east")).await;
        self.argo.refresh(&application("west")).await;
        // The other cluster is not held up.
        let west = hub.at("west");
        present(&west, &["get", "deployment", "slow"], &self.argo).await;
        east.start_api().await;
        pods::make_ready(&east.kubectl(), "slow").await;
        for cluster in CLUSTERS {
            if cluster == "west" {
                pods::make_ready(&west, "slow").await;
            }
            self.argo.refresh(&application(cluster)).await;
            present(&hub.at(cluster), &["get", "configmap", "late"], &self.argo).await;
            self.synced(cluster, &revision).await;
            say(&format!("{cluster}: synced after the spoke's return"));
        }
    }

    /// Deleting the set deletes what it made.
    async fn end(&self, hub: &Hub) {
        let arguments = [
            "delete",
            "-n",
            "argocd",
            "applicationset",
            "fleet",
            "--timeout=240s",
        ];
        self.argo.control().must(&arguments).await;
        for cluster in CLUSTERS {
            let path = hub.at(cluster);
            within(PATIENCE, "all is gone", || async {
                let all =
                    "webapp/shop,deployment/plain,configmap/first,configmap/late,service/plain";
                let mut left = String::new();
                for object in all.split(',') {
                    left += &path
                        .run(&["get", object, "-o", "name", "--ignore-not-found"])
                        .await
                        .ok()?;
                }
                if left.is_empty() {
                    Ok(())
                } else {
                    Err(format!("{left} {}", self.argo.logs()))
                }
            })
            .await;
        }
    }

    async fn synced(&self, cluster: &str, revision: &str) {
        self.argo.synced(&application(cluster), revision).await;
    }

    /// Watches the resources of both applications from now on, for any that is shown as absent.
    fn watch_for_missing(&self) -> Watched {
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let (argo, found) = (Arc::clone(&self.argo), Arc::clone(&seen));
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                for cluster in CLUSTERS {
                    let Ok(application) = argo.get("application", &application(cluster)).await
                    else {
                        continue;
                    };
                    let absent = missing(&application);
                    found.lock().expect("no panic holds it").extend(absent);
                }
                tokio::task::yield_now().await;
            }
        });
        Watched { seen, task }
    }

    /// Returns the uids of all objects of both clusters that the trial knows.
    async fn uids(&self, hub: &Hub) -> BTreeMap<String, Value> {
        let mut uids = BTreeMap::new();
        for cluster in CLUSTERS {
            let path = hub.at(cluster);
            for kind in ["webapp", "deployment", "configmap", "service"] {
                let list = eventually("the kind is listed", || async {
                    path.json(&["get", kind]).await
                })
                .await;
                for object in list["items"].as_array().into_iter().flatten() {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    uids.insert(
                        format!("{cluster} {kind}/{name}"),
                        object["metadata"]["uid"].clone(),
                    );
                }
            }
        }
        uids
    }
}

/// Names the resources that were there before and are shown as missing, and those that a sync has pruned.
fn missing(application: &Value) -> Vec<String> {
    let known = ["first", "shop", "plain", "last"];
    let name = application["metadata"]["name"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    let resources = application["status"]["resources"]
        .as_array()
        .into_iter()
        .flatten();
    for resource in resources {
        let resource_name = resource["name"].as_str().unwrap_or_default();
        if known.contains(&resource_name) && resource["health"]["status"] == "Missing" {
            found.push(format!("{name}: {resource_name} is missing"));
        }
    }
    let results = &application["status"]["operationState"]["syncResult"]["resources"];
    for result in results.as_array().into_iter().flatten() {
        if result["status"] == "Pruned" && known.iter().any(|it| result["name"] == *it) {
            found.push(format!("{name}: {} is pruned", result["name"]));
        }
    }
    found
}

async fn present(path: &Kubectl, arguments: &[&str], argo: &Argo) {
    within(PATIENCE, &format!("{arguments:?} is there"), || async {
        let ran = path.run(arguments).await;
        ran.ok()
            .map(drop)
            .map_err(|error| format!("{error} {}", argo.logs()))
    })
    .await;
}

fn application(cluster: &str) -> String {
    format!("web-{cluster}")
}

fn config_map(name: &str, wave: &str, text: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default",
            "annotations": {"argocd.argoproj.io/sync-wave": wave}},
        "data": {"text": text},
    })
    .to_string()
}

fn application_set(url: &str) -> String {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "fleet", "namespace": "argocd"},
        "spec": {
            "goTemplate": true,
            "generators": [{"clusters": {"selector": {"matchLabels": {"fleet": "trial"}}}}],
            "template": {
                "metadata": {
                    "name": "web-{{.name}}",
                    "finalizers": ["resources-finalizer.argocd.argoproj.io"],
                },
                "spec": {
                    "project": "default",
                    "source": {"repoURL": url, "targetRevision": "main", "path": "web"},
                    "destination": {"server": "{{.server}}", "namespace": "default"},
                    "syncPolicy": {
                        "automated": {"prune": true, "selfHeal": true},
                        "syncOptions": ["ServerSideApply=true"],
                        "retry": {"limit": 20, "backoff": {"duration": "2s", "factor": 1, "maxDuration": "5s"}},
                    },
                },
            },
        },
    })
    .to_string()
}
