use std::collections::BTreeMap;

use super::*;
use crate::request::{
    ALL_AUTHENTICATED as AUTHENTICATED, RequestOrigin, SYSTEM_MASTERS as MASTERS,
};

fn user(name: &str, groups: &[&str]) -> UserInfo {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    UserInfo::claimed(name.to_owned(), String::new(), groups, BTreeMap::new())
}

fn entered(name: &str, groups: &[&str]) -> Identity {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Identity::User {
        name: name.to_owned(),
        groups,
    }
}

/// The rule is attacked: no name and no group of the hub's may become a privileged one of the spoke's.
#[test]
fn nobody_becomes_a_system_user_of_the_spoke() {
    for (what, user, trusts, want) in [
        (
            "a person",
            user("alice", &["dev"]),
            true,
            entered("alice", &["dev", AUTHENTICATED]),
        ),
        (
            "an administrator, trusted",
            user("admin", &[MASTERS]),
            true,
            entered("admin", &[AUTHENTICATED, MASTERS]),
        ),
        (
            "an administrator, not trusted",
            user("admin", &[MASTERS]),
            false,
            entered("admin", &[AUTHENTICATED]),
        ),
        (
            "a group of nodes",
            user("alice", &["system:nodes", "system:serviceaccounts"]),
            true,
            entered("alice", &[AUTHENTICATED]),
        ),
        (
            "a ServiceAccount of root",
            user(
                "system:serviceaccount:kube-system:default",
                &["system:serviceaccounts"],
            ),
            true,
            entered("wheelhouse:root:kube-system:default", &[AUTHENTICATED]),
        ),
    ] {
        assert_eq!(identity_of(&user, trusts), want, "{what}");
    }
    for name in [
        "system:admin",
        "system:node:a",
        "system:anonymous",
        "system:kube-scheduler",
    ] {
        let identity = identity_of(&user(name, &[MASTERS]), true);
        assert!(
            matches!(identity, Identity::Refused(_)),
            "{name}: {identity:?}"
        );
    }
    // The name alone does not make a controller of this process.
    let forged = identity_of(&user("system:wheelhouse:syncer", &["dev"]), true);
    assert!(matches!(forged, Identity::Refused(_)), "{forged:?}");
}

/// The class of CVE-2022-3172: a client would take its token for the hub to where the spoke sends it.
#[test]
fn a_redirect_and_an_upgrade_that_nobody_asked_for_are_not_relayed() {
    let mut elsewhere = HeaderMap::new();
    elsewhere.insert(
        header::LOCATION,
        HeaderValue::from_static("http://attacker/"),
    );
    for (code, headers, permitted) in [
        (200, HeaderMap::new(), true),
        (304, HeaderMap::new(), true),
        (201, elsewhere.clone(), true),
        (301, elsewhere.clone(), false),
        (302, elsewhere.clone(), false),
        (304, elsewhere.clone(), false),
        (308, elsewhere, false),
        (101, HeaderMap::new(), false),
        (999, HeaderMap::new(), false),
    ] {
        let status = StatusCode::from_u16(code).unwrap();
        let reason = not_permitted(status, &headers);
        assert_eq!(reason.is_none(), permitted, "{code} {headers:?}");
    }
}

#[test]
fn the_user_is_impersonated_with_uid_and_extras() {
    let mut headers = HeaderMap::new();
    let mut alice = user("alice", &[]);
    alice.uid = "7".to_owned();
    impersonate(&mut headers, &alice, "alice", &["dev".to_owned()]).unwrap();
    assert_eq!(headers["impersonate-uid"], "7");
    let mut headers = HeaderMap::new();
    impersonate(&mut headers, &user("bob", &[]), "bob", &[]).unwrap();
    assert!(!headers.contains_key("impersonate-uid"), "{headers:?}");
}

#[test]
fn the_path_goes_on_as_the_client_wrote_it() {
    for (uri, want) in [
        ("/clusters/east/api/v1/pods?limit=5", "/api/v1/pods?limit=5"),
        ("/clusters/east", "/"),
        (
            "/clusters/east/api/v1/namespaces/a%2Fb/x",
            "/api/v1/namespaces/a%2Fb/x",
        ),
        ("/clusters/east/?a=%20", "/?a=%20"),
        (
            "/apis/wheelhouse.dev/v1alpha1/spokes/east/proxy/api/v1/pods?watch=1",
            "/api/v1/pods?watch=1",
        ),
        ("/apis/wheelhouse.dev/v1alpha1/spokes/east/proxy?a", "/?a"),
    ] {
        let uri: Uri = uri.parse().unwrap();
        assert_eq!(below_cluster(&uri).unwrap().to_string(), want, "{uri}");
    }
}

#[test]
fn keys_of_extras_are_escaped_as_client_go_does() {
    for (key, want) in [
        ("scopes", "scopes"),
        ("example.com/a b", "example.com%2Fa%20b"),
    ] {
        assert_eq!(percent_encoded(key), want);
    }
}

#[test]
fn a_name_that_a_header_would_change_does_not_enter() {
    for name in [" alice", "alice ", "\talice", "", "a\nb"] {
        let identity = identity_of(&user(name, &[]), true);
        assert!(
            matches!(identity, Identity::Refused(_)),
            "{name:?}: {identity:?}"
        );
    }
    let sneaky = user(
        "alice",
        &[
            " system:masters",
            "system:masters ",
            "\tsystem:masters",
            "",
            "dev",
        ],
    );
    assert_eq!(
        identity_of(&sneaky, true),
        entered("alice", &["dev", AUTHENTICATED]),
        "a group that would arrive as a system group stays behind"
    );
}

/// A request may bear the name of a controller by impersonation, or by a certificate; the hub's own credential is
/// for the controllers themselves.
#[test]
fn only_a_controller_of_the_hubs_is_the_hub_in_a_spoke() {
    let controller = || Arc::new(UserInfo::system("system:wheelhouse:syncer"));
    let context = || {
        RequestContext::new(
            controller(),
            HeaderValue::from_static("id"),
            api::cluster::ClusterScope::All,
            jiff::Timestamp::UNIX_EPOCH,
            tokio::time::Instant::now(),
        )
    };
    let mut itself = context();
    itself.origin = RequestOrigin::InProcess;
    let mut apart = context();
    apart.origin = RequestOrigin::Syncer;
    let mut acting = context();
    acting.origin = RequestOrigin::InProcess;
    acting.impersonator = Some(controller());
    for (name, context, is_hub) in [
        ("from the network", context(), false),
        ("a controller", itself, true),
        ("a syncer of another process", apart, true),
        ("a controller that acts as another", acting, false),
    ] {
        let identity = sender_of(&context, true);
        assert_eq!(identity == Identity::Hub, is_hub, "{name}: {identity:?}");
    }
}
