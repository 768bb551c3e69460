//! A host carries the hub: unmodified kubectl of a user with rights in the host alone, through a real kube-apiserver.

use std::{cell::Cell, process::Stdio, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Child,
};
use wheelhouse_tests::{
    Kubectl, Kubelet,
    backend::{self, Backend},
    eventually,
    host::{Carried, SERVICES, SPOKES_OF_HOST as THROUGH},
    pki::Pair,
    support::User,
    wait::PATIENCE,
};

use super::{
    stage::WEBAPP,
    streams::{are_mirrored, line, port, start},
};

/// How long what somebody may not have any more may go on.
const PROMISED: Duration = Duration::from_secs(10);
/// What it may take beyond that on a machine that has much else to do.
const LATE: Duration = Duration::from_secs(5);
/// How long something may take that comes at once.
const SOON: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_host_carries_the_hub_and_its_rules_decide() {
    let mut stage = Carried::start(true).await;
    users_of_the_host_see_the_fleet(&stage).await;
    definitions_and_instances_are_the_hosts_users(&stage).await;
    a_logical_cluster_is_reached_and_watched(&stage).await;
    the_host_says_nothing_beyond_what_it_carries(&stage).await;
    accounts_of_the_host_come_themselves(&stage).await;
    commands_run_in_pods_of_a_spoke(&stage).await;
    the_host_shows_its_own_groups_while_the_hub_is_away(&mut stage).await;
    what_the_host_takes_back_ends(&stage).await;
}

async fn users_of_the_host_see_the_fleet(stage: &Carried) {
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

async fn definitions_and_instances_are_the_hosts_users(stage: &Carried) {
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

async fn a_logical_cluster_is_reached_and_watched(stage: &Carried) {
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
async fn the_host_says_nothing_beyond_what_it_carries(stage: &Carried) {
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
async fn accounts_of_the_host_come_themselves(stage: &Carried) {
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
async fn proxy(stage: &Carried, client: &Pair) -> User {
    let address = stage.address();
    let server = format!("https://{}", address.host);
    let text = wheelhouse_tests::pki::kubeconfig("hub", &server, &address.authority, client);
    User::connect("proxy", &text).await
}

/// The host is a spoke of the hub that it carries, and what is done in it is done with the rights of who asks.
async fn commands_run_in_pods_of_a_spoke(stage: &Carried) {
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
    streams_go_on_through_the_host(&host, &kubelet).await;
    let dev = stage.through(&stage.dev, "host");
    let refused = dev.run(&["exec", "web", "--", "true"]).await;
    assert!(
        refused.code != 0 && refused.stderr.contains("orbidden"),
        "{refused:?}"
    );
}

/// What goes on passes in both directions as it comes: a client that is attached, forwarded ports, logs that are followed.
async fn streams_go_on_through_the_host(host: &Kubectl, kubelet: &Kubelet) {
    let mirror = Backend::mirror().await;
    for websockets in ["true", "false"] {
        let kubectl = host
            .clone()
            .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
        let ran = kubectl
            .run_with_input(&["attach", "-i", "web"], "hello\n")
            .await;
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (0, "attached\nhello\n"),
            "WebSockets {websockets}: {ran:?}"
        );
        let forwarded = format!(":{}", mirror.port);
        let arguments = ["port-forward", "pod/web", &forwarded, "--address=127.0.0.1"];
        let (child, mut output) = start(&kubectl, &arguments);
        let port = port(&line(&mut output, "the forwarded port").await);
        are_mirrored(port, 4).await;
        drop(child);
    }
    kubelet.log("web", "one\n");
    let (mut child, mut output) = start(host, &["logs", "-f", "web"]);
    let first = line(&mut output, "what was there").await;
    assert_eq!(first, "one\n", "what was there");
    for text in ["two\n", "three\n"] {
        kubelet.log("web", text);
        let next = line(&mut output, "what is added").await;
        assert_eq!(next, text, "as it is written");
    }
    child.kill().await.expect("kubectl can be ended");
}

async fn the_host_shows_its_own_groups_while_the_hub_is_away(stage: &mut Carried) {
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

async fn what_the_host_takes_back_ends(stage: &Carried) {
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
    let mut stage = Carried::start(false).await;
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
