//! Both gates, impersonation, and the words of a refusal.

use http::{Method, Request, Uri};
use serde_json::{Value, json};

use super::*;
use crate::{
    authenticate::{Authenticator, TokenFile},
    config::Anonymous,
    request::Peer,
    route,
};

fn allow(name: &str, user: &str, rule: &Value) -> [(&'static str, Value); 2] {
    [
        (
            "clusterroles",
            json!({"metadata": {"name": name}, "rules": [rule]}),
        ),
        (
            "clusterrolebindings",
            json!({"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": name},
                   "subjects": [{"kind": "User", "name": user}]}),
        ),
    ]
}

/// Root lets `alice` read configmaps and enter `east` and `west`, and `carol` act as `alice`; `east` is embedded and lets
/// `alice` read secrets; `west` is a real spoke.
fn authorizer() -> Authorizer {
    let mut objects: Vec<(&str, &str, Value)> = Vec::new();
    for (cluster, grants) in [
        (
            "root",
            allow(
                "read",
                "alice",
                &json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]}),
            ),
        ),
        (
            "root",
            allow(
                "enter",
                "alice",
                &json!({"verbs": ["access"], "apiGroups": ["wheelhouse.dev"],
            "resources": ["spokes"], "resourceNames": ["east", "west", "gone"]}),
            ),
        ),
        (
            "root",
            allow(
                "act",
                "carol",
                &json!({"verbs": ["impersonate"], "apiGroups": [""],
            "resources": ["users"], "resourceNames": ["alice"]}),
            ),
        ),
        (
            "east",
            allow(
                "own",
                "system:serviceaccount:default:alice",
                &json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}),
            ),
        ),
        (
            "east",
            allow(
                "read",
                "alice",
                &json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}),
            ),
        ),
    ] {
        objects.extend(
            grants
                .into_iter()
                .map(|(resource, object)| (cluster, resource, object)),
        );
    }
    let clusters = BTreeMap::from([
        ("east".parse().unwrap(), ClusterKind::Embedded),
        ("west".parse().unwrap(), ClusterKind::Composite),
    ]);
    let (_, clusters) = watch::channel(Arc::new(clusters));
    Authorizer::new(Policies::of_objects(&objects), clusters)
}

async fn admit_as(
    authorizer: &Authorizer,
    user: UserInfo,
    uri: &str,
    judge: Judge<'_>,
    headers: &[(&str, &str)],
) -> Result<Arc<UserInfo>, Status> {
    let uri: Uri = uri.parse().unwrap();
    let info = route::route(&Method::GET, &uri).unwrap();
    let mut request = Request::get(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let parts = request.body(()).unwrap().into_parts().0;
    let cluster = info.cluster.clone();
    let authenticated = Authenticator::new(TokenFile::default(), Anonymous::Refused)
        .identify(
            &parts.headers,
            &Peer::InProcess(Arc::new(user)),
            &cluster,
            "/",
            jiff::Timestamp::UNIX_EPOCH,
        )
        .await
        .unwrap()
        .authenticate(parts, info, |user| {
            let id = http::HeaderValue::from_static("id");
            let now = jiff::Timestamp::UNIX_EPOCH;
            RequestContext::new(user, id, cluster, now, tokio::time::Instant::now())
        });
    match authorizer.admit(authenticated, judge).await {
        Ok(authorized) => Ok(Arc::clone(&authorized.context().user)),
        Err(refused) => Err(refused.refusal.status().unwrap().clone()),
    }
}

fn user(name: &str) -> UserInfo {
    UserInfo::authenticated(name, [""; 0])
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
async fn two_gates_stand_before_a_spokes_cluster() {
    let authorizer = authorizer();
    let masters = UserInfo::system("root");
    for (name, user, uri, judge, want) in [
        (
            "root, allowed",
            user("alice"),
            "/api/v1/configmaps",
            Judge::Rules,
            true,
        ),
        (
            "root, not allowed",
            user("alice"),
            "/api/v1/secrets",
            Judge::Rules,
            false,
        ),
        (
            "root, someone else",
            user("bob"),
            "/api/v1/configmaps",
            Judge::Rules,
            false,
        ),
        (
            "embedded, allowed there",
            user("alice"),
            "/clusters/east/api/v1/secrets/a",
            Judge::Rules,
            true,
        ),
        (
            "embedded, allowed in root alone",
            user("alice"),
            "/clusters/east/api/v1/configmaps/a",
            Judge::Rules,
            false,
        ),
        (
            "embedded, not let in",
            user("bob"),
            "/clusters/east/api/v1/secrets/a",
            Judge::Rules,
            false,
        ),
        (
            "relayed, let in",
            user("alice"),
            "/clusters/west/api/v1/pods",
            Judge::Spoke,
            true,
        ),
        (
            "relayed, not let in",
            user("bob"),
            "/clusters/west/api/v1/pods",
            Judge::Spoke,
            false,
        ),
        (
            "hub-stored of a spoke, nobody to ask",
            user("alice"),
            "/clusters/west/apis/a.io/v1/xs",
            Judge::Rules,
            false,
        ),
        (
            "no such cluster, let in",
            user("alice"),
            "/clusters/gone/api",
            Judge::FirstGate,
            true,
        ),
        (
            "no such cluster, not let in",
            user("bob"),
            "/clusters/gone/api",
            Judge::FirstGate,
            false,
        ),
        (
            "all clusters need access to all",
            user("alice"),
            "/clusters/*/api/v1/configmaps",
            Judge::Rules,
            false,
        ),
        (
            "masters, anywhere",
            masters.clone(),
            "/clusters/west/apis/a.io/v1/xs",
            Judge::Rules,
            true,
        ),
        (
            "masters, everywhere",
            masters,
            "/clusters/*/api/v1/secrets",
            Judge::Rules,
            true,
        ),
    ] {
        let got = admit_as(&authorizer, user, uri, judge, &[]).await;
        assert_eq!(got.is_ok(), want, "{name}: {got:?}");
    }
}

#[tokio::test]
async fn who_has_no_credential_is_told_to_send_one_and_not_to_bind_a_role_to_everybody() {
    let judge = Judge::Rules;
    let uri = "/clusters/east/api/v1/pods";
    let refused = admit_as(&authorizer(), UserInfo::anonymous(), uri, judge, &[]).await;
    let message = refused.unwrap_err().message;
    assert!(
        message.ends_with("send a token or a client certificate of the hub"),
        "{message}"
    );
    assert!(!message.contains("kubectl create"), "{message}");
}

#[tokio::test]
async fn who_is_not_let_in_does_not_learn_whether_the_cluster_is_there() {
    let authorizer = authorizer();
    let mut messages = Vec::new();
    for cluster in ["east", "west", "none"] {
        for path in ["/api/v1/pods", "/healthz", "/apis"] {
            let uri = format!("/clusters/{cluster}{path}");
            let status = admit_as(&authorizer, user("bob"), &uri, Judge::Rules, &[])
                .await
                .unwrap_err();
            assert_eq!(status.code, 403, "{uri}");
            messages.push(status.message.replace(cluster, "X"));
        }
    }
    messages.dedup();
    assert_eq!(
        messages,
        [
            r#"spokes.wheelhouse.dev "X" is forbidden: User "bob" cannot access resource "spokes" in API group "wheelhouse.dev" at the cluster scope: the verb "access" on "spokes/X" is granted in root, with: kubectl create clusterrole access-X --verb=access --resource=spokes.wheelhouse.dev --resource-name=X; kubectl create clusterrolebinding access-X --clusterrole=access-X --user=bob"#
        ]
    );
}

#[test]
fn a_user_stands_in_a_command_only_under_a_name_that_no_shell_reads() {
    for (username, want) in [
        ("bob@example.com", "--user=bob@example.com"),
        (
            "system:serviceaccount:default:bob",
            "--serviceaccount=default:bob",
        ),
        ("bob; reboot", "--user=NAME"),
        ("$(id)", "--user=NAME"),
        ("bob\n", "--user=NAME"),
        ("", "--user=NAME"),
        (&"b".repeat(1_000), "--user=NAME"),
    ] {
        assert_eq!(subject_flag(username), want, "{username}");
    }
}

#[tokio::test]
async fn a_spoke_is_asked_about_what_the_hub_stores_for_it() {
    let authorizer = authorizer().with_spoke_reviewer(Arc::new(|asked: Attributes<'_>| {
        let decision = if asked.verb == "get" {
            Decision::Allow
        } else {
            Decision::NoOpinion {
                reason: "no role there".to_owned(),
            }
        };
        Box::pin(std::future::ready(SpokeAnswer::Decided(decision)))
    }));
    let get = admit_as(
        &authorizer,
        user("alice"),
        "/clusters/west/apis/a.io/v1/xs/n",
        Judge::Rules,
        &[],
    )
    .await;
    assert!(get.is_ok(), "{get:?}");
    let list = admit_as(
        &authorizer,
        user("alice"),
        "/clusters/west/apis/a.io/v1/xs",
        Judge::Rules,
        &[],
    )
    .await;
    assert!(
        list.unwrap_err().message.ends_with(": no role there"),
        "the reason is told"
    );
}

#[tokio::test]
async fn a_spoke_that_cannot_be_asked_lets_nobody_in_and_forbids_nothing() {
    for answer in [
        SpokeAnswer::Unreached {
            reason: "timed out".to_owned(),
        },
        SpokeAnswer::NotConnected {
            reason: "timed out".to_owned(),
        },
    ] {
        let authorizer = authorizer().with_spoke_reviewer(Arc::new(move |_: Attributes<'_>| {
            Box::pin(std::future::ready(answer.clone()))
        }));
        let path = "/clusters/west/apis/a.io/v1/xs/n";
        let refused = admit_as(&authorizer, user("alice"), path, Judge::Rules, &[]).await;
        let status = refused.unwrap_err();
        assert_eq!(
            (status.code, status.message.as_str()),
            (503, "timed out"),
            "{status:?}"
        );
    }
}

#[tokio::test]
async fn refusals_are_in_kubernetes_words() {
    let authorizer = authorizer();
    for (uri, want) in [
        (
            "/api/v1/pods",
            r#"pods is forbidden: User "bob" cannot list resource "pods" in API group "" at the cluster scope"#,
        ),
        (
            "/apis/apps/v1/namespaces/ns/deployments/web/scale",
            r#"deployments.apps "web" is forbidden: User "bob" cannot get resource "deployments/scale" in API group "apps" in the namespace "ns""#,
        ),
        (
            "/metrics",
            r#"forbidden: User "bob" cannot get path "/metrics""#,
        ),
        (
            "/a%3Cb%3E&c",
            r#"forbidden: User "bob" cannot get path "/a&lt;b&gt;&amp;c""#,
        ),
    ] {
        let status = admit_as(&authorizer, user("bob"), uri, Judge::Rules, &[])
            .await
            .unwrap_err();
        assert_eq!(status.message, want, "{uri}");
        assert_eq!(status.code, 403, "{uri}");
    }
}

#[tokio::test]
async fn who_may_act_as_another_does() {
    let authorizer = authorizer();
    let alice = [("impersonate-user", "alice")];
    let acting = admit_as(
        &authorizer,
        user("carol"),
        "/api/v1/configmaps",
        Judge::Rules,
        &alice,
    )
    .await
    .unwrap();
    assert_eq!(acting.username, "alice");
    for (name, sender, uri, headers, code) in [
        (
            "not as someone else",
            "carol",
            "/api/v1/configmaps",
            &[("impersonate-user", "bob")][..],
            403,
        ),
        (
            "not with a group",
            "carol",
            "/api/v1/configmaps",
            &[
                ("impersonate-user", "alice"),
                ("impersonate-group", "system:masters"),
            ],
            403,
        ),
        (
            "nobody else may",
            "dave",
            "/api/v1/configmaps",
            &alice[..],
            403,
        ),
        (
            "not without a user",
            "carol",
            "/api/v1/configmaps",
            &[("impersonate-group", "x")],
            400,
        ),
        (
            "the sender must be let in too",
            "carol",
            "/clusters/east/api/v1/secrets/a",
            &alice[..],
            403,
        ),
    ] {
        let status = admit_as(&authorizer, user(sender), uri, Judge::Rules, headers)
            .await
            .unwrap_err();
        assert_eq!(status.code, code, "{name}: {status}");
    }
    let denied = admit_as(
        &authorizer,
        user("carol"),
        "/api/v1/configmaps",
        Judge::Rules,
        &[("impersonate-user", "bob")],
    )
    .await;
    assert_eq!(
        denied.unwrap_err().message,
        r#"users "bob" is forbidden: User "carol" cannot impersonate resource "users" in API group "" at the cluster scope"#
    );
}

#[test]
fn the_first_objects_make_a_policy_that_lets_people_read_what_is_public() {
    let objects = bootstrap::objects();
    let named = objects.iter().map(|object| {
        let resource = object.path.rsplit('/').next().unwrap();
        let object = rbac::Object::parse(object.object.to_string().as_bytes());
        (resource, object.unwrap())
    });
    let policy = rbac::Policy::compile(named, &mut rbac::RulePool::default());
    let root = ClusterScope::One(LogicalCluster::root());
    let (anonymous, someone) = (UserInfo::anonymous(), user("x"));
    let masters = UserInfo::system("m");
    let path = |user, path| Attributes {
        user,
        cluster: &root,
        verb: "get",
        group: "",
        version: "",
        resource: "",
        subresource: "",
        namespace: "",
        name: "",
        path,
        is_resource: false,
    };
    for (name, asked, want) in [
        ("anyone, health", path(&anonymous, "/livez"), true),
        ("anyone, version", path(&anonymous, "/version"), true),
        ("anyone, discovery", path(&anonymous, "/apis"), false),
        ("user, discovery", path(&someone, "/apis/apps"), true),
        ("user, openapi", path(&someone, "/openapi/v3"), true),
        ("user, metrics", path(&someone, "/metrics"), false),
        ("masters, metrics", path(&masters, "/metrics"), true),
        (
            "user, can-i",
            Attributes {
                verb: "create",
                group: "authorization.k8s.io",
                resource: "selfsubjectaccessreviews",
                is_resource: true,
                ..path(&someone, "")
            },
            true,
        ),
    ] {
        assert_eq!(policy.answer(&asked).grant.is_some(), want, "{name}");
    }
}

/// Who may look where with one request over all clusters.
async fn sight_of(authorizer: &Authorizer, user: &UserInfo, verb: &str, resource: &str) -> Sight {
    let all = ClusterScope::All;
    let asked = Attributes {
        user,
        cluster: &all,
        verb,
        group: "",
        version: "v1",
        resource,
        subresource: "",
        namespace: "",
        name: "",
        path: "",
        is_resource: true,
    };
    let clusters = ["root", "east", "west"].map(|name| name.parse().unwrap());
    authorizer.sight(&asked, &clusters).await
}

#[tokio::test]
async fn over_all_clusters_each_decides_for_itself() {
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let authorizer =
        authorizer().with_spoke_reviewer(Arc::new(move |attributes: Attributes<'_>| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let decision = if attributes.resource == "secrets" {
                Decision::Allow
            } else {
                Decision::no_opinion()
            };
            Box::pin(std::future::ready(SpokeAnswer::Decided(decision)))
        }));
    for (name, who, verb, resource, want) in [
        ("root's role", "alice", "list", "configmaps", vec!["root"]),
        (
            "east's role and west's word",
            "alice",
            "get",
            "secrets",
            vec!["east", "west"],
        ),
        ("nobody's", "bob", "get", "secrets", vec![]),
        // East's own account of this name may read there; this one is root's.
        (
            "root's account",
            "system:serviceaccount:default:alice",
            "get",
            "secrets",
            vec![],
        ),
    ] {
        let sight = sight_of(&authorizer, &user(who), verb, resource).await;
        let mut seen: Vec<_> = sight
            .only()
            .unwrap()
            .iter()
            .map(LogicalCluster::as_str)
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, want, "{name}");
    }
    let masters = UserInfo::system("admin");
    let sight = sight_of(&authorizer, &masters, "get", "secrets").await;
    assert!(matches!(sight, Sight::All), "{sight:?}");
    let before = asked.load(std::sync::atomic::Ordering::Relaxed);
    sight_of(&authorizer, &user("alice"), "get", "secrets").await;
    assert_eq!(
        asked.load(std::sync::atomic::Ordering::Relaxed),
        before,
        "the answer is kept"
    );
}

/// A host that lets everybody do everything, and one that does not answer.
fn with_host(allows: bool) -> (Authorizer, Arc<parking_lot::Mutex<Vec<String>>>) {
    let asked_about = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked_about);
    let reviewer: HostReviewer = Arc::new(move |asked: Attributes<'_>, _age| {
        let question = format!(
            "{} {} {}/{}",
            asked.user.username, asked.verb, asked.resource, asked.name
        );
        kept.lock().push(question);
        Box::pin(async move {
            if allows {
                SpokeAnswer::Decided(Decision::Allow)
            } else {
                let reason = "away".to_owned();
                SpokeAnswer::Unreached { reason }
            }
        })
    });
    let groups = vec!["wheelhouse.dev".to_owned(), "kro.run".to_owned()];
    (authorizer().with_host(reviewer, groups), asked_about)
}

fn of_host(name: &str) -> UserInfo {
    UserInfo::of_host(user(name)).unwrap()
}

#[tokio::test]
async fn a_host_is_asked_about_its_own_users_and_what_it_carries_alone() {
    const SPOKES: &str = "/apis/wheelhouse.dev/v1alpha1/spokes";
    let east = "/clusters/east/api/v1/secrets/a";
    let through = "/apis/wheelhouse.dev/v1alpha1/spokes/east/proxy/api/v1/secrets/a";
    let bot = "system:serviceaccount:default:bot";
    for (what, user, uri, code, asked) in [
        (
            "what it carries",
            of_host("bob"),
            SPOKES,
            200,
            "bob list spokes/",
        ),
        (
            "by its own name",
            of_host(bot),
            SPOKES,
            200,
            "system:serviceaccount:default:bot list spokes/",
        ),
        ("a user of the hub", user("bob"), SPOKES, 403, ""),
        ("a ServiceAccount of root", user(bot), SPOKES, 403, ""),
        (
            "Secrets of root",
            of_host("bob"),
            "/api/v1/secrets",
            403,
            "",
        ),
        ("no resource", of_host("bob"), "/metrics", 403, ""),
        (
            "the hub's internals",
            of_host("bob"),
            "/apis/internal.wheelhouse.dev/v1alpha1/inventories",
            403,
            "",
        ),
        (
            "the hub's own rules first",
            of_host("alice"),
            "/api/v1/configmaps",
            200,
            "",
        ),
        (
            "who enters, and not what may be done inside",
            of_host("bob"),
            east,
            403,
            "bob access spokes/east",
        ),
        (
            "by either path",
            of_host("bob"),
            through,
            403,
            "bob access spokes/east",
        ),
        (
            "inside by the cluster's rules",
            of_host("alice"),
            through,
            200,
            "",
        ),
        (
            "all clusters at once",
            of_host("bob"),
            "/clusters/*/apis",
            403,
            "",
        ),
    ] {
        let (authorizer, questions) = with_host(true);
        let got = admit_as(&authorizer, user.clone(), uri, Judge::Rules, &[]).await;
        let got = got.map_or_else(|status| status.code, |_user| 200);
        assert_eq!(got, code, "{what}");
        assert_eq!(questions.lock().join(", "), asked, "{what}");
        // A host that does not answer lets nobody in, and does not say that they may not.
        let (authorizer, _) = with_host(false);
        let got = admit_as(&authorizer, user, uri, Judge::Rules, &[]).await;
        let got = got.map_or_else(|status| status.code, |_user| 200);
        assert_eq!(
            got,
            if asked.is_empty() { code } else { 503 },
            "{what}, away"
        );
    }
    let (authorizer, questions) = with_host(true);
    let as_alice = [("impersonate-user", "alice")];
    let got = admit_as(&authorizer, of_host("bob"), SPOKES, Judge::Rules, &as_alice).await;
    assert_eq!(
        got.unwrap_err().code,
        403,
        "whom one may act as is the hub's to say"
    );
    let got = admit_as(
        &authorizer,
        of_host("carol"),
        SPOKES,
        Judge::Rules,
        &as_alice,
    )
    .await;
    assert_eq!(
        got.unwrap_err().code,
        403,
        "and whom one acts as the host does not vouch for"
    );
    assert!(questions.lock().is_empty(), "{questions:?}");
}

#[test]
fn the_hosts_garbage_collector_reads_alone() {
    let (authorizer, _) = with_host(true);
    let root = ClusterScope::One(LogicalCluster::root());
    let collector = of_host("system:serviceaccount:kube-system:generic-garbage-collector");
    let other = of_host("system:serviceaccount:kube-system:namespace-controller");
    for (user, verb, want) in [
        (&collector, "get", true),
        (&collector, "watch", true),
        (&collector, "delete", false),
        (&collector, "patch", false),
        (&other, "deletecollection", true),
    ] {
        let asked = access(user, &root, "east").with_verb(verb);
        assert_eq!(
            authorizer.is_for_host(&asked),
            want,
            "{} {verb}",
            user.username
        );
    }
}

#[test]
fn users_of_a_host_have_names_that_are_nobodys_else() {
    let groups = |user: &UserInfo| user.groups.join(" ");
    let account = UserInfo::service_account("default", "bot");
    let known = UserInfo::of_host(account.clone()).unwrap();
    assert_eq!(known.username, "wheelhouse:host:default:bot");
    assert_eq!(groups(&known), "system:authenticated");
    assert_eq!(known.at_host(), Some(&account), "as the host knows it");
    let lookalike = UserInfo::authenticated(
        "bob",
        ["system:serviceaccountsx", "system:serviceaccounts:a"],
    );
    let known = UserInfo::of_host(lookalike).unwrap();
    assert_eq!(
        groups(&known),
        "system:serviceaccountsx system:authenticated"
    );
    let nobody = UserInfo::of_host(UserInfo::anonymous()).unwrap();
    assert_eq!(
        groups(&nobody),
        "system:unauthenticated",
        "not authenticated by coming through"
    );
    for name in [
        "",
        "wheelhouse:root:a:b",
        "wheelhouse:host:a:b",
        "system:wheelhouse:syncer",
    ] {
        assert_eq!(UserInfo::of_host(user(name)), None, "{name}");
    }
    let group = UserInfo::authenticated("bob", ["system:wheelhouse:controllers"]);
    assert_eq!(UserInfo::of_host(group), None);
    let east = "east".parse().unwrap();
    let local = of_host("bob").vouched_for_by(&east);
    assert_eq!(
        local.at_host(),
        None,
        "whom a cluster vouches for the host does not"
    );
}

#[test]
fn what_another_clusters_review_says_is_yes_no_or_nothing() {
    let reason = || "r".repeat(1024);
    for (status, want) in [
        (json!({"allowed": true, "reason": "bound"}), Decision::Allow),
        (
            json!({"allowed": false, "denied": true, "reason": "r".repeat(2000)}),
            Decision::Deny { reason: reason() },
        ),
        (
            json!({"allowed": "true", "reason": "r".repeat(2000)}),
            Decision::NoOpinion { reason: reason() },
        ),
        (json!(null), Decision::no_opinion()),
        (
            json!({"allowed": false, "reason": 1}),
            Decision::no_opinion(),
        ),
    ] {
        let want = SpokeAnswer::Decided(want);
        assert_eq!(SpokeAnswer::of_review(&status), want, "{status}");
    }
}
