//! The chart of `deploy/`: Helm renders every variant, a real kube-apiserver takes it without a warning of Pod security
//! `restricted`, the real hub takes its arguments, and the values that the schema forbids are refused.

use std::path::{Path, PathBuf};

use serde_json::Value;
use wheelhouse_tests::{
    Kubectl, Spoke, assets, eventually,
    kubectl::Ran,
    manifests::{admitted, documents, pod, shipped},
    process::Scratch,
    spoke::Options,
};

use super::stage::say;

/// The variants, each with what Helm is given with `--set-json`, and how many objects it has.
const VARIANTS: &[(&str, &[&str], usize)] = &[
    ("the default", &[], 5),
    (
        "etcd",
        &[
            "replicas=3",
            r#"store={"type":"etcd","etcd":{"servers":["https://etcd-0.etcd:2379","https://etcd-1.etcd:2379"],"prefix":"/hub","tlsSecret":"etcd"}}"#,
        ],
        5,
    ),
    (
        "etcd without TLS",
        &[r#"store={"type":"etcd","etcd":{"servers":["http://etcd:2379"]}}"#],
        5,
    ),
    (
        "sealed, with tokens and a backup",
        &[
            r#"encryption.secretName="keys""#,
            r#"tokenAuth.secretName="tokens""#,
            r#"tls.secretName="hub-tls""#,
            r#"backup={"enabled":true,"claimName":"backups","kubeconfigSecret":{"name":"admin"}}"#,
        ],
        6,
    ),
    (
        "reached from outside",
        &[
            r#"hosts=["hub.example","192.0.2.7","2001:db8::7"]"#,
            r#"listenAddress="[::]""#,
            r#"service={"type":"LoadBalancer","port":8443,"annotations":{"a/b":"c"}}"#,
            r#"networkPolicy.from=[{"ipBlock":{"cidr":"192.0.2.0/24"}}]"#,
            r#"networkPolicy.egress=[{"to":[{"podSelector":{}}]}]"#,
            r#"extraArgs=["--max-requests=100","--allow-insecure-spokes","--spoke-kubeconfig=/etc/spokes/config"]"#,
            r#"extraVolumes=[{"name":"spokes","secret":{"secretName":"spokes"}}]"#,
            r#"extraVolumeMounts=[{"name":"spokes","mountPath":"/etc/spokes"}]"#,
            r#"extraEnv=[{"name":"NO_PROXY","value":"*"}]"#,
        ],
        5,
    ),
    (
        "placed",
        &[
            r#"image={"repository":"registry.example:5000/team/wheelhouse","digest":"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}"#,
            r#"imagePullSecrets=[{"name":"pull"}]"#,
            r#"priorityClassName="system-cluster-critical""#,
            r#"persistence={"size":"500Mi","storageClass":"fast","accessMode":"ReadWriteOncePod"}"#,
            r#"nodeSelector={"a":"b"}"#,
            r#"tolerations=[{"operator":"Exists"}]"#,
            r#"affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}}}"#,
            r#"topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{}}]"#,
            r#"podAnnotations={"a":"b"}"#,
            r#"podLabels={"c":"d"}"#,
            r#"serviceAccount.annotations={"a":"b"}"#,
            r#"podDisruptionBudget.maxUnavailable="50%""#,
            r#"fullnameOverride="hub""#,
        ],
        5,
    ),
    (
        "the least",
        &[
            "networkPolicy.enabled=false",
            "podDisruptionBudget.enabled=false",
            "serviceAccount.create=false",
            "resources={}",
        ],
        2,
    ),
    (
        "syncers of their own",
        &[
            r#"syncers={"enabled":true,"replicas":3,"kubeconfigSecret":{"name":"syncer"},"extraArgs":["--confirm-deletions-above=30","--spoke-kubeconfig=/etc/spokes/config"],"metricsFrom":[{"namespaceSelector":{}}]}"#,
            r#"extraVolumes=[{"name":"spokes","secret":{"secretName":"spokes"}}]"#,
            r#"extraVolumeMounts=[{"name":"spokes","mountPath":"/etc/spokes"}]"#,
            r#"networkPolicy.egress=[{"to":[{"podSelector":{}}]}]"#,
        ],
        7,
    ),
    (
        "syncers whose metrics nobody reads",
        &[r#"syncers={"enabled":true,"kubeconfigSecret":{"name":"syncer"}}"#],
        7,
    ),
    (
        "watched by Prometheus",
        &[
            r#"serviceMonitor={"enabled":true,"labels":{"release":"prometheus"},"tokenSecret":{"name":"t"},"caSecret":{"name":"c"}}"#,
        ],
        6,
    ),
];

/// Values that the schema refuses, and where it says the fault is.
const REFUSED: &[(&[&str], &str)] = &[
    (&["replicas=2"], "/replicas"),
    (&["replicas=0"], "/replicas"),
    (&[r#"replicas="1""#], "/replicas"),
    (&[r#"store.type="etcd""#], "/store/etcd/servers"),
    (&[r#"store.type="sqlite""#], "/store/type"),
    (
        &[r#"store.etcd.servers=["http://etcd:2379"]"#],
        "/store/etcd/servers",
    ),
    (
        &[r#"store={"type":"etcd","etcd":{"servers":["http://etcd:2379"],"tlsSecret":"t"}}"#],
        "/store/etcd/servers/0",
    ),
    (&["replica=1"], "replica"),
    (&["persistence.mode=1"], "mode"),
    (&[r#"hosts=["https://hub.example"]"#], "/hosts/0"),
    (&[r#"extraArgs=["serve"]"#], "/extraArgs/0"),
    (&["service.port=443"], "/service/port"),
    (&[r#"log="""#], "/log"),
    (&["serviceMonitor.enabled=true"], "/serviceMonitor"),
    (&["backup.enabled=true"], "/backup"),
    (&["syncers.enabled=true"], "/syncers"),
    (
        &[r#"syncers={"enabled":true,"kubeconfigSecret":{"name":"s"},"extraArgs":["syncer"]}"#],
        "/syncers/extraArgs/0",
    ),
    (&["podDisruptionBudget.maxUnavailable=0"], "maxUnavailable"),
];

/// Stands for the Prometheus operator's, which keeps fields that it does not know: the fields are not checked here.
const SERVICE_MONITORS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: ServiceMonitor, listKind: ServiceMonitorList, plural: servicemonitors, singular: servicemonitor}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[tokio::test(flavor = "multi_thread")]
async fn every_variant_of_the_chart_is_taken_by_a_kube_apiserver_and_by_the_hub() {
    let Some(binary) = assets::client("helm") else {
        return;
    };
    let folder = Scratch::new("chart");
    let without_controllers = Options {
        without_controllers: true,
        ..Options::default()
    };
    let cluster = Spoke::start_with("home", without_controllers).await;
    let helm = Helm {
        binary,
        home: folder.file("home"),
        kubeconfig: cluster.kubeconfig().clone(),
    };
    helm.lints().await;
    let kubectl = cluster.kubectl();
    kubectl.apply(&shipped("manifests/namespace.yaml")).await;
    kubectl.apply(SERVICE_MONITORS).await;
    served(&kubectl, "servicemonitors").await;
    for account in ["wheelhouse", "hub", "default"] {
        let create = ["create", "serviceaccount", account, "-n", "wheelhouse"];
        kubectl.must(&create).await;
    }
    for (name, values, count) in VARIANTS {
        let manifest = helm.template(values).await.succeeded(name);
        let objects = documents(&manifest);
        assert_eq!(objects.len(), *count, "{name}: {manifest}");
        admitted(&kubectl, &manifest).await.expect(name);
        for object in &objects {
            if matches!(
                object["kind"].as_str(),
                Some("StatefulSet" | "Deployment" | "CronJob")
            ) {
                let pod = pod(object);
                admitted(&kubectl, &pod.to_string()).await.expect(name);
                takes_arguments(&pod).await;
            }
        }
        say(&format!("{name}: {count} objects"));
    }
    helm.refuses().await;
    helm.installs(&kubectl).await;
    argo_cd(&kubectl).await;
}

/// Waits until a kind that was just defined is served.
async fn served(kubectl: &Kubectl, kind: &str) {
    eventually(&format!("{kind} are served"), || async {
        kubectl.run(&["get", kind, "-A"]).await.ok()
    })
    .await;
}

/// The hub's command line knows the arguments and takes their values. `--help` ends it after that.
async fn takes_arguments(pod: &Value) {
    let arguments = pod["spec"]["containers"][0]["args"].as_array();
    let arguments = arguments.into_iter().flatten();
    let arguments: Vec<&str> = arguments.map(|it| it.as_str().expect("a text")).collect();
    let output = tokio::process::Command::new(assets::wheelhouse())
        .args(&arguments)
        .arg("--help")
        .output()
        .await
        .expect("the hub's binary can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
}

/// The definitions of Argo CD take the examples.
async fn argo_cd(kubectl: &Kubectl) {
    let Some(binary) = assets::client("argocd") else {
        return;
    };
    let folder = binary.with_file_name("manifests").join("crds");
    for name in ["application-crd.yaml", "applicationset-crd.yaml"] {
        let file = folder.join(name).display().to_string();
        kubectl.must(&["apply", "--server-side", "-f", &file]).await;
    }
    served(kubectl, "applicationsets").await;
    kubectl.must(&["create", "namespace", "argocd"]).await;
    for file in ["applicationset", "access", "rights"] {
        let manifest = shipped(&format!("argo-cd/{file}.yaml"));
        admitted(kubectl, &manifest).await.expect(file);
    }
    let wrong = shipped("argo-cd/applicationset.yaml").replace("generators:", "generator:");
    admitted(kubectl, &wrong)
        .await
        .expect_err("an unknown field");
}

/// Helm at a cluster.
struct Helm {
    binary: PathBuf,
    home: PathBuf,
    kubeconfig: PathBuf,
}

impl Helm {
    async fn run(&self, arguments: &[&str]) -> Ran {
        let output = tokio::process::Command::new(&self.binary)
            .args(arguments)
            .current_dir(assets::workspace().join("deploy/chart"))
            .env("HOME", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            .kill_on_drop(true)
            .output()
            .await
            .expect("helm can be started");
        output.into()
    }

    async fn template(&self, values: &[&str]) -> Ran {
        let mut arguments = vec!["template", "wheelhouse", "wheelhouse", "-n", "wheelhouse"];
        for value in values {
            arguments.extend(["--set-json", value]);
        }
        self.run(&arguments).await
    }

    async fn lints(&self) {
        let linted = self.run(&["lint", "--strict", "wheelhouse"]).await;
        linted.succeeded("helm lint");
        let check = Path::new("hack/manifests");
        let output = tokio::process::Command::new(assets::workspace().join(check))
            .arg("--check")
            .env("WHEELHOUSE_HELM", &self.binary)
            .output()
            .await
            .expect("hack/manifests can be started");
        assert!(output.status.success(), "{output:?}");
    }

    async fn refuses(&self) {
        for (values, place) in REFUSED {
            let ran = self.template(values).await;
            assert_ne!(ran.code, 0, "{values:?} is taken");
            assert!(ran.stderr.contains(place), "{values:?}: {}", ran.stderr);
        }
    }

    /// Installs the chart, upgrades it and uninstalls it, with no controllers to run it.
    async fn installs(&self, kubectl: &Kubectl) {
        let base = ["wheelhouse", "-n", "trial", "--create-namespace"];
        let at = |step: &'static str, more: &[&'static str]| {
            let mut arguments = vec![step, "hub"];
            arguments.extend(base);
            arguments.extend(more);
            arguments
        };
        let notes = self.run(&at("install", &[])).await.succeeded("install");
        let exec = "exec hub-wheelhouse-0 -- wheelhouse kubeconfig root";
        assert!(notes.contains(exec), "{notes}");
        let more = ["--set", "log=debug"];
        self.run(&at("upgrade", &more)).await.succeeded("upgrade");
        let set = ["get", "statefulset", "hub-wheelhouse", "-n", "trial"];
        let set = kubectl.json(&set).await.expect("it is there");
        assert!(set["spec"].to_string().contains("debug"), "{set}");
        // What the API server refuses to change, an upgrade must not want to.
        let more = [
            "--set",
            "replicas=2,store.type=etcd,store.etcd.servers[0]=http://etcd:2379",
        ];
        self.run(&at("upgrade", &more)).await.succeeded("upgrade");
        let uninstall = ["uninstall", "hub", "-n", "trial"];
        self.run(&uninstall).await.succeeded("uninstall");
    }
}
