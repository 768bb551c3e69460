//! S17: what is secret stands nowhere else: no log, no record, no error, no status, no metric, no backup has it.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use wheelhouse_tests::{hub::Settings, process::Scratch};

use super::support::{CRDS, Fixture, JSON, MERGE_PATCH, RGDS, SPOKES, User};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Values that must be found nowhere, by what they are.
#[derive(Default)]
struct Canaries {
    values: Vec<(String, String)>,
}

impl Canaries {
    fn add(&mut self, what: &str) -> String {
        let value = format!("canary{}of{what}", 7000 + self.values.len());
        self.values.push((what.to_owned(), value.clone()));
        value
    }

    /// Must not be in a text, neither as they are nor in base64.
    fn must_not_be_in(&self, place: &str, bytes: &[u8]) {
        for (what, value) in &self.values {
            for form in [value.clone(), STANDARD.encode(value)] {
                let at = bytes
                    .windows(form.len())
                    .position(|window| window == form.as_bytes());
                let shown = at.map(|at| {
                    String::from_utf8_lossy(
                        &bytes[at.saturating_sub(200)..(at + 100).min(bytes.len())],
                    )
                });
                assert!(at.is_none(), "{what} is in {place}: {shown:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s17_secrets_stand_nowhere_else() {
    let scratch = Scratch::new("secrets");
    let mut canaries = Canaries::default();
    let key = STANDARD.encode([7_u8; 32]);
    canaries
        .values
        .push(("the key of the store".to_owned(), key.clone()));
    let key_file = scratch.write("keys", format!("one:{key}\n"));
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key_file, private).expect("the file is ours");
    let settings = Settings {
        environment: vec![(
            "WHEELHOUSE_LOG".to_owned(),
            "debug,h2=info,hyper=info,rustls=info".to_owned(),
        )],
        arguments: vec![
            "--audit-log-path=-".to_owned(),
            "--encryption-key-file".to_owned(),
            key_file.display().to_string(),
        ],
        ..Settings::default()
    };
    let fixture = Fixture::start_with(&["alice"], settings).await;
    canaries.values.push((
        "a token of the token file".to_owned(),
        "alice-token".to_owned(),
    ));
    let admin = fixture.admin().await;
    fixture.embed("a").await;
    let alice = fixture.tenant("alice", "a").await;

    let seen = [
        values(&admin, &mut canaries).await,
        credentials(&fixture, &admin, &alice, &mut canaries).await,
        bodies(&admin, &mut canaries).await,
        spokes(&admin, &mut canaries).await,
        expressions(&alice, &mut canaries).await,
    ];
    for (place, text) in seen.into_iter().flatten() {
        canaries.must_not_be_in(&place, text.as_bytes());
    }
    everywhere(
        &fixture,
        &admin,
        &canaries,
        &scratch,
        &key_file.display().to_string(),
    )
    .await;
}

type Seen = Vec<(String, String)>;

/// Values of Secrets, and who owns their fields.
async fn values(admin: &User, canaries: &mut Canaries) -> Seen {
    let path = format!("{SECRETS}/one");
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, "stringData": {"v": value}});
    admin
        .post(SECRETS, &secret(&canaries.add("aSecret")))
        .await
        .must(201);
    let patch = json!({"data": {"w": STANDARD.encode(canaries.add("aPatch"))}});
    admin.patch(&path, MERGE_PATCH, &patch).await.must(200);
    let applied = admin
        .apply(&path, &secret(&canaries.add("anApply")))
        .await
        .must(200);
    // Refused for its name, its key and its type: the value is no part of why.
    let mut bad = secret(&canaries.add("aRefusedSecret"));
    bad["metadata"]["name"] = json!("Not A Name");
    let refused = admin.post(SECRETS, &bad).await;
    let typed = json!({"metadata": {"name": "two"}, "type": "kubernetes.io/tls", "stringData": {"no key": canaries.add("aBadKey")}});
    let keyed = admin.post(SECRETS, &typed).await;
    let changed = json!({"type": "Other", "stringData": {"v": canaries.add("aRefusedPatch")}});
    let typed = admin.patch(&path, MERGE_PATCH, &changed).await;
    vec![
        (
            "managedFields".to_owned(),
            applied["metadata"]["managedFields"].to_string(),
        ),
        (
            "the refusal of a name".to_owned(),
            refused.must(422).to_string(),
        ),
        (
            "the refusal of a key".to_owned(),
            keyed.must(422).to_string(),
        ),
        (
            "the refusal of a type".to_owned(),
            typed.must(422).to_string(),
        ),
    ]
}

/// Tokens that are good, and one that is not.
async fn credentials(
    fixture: &Fixture,
    admin: &User,
    alice: &User,
    canaries: &mut Canaries,
) -> Seen {
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    for (user, base) in [(admin, ""), (alice, "/clusters/a")] {
        let path = format!("{base}/api/v1/namespaces/default/serviceaccounts/default/token");
        let issued = user.post(&path, &request).await.must(201);
        let token = issued["status"]["token"]
            .as_str()
            .expect("a token")
            .to_owned();
        let signature = token.rsplit('.').next().unwrap_or_default().to_owned();
        let account = fixture.bearer("an account", &token).await;
        account
            .get(&format!("{base}/api/v1/namespaces/default/configmaps"))
            .await
            .must(403);
        // In a review it is a part of the body.
        let review = json!({"spec": {"token": token}});
        user.post(
            &format!("{base}/apis/authentication.k8s.io/v1/tokenreviews"),
            &review,
        )
        .await
        .must(201);
        canaries
            .values
            .push((format!("the signature of a token of {base}/"), signature));
    }
    let guess = canaries.add("aGuess");
    let refused = fixture.bearer("a guess", &guess).await.get(SECRETS).await;
    let basic = format!("Basic {}", STANDARD.encode(canaries.add("aPassword")));
    let other = admin
        .send("GET", SECRETS, &[("authorization", &basic)], "")
        .await;
    vec![
        (
            "the refusal of a token".to_owned(),
            refused.must(401).to_string(),
        ),
        (
            "what a password gets".to_owned(),
            if other.status == 200 {
                String::new()
            } else {
                other.body.to_string()
            },
        ),
    ]
}

/// Bodies that cannot be read.
async fn bodies(admin: &User, canaries: &mut Canaries) -> Seen {
    let cut = format!(
        "{{\"apiVersion\": \"v1\", \"stringData\": {{\"v\": \"{}\", }}}}",
        canaries.add("aCutBody")
    );
    let wrong = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "three"}, "stringData": canaries.add("aWrongBody")});
    let protobuf = format!("k8s\0{}", canaries.add("aProtobufBody"));
    for (content_type, body) in [
        (JSON, cut.clone()),
        (
            "application/yaml",
            format!("a: [{}", canaries.add("aYamlBody")),
        ),
        (JSON, wrong.to_string()),
        ("application/vnd.kubernetes.protobuf", protobuf),
    ] {
        let answer = admin
            .send("POST", SECRETS, &[("content-type", content_type)], body)
            .await;
        assert!(
            matches!(answer.status, 400..=499),
            "{content_type}: {}",
            answer.body
        );
    }
    // Who has sent a body may be told what is wrong in it; nobody else is.
    Vec::new()
}

/// Kubeconfigs: unreachable, malformed, and with a credential that must not be tried.
#[expect(clippy::too_many_lines, reason = "a table of kubeconfigs")]
async fn spokes(admin: &User, canaries: &mut Canaries) -> Seen {
    let kubeconfig = |user: Value, server: &str| {
        json!({
            "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": server}}], "users": [{"name": "x", "user": user}],
        })
        .to_string()
    };
    let away = "https://127.0.0.1:1";
    let texts = [
        (
            "token",
            kubeconfig(json!({"token": canaries.add("aSpokesToken")}), away),
        ),
        (
            "password",
            kubeconfig(
                json!({"username": "u", "password": canaries.add("aSpokesPassword")}),
                away,
            ),
        ),
        (
            "userinfo",
            kubeconfig(
                json!({}),
                &format!("https://u:{}@127.0.0.1:1", canaries.add("aUrl")),
            ),
        ),
        (
            "key",
            kubeconfig(
                json!({"client-key-data": canaries.add("aKey"), "client-certificate-data": "x"}),
                away,
            ),
        ),
        (
            "keyfile",
            kubeconfig(
                json!({"tokenFile": format!("/tmp/{}", canaries.add("aFile"))}),
                away,
            ),
        ),
        (
            "malformed",
            format!("{{{{{{ token: {}", canaries.add("aMalformedKubeconfig")),
        ),
        (
            "wrongtype",
            format!("users: {}\ntoken: [", canaries.add("aWrongKubeconfig")),
        ),
        ("scalar", canaries.add("aKubeconfigThatIsAToken")),
    ];
    let mut seen = Vec::new();
    for (name, text) in &texts {
        let secret = json!({
            "metadata": {"name": format!("spoke-{name}"), "labels": {"wheelhouse.dev/spoke": name}},
            "data": {"kubeconfig": STANDARD.encode(text)},
        });
        admin.post(SECRETS, &secret).await.must(201);
        let reference =
            json!({"namespace": "default", "name": format!("spoke-{name}"), "key": "kubeconfig"});
        let spoke = json!({
            "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke", "metadata": {"name": name},
            "spec": {"connection": {"type": "Direct", "secretRef": reference}},
        });
        admin.post(SPOKES, &spoke).await.must(201);
    }
    for (name, _) in &texts {
        let path = format!("{SPOKES}/{name}");
        let judged = admin
            .until(&path, "the spoke is judged", |answer| {
                answer.body["status"]["conditions"].is_array()
            })
            .await;
        seen.push((
            format!("the status of spoke {name}"),
            judged.body.to_string(),
        ));
        let relayed = admin
            .get(&format!("/clusters/{name}/api/v1/namespaces?timeout=1s"))
            .await;
        seen.push((
            format!("the answer at spoke {name}"),
            relayed.body.to_string(),
        ));
    }
    seen
}

/// Expressions over a Secret that fail, in an instance that others may read.
async fn expressions(alice: &User, canaries: &mut Canaries) -> Seen {
    let password = canaries.add("aSecretInAnExpression");
    let secret = json!({"metadata": {"name": "input"}, "stringData": {"password": password}});
    alice
        .post(&format!("/clusters/a{SECRETS}"), &secret)
        .await
        .must(201);
    let graph = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "leaks"},
        "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "Leak", "spec": {"name": "string"}},
            "resources": [
                {"id": "input", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "${schema.spec.name}"}}},
                {"id": "child", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.metadata.name}"},
                    "data": {"v": "${string(int(string(input.data.password)))}"}}},
            ],
        },
    });
    alice
        .post(&format!("/clusters/a{RGDS}"), &graph)
        .await
        .must(201);
    // Before its CRD is established it is Inactive, and says what it waits for.
    alice
        .until(
            &format!("/clusters/a{RGDS}/leaks"),
            "the definition is served",
            |answer| answer.body["status"]["state"] == "Active",
        )
        .await;
    let kind = "/clusters/a/apis/kro.run/v1alpha1/namespaces/default/leaks";
    alice.until_status(kind, 200).await;
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Leak", "metadata": {"name": "one"}, "spec": {"name": "input"}});
    alice.post(kind, &instance).await.must(201);
    let judged = alice
        .until(
            &format!("{kind}/one"),
            "the expression has failed",
            |answer| {
                answer.body["status"]["conditions"]
                    .to_string()
                    .contains("child")
            },
        )
        .await;
    vec![(
        "the status of an instance".to_owned(),
        judged.body.to_string(),
    )]
}

/// What others can read, and what lies on disks.
async fn everywhere(
    fixture: &Fixture,
    admin: &User,
    canaries: &Canaries,
    scratch: &Scratch,
    key_file: &str,
) {
    let backup = scratch.file("backup");
    let backup = backup.to_str().expect("a path in UTF-8");
    let made = fixture
        .hub
        .wheelhouse(&[
            "store",
            "backup",
            "--out",
            backup,
            "--encryption-key-file",
            key_file,
        ])
        .await;
    canaries.must_not_be_in(
        "the output of store backup",
        made.succeeded("store backup").as_bytes(),
    );
    canaries.must_not_be_in(
        "the backup",
        &std::fs::read(backup).expect("the backup is there"),
    );
    for path in [
        "/metrics",
        "/api/v1/events",
        "/clusters/a/api/v1/events",
        SPOKES,
        CRDS,
        "/openapi/v3",
        "/readyz?verbose",
    ] {
        let answer = admin.get(path).await;
        canaries.must_not_be_in(path, answer.body.to_string().as_bytes());
    }
    let process = fixture.hub.process();
    for file in ["cmdline", "environ"] {
        let bytes = std::fs::read(format!("/proc/{}/{file}", process.pid())).expect("the hub runs");
        canaries.must_not_be_in(file, &bytes);
    }
    let log = process.log();
    assert!(
        log.contains("DEBUG") && log.contains("{\"kind\":\"Event\""),
        "the log has debug lines, and audit events between them"
    );
    for span in [" request{audit_id=", " reconcile{controller="] {
        assert!(log.contains(span), "what happens says where: {span}");
    }
    canaries.must_not_be_in("the log", log.as_bytes());
    // Sealed as they are stored; ConfigMaps are not.
    let mut folders = vec![fixture.hub.data().join("store")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)
            .expect("the store is a folder")
            .flatten()
        {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            count += bytes.len();
            canaries.must_not_be_in(&entry.path().display().to_string(), &bytes);
        }
    }
    assert!(count > 10_000, "the store has been read");
}
