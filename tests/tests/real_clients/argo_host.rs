//! Argo CD in a host that carries the hub: it reaches the logical clusters through the host, with an account of the host.

use wheelhouse_tests::{
    Kubectl, Spoke, assets, eventually, host::Carried, manifests::shipped, process::Scratch,
};

use super::{
    argo::{Argo, Repository},
    stage::{say, until},
};

/// What the account of Argo CD is called, in the hub and in spokes.
const USER: &str = "wheelhouse:host:argocd:deployer";

/// What the host lets it do: send requests on to its clusters, and enter them.
const RIGHTS: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: deployer}
rules:
- {apiGroups: [wheelhouse.dev], resources: [spokes/proxy], verbs: ['*'], resourceNames: [east]}
- {apiGroups: [wheelhouse.dev], resources: [spokes], verbs: [access], resourceNames: [east]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: deployer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: deployer}
subjects: [{kind: ServiceAccount, name: deployer, namespace: argocd}]
";

#[tokio::test(flavor = "multi_thread")]
async fn an_application_is_kept_through_the_host() {
    let (stage, east) = tokio::join!(Carried::start(false), Spoke::start("east"));
    let Some(argo) = Argo::start(&stage.host).await else {
        return;
    };
    stage.hub.join(&east).await;
    let admin = stage.host.kubectl();
    admin
        .must(&["create", "serviceaccount", "deployer", "-n", "argocd"])
        .await;
    admin.apply(RIGHTS).await;
    let binding = [
        "create",
        "clusterrolebinding",
        "deployer",
        "--clusterrole=cluster-admin",
        "--user",
        USER,
    ];
    east.kubectl().must(&binding).await;
    admin.apply(&secrets(&stage, &admin).await).await;

    let repository = Repository::new();
    let (first, extra) = (config_map("first", "one"), config_map("extra", "one"));
    repository.commit(&[("first", &first), ("extra", &extra)]);
    let set = shipped("argo-cd/applicationset.yaml");
    admin
        .apply(&set.replace("https://git.example/fleet.git", &repository.url()))
        .await;
    argo.synced("web-east", "").await;
    let direct = east.kubectl();
    direct.must(&["get", "configmap", "extra"]).await;
    say("through the host: synced and healthy");

    let revision = repository.commit(&[("first", &config_map("first", "two")), ("extra", "")]);
    argo.refresh("web-east").await;
    argo.synced("web-east", &revision).await;
    let pruned = direct.run(&["get", "configmap", "extra"]).await;
    assert!(pruned.stderr.contains("NotFound"), "pruned: {pruned:?}");
    let patch = r#"{"data":{"text":"by hand"}}"#;
    direct
        .must(&["patch", "configmap", "first", "--type=merge", "-p", patch])
        .await;
    until(
        &direct,
        &["get", "configmap", "first"],
        "it is healed: the watch comes through the host",
        |it| it["data"]["text"] == "two",
    )
    .await;
    say("through the host: changed, pruned and healed");

    // The host takes the right back, and that ends it.
    admin
        .must(&["delete", "clusterrolebinding", "deployer"])
        .await;
    let revision = repository.commit(&[("first", &config_map("first", "three"))]);
    eventually("Argo CD is refused", || async {
        argo.refresh("web-east").await;
        let application = argo.get("application", "web-east").await?;
        let text = application.to_string();
        text.contains("orbidden").then_some(()).ok_or(text)
    })
    .await;
    let kept = direct.json(&["get", "configmap", "first"]).await;
    assert_eq!(
        kept.expect("it is there")["data"]["text"],
        "two",
        "{revision} is not applied"
    );
}

/// The Secrets of Argo CD, printed with the kubeconfig of the host, and with a token of the host's account.
async fn secrets(stage: &Carried, admin: &Kubectl) -> String {
    let folder = Scratch::new("argo-host");
    let token = admin
        .must(&["create", "token", "deployer", "-n", "argocd"])
        .await;
    let token = folder.write("token", token.trim());
    let printed = eventually("the Secrets are printed", || async {
        let mut command = tokio::process::Command::new(assets::wheelhouse());
        command
            .args(["spoke", "argo-cd", "--kubeconfig"])
            .arg(stage.host.kubeconfig());
        command.arg("--token-file").arg(&token);
        let output = command.output().await.expect("it can be started");
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        output.status.success().then_some(out).ok_or(err)
    })
    .await;
    let server = format!(
        "{}/apis/wheelhouse.dev/v1alpha1/spokes/east/proxy",
        stage.host.server()
    );
    assert!(printed.contains(&server), "{printed}");
    printed
}

fn config_map(name: &str, text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{text: {text}}}\n"
    )
}
