//! `docs/quickstart.md`, typed word for word: two kube-apiservers take the place of kind, the test makes Pods ready, and
//! Argo CD is there by its CRDs.

use std::{os::unix::fs::symlink, path::Path, process::Command};

use wheelhouse_tests::{
    Kubectl, Spoke, assets, eventually,
    manifests::{documents, shipped},
    pods,
    process::{Process, Scratch, free_port},
    typed::{self, Shell, Step},
};

/// What the page says of building the binary: the trial has it already.
const BUILD: &str =
    "cargo build --release --package wheelhouse\nexport PATH=$PWD/target/release:$PATH";

/// The page has the default port.
const PORT: &str = "6443";

#[tokio::test(flavor = "multi_thread")]
async fn the_quick_start_works_as_typed() {
    let page = include_str!("../../../docs/quickstart.md");
    let steps = typed::steps(page);
    let (east, west) = tokio::join!(Spoke::start("east"), Spoke::start("west"));
    let mut reader = Reader::new([east, west]);
    for step in &steps {
        reader.follow(step).await;
    }
    let prompts = page.lines().filter(|line| line.starts_with("$ "));
    assert_eq!(reader.typed_count, prompts.count(), "none is left out");
}

/// Somebody who follows the page.
struct Reader {
    folder: Scratch,
    clusters: [Spoke; 2],
    shell: Shell,
    // The terminal in which the hub runs.
    hub: Option<Process>,
    port: String,
    /// What the last script printed.
    printed: String,
    typed_count: usize,
}

impl Reader {
    fn new(clusters: [Spoke; 2]) -> Self {
        let folder = Scratch::new("quickstart");
        let programs = folder.file("bin");
        std::fs::create_dir(&programs).expect("a folder");
        let link = |from: &Path, name: &str| {
            symlink(from, folder.file(name)).expect("a link can be made");
        };
        link(assets::wheelhouse(), "bin/wheelhouse");
        link(&assets::workspace().join("deploy"), "deploy");
        let shell = Shell::start(folder.path(), &[&programs, assets::folder()]);
        Self {
            folder,
            clusters,
            shell,
            hub: None,
            port: free_port().to_string(),
            printed: String::new(),
            typed_count: 0,
        }
    }

    async fn follow(&mut self, step: &Step) {
        match step {
            Step::Save { name, content } => drop(self.folder.write(name, content)),
            Step::Script(script) if script == BUILD => {}
            Step::Script(script) => self.run(script).await,
            Step::Type { command, shown } => self.enter(command, shown).await,
        }
    }

    async fn run(&mut self, script: &str) {
        if script.starts_with("kind ") {
            return self.make_clusters(script);
        }
        let (before, hub) = match script.find("wheelhouse ") {
            Some(at) => script.split_at(at),
            None => (script, ""),
        };
        if !before.is_empty() {
            self.printed = self.shell.must(before).await;
        }
        if !hub.is_empty() {
            self.start_hub(hub).await;
        }
    }

    /// The kubeconfigs that kind would have made.
    fn make_clusters(&self, script: &str) {
        let lines = self.clusters.iter().map(|cluster| {
            let name = cluster.name();
            let text = std::fs::read_to_string(cluster.kubeconfig()).expect("it is there");
            self.folder.write(&format!("{name}.config"), text);
            format!(
                "kind create cluster --name {name} && kind get kubeconfig --name {name} > {name}.config"
            )
        });
        let expected = lines.collect::<Vec<_>>().join("\n");
        assert_eq!(script, expected, "the clusters of the page");
    }

    /// Types `wheelhouse dev` or `serve` in the other terminal, after Ctrl-C.
    async fn start_hub(&mut self, typed: &str) {
        if let Some(hub) = self.hub.take() {
            hub.signal("INT");
            eventually("Ctrl-C ends the hub", || async {
                let runs = hub.runs();
                (!runs).then_some(()).ok_or_else(|| hub.log())
            })
            .await;
        }
        let line = typed.replace("\\\n", " ").replace("HUB", "127.0.0.1");
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if line.contains(PORT) {
            words = words
                .iter()
                .map(|it| it.replace(PORT, &self.port))
                .collect();
        } else {
            words.extend(["--listen".to_owned(), format!("127.0.0.1:{}", self.port)]);
        }
        let mut command = Command::new(assets::wheelhouse());
        command.args(&words[1..]).current_dir(self.folder.path());
        let hub = Process::start(&command, &self.folder.file(&format!("{}.log", words[1])));
        let config = match words[1].as_str() {
            "dev" => "wheelhouse-dev/kubeconfig",
            _ => "hub.kubeconfig",
        };
        let kubectl = Kubectl::new(&self.folder.file(config));
        eventually("the hub is ready", || async {
            assert!(hub.runs(), "{typed} ended: {}", hub.log());
            kubectl.run(&["get", "--raw", "/readyz"]).await.ok()
        })
        .await;
        self.hub = Some(hub);
    }

    /// Types a command and compares what it prints. What only looks may show later what the page shows.
    async fn enter(&mut self, command: &str, shown: &str) {
        self.typed_count += 1;
        let hub = format!("127.0.0.1:{}", self.port);
        let command = &command.replace(&format!("HUB:{PORT}"), &hub);
        if command.contains("wait --for=condition=Ready site/hello") {
            self.run_pods(command).await;
        }
        if command.contains("applicationset.yaml") && !self.enter_argo_cd().await {
            return;
        }
        let only_looks = [" get ", "fleet", "get-contexts"];
        let patience = if only_looks.iter().any(|word| command.contains(word)) {
            wheelhouse_tests::wait::PATIENCE
        } else {
            std::time::Duration::ZERO
        };
        let end = tokio::time::Instant::now() + patience;
        loop {
            let printed = self.shell.must(command).await;
            let is_shown = typed::shape(&printed) == typed::shape(shown);
            if is_shown || shown.is_empty() {
                self.printed = printed;
                break;
            }
            assert!(
                tokio::time::Instant::now() < end,
                "{command}\nprints:\n{printed}\nThe page shows:\n{shown}\n{}",
                self.shell.errors()
            );
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        if command.contains("applicationset.yaml") {
            self.shell.must("export KUBECONFIG=$HUB_CONFIG").await;
        }
        if command.contains("create token viewer") {
            self.sign_in().await;
        }
    }

    /// No kubelet runs the Pods of a real cluster.
    async fn run_pods(&self, command: &str) {
        for cluster in &self.clusters {
            if command.contains(&format!("--context {} ", cluster.name())) {
                pods::make_all_ready(&cluster.kubectl(), "hello", 2).await;
            }
        }
    }

    /// The token that the page makes shows spokes and instances, and nothing else.
    async fn sign_in(&self) {
        let config = self.folder.file("hub.kubeconfig");
        let text = std::fs::read_to_string(config).expect("it is there");
        let documents = documents(&text);
        let cluster = &documents[0]["clusters"][0]["cluster"];
        let viewer = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": cluster}],
            "users": [{"name": "a", "user": {"token": self.printed.trim()}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        });
        let file = self.folder.write("viewer.kubeconfig", viewer.to_string());
        let root = Kubectl::new(&file);
        eventually("the viewer sees the fleet", || async {
            root.run(&["get", "spokes", "east", "west"]).await.ok()
        })
        .await;
        let server = cluster["server"].as_str().expect("a server");
        let east = root.server(format!("{server}/clusters/east"));
        eventually("the viewer sees instances", || async {
            east.run(&["get", "site", "hello"]).await.ok()
        })
        .await;
        let refused = east.run(&["get", "secrets"]).await;
        assert!(refused.stderr.contains("Forbidden"), "{refused:?}");
    }

    /// Goes to the cluster in which Argo CD runs, with the files as the page has them changed; false where its CRDs are not at hand.
    async fn enter_argo_cd(&mut self) -> bool {
        let Some(corpus) = assets::corpus() else {
            return false;
        };
        let charts = std::fs::read_to_string(corpus.join("charts/argo-cd.yaml"));
        let charts = documents(&charts.expect("the corpus has Argo CD"));
        let kubectl = self.clusters[1].kubectl();
        kubectl.must(&["create", "namespace", "argocd"]).await;
        for crd in charts
            .iter()
            .filter(|it| it["kind"] == "CustomResourceDefinition")
        {
            let file = self.folder.write("crd.json", crd.to_string());
            kubectl
                .must(&["create", "-f", &file.display().to_string()])
                .await;
        }
        let established = ["wait", "--for=condition=Established", "crd", "--all"];
        eventually("Argo CD's kinds are served", || async {
            kubectl.run(&established).await.ok()
        })
        .await;
        let applications = shipped("argo-cd/applicationset.yaml");
        self.folder.write("applicationset.yaml", applications);
        self.shell
            .must("HUB_CONFIG=$KUBECONFIG; export KUBECONFIG=$PWD/west.config")
            .await;
        true
    }
}
