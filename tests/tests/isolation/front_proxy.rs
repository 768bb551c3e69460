//! S06: headers that say who sends a request are a front proxy's alone. Whoever else sends them, and with whatever certificate, is who they were.
//! S01, S28: users with certificates of the operator's authorities are who those say, and no longer than those are trusted.

use serde_json::{Value, json};
use wheelhouse_tests::{
    eventually,
    hub::Settings,
    pki::{Authority, Pair, kubeconfig},
    process::Scratch,
    wire::{Address, Wire},
};

use super::support::{Fixture, SPOKES, User};

const NAME: &str = "front-proxy-client";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const HTTP1: &[&str] = &["http/1.1"];
/// The path of a cluster for those who come through a host.
const THROUGH: &str = "/apis/wheelhouse.dev/v1alpha1/spokes";

/// A hub that believes front proxies, and connections to it.
struct Stage {
    fixture: Fixture,
    /// Signs certificates of front proxies.
    authority: Authority,
    /// Signs certificates of users.
    people: Authority,
    scratch: Scratch,
}

impl Stage {
    async fn set() -> Self {
        let (authority, people) = (Authority::new("front-proxy-ca"), Authority::new("people"));
        let scratch = Scratch::new("proxy");
        let file = scratch.write("ca.crt", authority.certificate());
        let people_file = scratch.write("people.crt", people.certificate());
        let arguments = [
            "--client-ca-file",
            &people_file.display().to_string(),
            "--requestheader-client-ca-file",
            &file.display().to_string(),
            "--requestheader-allowed-names",
            NAME,
            // Names of the operator's own are taken off requests too.
            "--requestheader-username-headers",
            "X-Remote-User,X-Acme-User",
        ];
        let settings = Settings {
            arguments: arguments.map(str::to_owned).to_vec(),
            ..Settings::default()
        };
        let fixture = Fixture::start_with(&["alice"], settings).await;
        Self {
            fixture,
            authority,
            people,
            scratch,
        }
    }

    /// Opens a watch of ConfigMaps with a client certificate, as its own user or as who these headers say.
    async fn watches(&self, client: &Pair, headers: &str) -> Wire {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen"}});
        let admin = self.fixture.admin().await;
        admin.post(MAPS, &map).await;
        let address = Address::of_kubeconfig(&self.fixture.kubeconfig(None));
        let mut watch = Wire::connect(&address, HTTP1, Some(client)).await;
        let head = format!(
            "GET {MAPS}?watch=true HTTP/1.1\r\nhost: {}\r\n{headers}\r\n",
            address.host
        );
        watch.write(head).await;
        let begun = watch.read_until("\"seen\"").await;
        assert!(begun.starts_with("HTTP/1.1 200"), "{begun}");
        watch
    }

    /// Waits until the hub has said of a file of authorities that it cannot be used.
    async fn is_told_of(&self, whose: &str) {
        let words = format!("cannot read the certificate authorities of {whose}");
        eventually("the hub has looked at it", || async {
            let log = self.fixture.hub.process().log();
            log.contains(&words).then_some(()).ok_or(log)
        })
        .await;
    }

    /// Connects with a client certificate.
    async fn with(&self, name: &str, client: &Pair) -> User {
        let address = Address::of_kubeconfig(&self.fixture.kubeconfig(None));
        let server = format!("https://{}", address.host);
        User::connect(
            name,
            &kubeconfig("hub", &server, &address.authority, client),
        )
        .await
    }

    fn admin_pair(&self) -> Pair {
        Pair::of_kubeconfig(&self.fixture.kubeconfig(None))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s06_headers_of_a_front_proxy_are_believed_with_its_certificate_alone() {
    let stage = Stage::set().await;
    let proxy = stage
        .with("proxy", &stage.authority.client(NAME, None))
        .await;
    assert_eq!(
        who(
            &proxy,
            &[("x-remote-user", "bob"), ("x-remote-group", "team")]
        )
        .await,
        Ok((
            "bob".to_owned(),
            vec!["team".to_owned(), "system:authenticated".to_owned()]
        )),
        "a front proxy"
    );
    nobody_else_is_believed(&stage).await;
    a_front_proxy_is_nobody_itself(&stage).await;
    what_a_front_proxy_must_not_say(&proxy).await;
    names_of_the_host_are_not_the_hubs(&stage, &proxy).await;
    what_is_open_ends_with_the_trust_in_its_proxy(&stage).await;
    certificates_of_others_make_whom_they_say_while_they_count(&stage).await;
}

/// Each of these says that it is the administrator.
async fn nobody_else_is_believed(stage: &Stage) {
    let says = [
        ("x-remote-user", "admin"),
        ("x-acme-user", "admin"),
        ("x-remote-group", "system:masters"),
        ("x-remote-uid", "0"),
        ("x-remote-extra-scopes", "all"),
    ];
    let other = Authority::new("front-proxy-ca");
    // The right name, of the wrong authority; the wrong name, of the right one; and one that was good.
    for (what, pair) in [
        (
            "another authority's",
            other.client(NAME, Some("system:masters")),
        ),
        (
            "another name",
            stage.authority.client("mallory", Some("system:masters")),
        ),
        ("no name", stage.authority.client("", None)),
        ("expired", stage.authority.expired_client(NAME)),
    ] {
        let user = stage.with(what, &pair).await;
        assert_eq!(who(&user, &says).await, Err(401), "{what}");
    }
    // A user of the hub's with a certificate of the hub's: who it is says the certificate.
    let admin = stage.with("admin", &stage.admin_pair()).await;
    let spoken = [("x-remote-user", "bob"), ("x-acme-user", "bob")];
    let name = who(&admin, &spoken).await.map(|(name, _)| name);
    assert_eq!(
        name.as_deref(),
        Ok("admin"),
        "a certificate of the hub's own"
    );
    // With a token, and with nothing.
    let alice = stage.fixture.user("alice").await;
    let name = who(&alice, &says).await.map(|(name, _)| name);
    assert_eq!(name.as_deref(), Ok("alice"), "a token");
    let nobody = stage.fixture.bearer("nobody", "").await;
    let refused = nobody.send("GET", MAPS, &says, "").await;
    let told = refused.message();
    assert!(
        refused.status == 403 && told.contains("system:anonymous"),
        "no credential: {refused:?}"
    );
}

/// Its certificate, without headers, is a bad one, whatever stands in it.
async fn a_front_proxy_is_nobody_itself(stage: &Stage) {
    let pair = stage.authority.client(NAME, Some("system:masters"));
    let proxy = stage.with("proxy", &pair).await;
    for silent in [
        &[][..],
        &[("x-remote-user", "")],
        &[("x-remote-group", "system:masters")],
        &[("x_remote_user", "admin")],
        &[("impersonate-user", "admin")],
    ] {
        assert_eq!(who(&proxy, silent).await, Err(401), "{silent:?}");
    }
    let token = [("authorization", "Bearer alice-token")];
    let name = who(&proxy, &token).await.map(|(name, _)| name);
    assert_eq!(
        name.as_deref(),
        Ok("alice"),
        "a token is as good there as anywhere"
    );
}

/// Names that the hub gives itself.
async fn what_a_front_proxy_must_not_say(proxy: &User) {
    for name in [
        "system:wheelhouse:syncer",
        "wheelhouse:root:default:bot",
        "wheelhouse:host:default:bot",
    ] {
        assert_eq!(
            who(proxy, &[("x-remote-user", name)]).await,
            Err(401),
            "{name}"
        );
        let group = [("x-remote-user", "bob"), ("x-remote-group", name)];
        assert_eq!(who(proxy, &group).await, Err(401), "{name}");
    }
}

/// A ServiceAccount of the host is not the one of root that has its name, and what a host's user may is what the hub says of that name.
async fn names_of_the_host_are_not_the_hubs(stage: &Stage, proxy: &User) {
    let admin = stage.fixture.admin().await;
    let account = "system:serviceaccount:default:bot";
    let of_account = [
        ("x-remote-user", account),
        ("x-remote-group", "system:serviceaccounts"),
        ("x-remote-group", "system:serviceaccounts:default"),
    ];
    let name = who(proxy, &of_account).await;
    let want = (
        "wheelhouse:host:default:bot".to_owned(),
        vec!["system:authenticated".to_owned()],
    );
    assert_eq!(name, Ok(want), "an account of the host");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "accounts"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [
            {"kind": "ServiceAccount", "namespace": "default", "name": "bot"},
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts"},
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"},
        ],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    admin.post(bindings, &role).await.must(201);
    let status = async |headers: &[(&str, &str)], path: &str| {
        proxy.send("GET", path, headers, "").await.status
    };
    let bob = [("x-remote-user", "bob")];
    eventually("the binding counts", || async {
        match status(&bob, MAPS).await {
            200 => Ok(()),
            code => Err(code.to_string()),
        }
    })
    .await;
    assert_eq!(
        status(&of_account, MAPS).await,
        403,
        "root's rights are root's"
    );
    // The first gate stands before a cluster in either form of its path, and no way leads from one cluster into another.
    stage.fixture.embed("a").await;
    let through = format!("{THROUGH}/a/proxy{MAPS}");
    for path in [&format!("/clusters/a{MAPS}"), &through] {
        assert_eq!(status(&bob, path).await, 403, "{path}");
    }
    let unknown = format!("{THROUGH}/unknown/proxy{MAPS}");
    let told = |answer: super::support::Answer| answer.message().replace("unknown", "a");
    let known = told(proxy.send("GET", &through, &bob, "").await);
    assert_eq!(
        known,
        told(proxy.send("GET", &unknown, &bob, "").await),
        "one that is not there"
    );
    let masters = [
        ("x-remote-user", "root"),
        ("x-remote-group", "system:masters"),
    ];
    assert_eq!(status(&masters, &through).await, 200, "masters of the host");
    assert_eq!(status(&masters, SPOKES).await, 200, "are the hub's");
    for nested in [
        format!("{THROUGH}/a/proxy{THROUGH}/a/proxy{MAPS}"),
        format!("{THROUGH}/a/proxy/clusters/a{MAPS}"),
        format!("/clusters/a{THROUGH}/a/proxy{MAPS}"),
        format!("{THROUGH}/root/proxy{MAPS}"),
        format!("{THROUGH}/*/proxy{MAPS}"),
    ] {
        assert_eq!(status(&masters, &nested).await, 404, "{nested}");
    }
}

/// The operator takes the authority away: what came by it ends, and what comes by it is nobody's.
async fn what_is_open_ends_with_the_trust_in_its_proxy(stage: &Stage) {
    let client = stage.authority.client(NAME, None);
    let mut watch = stage.watches(&client, "x-remote-user: bob\r\n").await;
    let user = stage.with("proxy", &client).await;
    let bob = [("x-remote-user", "bob")];
    let is_bob = || async { who(&user, &bob).await.map(|(name, _)| name) };
    assert_eq!(is_bob().await.as_deref(), Ok("bob"), "as before");
    // What is no authority changes nothing.
    stage.scratch.write("ca.crt", "");
    stage.is_told_of("front proxies").await;
    assert_eq!(
        is_bob().await.as_deref(),
        Ok("bob"),
        "the previous one stays in use"
    );
    let next = Authority::new("front-proxy-ca");
    stage.scratch.write("ca.crt", next.certificate());
    eventually("the proxy is not believed any more", || async {
        match is_bob().await {
            Err(401) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let told = watch.read_until("\"code\":401").await;
    assert!(told.contains("\"code\":401"), "{told}");
    let other = stage.with("next", &next.client(NAME, None)).await;
    assert_eq!(
        who(&other, &bob).await.map(|(name, _)| name).as_deref(),
        Ok("bob"),
        "the next authority's"
    );
}

/// Users whom an authority of the operator's knows. It is taken away too.
async fn certificates_of_others_make_whom_they_say_while_they_count(stage: &Stage) {
    let client = stage.people.client("pat", Some("dev"));
    let pat = stage.with("pat", &client).await;
    let is_pat = || async { who(&pat, &[]).await };
    let groups = ["dev", "system:authenticated"].map(str::to_owned).to_vec();
    assert_eq!(is_pat().await, Ok(("pat".to_owned(), groups)), "pat");
    let says = [
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
    ];
    let name = who(&pat, &says).await.map(|(name, _)| name);
    assert_eq!(name.as_deref(), Ok("pat"), "no front proxy");
    no_certificate_makes_more_of_somebody(stage).await;

    let pass = a_pass_of(stage, &pat).await;
    let ends = |what| status_with(stage, &pass, what);
    assert_eq!(ends("made").await, 200, "the pass counts");
    let mut watch = stage.watches(&client, "").await;
    stage.scratch.write("people.crt", "");
    stage.is_told_of("client certificates").await;
    assert!(is_pat().await.is_ok(), "the previous one stays in use");
    let next = Authority::new("people");
    stage.scratch.write("people.crt", next.certificate());
    eventually("pat is not known any more", || async {
        match is_pat().await {
            Err(401) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let told = watch.read_until("\"code\":401").await;
    assert!(told.contains("\"code\":401"), "{told}");
    assert_eq!(ends("after").await, 401, "the pass ends with it");
    let other = stage.with("next", &next.client("quinn", None)).await;
    let name = who(&other, &[]).await.map(|(name, _)| name);
    assert_eq!(name.as_deref(), Ok("quinn"), "the next authority's");
}

/// Whoever has the authority sign something else.
async fn no_certificate_makes_more_of_somebody(stage: &Stage) {
    let other = Authority::new("people");
    let people = &stage.people;
    for (what, pair) in [
        ("another authority's", other.client("pat", Some("dev"))),
        ("expired", people.expired_client("pat")),
        ("for servers", people.serving()),
        ("a master", people.client("pat", Some("system:masters"))),
        (
            "a node",
            people.client("system:node:a", Some("system:nodes")),
        ),
        (
            "a controller of the hub's",
            people.client("system:wheelhouse:syncer", Some("system:masters")),
        ),
        (
            "a ServiceAccount",
            people.client("system:serviceaccount:default:bot", None),
        ),
        (
            "ServiceAccounts",
            people.client("pat", Some("system:serviceaccounts")),
        ),
        ("anonymous", people.client("system:anonymous", None)),
    ] {
        let user = stage.with(what, &pair).await;
        assert_eq!(who(&user, &[]).await, Err(401), "{what}");
    }
}

/// Lets a user in and has a kubeconfig made for a cluster; returns its token.
async fn a_pass_of(stage: &Stage, user: &User) -> String {
    let fixture = &stage.fixture;
    let makes = json!({"apiGroups": ["wheelhouse.dev"], "resources": ["spokes/kubeconfig"], "verbs": ["create"]});
    let reads = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]});
    fixture.grant("root", "pat", "pats", &[makes, reads]).await;
    fixture.allow_access("pat", "a").await;
    fixture.bind("a", "pat", "edit").await;
    let request =
        json!({"apiVersion": "wheelhouse.dev/v1alpha1", "kind": "KubeconfigRequest", "spec": {}});
    let path = format!("{SPOKES}/a/kubeconfig");
    let issued = eventually("the right counts", || async {
        let answer = user.post(&path, &request).await;
        (answer.status == 201)
            .then_some(answer.body.clone())
            .ok_or(answer.body.to_string())
    })
    .await;
    let text = issued["status"]["kubeconfig"].as_str();
    let config: Value = serde_saphyr::from_str(text.expect("a kubeconfig")).expect("YAML");
    let token = config["users"][0]["user"]["token"].as_str();
    token.expect("a token").to_owned()
}

/// Uses a pass where it is good.
async fn status_with(stage: &Stage, token: &str, what: &str) -> u16 {
    let bearer = stage.fixture.bearer(what, token).await;
    bearer.get(&format!("/clusters/a{MAPS}")).await.status
}

/// Asks who somebody is: name and groups, or the code of the refusal.
async fn who(user: &User, headers: &[(&str, &str)]) -> Result<(String, Vec<String>), u16> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let mut sent = vec![("content-type", "application/json")];
    sent.extend(headers);
    let answer = user.send("POST", WHO, &sent, review.to_string()).await;
    if answer.status != 201 {
        return Err(answer.status);
    }
    let info = &answer.body["status"]["userInfo"];
    let groups = info["groups"].as_array().into_iter().flatten();
    let groups = groups
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    Ok((
        info["username"].as_str().unwrap_or_default().to_owned(),
        groups,
    ))
}
