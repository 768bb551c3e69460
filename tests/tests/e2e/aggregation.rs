//! A host carries the hub: unmodified kubectl of a user with rights in the host alone, through a real kube-apiserver.

use std::{cell::Cell, path::PathBuf, process::Stdio, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Child,
};
use wheelhouse_tests::{
    Hub, Kubectl, Kubelet, Spoke, backend, eventually,
    hub::Settings,
    manifests::{documents, of_kind, shipped},
    pki::Pair,
    spoke::Options,
    support::User,
    wait::PATIENCE,
    wire::Address,
};

use super::stage::WEBAPP;

/// How long what somebody may not have any more may go on.
const PROMISED: Duration = Duration::from_secs(10);
/// What it may take beyond that on a machine that has much else to do.
const LATE: Duration = Duration::from_secs(5);
/// How long something may take that comes at once.
const SOON: Duration = Duration::from_secs(1);
const THROUGH: &str = "/apis/wheelhouse.dev/v1alpha1/spokes";
const SERVICES: [&str; 3] = [
    "v1alpha1.wheelhouse.dev",
    "v1alpha1.kro.run",
    "v1alpha1.internal.kro.run",
];

/// A host, the hub that it carries, and a user of the host.
struct Stage {
    host: Spoke,
    hub: Hub,
    dev: Kubectl,
}

impl Stage {
    async fn set(without_controllers: bool) -> Self {
        let options = Options {
            without_controllers,
            aggregates: true,
            ..Options::default()
        };
        let host = Spoke::start_with("host", options).await;
        let admin = host.kubectl();
        admin.must(&["create", "namespace", "wheelhouse"]).await;
        admin.apply(&shipped("aggregation/rights.yaml")).await;
        admin.apply(&shipped("aggregation/users.yaml")).await;
        let token = [
            "create",
            "token",
            "wheelhouse-aggregation",
            "-n",
            "wheelhouse",
        ];
        let token = admin.must(&token).await;
        let kubeconfig = in_host(&host, token.trim()).display().to_string();
        let arguments = [
            "--host",
            "wheelhouse.wheelhouse.svc",
            "--authentication-kubeconfig",
            &kubeconfig,
            "--authorization-kubeconfig",
            &kubeconfig,
        ];
        let settings = Settings {
            arguments: arguments.map(str::to_owned).to_vec(),
            ..Settings::default()
        };
        let hub = Hub::start_with(settings).await;
        let dev = Kubectl::new(&host.kubeconfig_for("dev", Some("team")));
        let stage = Self { host, hub, dev };
        stage.register().await;
        stage
    }

    /// Applies what is shipped, with the hub of the trial in its place.
    async fn register(&self) {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let address = self.address();
        let (_, port) = address.host.rsplit_once(':').expect("a port");
        let services = shipped("aggregation/apiservices.yaml")
            .replace("CA_BUNDLE", &STANDARD.encode(&address.authority))
            .replace("port: 6443", &format!("port: {port}"));
        let service = shipped("aggregation/service-outside.yaml");
        let admin = self.host.kubectl();
        admin
            .apply(&service.replace("hub.example.com", "localhost"))
            .await;
        admin.apply(&services).await;
        for service in SERVICES {
            self.available(service, "True").await;
        }
        // Until then kubectl validates by the schemas of version 2, which do not tell what the server leaves to itself.
        eventually("the host publishes the schemas", || async {
            let index = admin.run(&["get", "--raw", "/openapi/v3"]).await.ok()?;
            let is_there = index.contains("\"apis/kro.run/v1alpha1\"");
            is_there.then_some(()).ok_or(index)
        })
        .await;
    }

    fn address(&self) -> Address {
        let kubeconfig = std::fs::read_to_string(self.hub.kubeconfig());
        Address::of_kubeconfig(&kubeconfig.expect("the hub wrote a kubeconfig"))
    }

    /// Waits until the host has noticed whether the hub is there. It looks each half minute, and when an APIService changes.
    async fn available(&self, service: &str, want: &str) {
        let admin = self.host.kubectl();
        eventually(&format!("{service} is available: {want}"), || async {
            let look = format!("wheelhouse.dev/look={}", rand_text());
            let annotate = ["annotate", "apiservice", service, &look, "--overwrite"];
            admin.run(&annotate).await.ok()?;
            let found = admin.json(&["get", "apiservice", service]).await?;
            let condition = &found["status"]["conditions"][0];
            (condition["status"] == want)
                .then_some(())
                .ok_or_else(|| condition.to_string())
        })
        .await;
    }

    /// kubectl of a user of the host, in a logical cluster.
    fn through(&self, user: &Kubectl, cluster: &str) -> Kubectl {
        let server = format!("{}{THROUGH}/{cluster}/proxy", self.host.server());
        user.clone().server(server)
    }
}

/// Writes the kubeconfig that is shipped, with the files of the trial in the place of a pod's.
fn in_host(host: &Spoke, token: &str) -> PathBuf {
    let map = shipped("aggregation/kubeconfig.yaml");
    let objects = documents(&map);
    let text = of_kind(&objects, "ConfigMap")["data"]["kubeconfig"].as_str();
    let file = |name: &str, text: &str| host.write(name, text).display().to_string();
    let text = text
        .expect("a kubeconfig")
        .replace("https://kubernetes.default.svc", host.server())
        .replace(
            "/run/host/ca.crt",
            &file("host-ca.crt", &host.certificate()),
        )
        .replace("/run/host/token", &file("hub.token", token));
    host.write("hub-in-host.kubeconfig", &text)
}

/// What no other look has had.
fn rand_text() -> String {
    use std::hash::BuildHasher as _;
    let number = std::hash::RandomState::new().hash_one(0);
    format!("{number:x}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_carries_the_hub_and_its_rules_decide() {
    let mut stage = Stage::set(true).await;
    users_of_the_host_see_the_fleet(&stage).await;
    definitions_and_instances_are_the_hosts_users(&stage).await;
    a_logical_cluster_is_reached_and_watched(&stage).await;
    the_host_says_nothing_beyond_what_it_carries(&stage).await;
    accounts_of_the_host_come_themselves(&stage).await;
    commands_run_in_pods_of_a_spoke(&stage).await;
    the_host_shows_its_own_groups_while_the_hub_is_away(&mut stage).await;
    what_the_host_takes_back_ends(&stage).await;
}

async fn users_of_the_host_see_the_fleet(stage: &Stage) {
    let spoke = |name: &str| {
        format!(
            "apiVersion: wheelhouse.dev/v1alpha1\nkind: Spoke\nmetadata: {{name: {name}}}\nspec: {{provider: Embedded}}\n"
        )
    };
    stage.hub.root().apply(&spoke("east")).await;
    let refused = stage.dev.run(&["get", "spokes"]).await;
    assert!(
        refused.stderr.contains("Forbidden") && refused.stderr.contains("\"dev\""),
        "{refused:?}"
    );
    let admin = stage.host.kubectl();
    for role in ["wheelhouse-reader", "wheelhouse-east"] {
        let bind = [
            "create",
            "clusterrolebinding",
            role,
            "--clusterrole",
            role,
            "--user=dev",
        ];
        admin.must(&bind).await;
    }
    let shown = eventually("the user of the host sees spokes", || async {
        stage.dev.run(&["get", "spokes"]).await.ok()
    })
    .await;
    assert!(shown.contains("east"), "{shown}");
    // The host judges before it relays; what it lets pass the hub asks it about.
    let created = stage
        .dev
        .run_with_input(&["create", "-f", "-"], &spoke("west"))
        .await;
    assert!(
        created.stderr.contains("cannot create resource \"spokes\""),
        "{created:?}"
    );
    admin.apply(&spoke("west")).await;
    admin
        .must(&["delete", "spoke", "west", "--wait=false"])
        .await;
}

async fn definitions_and_instances_are_the_hosts_users(stage: &Stage) {
    let admin = stage.host.kubectl();
    admin.apply(WEBAPP).await;
    let ready = [
        "wait",
        "--for=condition=Ready",
        "rgd/webapp",
        "--timeout=30s",
    ];
    admin.must(&ready).await;
    let explained = eventually("the host publishes the schema", || async {
        admin.run(&["explain", "rgd.spec.schema"]).await.ok()
    })
    .await;
    assert!(
        explained.contains("KIND:       ResourceGraphDefinition"),
        "{explained}"
    );
    let path = "/apis/kro.run/v1alpha1/namespaces/default/webapps";
    let webapp = "apiVersion: kro.run/v1alpha1\nkind: WebApp\nmetadata: {name: web, namespace: default}\nspec: {message: hello}\n";
    stage.available("v1alpha1.kro.run", "True").await;
    // The host asks again what there is, a moment after its APIService has changed.
    eventually("the host knows the kind", || async {
        stage.available("v1alpha1.kro.run", "True").await;
        admin
            .run_with_input(&["apply", "-f", "-"], webapp)
            .await
            .ok()
    })
    .await;
    let shown = stage.dev.must(&["get", "webapps"]).await;
    assert!(shown.contains("web"), "{shown}");
    stage.dev.must(&["get", "--raw", path]).await;
}

async fn a_logical_cluster_is_reached_and_watched(stage: &Stage) {
    let east = stage.through(&stage.dev, "east");
    // Through both gates of the hub, and no further.
    let refused = east.run(&["get", "configmaps"]).await;
    assert!(
        refused
            .stderr
            .contains("\"dev\" cannot list resource \"configmaps\""),
        "{refused:?}"
    );
    let bind = [
        "create",
        "clusterrolebinding",
        "dev",
        "--clusterrole=edit",
        "--user=dev",
    ];
    stage.hub.at("east").must(&bind).await;
    eventually("the user writes in the cluster", || async {
        east.run(&["create", "configmap", "first"]).await.ok()
    })
    .await;
    let mut watch = Watch::begin(&east, &["get", "configmaps", "--watch-only", "-o", "name"]);
    // What is made before the watch has begun is not seen.
    let mut number = 0;
    let seen = loop {
        number += 1;
        assert!(number < 60, "no event comes through the host");
        let name = format!("made-{number}");
        east.must(&["create", "configmap", &name]).await;
        if let Ok(seen) = tokio::time::timeout(SOON, watch.next()).await {
            break seen;
        }
    };
    assert!(
        seen.is_some_and(|line| line.contains("configmap/made-")),
        "an event"
    );
    // Another cluster, and one that is not there, are the same to somebody who may enter neither.
    let other = stage
        .through(&stage.dev, "other")
        .run(&["get", "configmaps"])
        .await;
    assert!(
        other.stderr.contains("spokes/proxy") || other.stderr.contains("Forbidden"),
        "{other:?}"
    );
}

/// Somebody who may do everything in the host, and comes without it or with its front proxy's certificate.
async fn the_host_says_nothing_beyond_what_it_carries(stage: &Stage) {
    let admin = stage.host.kubectl();
    let bind = [
        "create",
        "clusterrolebinding",
        "all",
        "--clusterrole=cluster-admin",
        "--user=chief",
    ];
    admin.must(&bind).await;
    let chief = Kubectl::new(&stage.host.kubeconfig_for("chief", None));
    eventually("the host's administrator sees spokes", || async {
        chief.run(&["get", "spokes"]).await.ok()
    })
    .await;
    let proxy = proxy(stage, &stage.host.front_proxy()).await;
    let status = async |user: &str, path: &str| {
        let headers = [("x-remote-user", user)];
        proxy.send("GET", path, &headers, "").await.status
    };
    assert_eq!(status("chief", THROUGH).await, 200, "as by way of the host");
    for path in [
        "/api/v1/secrets",
        "/api/v1/namespaces/kube-system/configmaps",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/internal.wheelhouse.dev/v1alpha1/inventories",
        "/metrics",
        "/clusters/east/api/v1/configmaps",
    ] {
        assert_eq!(status("chief", path).await, 403, "{path}");
    }
    // The aggregation layer is shown what the host carries, and not Kubernetes' own groups, which the host has.
    let index = async |user: &str, path: &str| {
        let headers = [("x-remote-user", user)];
        proxy.send("GET", path, &headers, "").await.must(200)
    };
    let shown = index("system:aggregator", "/openapi/v3").await;
    let paths: Vec<&String> = shown["paths"].as_object().expect("paths").keys().collect();
    assert_eq!(
        paths,
        [
            "apis/internal.kro.run/v1alpha1",
            "apis/kro.run/v1alpha1",
            "apis/wheelhouse.dev/v1alpha1"
        ],
        "what is merged with the host's"
    );
    let whole = index("chief", "/openapi/v3").await;
    assert!(
        whole["paths"]["api/v1"].is_object(),
        "what users are shown: {whole}"
    );
    // The host's garbage collector reads, and deletes nothing.
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    assert_eq!(status(collector, THROUGH).await, 200, "it is synced");
    let headers = [("x-remote-user", collector)];
    let deleted = proxy
        .send("DELETE", &format!("{THROUGH}/east"), &headers, "")
        .await;
    assert_eq!(deleted.status, 403, "{deleted:?}");
}

/// A ServiceAccount of the host with its token at the hub's own address.
async fn accounts_of_the_host_come_themselves(stage: &Stage) {
    let admin = stage.host.kubectl();
    admin.must(&["create", "serviceaccount", "bot"]).await;
    let bind = [
        "create",
        "clusterrolebinding",
        "bot",
        "--clusterrole=wheelhouse-reader",
        "--serviceaccount=default:bot",
    ];
    admin.must(&bind).await;
    let token = async |arguments: &[&str]| {
        let create = [&["create", "token", "bot"], arguments].concat();
        admin.must(&create).await.trim().to_owned()
    };
    let address = stage.address();
    let server = format!("https://{}", address.host);
    let with = async |token: &str| {
        let text =
            wheelhouse_tests::pki::token_kubeconfig("hub", &server, &address.authority, token);
        User::connect("bot", &text).await
    };
    let bot = with(&token(&[]).await).await;
    bot.until_status(THROUGH, 200).await;
    // What the host lets it read of the host is nothing to the hub; and its name is not that of root's account.
    bot.get("/api/v1/secrets").await.must(403);
    let refused = bot.get("/api/v1/secrets").await;
    assert!(
        refused.message().contains("wheelhouse:host:default:bot"),
        "{refused:?}"
    );
    let other = with(&token(&["--audience=vault"]).await).await;
    other.get(THROUGH).await.must(401);
    let watched = format!("{THROUGH}?watch=true");
    let mut watch = bot.watch(&watched).await.expect("a watch");
    admin.must(&["delete", "serviceaccount", "bot"]).await;
    // The host remembers a token for ten seconds itself.
    let began = tokio::time::Instant::now();
    let told = loop {
        let event = watch.next(PATIENCE).await.expect("it ends");
        let event = event.expect("and says why");
        if event["type"] == "ERROR" {
            break event;
        }
    };
    assert_eq!(told["object"]["code"], 401, "{told}");
    let took = began.elapsed();
    assert!(took < PROMISED * 2 + LATE, "it took {took:?}");
    bot.until_status(THROUGH, 401).await;
}

/// A connection to the hub with a client certificate.
async fn proxy(stage: &Stage, client: &Pair) -> User {
    let address = stage.address();
    let server = format!("https://{}", address.host);
    let text = wheelhouse_tests::pki::kubeconfig("hub", &server, &address.authority, client);
    User::connect("proxy", &text).await
}

/// The host is a spoke of the hub that it carries, and what is done in it is done with the rights of who asks.
async fn commands_run_in_pods_of_a_spoke(stage: &Stage) {
    stage.hub.join(&stage.host).await;
    let account = ["create", "serviceaccount", "default"];
    stage.host.kubectl().must(&account).await;
    let kubelet = Kubelet::start(&stage.host).await;
    let address = backend::address().expect("an address that is not loopback, for the pod");
    kubelet.run_pod(&stage.host, "web", &address).await;
    let chief = Kubectl::new(&stage.host.kubeconfig_for("chief", None));
    let host = stage.through(&chief, "host");
    for websockets in ["true", "false"] {
        let kubectl = host
            .clone()
            .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
        let arguments = [
            "exec",
            "-i",
            "web",
            "--",
            "sh",
            "-c",
            "cat; echo done >&2; exit 7",
        ];
        let ran = kubectl
            .run_with_input(&arguments, "through the host\n")
            .await;
        assert_eq!(
            ran.stdout, "through the host\n",
            "WebSockets {websockets}: {ran:?}"
        );
        assert!(
            ran.stderr.contains("done") && ran.code == 7,
            "{websockets}: {ran:?}"
        );
    }
    let dev = stage.through(&stage.dev, "host");
    let refused = dev.run(&["exec", "web", "--", "true"]).await;
    assert!(
        refused.code != 0 && refused.stderr.contains("orbidden"),
        "{refused:?}"
    );
}

async fn the_host_shows_its_own_groups_while_the_hub_is_away(stage: &mut Stage) {
    let admin = stage.host.kubectl();
    let groups = async || -> Vec<String> {
        let text = admin.must(&["get", "--raw", "/apis"]).await;
        let list: Value = serde_json::from_str(&text).expect("JSON");
        let groups = list["groups"].as_array().expect("groups").iter();
        groups
            .map(|group| group["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let before = groups().await;
    assert!(before.contains(&"wheelhouse.dev".to_owned()), "{before:?}");
    let is_over = Cell::new(false);
    // All the time: when the hub goes, while it is away, and when it comes back.
    let looking = async {
        let mut count = 0;
        while !is_over.get() {
            let now = groups().await;
            let own = |name: &&String| {
                !["wheelhouse.dev", "kro.run", "internal.kro.run"].contains(&name.as_str())
            };
            for group in before.iter().filter(own) {
                assert!(now.contains(group), "{group} is shown: {now:?}");
            }
            count += 1;
        }
        count
    };
    let restarting = async {
        stage.hub.kill();
        stage.available("v1alpha1.wheelhouse.dev", "False").await;
        admin.must(&["get", "configmaps", "-A"]).await;
        admin.must(&["explain", "deployment.spec"]).await;
        stage.hub.launch().await;
        for service in SERVICES {
            stage.available(service, "True").await;
        }
        is_over.set(true);
    };
    let (count, ()) = tokio::join!(looking, restarting);
    assert!(count > 10, "it was looked at {count} times");
    let shown = stage.dev.must(&["get", "spokes"]).await;
    assert!(shown.contains("east"), "{shown}");
    assert_eq!(groups().await, before, "all that there was");
}

async fn what_the_host_takes_back_ends(stage: &Stage) {
    let east = stage.through(&stage.dev, "east");
    let mut watches = [
        Watch::begin(&stage.dev, &["get", "spokes", "--watch", "-o", "name"]),
        Watch::begin(&east, &["get", "configmaps", "--watch", "-o", "name"]),
    ];
    for watch in &mut watches {
        let first = tokio::time::timeout(PATIENCE, watch.next()).await;
        assert!(first.is_ok_and(|line| line.is_some()), "it has begun");
    }
    let admin = stage.host.kubectl();
    let bindings = ["wheelhouse-reader", "wheelhouse-east"];
    admin
        .must(&["delete", "clusterrolebinding", bindings[0], bindings[1]])
        .await;
    let began = tokio::time::Instant::now();
    for watch in &mut watches {
        watch.ends().await;
    }
    let took = began.elapsed();
    assert!(took < PROMISED + LATE, "it took {took:?}");
    let refused = stage.dev.run(&["get", "spokes"]).await;
    assert!(refused.stderr.contains("Forbidden"), "{refused:?}");
}

/// The controllers of the host see the hub's groups among its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_hosts_controllers_work_with_a_hub_and_without() {
    let mut stage = Stage::set(false).await;
    let admin = stage.host.kubectl();
    admin.apply(WEBAPP).await;
    let ready = [
        "wait",
        "--for=condition=Ready",
        "rgd/webapp",
        "--timeout=30s",
    ];
    admin.must(&ready).await;
    garbage_is_collected(&admin, "with").await;
    admin.must(&["create", "namespace", "short"]).await;
    admin
        .must(&["delete", "namespace", "short", "--timeout=30s"])
        .await;
    // Owners that root has and the host has not are not absent.
    let revisions = admin.json(&["get", "graphrevisions"]).await;
    let count = revisions.expect("a list")["items"].as_array().map(Vec::len);
    assert_eq!(count, Some(1), "the revision of the definition");
    // It has its connections still, and says nothing.
    stage.hub.process().signal("STOP");
    garbage_is_collected(&admin, "hung").await;
    stage.hub.process().signal("CONT");
    stage.hub.kill();
    stage.available("v1alpha1.kro.run", "False").await;
    garbage_is_collected(&admin, "without").await;
    admin.must(&["create", "namespace", "later"]).await;
    let delete = ["delete", "namespace", "later", "--wait=false"];
    admin.must(&delete).await;
    stage.hub.launch().await;
    for service in SERVICES {
        stage.available(service, "True").await;
    }
    let gone = ["wait", "--for=delete", "namespace/later", "--timeout=60s"];
    admin.must(&gone).await;
    let kept = stage.hub.root().json(&["get", "rgd"]).await;
    let count = kept.expect("a list")["items"].as_array().map(Vec::len);
    assert_eq!(count, Some(1), "what root holds stays");
}

/// An object of the host goes with its owner.
async fn garbage_is_collected(admin: &Kubectl, name: &str) {
    let owner = format!("owner-{name}");
    admin.must(&["create", "configmap", &owner]).await;
    let found = admin.json(&["get", "configmap", &owner]).await;
    let uid = found.expect("it is there")["metadata"]["uid"].clone();
    let dependent = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: dependent-{name}\n  ownerReferences:\n  \
         - {{apiVersion: v1, kind: ConfigMap, name: {owner}, uid: {uid}}}\n"
    );
    admin.apply(&dependent).await;
    admin.must(&["delete", "configmap", &owner]).await;
    let dependent = format!("configmap/dependent-{name}");
    let gone = ["wait", "--for=delete", &dependent, "--timeout=40s"];
    admin.must(&gone).await;
}

/// kubectl that watches.
struct Watch {
    child: Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Watch {
    fn begin(kubectl: &Kubectl, arguments: &[&str]) -> Self {
        let mut command = kubectl.command(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("kubectl");
        let stdout = child.stdout.take().expect("it is piped");
        Self {
            child,
            lines: BufReader::new(stdout).lines(),
        }
    }

    async fn next(&mut self) -> Option<String> {
        self.lines.next_line().await.expect("text")
    }

    async fn ends(&mut self) {
        let ended = tokio::time::timeout(PATIENCE, async { while self.next().await.is_some() {} });
        assert!(ended.await.is_ok(), "the watch ends");
        let _gone = self.child.wait().await.expect("kubectl ends");
    }
}
