//! Whom a certificate of the operator's authorities makes, and for how long.

use api::cluster::{ClusterScope, LogicalCluster};
use http::{HeaderMap, HeaderValue};
use rcgen::ExtendedKeyUsagePurpose::{self, ClientAuth, ServerAuth};

use super::*;
use crate::{
    authenticate::{Authenticator, FrontProxy, TokenFile, test_issuer::Issuer},
    config::Anonymous,
    request::{CertificateIdentity, HeaderNames, Peer, RequestOrigin},
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

#[tokio::test]
async fn a_users_certificate_never_makes_headers_believed() {
    let (own, shared) = (Issuer::new("own"), Issuer::new("shared"));
    let world = World::new(&shared.pem());
    let authenticator = |allowed: &[&str]| {
        let front_proxy = Arc::new(FrontProxy::new(Some(Arc::clone(&world.users))));
        let allowed: Vec<String> = allowed.iter().map(|it| (*it).to_owned()).collect();
        let names = HeaderNames::default();
        front_proxy
            .trust(shared.pem().as_bytes(), &allowed, &names, &own.pem())
            .unwrap();
        Authenticator::new(TokenFile::default(), Anonymous::Allowed)
            .with_certificates(Some(Arc::clone(&world.users)))
            .with_front_proxy(Some(front_proxy))
    };
    let (any, named) = (authenticator(&[]), authenticator(&["aggregator"]));
    let says = HeaderMap::from_iter([(
        http::HeaderName::from_static("x-remote-user"),
        HeaderValue::from_static("root"),
    )]);
    let silent = HeaderMap::new();
    for (what, authenticator, name, headers, want) in [
        ("any name", &any, "alice", &says, "alice"),
        ("another name", &named, "alice", &says, "alice"),
        ("its name", &named, "aggregator", &says, "root"),
        (
            "its name, and nothing said",
            &named,
            "aggregator",
            &silent,
            "aggregator",
        ),
    ] {
        let chain = shared.signs_for(name, &["dev"], ClientAuth, (2020, 2027));
        let kept = authenticator.keep(&chain, now()).unwrap();
        let peer = Peer::Certificate(CertificateIdentity::Foreign(kept));
        let root = ClusterScope::One(LogicalCluster::root());
        let sender = authenticator.identify(headers, &peer, &root, "/", now());
        let sender = sender.await.expect(what);
        assert_eq!(sender.user.username, want, "{what}");
        assert_eq!(sender.origin, RequestOrigin::Network, "{what}");
        assert!(
            authenticator.still_good(&sender.credential, now()).await,
            "{what}"
        );
    }
}
