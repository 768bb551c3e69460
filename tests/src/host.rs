//! A host that carries the hub: a kube-apiserver in which the hub is registered by what is shipped.

use std::path::PathBuf;

use crate::{
    Hub, Kubectl, Spoke, eventually,
    hub::Settings,
    manifests::{documents, of_kind, shipped},
    spoke::Options,
    wire::Address,
};

/// Where the host has the spokes of the hub.
pub const SPOKES_OF_HOST: &str = "/apis/wheelhouse.dev/v1alpha1/spokes";
/// The APIServices by which it is there.
pub const SERVICES: [&str; 3] = [
    "v1alpha1.wheelhouse.dev",
    "v1alpha1.kro.run",
    "v1alpha1.internal.kro.run",
];

/// A host, the hub that it carries, and a user of the host.
#[derive(Debug)]
pub struct Carried {
    /// The host.
    pub host: Spoke,
    /// The hub.
    pub hub: Hub,
    /// A user of the host, in the group `team`.
    pub dev: Kubectl,
}

impl Carried {
    /// Starts both, and registers the hub in the host.
    pub async fn start(without_controllers: bool) -> Self {
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

    /// Where the hub is.
    pub fn address(&self) -> Address {
        let kubeconfig = std::fs::read_to_string(self.hub.kubeconfig());
        Address::of_kubeconfig(&kubeconfig.expect("the hub wrote a kubeconfig"))
    }

    /// Waits until the host has noticed whether the hub is there. It looks each half minute, and when an APIService changes.
    pub async fn available(&self, service: &str, want: &str) {
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
    pub fn through(&self, user: &Kubectl, cluster: &str) -> Kubectl {
        let server = format!("{}{SPOKES_OF_HOST}/{cluster}/proxy", self.host.server());
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
