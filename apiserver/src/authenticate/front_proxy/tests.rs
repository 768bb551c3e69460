//! Which certificates make headers believed, and what the headers say.

use api::cluster::{ClusterScope, LogicalCluster};
use http::{HeaderName, HeaderValue};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use super::*;
use crate::{
    authenticate::{Authenticator, TokenFile, test_issuer::Issuer},
    config::Anonymous,
    request::{CertificateIdentity, Peer},
};

/// 2026-11-21.
fn now() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

fn headers(lines: &[(&str, &[u8])]) -> HeaderMap {
    let lines = lines.iter().map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        (name, HeaderValue::from_bytes(value).unwrap())
    });
    lines.collect()
}

async fn name_of(
    authenticator: &Authenticator,
    chain: &[CertificateDer<'_>],
    headers: &HeaderMap,
) -> Option<String> {
    let kept = authenticator.keep(chain, now());
    let peer =
        Peer::Certificate(kept.map_or(CertificateIdentity::Bad, CertificateIdentity::Foreign));
    let root = ClusterScope::One(LogicalCluster::root());
    let sender = authenticator
        .identify(headers, &peer, &root, "/", now())
        .await;
    sender.ok().map(|sender| sender.user.username.clone())
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table is told in one piece")]
async fn headers_are_believed_with_a_certificate_of_the_front_proxy_alone() {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let (own, proxy, other) = (
        Issuer::new("own"),
        Issuer::new("proxy"),
        Issuer::new("other"),
    );
    let trusting = |allowed: &[&str]| {
        let allowed: Vec<String> = allowed.iter().map(|it| (*it).to_owned()).collect();
        let front_proxy = Arc::new(FrontProxy::default());
        let names = HeaderNames::default();
        let trusted = front_proxy.trust(proxy.pem().as_bytes(), &allowed, &names, &own.pem());
        trusted.unwrap();
        let tokens = TokenFile::parse("good,alice,1\n").unwrap();
        Authenticator::new(tokens, Anonymous::Allowed).with_front_proxy(Some(front_proxy))
    };
    let (named, any) = (trusting(&["aggregator"]), trusting(&[]));
    let good = proxy.signs("aggregator", ClientAuth, (2020, 2030));
    let says = headers(&[("x-remote-user", b"bob")]);
    let with_token = headers(&[("x-remote-user", b"bob"), ("authorization", b"Bearer good")]);
    let silent = headers(&[("x-remote-group", b"system:masters")]);
    let token_alone = headers(&[("authorization", b"Bearer good")]);
    for (what, authenticator, chain, headers, want) in [
        ("good", &named, &good, &says, Some("bob")),
        ("before a token", &named, &good, &with_token, Some("bob")),
        ("nobody named", &named, &good, &silent, None),
        (
            "nobody named, with a token",
            &named,
            &good,
            &token_alone,
            Some("alice"),
        ),
        (
            "another name",
            &named,
            &proxy.signs("mallory", ClientAuth, (2020, 2030)),
            &says,
            None,
        ),
        (
            "another name, with a token",
            &named,
            &proxy.signs("mallory", ClientAuth, (2020, 2030)),
            &with_token,
            Some("alice"),
        ),
        (
            "any name",
            &any,
            &proxy.signs("mallory", ClientAuth, (2020, 2030)),
            &says,
            Some("bob"),
        ),
        (
            "expired",
            &any,
            &proxy.signs("aggregator", ClientAuth, (2020, 2025)),
            &says,
            None,
        ),
        (
            "not yet",
            &any,
            &proxy.signs("aggregator", ClientAuth, (2027, 2030)),
            &says,
            None,
        ),
        (
            "a server's",
            &any,
            &proxy.signs("aggregator", ServerAuth, (2020, 2030)),
            &says,
            None,
        ),
        (
            "another authority's",
            &any,
            &other.signs("aggregator", ClientAuth, (2020, 2030)),
            &says,
            None,
        ),
        (
            "the hub's own",
            &any,
            &own.signs("aggregator", ClientAuth, (2020, 2030)),
            &says,
            None,
        ),
    ] {
        let got = name_of(authenticator, chain, headers).await;
        assert_eq!(got.as_deref(), want, "{what}");
    }
}

#[test]
fn what_is_believed_changes_with_the_settings_and_ends_with_the_certificate() {
    let (own, proxy, next) = (
        Issuer::new("own"),
        Issuer::new("proxy"),
        Issuer::new("next"),
    );
    let front_proxy = FrontProxy::default();
    let names = HeaderNames::default();
    let trust = |pem: &str| front_proxy.trust(pem.as_bytes(), &[], &names, &own.pem());
    let chain = proxy.signs("a", ExtendedKeyUsagePurpose::ClientAuth, (2020, 2027));
    let kept = ForeignCertificate::new(&chain);
    assert!(!front_proxy.accepts(&kept, now()), "nobody is believed yet");
    trust(&proxy.pem()).unwrap();
    assert!(front_proxy.accepts(&kept, now()), "the same connection");
    let later = "2027-01-01T00:00:01Z".parse().unwrap();
    assert!(!front_proxy.accepts(&kept, later), "it has run out");
    // What cannot be used changes nothing.
    for bad in [
        "",
        "no certificate",
        &own.pem(),
        &format!("{}{}", next.pem(), own.pem()),
    ] {
        assert!(trust(bad).is_err(), "{bad}");
        assert!(front_proxy.accepts(&kept, now()), "{bad}");
    }
    assert!(matches!(trust(&own.pem()), Err(AuthoritiesError::Own)));
    trust(&format!("{}{}", next.pem(), proxy.pem())).unwrap();
    assert!(front_proxy.accepts(&kept, now()), "both, while keys change");
    trust(&next.pem()).unwrap();
    assert!(
        !front_proxy.accepts(&kept, now()),
        "it is another one's now"
    );
    trust(&proxy.pem()).unwrap();
    front_proxy.trust_nobody();
    assert!(!front_proxy.accepts(&kept, now()), "nobody is believed");
}

#[test]
fn the_hubs_authority_is_known_by_its_key() {
    let key = KeyPair::generate().unwrap();
    let own = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&key).unwrap().pem()
    };
    let read = ClientAuthorities::from_pem_without(own("renewed").as_bytes(), &own("first"));
    assert!(matches!(read, Err(AuthoritiesError::Own)), "{read:?}");
    let der = CertificateDer::from_pem_slice(own("first").as_bytes()).unwrap();
    assert!(!der.is_empty());
}
