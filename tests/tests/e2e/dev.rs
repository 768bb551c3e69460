//! `wheelhouse dev`, as a newcomer runs it.

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use api::wheelhouse::keys::ANNOTATION_SIMULATE;
use regex::{Captures, Regex};
use serde_json::json;
use wheelhouse_tests::{
    Kubectl, assets, eventually,
    manifests::shipped,
    openmetrics::{self, Family},
    process::{Process, Scratch},
};

#[tokio::test(flavor = "multi_thread")]
async fn dev_brings_the_demo_up_and_every_line_that_it_prints_works_as_typed() {
    let folder = Scratch::new("dev");
    let mut command = Command::new(assets::wheelhouse());
    command
        .args(["dev", "--listen", "127.0.0.1:0"])
        .env("WHEELHOUSE_LOG", "info")
        .current_dir(folder.path());
    let process = Process::start(&command, &folder.file("dev.log"));
    let printed = ready(&process).await;
    let lines: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .collect();
    let has = lines.iter().any(|line| line.contains("get webapps"));
    assert!(has, "{printed}");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut script = "set -e\n".to_owned();
    for line in &lines {
        for part in ["echo '== ", &line.replace('\'', ""), "'\n", line, "\n"] {
            script.push_str(part);
        }
    }
    let output = tokio::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{path}", assets::folder().display()))
        .env("HOME", folder.path())
        .output()
        .await
        .expect("sh can be started");
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for spoke in ["spoke-1", "spoke-2"] {
        let mark = format!("== kubectl --context {spoke} get webapps\n");
        let after = stdout.split(&mark).nth(1).expect("the line was run");
        let table: String = after
            .lines()
            .take_while(|line| !line.starts_with("=="))
            .collect();
        assert!(
            table.contains("demo") && table.contains("True"),
            "{spoke}: {table}"
        );
    }
    scrape(&folder.file("wheelhouse-dev/kubeconfig")).await;
    super::debug::pages(&folder.file("wheelhouse-dev/kubeconfig"), &folder, &process).await;
    see_nodes(&folder).await;
    see_root(&folder).await;
    see_fleet(&folder).await;
    see_cluster(&folder).await;
    change_demo(&folder).await;
    stop(&process).await;
    // The second start finds everything there, and leaves it as it is.
    let process = Process::start(&command, &folder.file("again.log"));
    ready(&process).await;
    see_changed_demo(&folder).await;
    stop(&process).await;
    for name in ["dev.log", "again.log"] {
        let log = std::fs::read_to_string(folder.file(name)).expect("the log is there");
        assert!(
            !log.contains('\x1b'),
            "no colours without a terminal: {log}"
        );
        assert!(log.contains(" INFO "), "{log}");
        // All of this is routine.
        let alarm = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
        let alarms: Vec<&str> = log.lines().filter(alarm).collect();
        assert_eq!(alarms, [""; 0], "{log}");
    }
}

/// Waits until dev has printed all that it prints.
async fn ready(process: &Process) -> String {
    eventually("dev is ready", || async {
        assert!(process.runs(), "dev ended:\n{}", process.log());
        let log = process.log();
        if log.contains("Ctrl-C") {
            Ok(log)
        } else {
            Err(log)
        }
    })
    .await
}

async fn stop(process: &Process) {
    process.signal("TERM");
    eventually("dev ends", || async {
        if process.runs() {
            Err(process.log())
        } else {
            Ok(())
        }
    })
    .await;
}

/// Looks at how the nodes of the demo are, as `kubectl describe` prints them.
async fn see_nodes(folder: &Scratch) {
    let kubectl = Kubectl::new(&folder.file("wheelhouse-dev/kubeconfig"));
    let described = ["--context", "spoke-1", "describe", "webapp", "demo"];
    let printed = kubectl.must(&described).await;
    for part in [
        "Managed Resources:",
        "Node ID:      deployment",
        "Reason:                IncludeWhenFalse",
        "State:                 SYNCED",
    ] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
}

/// Forgets the context: the instance comes to root, which has no workloads, and says so.
async fn see_root(folder: &Scratch) {
    let kubectl = Kubectl::new(&folder.file("wheelhouse-dev/kubeconfig"));
    let astray = json!({"apiVersion": "kro.run/v1alpha1", "kind": "WebApp",
        "metadata": {"name": "astray", "namespace": "default"}, "spec": {}});
    let made = kubectl
        .run_with_input(&["create", "-f", "-"], &astray.to_string())
        .await;
    assert_eq!(made.code, 0, "{made:?}");
    eventually("it says where instances belong", || async {
        let status = ["get", "webapp", "astray", "-o", "jsonpath={.status}"];
        let status = kubectl.must(&status).await;
        let is_told = ["KindNotListed", "create the instance in a cluster"]
            .iter()
            .all(|part| status.contains(part));
        is_told.then_some(()).ok_or(status)
    })
    .await;
    let waiting = |further: &[&str]| {
        let output = Command::new(assets::wheelhouse())
            .args(["fleet", "waiting"])
            .args(further)
            .env("KUBECONFIG", folder.file("wheelhouse-dev/kubeconfig"))
            .output()
            .expect("wheelhouse can be started");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        String::from_utf8_lossy(&output.stdout).into_owned() + &told
    };
    let names = waiting(&["-o", "name"]);
    assert_eq!(names, "root/WebApp/default/astray\n", "by cluster and kind");
    for (cluster, want) in [
        ("spoke-1", "No instance of spoke-1 is waiting"),
        ("nowhere", "no spoke \"nowhere\""),
    ] {
        let said = waiting(&["--cluster", cluster]);
        assert!(said.contains(want), "{said}");
    }
    let waiting = waiting(&["--cluster", "root"]);
    // Into a pipe, to the last word.
    let line = waiting.lines().find(|line| line.contains("astray"));
    let is_whole = line.is_some_and(|line| line.contains("create the instance in a cluster"));
    assert!(is_whole, "{waiting}");
    kubectl.must(&["delete", "webapp", "astray"]).await;
}

/// An embedded cluster has what programs look for, and a Pod that is never restarted ends.
async fn see_cluster(folder: &Scratch) {
    see_rights(folder).await;
    let kubectl = Kubectl::new(&folder.file("wheelhouse-dev/kubeconfig"));
    let service = ["get", "service", "kubernetes", "--context", "spoke-1"];
    let service = kubectl.json(&service).await.expect("the Service is there");
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1", "{service}");
    let run = "run once --image example.com/test --restart Never --context spoke-1";
    kubectl.typed(run).await;
    let wait = "wait pod/once --for jsonpath={.status.phase}=Succeeded --context spoke-1";
    kubectl.typed(wait).await;
    leave_deployment_alone(&kubectl).await;
    leave_cluster_alone(&kubectl).await;
    make_cluster(&kubectl).await;
}

/// What somebody wants to report on himself is not made ready, until he does not want to any more.
async fn leave_deployment_alone(kubectl: &Kubectl) {
    let deployment = |name: &str, simulate: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default",
                "annotations": {ANNOTATION_SIMULATE: simulate}},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/test"}]}}},
        })
    };
    for (name, simulate) in [("own", "false"), ("simulated", "true")] {
        let text = deployment(name, simulate).to_string();
        let create = ["create", "-f", "-", "--context", "spoke-1"];
        let made = kubectl.run_with_input(&create, &text).await;
        assert_eq!(made.code, 0, "{made:?}");
    }
    let rollout = "rollout status deployment/simulated --timeout 30s --context spoke-1";
    kubectl.typed(rollout).await;
    let reported = json!({"replicas": 1, "unavailableReplicas": 1});
    let patch = json!({"status": reported});
    let report = format!(
        "patch deployment own --subresource status --type merge -p {patch} --context spoke-1"
    );
    kubectl.typed(&report).await;
    // By the time that another has followed its change, this one would have.
    let scale = "scale deployment simulated --replicas 2 --context spoke-1";
    kubectl.typed(scale).await;
    kubectl.typed(rollout).await;
    let own = ["get", "deployment", "own", "--context", "spoke-1"];
    let left = kubectl.json(&own).await.expect("it is there");
    assert_eq!(left["status"], reported, "only what was reported");
    let sets = "get replicasets --selector app=own -o name --context spoke-1";
    let sets = kubectl.typed(sets).await;
    assert_eq!(sets, "", "nothing was made for it");
    let annotate = format!("annotate deployment own {ANNOTATION_SIMULATE}- --context spoke-1");
    kubectl.typed(&annotate).await;
    let rollout = "rollout status deployment/own --timeout 30s --context spoke-1";
    kubectl.typed(rollout).await;
}

/// The same for a whole cluster.
async fn leave_cluster_alone(kubectl: &Kubectl) {
    let annotate = format!("annotate spoke spoke-2 {ANNOTATION_SIMULATE}=false");
    kubectl.typed(&annotate).await;
    let serial = AtomicU32::new(0);
    let left = eventually("the cluster is left alone", || async {
        let name = format!("probe-{}", serial.fetch_add(1, Ordering::Relaxed));
        for context in ["spoke-2", "spoke-1"] {
            let run = format!("run {name} --image example.com/test --context {context}");
            kubectl.typed(&run).await;
        }
        // In the other cluster it runs: here it would as well.
        let wait =
            format!("wait pod/{name} --for jsonpath={{.status.phase}}=Running --context spoke-1");
        kubectl.typed(&wait).await;
        let phase = format!("get pod {name} -o jsonpath={{.status.phase}} --context spoke-2");
        let phase = kubectl.typed(&phase).await;
        (phase == "Pending").then_some(name).ok_or(phase)
    })
    .await;
    let annotate = format!("annotate spoke spoke-2 {ANNOTATION_SIMULATE}-");
    kubectl.typed(&annotate).await;
    let wait =
        format!("wait pod/{left} --for jsonpath={{.status.phase}}=Running --context spoke-2");
    kubectl.typed(&wait).await;
}

/// A cluster that is made while dev runs is like those that dev made.
async fn make_cluster(kubectl: &Kubectl) {
    let spoke = json!({"apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke",
        "metadata": {"name": "later"}, "spec": {"provider": "Embedded"}});
    kubectl.apply(&spoke.to_string()).await;
    let wait = "wait spoke/later --for condition=Ready --timeout 30s";
    kubectl.typed(wait).await;
    let server = "config view --minify -o jsonpath={.clusters[0].cluster.server} --context spoke-1";
    let server = kubectl.typed(server).await.replace("spoke-1", "later");
    let at_later = format!("--context spoke-1 --server {server}");
    let run = format!("run main --image example.com/test {at_later}");
    kubectl.typed(&run).await;
    let wait =
        format!("wait pod/main --for jsonpath={{.status.phase}}=Running --timeout 30s {at_later}");
    kubectl.typed(&wait).await;
}

/// Who may edit in a cluster may write definitions there; in root that is a right of its own, because those are for all clusters.
async fn see_rights(folder: &Scratch) {
    let kubectl = Kubectl::new(&folder.file("wheelhouse-dev/kubeconfig"));
    for line in [
        "create clusterrole access-spoke-1 --verb access --resource spokes.wheelhouse.dev --resource-name spoke-1",
        "create clusterrolebinding access-spoke-1 --clusterrole access-spoke-1 --user joe",
        "create clusterrolebinding edits --clusterrole edit --user joe",
        "create clusterrolebinding edits --clusterrole edit --user joe --context spoke-1",
    ] {
        kubectl.typed(line).await;
    }
    let can = |context: &'static str, verb: &'static str| {
        let kubectl = &kubectl;
        async move {
            let kind = "resourcegraphdefinitions";
            let asked = [
                "auth",
                "can-i",
                verb,
                kind,
                "--as",
                "joe",
                "--context",
                context,
            ];
            kubectl.run(&asked).await.stdout.trim().to_owned()
        }
    };
    for verb in ["create", "list"] {
        eventually(&format!("joe can {verb} definitions"), || async {
            let said = can("spoke-1", verb).await;
            (said == "yes").then_some(()).ok_or(said)
        })
        .await;
        assert_eq!(can("root", verb).await, "no", "{verb}");
    }
}

/// Changes the demo at one cluster and deletes it at the other.
async fn change_demo(folder: &Scratch) {
    let kubectl = Kubectl::new(&folder.file("wheelhouse-dev/kubeconfig"));
    let patch = r#"{"spec":{"message":"changed"}}"#;
    let one = ["webapp", "demo", "--context"];
    let change = [
        &["patch"],
        &one[..],
        &["spoke-1", "--type", "merge", "-p", patch],
    ];
    kubectl.must(&change.concat()).await;
    kubectl
        .must(&[&["delete"], &one[..], &["spoke-2"]].concat())
        .await;
}

async fn see_changed_demo(folder: &Scratch) {
    let kubectl = Kubectl::new(&folder.file("wheelhouse-dev/kubeconfig"));
    let all = |spoke| ["get", "webapps", "--context", spoke];
    let changed = kubectl.json(&all("spoke-1")).await.expect("a list");
    assert_eq!(
        changed["items"][0]["spec"]["message"], "changed",
        "{changed}"
    );
    let deleted = kubectl.json(&all("spoke-2")).await.expect("a list");
    assert_eq!(deleted["items"], json!([]), "{deleted}");
}

/// Looks at the fleet in a terminal.
async fn see_fleet(folder: &Scratch) {
    let fleet = |arguments: &'static [&'static str]| {
        let mut command = Command::new(assets::wheelhouse());
        command
            .args(arguments)
            .env("KUBECONFIG", folder.file("wheelhouse-dev/kubeconfig"));
        command
    };
    let print = |arguments| {
        let output = fleet(arguments)
            .output()
            .expect("wheelhouse can be started");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        String::from_utf8(output.stdout).expect("is text")
    };
    eventually("both spokes are shown with their instance", || async {
        let table = print(&["fleet"]);
        let is_row = |line: &&str| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            matches!(
                cells.as_slice(),
                ["spoke-1" | "spoke-2", "Ready", "1/1", ..]
            )
        };
        match table.lines().filter(is_row).count() {
            2 => Ok(()),
            _ => Err(table),
        }
    })
    .await;
    let matrix: serde_json::Value =
        serde_json::from_str(&print(&["fleet", "matrix", "-o", "json"])).expect("is JSON");
    let cells = &matrix["definitions"][0]["instances"];
    let count = serde_json::json!({"ready": 1, "total": 1, "firstRevision": 1, "lastRevision": 1});
    assert_eq!(
        *cells,
        serde_json::json!({"spoke-1": count, "spoke-2": count}),
        "{matrix}"
    );
    plugged(folder).await;
    let watch = Process::start(&fleet(&["fleet", "watch"]), &folder.file("watch.log"));
    eventually("the watch shows both", || async {
        let log = watch.log();
        let shown = ["spoke-1 Ready 1/1", "spoke-2 Ready 1/1"];
        let all = shown.iter().all(|line| log.contains(line));
        if all { Ok(()) } else { Err(log) }
    })
    .await;
    stop(&watch).await;
}

/// Runs the command as a plug-in of kubectl, and what needs no hub.
async fn plugged(folder: &Scratch) {
    std::os::unix::fs::symlink(assets::wheelhouse(), folder.file("kubectl-wheelhouse"))
        .expect("it can be linked");
    let path = std::env::var("PATH").unwrap_or_default();
    let print = async |program: &Path, arguments: &[&str]| {
        let output = tokio::process::Command::new(program)
            .args(arguments)
            .current_dir(assets::workspace())
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .env("KUBECONFIG", folder.file("wheelhouse-dev/kubeconfig"))
            .output()
            .await
            .expect("it can be started");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("is text")
    };
    let names = ["wheelhouse", "fleet", "-o", "name"];
    let names = print(&assets::folder().join("kubectl"), &names).await;
    let want = "spoke.wheelhouse.dev/spoke-1\nspoke.wheelhouse.dev/spoke-2\n";
    assert_eq!(names, want, "as a plug-in");
    let drawn = ["rgd", "graph", "cli/src/dev/demo.yaml"];
    let drawn = print(assets::wheelhouse(), &drawn).await;
    assert!(drawn.starts_with("flowchart LR\n"), "{drawn}");
    assert!(drawn.contains("config<br/>ConfigMap"), "{drawn}");
    let completion = print(assets::wheelhouse(), &["completion", "bash"]).await;
    assert!(
        completion.contains("complete -F _wheelhouse"),
        "{completion}"
    );
}

/// Reads the metrics, as one who may and as others.
async fn scrape(kubeconfig: &Path) {
    let kubectl = Kubectl::new(kubeconfig);
    let metrics = ["get", "--raw", "/metrics"];
    let families = openmetrics::parse(&kubectl.must(&metrics).await).expect("it is OpenMetrics");
    assert_eq!(exposed(&families), documented(), "docs/metrics.md says so");
    watched(&families);
    let total = |family: &str, label: &str, value: &str| -> f64 {
        let samples = families[family].samples.iter();
        let of_it =
            samples.filter(|(_, labels, _)| labels.get(label).is_some_and(|it| it == value));
        of_it.map(|(_, _, value)| value).sum()
    };
    for (family, label, value) in [
        ("apiserver_request", "resource", "resourcegraphdefinitions"),
        ("apiserver_request", "resource", "other"),
        ("apiserver_longrunning_requests", "verb", "WATCH"),
        ("apiserver_storage_objects", "resource", "deployments.apps"),
        ("apiserver_storage_objects", "resource", "other"),
        ("workqueue_adds", "name", "instance"),
        (
            "workqueue_work_duration_seconds",
            "controller",
            "definition",
        ),
        ("wheelhouse_tasks", "name", "instance-worker"),
    ] {
        assert!(
            total(family, label, value) > 0.0,
            "{family} {label}={value}"
        );
    }
    for family in ["commits", "groups", "writes", "written_bytes"] {
        let family = format!("wheelhouse_store_{family}");
        assert!(families[&family].samples[0].2 > 0.0, "{family}");
    }
    let as_nobody = [&metrics[..], &["--as", "nobody"]].concat();
    let refused = kubectl.run(&as_nobody).await;
    assert!(refused.stderr.contains("Forbidden"), "{refused:?}");
    assert_eq!(refused.stdout, "", "nothing of it is told");
    kubectl
        .must(&[
            "create",
            "clusterrole",
            "scrape",
            "--verb=get",
            "--non-resource-url=/metrics",
        ])
        .await;
    kubectl
        .must(&[
            "create",
            "clusterrolebinding",
            "scrape",
            "--clusterrole=scrape",
            "--user=nobody",
        ])
        .await;
    eventually("the binding counts", || async {
        kubectl.run(&as_nobody).await.ok()
    })
    .await;
}

/// Looks for what the alert rules and the dashboard read.
fn watched(families: &BTreeMap<String, Family>) {
    for name in ["alerts.yaml", "dashboard.json"] {
        let wanted = series_in(&shipped(&format!("monitoring/{name}")));
        assert!(wanted.len() > 5, "{name}: {wanted:?}");
        for (series, labels) in wanted {
            let endings = ["", "_total", "_bucket", "_info"].into_iter();
            let mut named = endings.filter_map(|it| families.get(series.strip_suffix(it)?));
            let family = named.next();
            assert!(family.is_some(), "{name}: no hub has {series}");
            for (label, value) in labels {
                let mut samples = family.into_iter().flat_map(|it| &it.samples);
                let has = samples.any(|(_, labels, _)| {
                    let found = labels.get(&label);
                    found.is_some_and(|it| value.is_empty() || *it == value)
                });
                // The cluster of an embedded spoke has no heartbeat.
                let is_empty = value.is_empty() && family.is_some_and(|it| it.samples.is_empty());
                assert!(has || is_empty, "{name}: {series} has no {label}={value:?}");
            }
        }
    }
}

/// The series that expressions name, and the labels that they select by: with the value where it is one. The scraper adds `job`.
fn series_in(text: &str) -> Vec<(String, Vec<(String, String)>)> {
    let named = Regex::new(
        r"\b((?:wheelhouse|apiserver|workqueue|controller_runtime)_[a-z_]+)(?:\{([^}]*)\})?",
    );
    let label = Regex::new(r#"([a-z]+)(=~?)\\?"([^"\\]*)"#).expect("a pattern");
    let series = |found: Captures<'_>| {
        let labels = found.get(2).map_or("", |it| it.as_str());
        let labels = label.captures_iter(labels).map(|it| {
            let value = if &it[2] == "=" { &it[3] } else { "" };
            (it[1].to_owned(), value.to_owned())
        });
        let labels = labels.filter(|(label, _)| label != "job").collect();
        (found[1].to_owned(), labels)
    };
    let grouped = Regex::new(
        r"by \(([a-z_, ]+)\) \((?:rate\()?((?:wheelhouse|apiserver|workqueue|controller_runtime)_[a-z_]+)",
    );
    let grouped = grouped.expect("a pattern");
    let grouped = grouped.captures_iter(text).map(|found| {
        let labels = found[1].split(", ");
        let labels = labels.map(|label| (label.to_owned(), String::new()));
        (found[2].to_owned(), labels.collect())
    });
    named
        .expect("a pattern")
        .captures_iter(text)
        .map(series)
        .chain(grouped)
        .collect()
}

/// Names and types, as samples have them.
fn exposed(families: &BTreeMap<String, Family>) -> BTreeMap<String, String> {
    let named = families.iter().map(|(name, family)| {
        let suffix = match family.kind.as_str() {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        (format!("{name}{suffix}"), family.kind.clone())
    });
    named.collect()
}

/// Names and types, as the tables of the page have them.
fn documented() -> BTreeMap<String, String> {
    let page = include_str!("../../../docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let named = rows.filter_map(|row| {
        let (name, rest) = row.split_once("` | ")?;
        let kind = rest.split(" | ").next()?;
        let kinds = ["counter", "gauge", "histogram", "info"];
        kinds
            .contains(&kind)
            .then(|| (name.to_owned(), kind.to_owned()))
    });
    named.collect()
}
