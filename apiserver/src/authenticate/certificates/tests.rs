//! Whom a certificate of the operator's authorities makes, and for how long.

use api::cluster::{ClusterScope, LogicalCluster};
use http::{HeaderMap, HeaderValue};
use rcgen::ExtendedKeyUsagePurpose::{self, ClientAuth, ServerAuth};

use super::*;
use crate::{
    authenticate::{Authenticator, FrontProxy, Sender, TokenFile, test_issuer::Issuer},
    config::Anonymous,
    request::{CertificateIdentity, HeaderNames, Peer, RequestOrigin},
    tls::ClientCertificates,
};

/// 2026-11-21.
fn now() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

/// A file of authorities, and who reads it.
struct World {
    directory: tempfile::TempDir,
    users: Arc<CertificateUsers>,
}

impl World {
    fn new(bundle: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ca.crt");
        std::fs::write(&file, bundle).unwrap();
        let users = Arc::new(CertificateUsers::open(file).unwrap());
        Self { directory, users }
    }

    fn becomes(&self, bundle: &str) -> Result<(), CertificateUsersError> {
        std::fs::write(self.directory.path().join("ca.crt"), bundle).unwrap();
        self.users.read_again()
    }

    fn name_of(&self, certificate: &ForeignCertificate, at: Timestamp) -> Option<String> {
        let found = self.users.find(certificate, at);
        found.map(|it| it.user.username.clone())
    }
}

fn shown(issuer: &Issuer, name: &str, groups: &[&str]) -> ForeignCertificate {
    ForeignCertificate::new(&issuer.signs_for(name, groups, ClientAuth, (2020, 2027)))
}

#[test]
fn a_certificate_names_a_user_and_groups_but_none_that_are_reserved() {
    let issuer = Issuer::new("people");
    let world = World::new(&issuer.pem());
    let found = world
        .users
        .find(&shown(&issuer, "alice", &["dev", "ops"]), now());
    let found = found.expect("alice");
    assert_eq!(found.user.username, "alice");
    assert_eq!(found.user.groups, ["dev", "ops", "system:authenticated"]);
    let id = &found.user.extra["authentication.kubernetes.io/credential-id"][0];
    assert!(id.starts_with("X509SHA256="), "{id}");

    // kube-apiserver believes these, but for the one without a name.
    for (name, groups, is_somebody) in [
        ("alice", &[][..], true),
        ("root", &["system:masters"], false),
        ("system:node:a", &["system:nodes"], false),
        ("", &["dev"], false),
        ("system:anonymous", &[], false),
        ("alice", &["system:unauthenticated"], false),
        ("system:wheelhouse:syncer", &["system:masters"], false),
        ("wheelhouse:root:default:bot", &[], false),
        ("alice", &["wheelhouse:host:default:bot"], false),
        ("system:serviceaccount:default:bot", &[], false),
        ("alice", &["system:serviceaccounts"], false),
        ("alice", &["system:serviceaccounts:default"], false),
        ("alice", &["system"], true),
        ("alice", &["system:authenticated"], true),
        ("alice", &[""], false),
        ("al\nice", &[], false),
    ] {
        let found = world.name_of(&shown(&issuer, name, groups), now());
        assert_eq!(found.is_some(), is_somebody, "{name:?} {groups:?}");
    }
}

#[test]
fn what_is_believed_changes_with_the_file_and_ends_with_the_certificate() {
    let (people, next) = (Issuer::new("people"), Issuer::new("next"));
    let world = World::new(&people.pem());
    let alice = shown(&people, "alice", &[]);
    let bob = shown(&next, "bob", &[]);
    let named = |certificate: &ForeignCertificate| world.name_of(certificate, now());
    assert_eq!(named(&alice).as_deref(), Some("alice"));
    assert_eq!(named(&bob), None, "another authority's");
    let later = "2027-01-01T00:00:01Z".parse().unwrap();
    assert_eq!(world.name_of(&alice, later), None, "it has run out");
    let signed = |usage: ExtendedKeyUsagePurpose, years| {
        named(&ForeignCertificate::new(&people.signs_for(
            "alice",
            &[],
            usage,
            years,
        )))
    };
    assert_eq!(signed(ServerAuth, (2020, 2027)), None, "for servers");
    assert_eq!(signed(ClientAuth, (2020, 2025)), None, "expired");
    assert_eq!(signed(ClientAuth, (2027, 2030)), None, "not yet");

    let mark = world.users.mark();
    for bad in ["", "no certificate"] {
        assert!(world.becomes(bad).is_err(), "{bad:?}");
        assert_eq!(named(&alice).as_deref(), Some("alice"), "{bad:?}");
        assert!(world.users.have(&mark), "{bad:?}");
    }
    world
        .becomes(&format!("{}{}", people.pem(), next.pem()))
        .unwrap();
    assert_eq!(
        named(&alice).as_deref(),
        Some("alice"),
        "both, while they change"
    );
    assert_eq!(named(&bob).as_deref(), Some("bob"), "the same connection");
    assert!(
        !world.users.have(&mark),
        "what was made by the mark is over"
    );
    world.becomes(&next.pem()).unwrap();
    assert_eq!(named(&alice), None, "its authority is gone");
    assert_eq!(named(&bob).as_deref(), Some("bob"));
}

/// Whose authorities have certificates of users and of a front proxy, which is known by its name.
fn beside_a_front_proxy(shared: &Issuer) -> (World, Authenticator) {
    let world = World::new(&shared.pem());
    let front_proxy = Arc::new(FrontProxy::new(ClientCertificates::Any));
    let trust = |allowed: &[String]| {
        let (pem, own) = (shared.pem(), Issuer::new("own").pem());
        front_proxy.trust(pem.as_bytes(), allowed, &HeaderNames::default(), &own)
    };
    let refused = trust(&[]).expect_err("any name would be a front proxy's");
    assert!(matches!(refused, AuthoritiesError::Unnamed), "{refused:?}");
    trust(&["aggregator".to_owned()]).unwrap();
    let authenticator = Authenticator::new(TokenFile::default(), Anonymous::Allowed)
        .with_certificates(Some(Arc::clone(&world.users)))
        .with_front_proxy(Some(front_proxy));
    (world, authenticator)
}

/// Who sends a request with a certificate of that name and these headers.
async fn sender(
    authenticator: &Authenticator,
    issuer: &Issuer,
    name: &str,
    headers: &[(&'static str, &'static str)],
) -> Option<Sender> {
    let chain = issuer.signs_for(name, &["dev"], ClientAuth, (2020, 2027));
    let kept = authenticator.keep(&chain, now()).unwrap();
    let peer = Peer::Certificate(CertificateIdentity::Foreign(kept));
    let headers = headers.iter().map(|(name, value)| {
        let name = http::HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    });
    let headers = headers.collect::<HeaderMap>();
    let root = ClusterScope::One(LogicalCluster::root());
    let sender = authenticator.identify(&headers, &peer, &root, "/", now());
    sender.await.ok()
}

#[tokio::test]
async fn a_users_certificate_never_makes_headers_believed() {
    let shared = Issuer::new("shared");
    let (_world, authenticator) = beside_a_front_proxy(&shared);
    let says = ("x-remote-user", "root");
    for (what, name, headers, want) in [
        ("a user", "alice", &[says][..], Some("alice")),
        ("a name that is no user's", "system:node:a", &[says], None),
        ("the front proxy", "aggregator", &[says], Some("root")),
        ("nothing said", "aggregator", &[], None),
        (
            "nothing that counts",
            "aggregator",
            &[("x-remote-user", "wheelhouse:x")],
            None,
        ),
    ] {
        let sender = sender(&authenticator, &shared, name, headers).await;
        let name = sender.as_ref().map(|it| it.user.username.as_str());
        assert_eq!(name, want, "{what}");
        let Some(sender) = sender else { continue };
        assert_eq!(sender.origin, RequestOrigin::Network, "{what}");
        let is_good = authenticator.still_good(&sender.credential, now()).await;
        assert!(is_good, "{what}");
    }
}

/// A browser adds its user's certificate to whatever a page of another origin sends.
#[tokio::test]
async fn a_certificate_is_not_for_pages_of_others() {
    let shared = Issuer::new("shared");
    let (_world, authenticator) = beside_a_front_proxy(&shared);
    let own = tempfile::tempdir().unwrap();
    let pki = crate::tls::Pki::open(own.path(), &[], &[], now()).unwrap();
    let (_, verifier) = pki.server_config(ClientCertificates::Any).unwrap();
    let admin = pki.admin.chain().unwrap();
    let admin = authenticator.peer(&verifier, Some(&admin), now());
    let root = ClusterScope::One(LogicalCluster::root());
    for (site, is_known) in [
        ("same-origin", true),
        ("none", true),
        ("same-site", false),
        ("cross-site", false),
        ("anything", false),
    ] {
        let header = ("sec-fetch-site", site);
        let sent = sender(&authenticator, &shared, "alice", &[header]).await;
        assert_eq!(sent.is_some(), is_known, "{site}");
        let (name, value) = (
            http::HeaderName::from_static(header.0),
            HeaderValue::from_static(site),
        );
        let headers = HeaderMap::from_iter([(name, value)]);
        let sent = authenticator.identify(&headers, &admin, &root, "/", now());
        assert_eq!(sent.await.is_ok(), is_known, "{site}, the hub's own");
    }
}

/// To try all orders of what a stranger shows would take seconds.
#[test]
fn a_long_chain_is_not_looked_at() {
    let shared = Issuer::new("shared");
    let (_world, authenticator) = beside_a_front_proxy(&shared);
    let own = tempfile::tempdir().unwrap();
    let pki = crate::tls::Pki::open(own.path(), &[], &[], now()).unwrap();
    let (_, verifier) = pki.server_config(ClientCertificates::Any).unwrap();
    let chain = shared.signs_for("alice", &[], ClientAuth, (2020, 2027));
    for (count, is_looked_at) in [(6, true), (7, false)] {
        let shown = vec![chain[0].clone(); count];
        let peer = authenticator.peer(&verifier, Some(&shown), now());
        let is_kept = matches!(peer, Peer::Certificate(CertificateIdentity::Foreign(_)));
        assert_eq!(is_kept, is_looked_at, "{count}");
    }
}

/// As in Go, and not as in rustls, which takes an authority for one without end.
#[test]
fn an_authority_is_good_in_its_own_time() {
    let until = |year| Issuer::good_until("people", year);
    let (over, ending) = (until(2025), until(2027));
    let world = World::new(&format!("{}{}", over.pem(), ending.pem()));
    let signed = |issuer: &Issuer| {
        let chain = issuer.signs_for("alice", &[], ClientAuth, (2020, 2030));
        world.users.find(&ForeignCertificate::new(&chain), now())
    };
    assert!(signed(&over).is_none(), "it is over");
    let found = signed(&ending).expect("it is good for a while");
    let end: Timestamp = "2027-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(found.not_after, end.as_second(), "the earliest end counts");
}
