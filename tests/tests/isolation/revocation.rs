//! S16: what somebody may not do any more ends within ten seconds, however it was let in; and S01 for the tokens of a real spoke's own
//! ServiceAccounts, who are let in at its path alone.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use futures::{FutureExt as _, future::BoxFuture, future::join_all};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::time::Instant;
use wheelhouse_tests::{
    Spoke,
    pki::Pair,
    wait::within,
    wire::{Address, Wire},
};

use super::support::{Fixture, RBAC, RGDS, SPOKES, User};

/// How long somebody may go on after the right to it is gone.
const PROMISED: Duration = Duration::from_secs(10);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const HTTP1: &[&str] = &["http/1.1"];

/// Something open, what takes the right to it away, and what it is told then.
struct Case<'a> {
    name: &'static str,
    wire: Wire,
    revoke: BoxFuture<'a, ()>,
    told: Told,
}

enum Told {
    /// An event `ERROR` with this code, and nothing more.
    Error(u16),
    /// The end.
    End,
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
async fn s16_what_is_open_ends_with_the_right_to_it() {
    let users = ["alice", "bob", "carol", "dave", "erin", "stays"];
    let fixture = Fixture::start(&users).await;
    let admin = fixture.admin().await;
    fixture.embed("a").await;
    fixture.embed("gone").await;
    for user in ["alice", "erin", "stays"] {
        fixture.grant("root", user, "maps", &[maps()]).await;
    }
    fixture.allow_access("bob", "a").await;
    fixture.allow_access("carol", "a").await;
    for user in ["bob", "carol"] {
        fixture.grant("a", user, "maps", &[maps()]).await;
    }
    let impersonate = json!({"apiGroups": [""], "resources": ["users"], "resourceNames": ["erin"], "verbs": ["impersonate"]});
    fixture.grant("root", "dave", "acts", &[impersonate]).await;
    let accounts = Accounts::make(&fixture, &admin).await;
    let address = Address::of_kubeconfig(&fixture.kubeconfig(None));
    let open = async |token: &str, path: &str, headers: &str| {
        let headers = format!("authorization: Bearer {token}\r\n{headers}");
        watch(&address, None, path, &headers).await
    };
    let in_a = format!("/clusters/a{MAPS}");
    let mut stays = open("stays-token", MAPS, "").await;
    let bindings = format!("{RBAC}/clusterrolebindings");
    let unbind = |base: &str, name: &str| deleted(&admin, format!("{base}{bindings}/{name}"));
    let cases = vec![
        Case {
            name: "a role binding of root",
            wire: open("alice-token", MAPS, "").await,
            revoke: unbind("", "maps-alice-of-alice"),
            told: Told::Error(403),
        },
        Case {
            name: "the first gate",
            wire: open("bob-token", &in_a, "").await,
            revoke: unbind("", "access-a-bob-of-bob"),
            told: Told::Error(403),
        },
        Case {
            name: "a role binding of an embedded cluster",
            wire: open("carol-token", &in_a, "").await,
            revoke: unbind("/clusters/a", "maps-carol-of-carol"),
            told: Told::Error(403),
        },
        Case {
            name: "the right to act as another",
            wire: open("dave-token", MAPS, "impersonate-user: erin\r\n").await,
            revoke: unbind("", "acts-dave-of-dave"),
            told: Told::Error(403),
        },
        Case {
            name: "a ServiceAccount of root",
            wire: open(&accounts.root, MAPS, "").await,
            revoke: deleted(&admin, format!("{ACCOUNTS}/bot")),
            told: Told::Error(401),
        },
        Case {
            name: "the Secret that a token is bound to",
            wire: open(&accounts.bound, MAPS, "").await,
            revoke: deleted(&admin, "/api/v1/namespaces/default/secrets/bond".to_owned()),
            told: Told::Error(401),
        },
        Case {
            name: "a ServiceAccount of an embedded cluster",
            wire: open(&accounts.embedded, &in_a, "").await,
            revoke: deleted(&admin, format!("/clusters/a{ACCOUNTS}/bot")),
            told: Told::Error(401),
        },
        Case {
            name: "the cluster",
            wire: {
                let pair = short_lived(&fixture.hub.data(), "admin", Duration::from_hours(1));
                let path = format!("/clusters/gone{MAPS}");
                watch(&address, Some(&pair), &path, "").await
            },
            revoke: deleted(&admin, format!("{SPOKES}/gone")),
            told: Told::Error(404),
        },
    ];
    join_all(cases.into_iter().map(Case::run)).await;
    // Who has all rights was left alone: what is written now is told.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "afterwards"}});
    admin.post(MAPS, &map).await.must(201);
    let told = stays.read_until("\"afterwards\"").await;
    assert!(told.contains("\"afterwards\""), "{told}");
    assert!(!told.contains("ERROR"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s16_a_certificate_that_runs_out_ends_its_connections() {
    let fixture = Fixture::start(&[]).await;
    let address = Address::of_kubeconfig(&fixture.kubeconfig(None));
    let lives = Duration::from_secs(4);
    let pair = short_lived(&fixture.hub.data(), "admin", lives);
    let runs_out = Instant::now() + lives;
    let mut watching = watch(&address, Some(&pair), MAPS, "").await;
    let mut idle = Wire::connect(&address, HTTP1, Some(&pair)).await;
    let mut asking = Wire::connect(&address, HTTP1, Some(&pair)).await;
    let get = format!("GET {MAPS} HTTP/1.1\r\nhost: hub\r\n\r\n");
    asking.write(&get).await;
    let first = asking.read_until("\r\n\r\n").await;
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    // A new connection every time: a certificate that has run out opens none that counts.
    within(PROMISED, "the certificate runs out", || async {
        let mut late = Wire::connect(&address, HTTP1, Some(&pair)).await;
        late.write(&get).await;
        let answer = late.read_until("\r\n\r\n").await;
        let refused = answer.starts_with("HTTP/1.1 401");
        refused.then_some(()).ok_or(answer)
    })
    .await;
    // On an old connection: 401, or it is closed already.
    asking.forget();
    asking.write(&get).await;
    let late = asking.read_until("\r\n\r\n").await;
    assert!(
        late.is_empty() || late.starts_with("HTTP/1.1 401"),
        "{late}"
    );
    let ends = async {
        let told = watching.read_to_end().await;
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(told.contains("\"type\":\"ERROR\""), "{told}");
        assert!(told.contains("\"code\":401"), "{told}");
        idle.read_to_end().await;
        asking.read_to_end().await;
    };
    let left = PROMISED.saturating_sub(runs_out.elapsed());
    let ended = tokio::time::timeout(left + lives, ends).await;
    ended.expect("its connections are closed");
    assert!(runs_out.elapsed() < PROMISED, "{:?}", runs_out.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
async fn s01_s16_a_spokes_own_accounts_are_let_in_there_alone_and_until_they_are_gone() {
    let mut spoke = Spoke::start("west").await;
    let fixture = Fixture::start(&["gina", "henry"]).await;
    fixture.join(&spoke).await;
    fixture.embed("a").await;
    let admin = fixture.admin().await;
    for user in ["gina", "henry"] {
        fixture.allow_access(user, "west").await;
    }
    let kubectl = spoke.kubectl();
    for manifest in WEST {
        kubectl.apply(manifest).await;
    }
    let token = |name| {
        let kubectl = spoke.kubectl();
        async move {
            let made = kubectl.must(&["create", "token", name]).await;
            made.trim().to_owned()
        }
    };
    let (robot, keeper) = (token("robot").await, token("keeper").await);
    // A ServiceAccount of root of the same name, with rights that are not the spoke's.
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    admin.post(ACCOUNTS, &account).await.must(201);
    let subject = json!([{"kind": "ServiceAccount", "namespace": "default", "name": "robot"}]);
    bind(&admin, "", "cluster-admin", &subject).await;
    spoke_tokens_count_at_home(&fixture, &kubectl_audience(&spoke).await, &robot).await;

    let address = Address::of_kubeconfig(&fixture.kubeconfig(None));
    let open = async |token: &str, path: String| {
        let headers = format!("authorization: Bearer {token}\r\n");
        watch(&address, None, &path, &headers).await
    };
    let (relayed, stored) = (
        format!("/clusters/west{MAPS}"),
        format!("/clusters/west{RGDS}"),
    );
    let mut stays = open("henry-token", stored.clone()).await;
    let unbind = |name: &'static str| {
        let kubectl = spoke.kubectl();
        async move {
            let delete = ["delete", "clusterrolebinding", name];
            kubectl.must(&delete).await;
        }
        .boxed()
    };
    let cases = vec![
        Case {
            name: "a role binding of a spoke, relayed",
            wire: open("gina-token", relayed.clone()).await,
            revoke: unbind("gina-reads"),
            told: Told::End,
        },
        Case {
            name: "a role binding of a spoke, stored by the hub",
            wire: open("gina-token", stored.clone()).await,
            revoke: unbind("gina-defines"),
            told: Told::Error(403),
        },
        Case {
            name: "a ServiceAccount of a spoke",
            wire: open(&robot, stored.clone()).await,
            revoke: {
                let kubectl = spoke.kubectl();
                async move {
                    kubectl.must(&["delete", "serviceaccount", "robot"]).await;
                }
                .boxed()
            },
            told: Told::Error(401),
        },
    ];
    join_all(cases.into_iter().map(Case::run)).await;

    // With the spoke away nobody is sent away, and who was known before is known.
    let keeper = fixture.bearer("keeper", &keeper).await;
    keeper.get(&relayed).await.must(200);
    spoke.stop_api();
    let robot = fixture.bearer("robot", &robot).await;
    let is_known = async {
        let until = Instant::now() + PROMISED;
        while Instant::now() < until {
            assert_eq!(
                keeper.get(&relayed).await.must(503)["reason"],
                "ServiceUnavailable"
            );
            robot.get(&relayed).await.must(401);
        }
    };
    let is_open = tokio::time::timeout(PROMISED, stays.read_until("ERROR"));
    let ((), ended) = tokio::join!(is_known, is_open);
    ended.expect_err("a spoke that is away sends nobody away");
}

/// Who is let in where with a token of a spoke's own.
async fn spoke_tokens_count_at_home(fixture: &Fixture, audience: &str, token: &str) {
    let robot = fixture.bearer("robot", token).await;
    let maps = |base: &str| format!("{base}{MAPS}");
    robot.until_status(&maps("/clusters/west"), 200).await;
    for (base, code) in [
        ("", 401),
        ("/clusters/a", 401),
        ("/clusters/*", 401),
        ("/clusters/root", 401),
    ] {
        robot.get(&maps(base)).await.must(code);
    }
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/clusters/west/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let info = robot.post(path, &review).await.must(201);
    let name = "system:serviceaccount:default:robot";
    assert_eq!(
        info["status"]["userInfo"]["username"], name,
        "it goes as it is"
    );
    // Its own roles count for what the hub stores, and for nothing that they do not say.
    let rgds = format!("/clusters/west{RGDS}");
    robot.get(&rgds).await.must(200);
    robot.delete(&format!("{rgds}/none")).await.must(403);
    robot.get("/clusters/west/api/v1/nodes").await.must(403);
    // Nothing but a token that the spoke has signed, for its API server, is anybody.
    let (head, _) = token.rsplit_once('.').expect("a JSON Web Token");
    for (name, other) in [
        ("without a signature", format!("{head}.")),
        ("with another", format!("{head}.{}", "A".repeat(86))),
        ("for somebody else", audience.to_owned()),
    ] {
        let other = fixture.bearer(name, &other).await;
        other.get(&maps("/clusters/west")).await.must(401);
    }
    // Nobody acts as another through it.
    let headers = [
        ("impersonate-user", "admin"),
        ("impersonate-group", "system:masters"),
    ];
    for path in [maps("/clusters/west"), rgds] {
        robot.send("GET", &path, &headers, "").await.must(403);
    }
}

/// A token of the spoke's own ServiceAccount that is for somebody else.
async fn kubectl_audience(spoke: &Spoke) -> String {
    let create = ["create", "token", "robot", "--audience=vault"];
    spoke.kubectl().must(&create).await.trim().to_owned()
}

const WEST: &[&str] = &[
    "{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot, namespace: default}}",
    "{apiVersion: v1, kind: ServiceAccount, metadata: {name: keeper, namespace: default}}",
    "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: defines}, rules: [{apiGroups: [kro.run], \
      resources: ['*'], verbs: [get, list, watch]}]}",
    "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: gina-reads}, roleRef: {apiGroup: \
      rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: gina}]}",
    "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: gina-defines}, roleRef: {apiGroup: \
      rbac.authorization.k8s.io, kind: ClusterRole, name: defines}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: gina}]}",
    "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: henry-defines}, roleRef: {apiGroup: \
      rbac.authorization.k8s.io, kind: ClusterRole, name: defines}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: henry}]}",
    "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: robots-read}, roleRef: {apiGroup: \
      rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: ServiceAccount, namespace: default, name: robot}, \
      {kind: ServiceAccount, namespace: default, name: keeper}]}",
    "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: robots-define}, roleRef: {apiGroup: \
      rbac.authorization.k8s.io, kind: ClusterRole, name: defines}, subjects: [{kind: ServiceAccount, namespace: default, name: robot}]}",
];

/// Tokens of the hub's own ServiceAccounts.
struct Accounts {
    root: String,
    bound: String,
    embedded: String,
}

impl Accounts {
    async fn make(fixture: &Fixture, admin: &User) -> Self {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bond"}});
        let secrets = "/api/v1/namespaces/default/secrets";
        admin.post(secrets, &secret).await.must(201);
        for (base, name) in [("", "bot"), ("", "bound"), ("/clusters/a", "bot")] {
            let account =
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
            let path = format!("{base}{ACCOUNTS}");
            admin.post(&path, &account).await.must(201);
            let subject = json!([{"kind": "ServiceAccount", "namespace": "default", "name": name}]);
            bind(admin, base, "cluster-admin", &subject).await;
        }
        let bound =
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "bond"}});
        let made = Self {
            root: token(admin, "", "bot", json!({})).await,
            bound: token(admin, "", "bound", bound).await,
            embedded: token(admin, "/clusters/a", "bot", json!({})).await,
        };
        for (token, base) in [
            (&made.root, ""),
            (&made.bound, ""),
            (&made.embedded, "/clusters/a"),
        ] {
            let account = fixture.bearer("bot", token).await;
            account.until_status(&format!("{base}{MAPS}"), 200).await;
        }
        made
    }
}

async fn token(admin: &User, base: &str, name: &str, spec: Value) -> String {
    let path = format!("{base}{ACCOUNTS}/{name}/token");
    let made = admin.post(&path, &json!({"spec": spec})).await.must(201);
    let token = made["status"]["token"].as_str();
    token.expect("a token").to_owned()
}

async fn bind(admin: &User, base: &str, role: &str, subjects: &Value) {
    let name = subjects[0]["name"].as_str().unwrap_or("nobody");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": format!("{role}-{name}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}, "subjects": subjects,
    });
    let path = format!("{base}{RBAC}/clusterrolebindings");
    admin.post(&path, &binding).await.must(201);
}

// === impl Case ===

impl Case<'_> {
    async fn run(mut self) {
        self.revoke.await;
        let since = Instant::now();
        let end = "\r\n0\r\n\r\n";
        let told = tokio::time::timeout(PROMISED, self.wire.read_until(end)).await;
        let name = self.name;
        let took = since.elapsed();
        assert!(told.is_ok(), "{name}: goes on after {took:?}");
        let told = told.unwrap_or_default();
        assert!(told.ends_with(end), "{name}: {told}");
        match self.told {
            Told::Error(code) => {
                let last = told.lines().rfind(|line| line.starts_with('{'));
                let last = last.expect("an event");
                let event: Value = serde_json::from_str(last).expect("JSON");
                assert_eq!(event["type"], "ERROR", "{name}: {event}");
                assert_eq!(event["object"]["code"], code, "{name}: {event}");
                assert_eq!(event["object"]["kind"], "Status", "{name}: {event}");
            }
            Told::End => assert!(!told.contains("\"ERROR\""), "{name}: {told}"),
        }
    }
}

fn maps() -> Value {
    json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]})
}

fn deleted(admin: &User, path: String) -> BoxFuture<'_, ()> {
    async move {
        let answer = admin.delete(&path).await;
        assert!(
            matches!(answer.status, 200 | 202),
            "{path}: {}",
            answer.body
        );
    }
    .boxed()
}

/// Opens a watch, once it is let in.
async fn watch(address: &Address, client: Option<&Pair>, path: &str, headers: &str) -> Wire {
    within(PROMISED, "a watch is let in", || async {
        let mut wire = Wire::connect(address, HTTP1, client).await;
        let request = format!("GET {path}?watch=true HTTP/1.1\r\nhost: hub\r\naccept: application/json\r\n{headers}\r\n");
        wire.write(request).await;
        let head = wire.read_until("\r\n\r\n").await;
        if head.starts_with("HTTP/1.1 200") {
            Ok(wire)
        } else {
            Err(head)
        }
    })
    .await
}

/// A client certificate of the hub's authority that runs out soon.
#[expect(clippy::disallowed_methods, reason = "the hub reads the same clock")]
fn short_lived(data: &Path, user: &str, lives: Duration) -> Pair {
    let read = |name: &str| {
        std::fs::read_to_string(data.join("pki").join(name)).expect("the hub's authority")
    };
    let authority = KeyPair::from_pem(&read("ca.key")).expect("a key");
    let issuer = Issuer::from_ca_cert_pem(&read("ca.crt"), authority).expect("an authority");
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    params.distinguished_name.push(DnType::CommonName, user);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch;
    params.not_after = epoch + now.expect("after 1970") + lives;
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    }
}
