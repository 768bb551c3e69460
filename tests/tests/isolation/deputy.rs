//! S09: what is done for a tenant is done with the tenant's rights, and to what is the tenant's.

use serde_json::{Value, json};
use wheelhouse_tests::{Hub, Kubectl, Spoke, eventually};

/// An author who may publish definitions and write ConfigMaps in `default`, and no more.
const WEAK: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: publisher}
rules:
- {apiGroups: [kro.run], resources: ['*'], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mallory-publishes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: publisher}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer, namespace: default}
rules:
- {apiGroups: [''], resources: [configmaps], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: mallory-writes, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}]
---
apiVersion: v1
kind: Secret
metadata: {name: treasure, namespace: kube-system}
stringData: {word: xyzzy}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: deployer, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: keeper, namespace: default}
rules:
- {apiGroups: [''], resources: [secrets], verbs: [get, create, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer-keeps, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: keeper}
subjects: [{kind: ServiceAccount, name: deployer, namespace: default}]
";

/// Lets mallory act as the ServiceAccount.
const MAY_IMPERSONATE: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deputise, namespace: default}
rules:
- {apiGroups: [''], resources: [serviceaccounts], resourceNames: [deployer], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: mallory-deputises, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deputise}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}]
";

/// What mallory needs in root to enter clusters at all.
const ACCESS: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: enters}
rules:
- {apiGroups: [wheelhouse.dev], resources: [spokes], resourceNames: [inner, east], verbs: [access]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mallory-enters}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: enters}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}]
";

const INNER: &str = "apiVersion: wheelhouse.dev/v1alpha1\nkind: Spoke\n\
                     metadata: {name: inner}\nspec: {provider: Embedded}\n";

/// A definition whose kind has a name of its own.
fn definition(kind: &str, annotations: &str, status: &str, resource: &str) -> String {
    let name = kind.to_lowercase();
    format!(
        "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\n\
         metadata: {{name: {name}, annotations: {{{annotations}}}}}\n\
         spec:\n  schema:\n    apiVersion: v1alpha1\n    kind: {kind}\n\
         \x20   spec: {{text: 'string | default=\"\"', ns: 'string | default=\"\"'}}\n\
         \x20   status: {{{status}}}\n\
         \x20 resources:\n{resource}"
    )
}

fn instance(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: kro.run/v1alpha1\nkind: {kind}\n\
         metadata: {{name: {name}, namespace: default}}\nspec: {{{spec}}}\n"
    )
}

/// One logical cluster, seen by its administrator and by mallory.
struct Place {
    admin: Kubectl,
    mallory: Mallory,
}

/// kubectl as mallory.
struct Mallory(Kubectl);

impl Mallory {
    async fn apply(&self, manifest: &str) {
        let arguments = ["apply", "--as", "mallory", "-f", "-"];
        let ran = self.0.run_with_input(&arguments, manifest).await;
        ran.succeeded(manifest);
    }

    /// Publishes a definition, and makes an instance of it once it is served.
    async fn publish(&self, kind: &str, definition: &str, spec: &str) {
        self.apply(definition).await;
        let name = format!("rgd/{}", kind.to_lowercase());
        self.0
            .must(&["wait", "--for=condition=Ready", &name, "--timeout=60s"])
            .await;
        self.apply(&instance(kind, "it", spec)).await;
    }
}

impl Place {
    async fn set(hub: &Hub, cluster: &str) -> Self {
        let admin = hub.at(cluster);
        eventually("the cluster serves", || async {
            admin.run(&["get", "namespace", "default"]).await.ok()
        })
        .await;
        admin.apply(WEAK).await;
        let mallory = Mallory(hub.at(cluster));
        Self { admin, mallory }
    }

    /// Waits until an instance says something.
    async fn says(&self, kind: &str, text: &str) -> Value {
        let what = format!("{kind} says {text:?}");
        let kind = kind.to_lowercase();
        eventually(&what, || async {
            let object = self.admin.json(&["get", &kind, "it"]).await?;
            if object["status"].to_string().contains(text) {
                Ok(object)
            } else {
                Err(object["status"].to_string())
            }
        })
        .await
    }

    async fn assert_absent(&self, arguments: &[&str]) {
        let mut get = vec!["get"];
        get.extend(arguments);
        let ran = self.admin.run(&get).await;
        assert!(ran.stderr.contains("NotFound"), "{arguments:?}: {ran:?}");
    }

    async fn writes_with_its_authors_rights(&self) {
        let grab = definition(
            "Grab",
            "",
            "",
            r"  - id: binding
    template:
      apiVersion: rbac.authorization.k8s.io/v1
      kind: ClusterRoleBinding
      metadata: {name: mallory-rules}
      roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
      subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}]
",
        );
        self.mallory.publish("Grab", &grab, "").await;
        let said = self.says("Grab", "forbidden").await;
        assert_eq!(said["status"]["state"], "ERROR", "{said}");
        self.assert_absent(&["clusterrolebinding", "mallory-rules"])
            .await;
        // What the author may write is written.
        let plain = definition(
            "Plain",
            "",
            "text: '${config.data.text}'",
            r"  - id: config
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: plain}
      data: {text: '${schema.spec.text}'}
",
        );
        self.mallory.publish("Plain", &plain, "text: fine").await;
        let said = self.says("Plain", "ACTIVE").await;
        assert_eq!(said["status"]["text"], "fine", "{said}");
    }

    async fn reads_with_its_authors_rights(&self) {
        let status = "word: '${treasure.data.word}'";
        let peek = definition(
            "Peek",
            "",
            status,
            r"  - id: treasure
    externalRef:
      apiVersion: v1
      kind: Secret
      metadata: {name: treasure, namespace: kube-system}
",
        );
        self.mallory.publish("Peek", &peek, "").await;
        let adopted = definition(
            "Adopted",
            "wheelhouse.dev/adopt: 'true'",
            status,
            r"  - id: treasure
    template:
      apiVersion: v1
      kind: Secret
      metadata: {name: treasure, namespace: kube-system}
",
        );
        self.mallory.publish("Adopted", &adopted, "").await;
        for kind in ["Peek", "Adopted"] {
            let said = self.says(kind, "forbidden").await;
            assert!(said["status"]["word"].is_null(), "{said}");
        }
        let treasure = ["get", "secret", "treasure", "-n", "kube-system"];
        let kept = self.admin.json(&treasure).await.expect("it is there");
        let labels = kept["metadata"]["labels"].to_string();
        assert!(!labels.contains("kro.run/owned"), "{kept}");
    }

    /// `run-as` names an account that the author may act as, or nothing is done.
    async fn runs_as_an_account_that_its_author_may_act_as(&self) {
        let deputy = definition(
            "Deputy",
            "wheelhouse.dev/run-as: default/deployer",
            "",
            r"  - id: secret
    template:
      apiVersion: v1
      kind: Secret
      metadata: {name: by-deployer, namespace: default}
      stringData: {text: '${schema.spec.text}'}
",
        );
        self.mallory.apply(&deputy).await;
        let refused = "may not impersonate";
        eventually("the definition says that it may not", || async {
            let object = self.admin.json(&["get", "rgd", "deputy"]).await?;
            let status = object["status"].to_string();
            status.contains(refused).then_some(()).ok_or(status)
        })
        .await;
        let it = instance("Deputy", "it", "text: mine");
        self.mallory.apply(&it).await;
        self.says("Deputy", refused).await;
        self.assert_absent(&["secret", "by-deployer"]).await;
        // It heals by itself once the right is given.
        self.admin.apply(MAY_IMPERSONATE).await;
        self.says("Deputy", "ACTIVE").await;
        let ready = [
            "wait",
            "--for=condition=Ready",
            "rgd/deputy",
            "--timeout=60s",
        ];
        self.admin.must(&ready).await;
        let made = ["get", "secret", "by-deployer"];
        self.admin.json(&made).await.expect("the account made it");
        // The author alone may not delete it; the account may, and does.
        self.admin.must(&["delete", "deputy", "it"]).await;
        self.assert_absent(&["secret", "by-deployer"]).await;
    }

    /// A definition that a definition makes is its author's, whatever its template says.
    async fn nested_definitions_are_their_outer_authors(&self) {
        let nested = r#"  - id: nested
    template:
      apiVersion: kro.run/v1alpha1
      kind: ResourceGraphDefinition
      metadata:
        name: nested
        annotations: {internal.wheelhouse.dev/author: '{"hub":true}'}
      spec:
        schema: {apiVersion: v1alpha1, kind: Nested, spec: {text: string}}
        resources:
        - id: role
          template:
            apiVersion: rbac.authorization.k8s.io/v1
            kind: ClusterRole
            metadata: {name: by-nested}
            rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]
"#;
        let outer = definition("Outer", "", "", nested);
        self.mallory.publish("Outer", &outer, "").await;
        eventually("the nested definition is served", || async {
            let ready = [
                "wait",
                "--for=condition=Ready",
                "rgd/nested",
                "--timeout=1s",
            ];
            self.admin.run(&ready).await.ok()
        })
        .await;
        let written = self.admin.json(&["get", "rgd", "nested"]).await;
        let written = written.expect("it is there");
        let annotations = &written["metadata"]["annotations"];
        let author = annotations["internal.wheelhouse.dev/author"].to_string();
        assert!(author.contains("mallory"), "{author}");
        self.mallory
            .apply(&instance("Nested", "it", "text: x"))
            .await;
        self.says("Nested", "forbidden").await;
        self.assert_absent(&["clusterrole", "by-nested"]).await;
    }

    /// Who changes what another wrote, or how it is carried out, does not act as the other.
    async fn a_change_is_its_writers(&self) {
        let author = |object: &Value| {
            let annotations = &object["metadata"]["annotations"];
            let text = annotations["internal.wheelhouse.dev/author"].as_str();
            text.unwrap_or_default().to_owned()
        };
        let role = |name: &str| {
            let template = r"  - id: role
    template:
      apiVersion: rbac.authorization.k8s.io/v1
      kind: ClusterRole
      metadata: {name: NAME}
      rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]
";
            definition("Strong", "", "", &template.replace("NAME", name))
        };
        self.admin.apply(&role("by-admin")).await;
        let ready = [
            "wait",
            "--for=condition=Ready",
            "rgd/strong",
            "--timeout=60s",
        ];
        self.admin.must(&ready).await;
        self.admin.apply(&instance("Strong", "it", "")).await;
        self.says("Strong", "ACTIVE").await;
        let written = self.admin.json(&["get", "rgd", "strong"]).await;
        let before = author(&written.expect("it is there"));
        assert!(before.contains("\"admin\""), "{before}");
        let annotate = ["annotate", "--as", "mallory", "rgd", "strong"];
        let mut annotate = annotate.to_vec();
        annotate.push("wheelhouse.dev/adopt=true");
        self.mallory.0.must(&annotate).await;
        let written = self.admin.json(&["get", "rgd", "strong"]).await;
        let after = author(&written.expect("it is there"));
        assert!(after.contains("\"mallory\""), "{after}");
        self.mallory.apply(&role("by-mallory")).await;
        self.says("Strong", "forbidden").await;
        self.assert_absent(&["clusterrole", "by-mallory"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s09_a_template_acts_as_its_author() {
    let hub = Hub::start().await;
    let (root, east) = (hub.root(), Spoke::start("east"));
    let (east, ()) = tokio::join!(east, async {
        root.apply(INNER).await;
        root.apply(ACCESS).await;
    });
    hub.join(&east).await;
    let story = |cluster: &'static str| {
        let hub = &hub;
        async move {
            let place = Place::set(hub, cluster).await;
            tokio::join!(
                place.writes_with_its_authors_rights(),
                place.reads_with_its_authors_rights(),
                place.runs_as_an_account_that_its_author_may_act_as(),
                place.a_change_is_its_writers(),
                async {
                    // A real spoke does not store definitions.
                    if cluster == "inner" {
                        place.nested_definitions_are_their_outer_authors().await;
                    }
                },
            );
        }
    };
    tokio::join!(story("inner"), story("east"));
}

/// A definition of root: its children are the hub's.
fn shared(kind: &str, annotations: &str, resource: &str) -> String {
    definition(kind, annotations, "seen: '${it.data.word}'", resource)
}

/// Namespaces that are none.
const SPACES: &[&str] = &[
    "kube-system/secrets?a=",
    "../../namespaces/kube-system/secrets",
    "kube-system%2fsecrets",
    "a b",
];

/// Names that are none.
const NAMES: &[&str] = &["../secrets/treasure", "a/b", "a%2Fb", "a\r\nX: y", ".."];

/// Instances that try each of them, with the field that is to be named.
fn trials() -> Vec<(Value, &'static str)> {
    let mut trials = Vec::new();
    let trial = |kind: &str, name: String, text: &str, ns: &str| {
        json!({
            "apiVersion": "kro.run/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"text": text, "ns": ns},
        })
    };
    let long = format!("{}/x", "n".repeat(2000));
    let spaces: Vec<&str> = SPACES.iter().copied().chain([long.as_str()]).collect();
    for kind in ["Refers", "Makes"] {
        for (index, space) in spaces.iter().enumerate() {
            let instance = trial(kind, format!("space-{index}"), "treasure", space);
            trials.push((instance, "metadata.namespace"));
        }
        for (index, name) in NAMES.iter().enumerate() {
            let instance = trial(kind, format!("name-{index}"), name, "default");
            trials.push((instance, "metadata.name"));
        }
    }
    trials
}

/// Publishes definitions in root.
async fn serve(root: &Kubectl, definitions: &[(&str, String)]) {
    for (_, definition) in definitions {
        root.apply(definition).await;
    }
    for (name, _) in definitions {
        let name = format!("rgd/{name}");
        root.must(&["wait", "--for=condition=Ready", &name, "--timeout=60s"])
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s09_no_value_of_an_instance_names_more_than_one_object() {
    let hub = Hub::start().await;
    let root = hub.root();
    root.apply(WEAK).await;
    let reference = r"  - id: it
    externalRef:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: '${schema.spec.text}', namespace: '${schema.spec.ns}'}
";
    let template = r"  - id: it
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: '${schema.spec.text}', namespace: '${schema.spec.ns}'}
      data: {word: none}
";
    let definitions = [
        ("refers", shared("Refers", "", reference)),
        ("makes", shared("Makes", "", template)),
    ];
    serve(&root, &definitions).await;
    let trials = trials();
    let all: Vec<Value> = trials.iter().map(|(trial, _)| trial.clone()).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
    root.apply(&list.to_string()).await;
    for (trial, field) in &trials {
        let kind = trial["kind"].as_str().unwrap_or_default().to_lowercase();
        let name = trial["metadata"]["name"].as_str().unwrap_or_default();
        let refused = format!("invalid {field}");
        let said = eventually("the node says what is wrong", || async {
            let object = root.json(&["get", &kind, name]).await?;
            let status = object["status"].to_string();
            if status.contains(&refused) {
                Ok(status)
            } else {
                Err(status)
            }
        })
        .await;
        assert!(!said.contains("eHl6enk"), "the Secret's word: {said}");
        assert!(said.len() < 4000, "a value is shown in bounds: {said}");
    }
    // It heals with the instance.
    let mended = instance("Makes", "space-0", "text: mended, ns: default");
    root.apply(&mended).await;
    let ready = ["wait", "--for=condition=Ready", "makes/space-0"];
    let ready: Vec<&str> = ready.into_iter().chain(["--timeout=60s"]).collect();
    root.must(&ready).await;
}

/// A spoke with ConfigMaps of its own, and definitions of root whose instances may name any.
struct Yard {
    hub: Hub,
    east: Spoke,
}

impl Yard {
    async fn set() -> Self {
        let (hub, east) = tokio::join!(Hub::start(), Spoke::start("east"));
        hub.join(&east).await;
        let template = r"  - id: it
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: '${schema.spec.text}'}
      data: {word: ours}
";
        let definitions = [
            ("named", shared("Named", "", template)),
            (
                "taking",
                shared("Taking", "wheelhouse.dev/adopt: 'true'", template),
            ),
        ];
        serve(&hub.root(), &definitions).await;
        let yard = Self { hub, east };
        // Also where nothing that is wanted differs from what is there, so that no field conflicts.
        for (name, data) in [
            ("theirs", "word: theirs"),
            ("empty", "other: theirs"),
            ("offered", "word: theirs"),
        ] {
            let object = format!(
                "apiVersion: v1\nkind: ConfigMap\n\
                 metadata: {{name: {name}, namespace: default}}\ndata: {{{data}}}\n"
            );
            yard.direct().apply(&object).await;
        }
        for (kind, name) in [
            ("Named", "theirs"),
            ("Named", "empty"),
            ("Named", "own"),
            ("Taking", "offered"),
        ] {
            let instance = instance(kind, name, &format!("text: {name}"));
            yard.path().apply(&instance).await;
        }
        yard
    }

    fn path(&self) -> Kubectl {
        self.hub.at("east")
    }

    fn direct(&self) -> Kubectl {
        self.east.kubectl()
    }

    async fn config(&self, name: &str) -> Value {
        let get = ["get", "configmap", name];
        self.direct().json(&get).await.expect("it is there")
    }

    async fn ready(&self, resource: &str) {
        let wait = ["wait", "--for=condition=Ready", resource, "--timeout=60s"];
        self.path().must(&wait).await;
    }

    /// Waits until an instance says that its object is somebody else's.
    async fn refused(&self, name: &str) {
        eventually("it says that the name is taken", || async {
            let object = self.path().json(&["get", "named", name]).await?;
            let status = object["status"].to_string();
            let told = status.contains("was not made for this instance")
                && status.contains("wheelhouse.dev/adopt")
                && object["status"]["state"] == "ERROR"
                && object["status"]["seen"].is_null();
            told.then_some(()).ok_or(status)
        })
        .await;
    }

    /// Makes somebody else's object with everything that a child carries.
    async fn plant(&self) {
        let mut planted = self.config("own").await;
        let metadata = &mut planted["metadata"];
        metadata["name"] = json!("planted");
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.remove(field);
            }
        }
        let forged = [
            "apply",
            "--server-side",
            "--field-manager=kro.run/applyset",
            "-f",
            "-",
        ];
        let direct = self.direct();
        let ran = direct.run_with_input(&forged, &planted.to_string()).await;
        ran.succeeded("the planted object");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s09_what_is_not_an_instances_own_is_neither_written_nor_deleted() {
    let yard = Yard::set().await;
    for name in ["theirs", "empty"] {
        yard.refused(name).await;
        let kept = yard.config(name).await;
        assert!(kept["data"]["word"] != "ours", "{kept}");
        assert!(kept["metadata"]["labels"].is_null(), "{kept}");
    }
    yard.ready("named/own").await;
    // Where the definition says so, it is taken over.
    yard.ready("taking/offered").await;
    let taken = yard.config("offered").await;
    assert_eq!(taken["data"]["word"], "ours", "{taken}");

    yard.plant().await;
    // The hub has seen what was planted once an edit that was made later is undone.
    let path = yard.path();
    let edit = [
        "patch",
        "configmap",
        "own",
        "--type=merge",
        "-p",
        r#"{"data":{"word":"edited"}}"#,
    ];
    yard.direct().must(&edit).await;
    eventually("the edit is undone", || async {
        let own = yard.config("own").await;
        (own["data"]["word"] == "ours")
            .then_some(())
            .ok_or(own.to_string())
    })
    .await;
    for resource in ["named/theirs", "named/empty", "named/own"] {
        path.must(&["delete", resource, "--timeout=60s"]).await;
    }
    let own = yard.direct().run(&["get", "configmap", "own"]).await;
    assert!(own.stderr.contains("NotFound"), "{own:?}");
    for name in ["theirs", "empty", "planted"] {
        let kept = yard.config(name).await;
        assert!(kept["metadata"]["deletionTimestamp"].is_null(), "{kept}");
    }
    assert_eq!(yard.config("theirs").await["data"]["word"], "theirs");
}
