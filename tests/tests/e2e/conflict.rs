//! Objects that an instance wants and another writer has.

use super::stage::{Stage, gone, instance, until};

/// A kind whose child has the same name for every instance.
const SIGN: &str = r"
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: sign}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Sign
    spec: {text: string}
  resources:
  - id: config
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: the-sign}
      data: {text: '${schema.spec.text}'}
";

fn sign(name: &str) -> String {
    format!(
        "apiVersion: kro.run/v1alpha1\nkind: Sign\n\
         metadata: {{name: {name}, namespace: default}}\nspec: {{text: {name}}}\n"
    )
}

fn config_map(name: &str, labels: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\n\
         metadata: {{name: {name}, namespace: default, labels: {{{labels}}}}}\n\
         data: {{message: theirs}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_another_is_left_alone_and_one_of_nobody_is_taken_over_where_the_definition_says_so()
 {
    let stage = Stage::set().await;
    let (path, direct) = (stage.path(), stage.direct());
    let part_of = "applyset.kubernetes.io/part-of: applyset-of-another-v1";
    direct.apply(&config_map("shop-config", part_of)).await;
    direct.apply(&config_map("blog-config", "app: blog")).await;

    // The web shop's ConfigMap is another's: it stays as it is, and the instance says so.
    path.apply(&instance("shop", "message: hello")).await;
    let refused = "belongs to a different ApplySet";
    until(&path, &["get", "webapp", "shop"], "the refusal", |o| {
        o["status"]["state"] == "ERROR" && o["status"]["conditions"].to_string().contains(refused)
    })
    .await;
    let config = ["get", "configmap", "shop-config"];
    let theirs = direct.json(&config).await.expect("it is there");
    assert_eq!(theirs["data"]["message"], "theirs", "{theirs}");
    let labels = &theirs["metadata"]["labels"];
    assert_eq!(
        labels["applyset.kubernetes.io/part-of"], "applyset-of-another-v1",
        "{theirs}"
    );
    assert!(labels["kro.run/owned"].is_null(), "{theirs}");

    // The blog's is nobody's, and not the blog's either: it is left alone, where kro would take it over.
    path.apply(&instance("blog", "message: hello")).await;
    let refused = "was not made for this instance";
    until(&path, &["get", "webapp", "blog"], "the refusal", |o| {
        o["status"]["state"] == "ERROR" && o["status"]["conditions"].to_string().contains(refused)
    })
    .await;
    let theirs = direct.json(&["get", "configmap", "blog-config"]).await;
    let theirs = theirs.expect("it is there");
    assert_eq!(theirs["data"]["message"], "theirs", "{theirs}");

    // The definition may say that such objects are to be taken over.
    let adopt = ["annotate", "rgd", "webapp", "wheelhouse.dev/adopt=true"];
    stage.hub.root().must(&adopt).await;
    stage.bring_up("blog", "message: hello").await;
    let ours = direct.json(&["get", "configmap", "blog-config"]).await;
    let ours = ours.expect("it is there");
    assert_eq!(ours["data"]["message"], "hello", "{ours}");
    assert_eq!(ours["metadata"]["labels"]["app"], "blog", "{ours}");

    // Once the other one is gone, the shop comes up by itself.
    direct.must(&["delete", "configmap", "shop-config"]).await;
    stage.bring_up("shop", "message: hello").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_instances_that_want_one_object_the_first_has_it_until_it_goes() {
    let stage = Stage::bare().await;
    let (root, path, direct) = (stage.hub.root(), stage.path(), stage.direct());
    root.apply(SIGN).await;
    let ready = |what: &'static str| ["wait", "--for=condition=Ready", what, "--timeout=60s"];
    root.must(&ready("rgd/sign")).await;
    path.apply(&sign("one")).await;
    path.must(&ready("sign/one")).await;

    path.apply(&sign("two")).await;
    until(&path, &["get", "sign", "two"], "the refusal", |o| {
        let conditions = o["status"]["conditions"].to_string();
        conditions.contains("belongs to a different ApplySet")
    })
    .await;
    let config = ["get", "configmap", "the-sign"];
    let kept = direct.json(&config).await.expect("it is there");
    assert_eq!(kept["data"]["text"], "one", "{kept}");

    path.must(&["delete", "sign", "one"]).await;
    path.must(&ready("sign/two")).await;
    let taken = direct.json(&config).await.expect("it is there");
    assert_eq!(taken["data"]["text"], "two", "{taken}");
    path.must(&["delete", "sign", "two"]).await;
    gone(&direct, &config).await;
}
