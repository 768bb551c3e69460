//! Who is taken for a syncer of another process: the holder of its certificate, and nobody who only says so.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use api::wheelhouse::keys::{ANNOTATION_AUTHOR, USER_SYNCER};
use http::{Method, Request};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::world::{ADMIN, Findings, NAMESAKE, NOBODY, Sent, World, rule};
use crate::{
    quota::Room,
    request::{CertificateIdentity, Peer, SYSTEM_MASTERS, UserInfo},
    respond::RequestBody,
};

const TOLD: &str = "/wheelhouse/syncer";
const GRAPHS: &str = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";

/// What is said of the author by those who are to be believed, and by those who are not.
const SAID: &str = "{\"username\":\"somebody-else\"}";

/// A connection with a certificate of the hub's.
fn certificate(username: &str, groups: &[&str]) -> Peer {
    Peer::Certificate(CertificateIdentity::Good {
        user: Arc::new(UserInfo::authenticated(username, groups.to_vec())),
        not_after: i64::MAX,
    })
}

/// The syncer's, which has run out.
fn ended() -> Peer {
    Peer::Certificate(CertificateIdentity::Good {
        user: Arc::new(UserInfo::authenticated(USER_SYNCER, [SYSTEM_MASTERS])),
        not_after: 1,
    })
}

fn get<'a>(token: &'a str, path: &'a str, headers: &'a [(&'a str, &'a str)]) -> Sent<'a> {
    Sent {
        token,
        method: Method::GET,
        path,
        headers,
        body: Value::Null,
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table is told in one piece")]
async fn only_the_certificate_makes_a_syncer() {
    let world = World::with_syncers().await;
    // Whoever may do everything in a cluster of a tenant may not therefore do so in root.
    let all = json!([rule(&["*"], "*", &["*"], &[])]);
    world.grant("/clusters/east", "", "alice", all).await;
    let everything = json!([
        rule(&["*"], "*", &["*"], &[]),
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]);
    world.grant("", "", "bob", everything).await;
    world.settled().await;
    let syncer = certificate(USER_SYNCER, &[SYSTEM_MASTERS]);
    let admin = certificate("admin", &[SYSTEM_MASTERS]);
    let as_alice = [("impersonate-user", "alice")];
    let as_syncer = [
        ("impersonate-user", USER_SYNCER),
        ("impersonate-group", SYSTEM_MASTERS),
    ];
    let remote = [
        ("x-remote-user", USER_SYNCER),
        ("x-remote-group", SYSTEM_MASTERS),
    ];
    let mut findings = Findings::default();
    for (number, (name, peer, token, headers, is_syncer)) in [
        ("the syncer", &syncer, "", &[][..], true),
        ("the syncer, as somebody", &syncer, "", &as_alice, false),
        ("the syncer, with a token", &syncer, NOBODY, &[], true),
        ("one that has run out", &ended(), ADMIN, &[], false),
        ("an administrator", &admin, "", &[], false),
        ("an administrator, as it", &admin, "", &as_syncer, false),
        (
            "its name without its group",
            &certificate(USER_SYNCER, &[]),
            "",
            &[],
            false,
        ),
        (
            "another name of its sort",
            &certificate("system:wheelhouse:sharing", &[SYSTEM_MASTERS]),
            "",
            &[],
            false,
        ),
        ("its name by a token", &Peer::Unknown, NAMESAKE, &[], false),
        (
            "a master's token, as it",
            &Peer::Unknown,
            ADMIN,
            &as_syncer,
            false,
        ),
        (
            "all rights, as it",
            &Peer::Unknown,
            "bob",
            &as_syncer,
            false,
        ),
        (
            "all rights, by headers",
            &Peer::Unknown,
            "bob",
            &remote,
            false,
        ),
        (
            "a tenant's administrator",
            &Peer::Unknown,
            "alice",
            &[],
            false,
        ),
        (
            "the same, as it",
            &Peer::Unknown,
            "alice",
            &as_syncer,
            false,
        ),
        ("anonymous", &Peer::Unknown, "", &remote, false),
    ]
    .into_iter()
    .enumerate()
    {
        let told = world.send_over(peer, get(token, TOLD, headers)).await;
        findings.expect((told.code == 200) == is_syncer, || {
            format!("{name}: {} {}", told.code, told.text)
        });
        let definition = json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": format!("g{number}"), "annotations": {ANNOTATION_AUTHOR: SAID}},
            "spec": {
                "schema": {"apiVersion": "v1alpha1", "kind": format!("G{number}")},
                "resources": [],
            },
        });
        let sent = Sent {
            token,
            method: Method::POST,
            path: GRAPHS,
            headers,
            body: definition,
        };
        let made = world.send_over(peer, sent).await;
        // Who may make none has said nothing.
        let author = (made.code == 201)
            .then(|| made.json()["metadata"]["annotations"][ANNOTATION_AUTHOR].clone());
        let is_believed = author.as_ref().is_some_and(|author| author == SAID);
        findings.expect(is_believed == is_syncer, || {
            format!("{name}: {} {author:?}", made.code)
        });
        let is_hub = author.is_some_and(|author| author == "{\"hub\":true}");
        findings.expect(!is_hub, || format!("{name}: is taken for the hub"));
    }
}

#[tokio::test]
async fn a_hub_that_looks_after_its_spokes_itself_refuses_other_syncers() {
    let world = World::new().await;
    let syncer = certificate(USER_SYNCER, &[SYSTEM_MASTERS]);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    for path in [TOLD, leases, GRAPHS, "/clusters/east/api/v1/configmaps"] {
        let refused = world.send_over(&syncer, get("", path, &[])).await;
        assert_eq!(refused.code, 403, "{path}: {}", refused.text);
        assert!(refused.text.contains("--no-syncer"), "{}", refused.text);
    }
    let answered = world.get(ADMIN, leases).await;
    assert_eq!(answered.code, 200, "others are answered");
}

#[tokio::test]
async fn a_syncers_connection_is_not_among_those_that_make_room_for_others() {
    let world = World::with_syncers().await;
    let room = Arc::new(Room::default());
    let token = CancellationToken::new();
    for (name, peer, path, waiting_count) in [
        ("nobody", Peer::Unknown, "/readyz", 1),
        (
            "the syncer",
            certificate(USER_SYNCER, &[SYSTEM_MASTERS]),
            GRAPHS,
            0,
        ),
    ] {
        let seat = room.enter(IpAddr::V4(Ipv4Addr::LOCALHOST), &token, &token);
        let request = Request::get(path).body(RequestBody::empty()).unwrap();
        let answer = world.hub.answer(request, &peer, Some(&seat)).await;
        assert_eq!(answer.status(), 200, "{name}");
        assert_eq!(room.waiting_count(), waiting_count, "{name}");
    }
}
