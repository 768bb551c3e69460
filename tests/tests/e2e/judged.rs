//! Where a spoke's own admission matches a kind that the hub stores, it judges the users' writes before the hub takes them.

use super::stage::{Stage, instance, until};

/// Denies applications that say "loud", whatever alice changes, and the deletion of what is kept.
const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: quiet}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [kro.run], apiVersions: ["*"], operations: [CREATE, UPDATE, DELETE], resources: [webapps]}
  validations:
  - expression: "request.operation == 'DELETE' || object.spec.message != 'loud'"
    message: applications are quiet here
  - expression: "request.operation != 'UPDATE' || request.userInfo.username != 'alice'"
    message: alice changes nothing here
  - expression: "request.operation != 'DELETE' || !('keep' in oldObject.metadata.?labels.orValue({}))"
    message: it is kept here
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: quiet}
spec: {policyName: quiet, validationActions: [Deny]}
"#;

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
async fn the_spokes_admission_judges_writes_of_users_before_the_hub_takes_them() {
    let mut stage = Stage::set().await;
    let (path, direct, root) = (stage.path(), stage.direct(), stage.hub.root());
    let record = ["get", "servedresources", "webapps.kro.run"];
    let shop = ["get", "webapp", "shop"];
    path.apply(&instance("shop", "message: hello")).await;
    until(&direct, &shop, "its mirror is there", |_| true).await;
    for kubectl in [&root, &direct] {
        let binding = [
            "create",
            "clusterrolebinding",
            "alice",
            "--clusterrole=cluster-admin",
            "--user=alice",
        ];
        kubectl.must(&binding).await;
    }
    direct.apply(POLICY).await;
    until(&path, &record, "the policy is known", |o| {
        o["spec"]["judged"] == true
    })
    .await;

    // Each is refused with the policy's own words, and the hub has not taken it. The spoke compiles the policy a moment after it was
    // made.
    let loud = instance("noise", "message: loud");
    wheelhouse_tests::eventually("a new one is judged", || async {
        let refused = path
            .run_with_input(&["create", "--dry-run=server", "-f", "-"], &loud)
            .await;
        if refused.stderr.contains("applications are quiet here") {
            Ok(())
        } else {
            Err(format!("{refused:?}"))
        }
    })
    .await;
    let refused = path.run_with_input(&["create", "-f", "-"], &loud).await;
    assert!(
        refused.stderr.contains("applications are quiet here"),
        "{refused:?}"
    );
    let absent = path.run(&["get", "webapp", "noise"]).await;
    assert!(absent.stderr.contains("NotFound"), "{absent:?}");
    let edit = |text: &str| {
        format!(r#"{{"metadata":{{"labels":{{"keep":"y"}}}},"spec":{{"message":"{text}"}}}}"#)
    };
    let (louder, calm) = (edit("loud"), edit("calm"));
    let patch = |patch: &'static str| ["patch", "webapp", "shop", "--type=merge", "-p", patch];
    let refused = path.run(&patch(louder.leak())).await;
    assert!(
        refused.stderr.contains("applications are quiet here"),
        "{refused:?}"
    );
    let calm: &'static str = calm.leak();
    let as_alice: Vec<&str> = patch(calm).into_iter().chain(["--as", "alice"]).collect();
    let refused = path.run(&as_alice).await;
    assert!(
        refused.stderr.contains("alice changes nothing here"),
        "{refused:?}"
    );
    let here = path.json(&shop).await.expect("it is there");
    assert_eq!(here["spec"]["message"], "hello", "{here}");
    path.must(&patch(calm)).await;
    until(&direct, &shop, "what it allows comes there", |o| {
        o["spec"]["message"] == "calm" && o["metadata"]["labels"]["keep"] == "y"
    })
    .await;
    let refused = path.run(&["delete", "webapp", "shop"]).await;
    assert!(refused.stderr.contains("it is kept here"), "{refused:?}");
    let refused = path.run(&["delete", "webapps", "--all"]).await;
    assert!(refused.stderr.contains("it is kept here"), "{refused:?}");
    let here = path.json(&shop).await.expect("it is there");
    assert!(here["metadata"]["deletionTimestamp"].is_null(), "{here}");

    // A quota of the spoke counts instances of the path.
    direct
        .must(&["create", "quota", "few", "--hard=count/webapps.kro.run=1"])
        .await;
    let used =
        r#"{"status":{"hard":{"count/webapps.kro.run":"1"},"used":{"count/webapps.kro.run":"1"}}}"#;
    // The controller that counts does not run here.
    direct
        .must(&[
            "patch",
            "quota",
            "few",
            "--subresource=status",
            "--type=merge",
            "-p",
            used,
        ])
        .await;
    let refused = path
        .run_with_input(&["create", "-f", "-"], &instance("second", "message: calm"))
        .await;
    assert!(refused.stderr.contains("exceeded quota"), "{refused:?}");

    // With the spoke away nobody can judge, and nothing is taken; reads go on.
    stage.east.stop_api();
    let refused = path.run(&patch(r#"{"spec":{"message":"late"}}"#)).await;
    assert!(
        refused.stderr.contains("ServiceUnavailable") && refused.stderr.contains("east"),
        "{refused:?}"
    );
    path.must(&shop).await;
    stage.east.start_api().await;

    // Nothing judges any more: the hub takes what users want, also with the spoke away.
    direct
        .must(&[
            "delete",
            "validatingadmissionpolicy,validatingadmissionpolicybinding",
            "quiet",
        ])
        .await;
    direct.must(&["delete", "quota", "few"]).await;
    until(&path, &record, "nothing matches the kind", |o| {
        o["spec"]["judged"] != true
    })
    .await;
    stage.east.stop_api();
    path.must(&patch(r#"{"spec":{"message":"loud"}}"#)).await;
}
