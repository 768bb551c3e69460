//! Which credential counts.

use http::HeaderValue;

use super::*;

fn authenticator(anonymous: Anonymous) -> Authenticator {
    Authenticator::new(TokenFile::parse("good,alice,1\n").unwrap(), anonymous)
}

fn now() -> Timestamp {
    Timestamp::from_second(10).unwrap()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table is told in one piece")]
async fn the_first_good_credential_counts_and_a_bad_one_is_not_anonymous() {
    let root = ClusterScope::One(LogicalCluster::root());
    let user = |name: &str| Arc::new(UserInfo::authenticated(name, [""; 0]));
    let certificate = Peer::Certificate(CertificateIdentity::Good {
        user: user("carol"),
        not_after: 10,
    });
    let ended = Peer::Certificate(CertificateIdentity::Good {
        user: user("carol"),
        not_after: 9,
    });
    let bad_certificate = Peer::Certificate(CertificateIdentity::Bad);
    let unknown = Peer::Unknown;
    let inside = Peer::InProcess(user("controller"));
    for (name, peer, header, want) in [
        ("nothing", &unknown, None, Some("system:anonymous")),
        ("good token", &unknown, Some("Bearer good"), Some("alice")),
        (
            "scheme in any case",
            &unknown,
            Some("bearer good"),
            Some("alice"),
        ),
        ("bad token", &unknown, Some("Bearer bad"), None),
        (
            "empty token, as none",
            &unknown,
            Some("Bearer "),
            Some("system:anonymous"),
        ),
        (
            "another scheme",
            &unknown,
            Some("Basic xyz"),
            Some("system:anonymous"),
        ),
        ("certificate", &certificate, None, Some("carol")),
        (
            "certificate before token",
            &certificate,
            Some("Bearer good"),
            Some("carol"),
        ),
        (
            "certificate and bad token",
            &certificate,
            Some("Bearer bad"),
            Some("carol"),
        ),
        ("bad certificate", &bad_certificate, None, None),
        (
            "bad certificate, good token",
            &bad_certificate,
            Some("Bearer good"),
            Some("alice"),
        ),
        ("certificate that has run out", &ended, None, None),
        (
            "certificate that has run out, good token",
            &ended,
            Some("Bearer good"),
            Some("alice"),
        ),
        (
            "in this process",
            &inside,
            Some("Bearer bad"),
            Some("controller"),
        ),
    ] {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(
                header::AUTHORIZATION,
                HeaderValue::from_str(header).unwrap(),
            );
        }
        let sender = authenticator(Anonymous::Allowed)
            .identify(&headers, peer, &root, "/", now())
            .await;
        match (sender, want) {
            (Ok(sender), Some(want)) => assert_eq!(sender.user.username, want, "{name}"),
            (Err(refusal), None) => assert_eq!(refusal.status().unwrap().code, 401, "{name}"),
            (got, _) => panic!("{name}: {got:?}"),
        }
    }
}

#[tokio::test]
async fn nobody_is_anonymous_where_that_is_refused() {
    let refused = authenticator(Anonymous::Refused)
        .identify(
            &HeaderMap::new(),
            &Peer::Unknown,
            &ClusterScope::All,
            "/",
            now(),
        )
        .await;
    assert_eq!(
        refused.unwrap_err().status().unwrap().message,
        "Unauthorized"
    );
}
