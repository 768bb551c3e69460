//! Unmodified kubectl at a spoke's path: each verb that people use, with the newest minor and,
//! where the machine has it, 1.29; and the messages of a kube-apiserver, which is asked too.

use std::path::PathBuf;

use wheelhouse_tests::{Kubectl, assets, eventually, pods};

use super::stage::{Stage, gone, instance};

#[tokio::test(flavor = "multi_thread")]
async fn every_kubectl_verb_works_at_the_path() {
    let stage = Stage::set().await;
    surface(&stage, stage.path(), "newest").await;
    match assets::kubectl_of_minor("1.29") {
        Some(binary) => surface(&stage, stage.path().binary(&binary), "older").await,
        None => println!("skipped: no kubectl 1.29 on this machine"),
    }
}

/// Asks what fields mean, of a generated kind and of a built-in one.
async fn explain(kubectl: &Kubectl) {
    let explained = kubectl.must(&["explain", "webapp.spec"]).await;
    assert!(
        explained.contains("message") && explained.contains("<string>"),
        "{explained}"
    );
    let explained = kubectl
        .must(&["explain", "deployments.spec.strategy"])
        .await;
    let (head, fields) = explained.split_once("FIELDS:").expect("there are fields");
    assert!(
        head.contains("DESCRIPTION:") && !head.contains("<empty>"),
        "{head}"
    );
    assert!(!fields.contains("<no description>"), "{fields}");
}

async fn surface(stage: &Stage, kubectl: Kubectl, name: &str) {
    let resources = kubectl.must(&["api-resources"]).await;
    for line in [
        "webapps",
        "deployments",
        "resourcegraphdefinitions",
        "customresourcedefinitions",
    ] {
        assert!(
            resources.contains(line),
            "{line} in api-resources:\n{resources}"
        );
    }
    explain(&kubectl).await;

    // Apply, watch from before it, and bring it to Ready.
    let mut watch = kubectl
        .command(&["get", "webapps", "-w", "-o", "name"])
        .spawn()
        .expect("kubectl can be started");
    let manifest = instance(name, "message: hello");
    let differs = kubectl
        .run_with_input(&["diff", "-f", "-"], &manifest)
        .await;
    assert_eq!(differs.code, 1, "diff of what is not there: {differs:?}");
    kubectl.apply(&manifest).await;
    pods::make_ready(&stage.direct(), name).await;
    let resource = format!("webapp/{name}");
    kubectl
        .must(&["wait", "--for=condition=Ready", &resource, "--timeout=30s"])
        .await;
    watched(&mut watch, &format!("webapp.kro.run/{name}")).await;
    let same = kubectl
        .run_with_input(&["diff", "-f", "-"], &manifest)
        .await;
    assert_eq!(same.code, 0, "no difference after the apply: {same:?}");

    let wide = kubectl.must(&["get", "webapps", "-o", "wide"]).await;
    assert!(wide.contains("STATE") && wide.contains("ACTIVE"), "{wide}");
    let described = kubectl.must(&["describe", "webapp", name]).await;
    assert!(
        described.contains("All Resources Ready") || described.contains("AllResourcesReady"),
        "{described}"
    );
    let applied = kubectl
        .run_with_input(
            &["apply", "--server-side", "--force-conflicts", "-f", "-"],
            &manifest,
        )
        .await;
    applied.succeeded("apply --server-side");

    edit(&kubectl, name).await;
    patch(&kubectl, name).await;
    scale(stage, &kubectl, name).await;

    let all = kubectl.must(&["get", "all", "-A"]).await;
    assert!(all.contains(&format!("deployment.apps/{name}")), "{all}");
    kubectl
        .must(&["delete", "webapp", name, "--timeout=60s"])
        .await;
    gone(&stage.direct(), &["get", "deployment", name]).await;
}

async fn watched(watch: &mut tokio::process::Child, want: &str) {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let stdout = watch.stdout.take().expect("stdout is piped");
    let mut lines = BufReader::new(stdout).lines();
    let seen = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if line == want {
                return true;
            }
        }
        false
    };
    let shown = tokio::time::timeout(std::time::Duration::from_secs(30), seen).await;
    assert!(shown.is_ok(), "the watch did not show {want}");
    assert_eq!(shown, Ok(true), "the watch ended without {want}");
    watch.kill().await.expect("kubectl can be killed");
}

async fn edit(kubectl: &Kubectl, name: &str) {
    let editor = "sed -i s/hello/edited/";
    let edited = kubectl
        .clone()
        .env("KUBE_EDITOR", editor)
        .env("EDITOR", editor);
    edited.must(&["edit", "webapp", name]).await;
    let object = kubectl
        .json(&["get", "webapp", name])
        .await
        .expect("it is there");
    assert_eq!(object["spec"]["message"], "edited", "{object}");
}

async fn patch(kubectl: &Kubectl, name: &str) {
    for (kind, patch, want) in [
        ("merge", r#"{"spec":{"message":"merged"}}"#, "merged"),
        (
            "json",
            r#"[{"op":"replace","path":"/spec/message","value":"replaced"}]"#,
            "replaced",
        ),
    ] {
        let kind = format!("--type={kind}");
        kubectl
            .must(&["patch", "webapp", name, &kind, "-p", patch])
            .await;
        let object = kubectl
            .json(&["get", "webapp", name])
            .await
            .expect("it is there");
        assert_eq!(object["spec"]["message"], want, "{kind}: {object}");
    }
    // The third type, on a child, which the spoke serves.
    let strategic = r#"{"metadata":{"annotations":{"example.com/note":"kept"}}}"#;
    kubectl
        .must(&[
            "patch",
            "deployment",
            name,
            "--type=strategic",
            "-p",
            strategic,
        ])
        .await;
    let child = kubectl
        .json(&["get", "deployment", name])
        .await
        .expect("it is there");
    assert_eq!(
        child["metadata"]["annotations"]["example.com/note"], "kept",
        "{child}"
    );
    // And a kube-apiserver's answer to it on a custom resource.
    let refused = kubectl
        .run(&["patch", "webapp", name, "--type=strategic", "-p", strategic])
        .await;
    assert_ne!(
        refused.code, 0,
        "strategic merge is not for custom resources: {refused:?}"
    );
}

/// A scaled child is drift: kubectl's command succeeds, and the definition's value comes back.
async fn scale(stage: &Stage, kubectl: &Kubectl, name: &str) {
    let scaled = kubectl
        .must(&["scale", "deployment", name, "--replicas=3"])
        .await;
    assert!(scaled.contains("scaled"), "{scaled}");
    eventually("the scale is undone", || async {
        let deployment = stage.direct().json(&["get", "deployment", name]).await?;
        match deployment["spec"]["replicas"].as_i64() {
            Some(1) => Ok(()),
            other => Err(format!("{other:?} replicas")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_read_as_those_of_a_kube_apiserver() {
    let stage = Stage::set().await;
    let cases = [
        (
            "a bad field",
            instance("bad", "message: hello, colour: red"),
        ),
        (
            "a wrong type",
            instance("bad", "message: hello, replicas: many"),
        ),
        (
            "out of bounds",
            instance("bad", "message: hello, replicas: 11"),
        ),
        ("a required field", instance("bad", "replicas: 1")),
        (
            "an unknown kind",
            "apiVersion: kro.run/v1alpha1\nkind: Nonesuch\nmetadata: {name: bad}\n".to_owned(),
        ),
        (
            "a missing namespace",
            instance("bad", "message: hello").replace("namespace: default", "namespace: nowhere"),
        ),
        ("a bad name", instance("Bad_Name", "message: hello")),
    ];
    let mut binaries: Vec<PathBuf> = vec![assets::folder().join("kubectl")];
    binaries.extend(assets::kubectl_of_minor("1.29"));
    for binary in &binaries {
        for (what, manifest) in &cases {
            for apply in [
                &["apply", "-f", "-"][..],
                &["apply", "--server-side", "-f", "-"][..],
            ] {
                let ours = stage
                    .path()
                    .binary(binary)
                    .run_with_input(apply, manifest)
                    .await;
                let peer = stage
                    .direct()
                    .binary(binary)
                    .run_with_input(apply, manifest)
                    .await;
                assert_ne!(peer.code, 0, "{what}: the peer refuses: {peer:?}");
                assert_eq!(
                    ours.stderr, peer.stderr,
                    "{what}: {apply:?} with {binary:?}"
                );
                assert_eq!(ours.code, peer.code, "{what}: {apply:?} with {binary:?}");
            }
        }
    }
}
