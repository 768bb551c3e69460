//! Certificates on disk and in handshakes.

use rustls::pki_types::CertificateDer;

use super::*;
use crate::request::{CertificateIdentity, Peer};

fn now() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

fn open(directory: &Path, host_names: &[&str], now: Timestamp) -> Pki {
    let host_names: Vec<String> = host_names.iter().map(|name| (*name).to_owned()).collect();
    Pki::open(directory, &[], &host_names, now).unwrap()
}

fn peer_of(pki: &Pki, certificate: &IssuedCertificate, now: Timestamp) -> Peer {
    let (_, verifier) = pki.server_config(ClientCertificates::Own).unwrap();
    let chain: Vec<CertificateDer<'_>> = certificate.chain().unwrap();
    verifier.peer(Some(&chain), now)
}

/// Returns the certificate that clients are shown.
fn shown(pki: &Pki) -> Vec<CertificateDer<'static>> {
    pki.serving.shown(None).cert.clone()
}

#[test]
fn certificates_are_kept_across_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path(), &[], now());
    let again = open(directory.path(), &[], now());
    assert_eq!(
        first.authority.certificate_pem(),
        again.authority.certificate_pem()
    );
    assert_eq!(first.admin.certificate_pem, again.admin.certificate_pem);
    assert_eq!(shown(&first), shown(&again), "it is kept");
    // An authority that was read back signs as the one that was made.
    let issued = again.authority.issue_client("bob", None, now()).unwrap();
    assert!(matches!(
        peer_of(&first, &issued, now()),
        Peer::Certificate(CertificateIdentity::Good { .. })
    ));
}

#[test]
fn a_new_name_makes_a_new_serving_certificate_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path(), &[], now());
    let again = open(directory.path(), &["hub.example.com"], now());
    assert_ne!(shown(&first), shown(&again), "it is another one");
    assert_eq!(first.admin.certificate_pem, again.admin.certificate_pem);
}

#[test]
fn what_runs_out_soon_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path(), &[], now());
    let later = now() + jiff::SignedDuration::from_hours(24 * 340);
    let again = open(directory.path(), &[], later);
    assert_eq!(
        first.authority.certificate_pem(),
        again.authority.certificate_pem()
    );
    assert_ne!(first.admin.certificate_pem, again.admin.certificate_pem);
    assert_ne!(shown(&first), shown(&again), "it is another one");
}

/// The story: a hub that ran for a year showed a certificate that had run out.
#[test]
fn the_serving_certificate_is_made_anew_while_the_hub_runs() {
    let directory = tempfile::tempdir().unwrap();
    let pki = open(directory.path(), &["hub.example.com"], now());
    let first = shown(&pki);
    let later = |days: i64| now() + jiff::SignedDuration::from_hours(24 * days);
    pki.renew(later(300)).unwrap();
    assert_eq!(shown(&pki), first, "it is good for long");
    pki.renew(later(340)).unwrap();
    let second = shown(&pki);
    assert_ne!(second, first, "it is good for another year");
    pki.renew(later(350)).unwrap();
    assert_eq!(shown(&pki), second, "and once is enough");
}

#[test]
fn half_an_authority_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path(), &[], now());
    let file = |name: &str| directory.path().join("pki").join(name);
    let certificate = std::fs::read(file("ca.crt")).unwrap();
    let key = std::fs::read(file("ca.key")).unwrap();
    let opened = || Pki::open(directory.path(), &[], &[], now());

    std::fs::remove_file(file("ca.key")).unwrap();
    let refused = opened().expect_err("the key is missing");
    let reason = std::error::Error::source(&refused).unwrap().to_string();
    assert!(reason.contains("ca.key is missing"), "{reason}");
    assert_eq!(std::fs::read(file("ca.crt")).unwrap(), certificate);

    std::fs::write(file("ca.key"), &key).unwrap();
    std::fs::write(file("ca.crt"), "x").unwrap();
    opened().expect_err("the certificate is damaged");
    assert_eq!(std::fs::read(file("ca.key")).unwrap(), key);

    // The key alone: whoever trusts the old certificate trusts one of the same key.
    std::fs::remove_file(file("ca.crt")).unwrap();
    let again = opened().expect("a certificate of the same key");
    assert_eq!(std::fs::read(file("ca.key")).unwrap(), key);
    let peer = peer_of(&again, &first.admin, now());
    assert!(
        matches!(peer, Peer::Certificate(CertificateIdentity::Good { .. })),
        "what it signed is good"
    );
}

#[cfg(unix)]
#[test]
fn keys_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), &[], now()));
    for name in ["ca.key", "server.key", "admin.key"] {
        let mode = std::fs::metadata(directory.path().join("pki").join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_client_certificate_names_user_and_group() {
    let directory = tempfile::tempdir().unwrap();
    let pki = open(directory.path(), &[], now());
    let issued = pki
        .authority
        .issue_client("alice", Some("dev"), now())
        .unwrap();
    let Peer::Certificate(CertificateIdentity::Good { user, .. }) = peer_of(&pki, &issued, now())
    else {
        panic!("the certificate is good");
    };
    assert_eq!(user.username, "alice");
    assert_eq!(user.groups, ["dev", "system:authenticated"]);
    let id = &user.extra["authentication.kubernetes.io/credential-id"][0];
    assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");
}

/// A verdict is remembered, and is none the less the one that would be found again.
#[test]
fn a_certificate_that_was_seen_is_judged_by_its_time_again() {
    let directory = tempfile::tempdir().unwrap();
    let pki = open(directory.path(), &[], now());
    let (_, verifier) = pki.server_config(ClientCertificates::Own).unwrap();
    let chain: Vec<CertificateDer<'_>> = pki.admin.chain().unwrap();
    let good = |at: Timestamp, chain: &[CertificateDer<'_>]| {
        let peer = verifier.peer(Some(chain), at);
        matches!(peer, Peer::Certificate(CertificateIdentity::Good { .. }))
    };
    let late = now() + jiff::SignedDuration::from_hours(24 * 400);
    let early = now() - jiff::SignedDuration::from_hours(24);
    for (name, at, want) in [
        ("at first", now(), true),
        ("again", now(), true),
        ("run out", late, false),
        ("not yet good", early, false),
        ("in its time again", now(), true),
    ] {
        assert_eq!(good(at, &chain), want, "{name}");
    }
    // Each bit counts: nothing but the very certificate is remembered.
    for bit in [0, 7] {
        let mut bytes = chain[0].to_vec();
        *bytes.last_mut().unwrap() ^= 1 << bit;
        let other = [CertificateDer::from(bytes)];
        assert!(!good(now(), &other), "bit {bit}");
    }
}

#[test]
fn only_what_the_authority_signed_for_clients_and_for_now_is_good() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (pki, other) = (
        open(here.path(), &[], now()),
        open(there.path(), &[], now()),
    );
    let late = now() + jiff::SignedDuration::from_hours(24 * 400);
    let early = now() - jiff::SignedDuration::from_hours(24);
    let for_servers = pki.authority.serving(here.path(), &[], &[], now()).unwrap();
    let foreign = other
        .authority
        .issue_client("admin", Some("system:masters"), now())
        .unwrap();
    for (name, certificate, at) in [
        ("of another authority", &foreign, now()),
        ("for servers", &for_servers, now()),
        ("run out", &pki.admin, late),
        ("not yet good", &pki.admin, early),
    ] {
        let peer = peer_of(&pki, certificate, at);
        assert!(
            matches!(peer, Peer::Certificate(CertificateIdentity::Bad)),
            "{name}: {peer:?}"
        );
    }
}
