//! S06 and S08: what a host says about its users counts for what it carries, for its own users, and for as long as it says so.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use serde_json::{Value, json};
use tokio::time::Instant;
use wheelhouse_tests::{
    eventually,
    hub::Settings,
    pki::{Authority, kubeconfig},
    process::Scratch,
    wire::{Address, FakeSpoke, Wire, json_answer},
};

use super::support::{Fixture, SPOKES, User};

const NAME: &str = "front-proxy-client";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HTTP1: &[&str] = &["http/1.1"];
/// How long somebody may go on after the right to it is gone.
const PROMISED: Duration = Duration::from_secs(10);

/// What the host says to every question.
const YES: u8 = 0;
const NO: u8 = 1;
const NOTHING: u8 = 2;

/// A host that publishes its front proxies, and a hub that it carries.
struct Stage {
    fixture: Fixture,
    host: FakeSpoke,
    says: Arc<AtomicU8>,
    authority: Authority,
    proxy: User,
    _scratch: Scratch,
}

impl Stage {
    async fn set() -> Self {
        let (authority, scratch) = (Authority::new("front-proxy-ca"), Scratch::new("host"));
        let says = Arc::new(AtomicU8::new(YES));
        let host = host(&authority, &says).await;
        let file = scratch.write("host.kubeconfig", host.kubeconfig("host"));
        let file = file.display().to_string();
        let arguments = [
            "--authentication-kubeconfig",
            &file,
            "--authorization-kubeconfig",
            &file,
        ];
        let settings = Settings {
            arguments: arguments.map(str::to_owned).to_vec(),
            ..Settings::default()
        };
        let fixture = Fixture::start_with(&["bob"], settings).await;
        let address = Address::of_kubeconfig(&fixture.kubeconfig(None));
        let server = format!("https://{}", address.host);
        let pair = authority.client(NAME, None);
        let config = kubeconfig("hub", &server, &address.authority, &pair);
        let proxy = User::connect("proxy", &config).await;
        Self {
            fixture,
            host,
            says,
            authority,
            proxy,
            _scratch: scratch,
        }
    }

    /// The status of a request of a user of the host.
    async fn status(&self, user: &str, method: &str, path: &str) -> u16 {
        let headers = [("x-remote-user", user)];
        self.proxy.send(method, path, &headers, "").await.status
    }

    /// How often the host was asked what somebody may.
    fn reviews(&self) -> usize {
        let heads = self.host.heads();
        let is_review =
            |head: &&String| head.starts_with("POST ") && head.contains("subjectaccessreviews");
        heads.iter().filter(is_review).count()
    }

    /// Begins a watch of Spokes as a user of the host.
    async fn watch(&self, user: &str) -> Wire {
        let address = Address::of_kubeconfig(&self.fixture.kubeconfig(None));
        let client = self.authority.client(NAME, None);
        let mut wire = Wire::connect(&address, HTTP1, Some(&client)).await;
        let host = address.host;
        let head = format!(
            "GET {SPOKES}?watch=true HTTP/1.1\r\nhost: {host}\r\nx-remote-user: {user}\r\n\r\n"
        );
        wire.write(head).await;
        let begun = wire.read_until("\"name\":\"a\"").await;
        assert!(begun.starts_with("HTTP/1.1 200"), "{begun}");
        wire
    }
}

async fn host(authority: &Authority, says: &Arc<AtomicU8>) -> FakeSpoke {
    let published = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "requestheader-client-ca-file": authority.certificate(),
            "requestheader-allowed-names": json!([NAME]).to_string(),
        },
    });
    let says = Arc::clone(says);
    FakeSpoke::start(move |head, body| {
        if head.starts_with("GET /api/v1/namespaces/kube-system/configmaps/") {
            return json_answer(200, &published);
        }
        let mut review: Value = serde_json::from_slice(body).unwrap_or_default();
        match says.load(Ordering::SeqCst) {
            NOTHING => json_answer(
                500,
                &json!({"kind": "Status", "status": "Failure", "code": 500}),
            ),
            said => {
                review["status"] = json!({"allowed": said == YES});
                json_answer(201, &review)
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn s06_a_host_decides_about_its_own_users_and_what_it_carries_alone() {
    let stage = Stage::set().await;
    stage.fixture.embed("a").await;
    eventually("the hub has read what the host publishes", || async {
        match stage.status("bob", "GET", SPOKES).await {
            200 => Ok(()),
            code => Err(code.to_string()),
        }
    })
    .await;
    its_yes_is_for_what_it_carries(&stage).await;
    its_users_are_its_own(&stage).await;
    it_is_shown_its_own_tokens_alone(&stage).await;
    it_is_asked_once(&stage).await;
    what_it_takes_back_ends(&stage).await;
    its_silence_lets_nobody_in_and_sends_nobody_away(&stage).await;
}

async fn its_yes_is_for_what_it_carries(stage: &Stage) {
    let spoke = format!("{SPOKES}/a");
    for (method, path, code) in [
        ("GET", SPOKES, 200),
        ("GET", spoke.as_str(), 200),
        (
            "GET",
            "/apis/kro.run/v1alpha1/resourcegraphdefinitions",
            200,
        ),
        ("GET", "/apis/internal.kro.run/v1alpha1/graphrevisions", 200),
        // It lets everybody do everything, in itself.
        ("GET", "/api/v1/secrets", 403),
        ("GET", MAPS, 403),
        (
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            403,
        ),
        (
            "GET",
            "/apis/internal.wheelhouse.dev/v1alpha1/inventories",
            403,
        ),
        (
            "DELETE",
            "/apis/internal.wheelhouse.dev/v1alpha1/inventories",
            403,
        ),
        ("GET", "/metrics", 403),
        ("GET", "/backup", 403),
        // Through the first gate, and not through the second.
        ("GET", "/clusters/a/api/v1/secrets", 403),
        (
            "GET",
            "/apis/wheelhouse.dev/v1alpha1/spokes/a/proxy/api/v1/secrets",
            403,
        ),
        ("GET", "/clusters/*/api/v1/secrets", 403),
        // What the hub writes for itself nobody writes.
        (
            "DELETE",
            "/apis/internal.kro.run/v1alpha1/graphrevisions/none",
            404,
        ),
    ] {
        assert_eq!(
            stage.status("bob", method, path).await,
            code,
            "{method} {path}"
        );
    }
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    assert_eq!(
        stage.status(collector, "GET", SPOKES).await,
        200,
        "it reads"
    );
    assert_eq!(
        stage.status(collector, "DELETE", &spoke).await,
        403,
        "and deletes nothing"
    );
    assert!(
        stage.host.was_sent(collector),
        "it is asked by its own name"
    );
}

/// A user of the hub's with the name of one of the host's.
async fn its_users_are_its_own(stage: &Stage) {
    let before = stage.reviews();
    let bob = stage.fixture.user("bob").await;
    bob.get(SPOKES).await.must(403);
    bob.get("/clusters/a/api/v1/secrets").await.must(403);
    let as_bob = [("impersonate-user", "bob")];
    let admin = stage.fixture.admin().await;
    let refused = admin.send("GET", SPOKES, &as_bob, "").await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(stage.reviews(), before, "the host is not asked");
    // Whom one may act as is the hub's to say.
    let acts = [("x-remote-user", "carol"), ("impersonate-user", "admin")];
    let refused = stage.proxy.send("GET", SPOKES, &acts, "").await;
    assert_eq!(refused.status, 403, "{refused:?}");
}

/// The host publishes no keys, so that none of these is its own.
async fn it_is_shown_its_own_tokens_alone(stage: &Stage) {
    let admin = stage.fixture.admin().await;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.post(accounts, &account).await.must(201);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["vault"]}});
    let issued = admin
        .post(&format!("{accounts}/bot/token"), &request)
        .await
        .must(201);
    let for_vault = issued["status"]["token"]
        .as_str()
        .expect("a token")
        .to_owned();
    let part = |value: Value| BASE64.encode(value.to_string());
    let claims = json!({
        "iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:default:bot", "exp": 4_000_000_000_u32,
        "kubernetes.io": {"serviceaccount": {"uid": "1"}},
    });
    let header = json!({"alg": "RS256", "kid": "1"});
    let of_another = format!(
        "{}.{}.{}",
        part(header),
        part(claims),
        BASE64.encode("signature")
    );
    for token in ["a-typo-of-a-password", &for_vault, &of_another] {
        let user = stage.fixture.bearer("somebody", token).await;
        user.get(SPOKES).await.must(401);
        user.get("/clusters/a/api/v1/secrets").await.must(401);
        assert!(!stage.host.was_sent(token), "the host is shown {token}");
    }
    let asked = |head: &String| head.contains("/openid/v1/jwks");
    assert!(
        stage.host.heads().iter().any(asked),
        "which keys it has is looked at"
    );
}

async fn it_is_asked_once(stage: &Stage) {
    let before = stage.reviews();
    let began = Instant::now();
    for _ in 0..50 {
        assert_eq!(stage.status("erin", "GET", SPOKES).await, 200, "yes");
    }
    let asked = stage.reviews() - before;
    let allowed = 1 + usize::try_from(began.elapsed().as_secs() / 10).expect("a few");
    assert!(asked <= allowed, "the host was asked {asked} times");
}

async fn what_it_takes_back_ends(stage: &Stage) {
    let mut watch = stage.watch("bob").await;
    stage.says.store(NO, Ordering::SeqCst);
    let began = Instant::now();
    let told = watch.read_until("\"code\":403").await;
    assert!(told.contains("\"code\":403"), "{told}");
    let took = began.elapsed();
    assert!(took < PROMISED, "it took {took:?}");
    eventually("what begins is refused", || async {
        match stage.status("bob", "GET", SPOKES).await {
            403 => Ok(()),
            code => Err(code.to_string()),
        }
    })
    .await;
    stage.says.store(YES, Ordering::SeqCst);
}

async fn its_silence_lets_nobody_in_and_sends_nobody_away(stage: &Stage) {
    eventually("it says yes again", || async {
        match stage.status("frank", "GET", SPOKES).await {
            200 => Ok(()),
            code => Err(code.to_string()),
        }
    })
    .await;
    let mut watch = stage.watch("frank").await;
    stage.says.store(NOTHING, Ordering::SeqCst);
    assert_eq!(
        stage.status("grace", "GET", SPOKES).await,
        503,
        "nobody knows"
    );
    assert_eq!(
        stage.status("grace", "GET", MAPS).await,
        403,
        "what it has nothing to say to"
    );
    let before = stage.reviews();
    eventually("the host was asked about the watch", || async {
        let asked = stage.reviews() - before;
        (asked >= 2).then_some(()).ok_or_else(|| asked.to_string())
    })
    .await;
    let labels = json!({"metadata": {"labels": {"still": "watched"}}});
    let path = format!("{SPOKES}/a");
    let admin = stage.fixture.admin().await;
    let merge = "application/merge-patch+json";
    admin.patch(&path, merge, &labels).await.must(200);
    let seen = watch.read_until("\"still\":\"watched\"").await;
    assert!(seen.contains("\"still\":\"watched\""), "{seen}");
}
