//! Whose token counts where, and until when.

use serde_json::json;
use storage::{Change, Write, embedded};

use super::*;
use crate::request::BoundObject;

struct Setup {
    accounts: ServiceAccounts,
    store: Arc<dyn Store>,
    _directory: tempfile::TempDir,
}

fn cluster(name: &str) -> LogicalCluster {
    name.parse().unwrap()
}

fn put(in_cluster: &str, resource: &str, name: &str, uid: &str) -> Write {
    let prefix = ResourcePrefix::new(&GroupResource {
        group: String::new(),
        resource: resource.to_owned(),
    });
    let object = json!({"metadata": {"name": name, "namespace": "ns", "uid": uid}});
    Write::put(
        prefix.key(&cluster(in_cluster), "ns", name),
        object.to_string(),
    )
}

impl ServiceAccounts {
    fn user(
        &self,
        token: &str,
        cluster: Option<&LogicalCluster>,
        now: Timestamp,
    ) -> Option<Arc<UserInfo>> {
        let found = self.find(token, cluster, None, now).ok()?;
        Some(found.user)
    }
}

async fn setup() -> Setup {
    let directory = tempfile::tempdir().unwrap();
    let engine =
        embedded::Engine::open(&directory.path().join("store"), embedded::Config::default())
            .unwrap();
    let store: Arc<dyn Store> = Arc::new(engine);
    for in_cluster in ["root", "east"] {
        store
            .commit(vec![
                put(in_cluster, "serviceaccounts", "bot", "u1"),
                put(in_cluster, "secrets", "bound", "u2"),
            ])
            .await
            .unwrap();
    }
    let accounts = ServiceAccounts::open(directory.path(), Arc::clone(&store)).unwrap();
    Setup {
        accounts,
        store,
        _directory: directory,
    }
}

fn now() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

fn claims(home: &str) -> Claims {
    let issuer = issuer_of(&cluster(home));
    Claims {
        audiences: vec![issuer.clone()],
        issuer,
        namespace: "ns".to_owned(),
        name: "bot".to_owned(),
        uid: "u1".to_owned(),
        bound: None,
        issued_at: now().as_second(),
        expires_at: now().as_second() + 600,
        id: "id".to_owned(),
    }
}

#[tokio::test]
async fn a_token_counts_at_its_own_cluster_and_roots_goes_abroad_under_another_name() {
    let setup = setup().await;
    for (home, at, want) in [
        ("root", "root", Some("system:serviceaccount:ns:bot")),
        ("root", "east", Some("wheelhouse:root:ns:bot")),
        ("east", "east", Some("system:serviceaccount:ns:bot")),
        ("east", "root", None),
        ("east", "west", None),
    ] {
        let token = setup.accounts.sign(&claims(home)).unwrap();
        let user = setup.accounts.user(&token, Some(&cluster(at)), now());
        assert_eq!(
            user.as_ref().map(|user| user.username.as_str()),
            want,
            "{home} at {at}"
        );
    }
    let token = setup.accounts.sign(&claims("root")).unwrap();
    let user = setup
        .accounts
        .user(&token, Some(&cluster("root")), now())
        .unwrap();
    assert_eq!(
        user.groups,
        [
            "system:serviceaccounts",
            "system:serviceaccounts:ns",
            "system:authenticated"
        ]
    );
    assert_eq!(user.uid, "u1");
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
async fn a_token_ends_with_its_time_its_account_and_what_it_is_bound_to() {
    let setup = setup().await;
    let accepted = |claims: &Claims, at: Timestamp| {
        let token = setup.accounts.sign(claims).unwrap();
        setup
            .accounts
            .user(&token, Some(&cluster("root")), at)
            .is_some()
    };
    let bound = |name: &str, uid: &str| {
        Some(BoundObject {
            kind: "Secret".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        })
    };
    let good = claims("root");
    let later = now() + jiff::SignedDuration::from_secs(600);
    for (name, claims, at, want) in [
        ("good", good.clone(), now(), true),
        ("ended", good.clone(), later, false),
        (
            "of an account before this one",
            Claims {
                uid: "u0".to_owned(),
                ..good.clone()
            },
            now(),
            false,
        ),
        (
            "of no account",
            Claims {
                name: "none".to_owned(),
                ..good.clone()
            },
            now(),
            false,
        ),
        (
            "bound",
            Claims {
                bound: bound("bound", "u2"),
                ..good.clone()
            },
            now(),
            true,
        ),
        (
            "bound to what was",
            Claims {
                bound: bound("bound", "u3"),
                ..good.clone()
            },
            now(),
            false,
        ),
        (
            "bound to nothing",
            Claims {
                bound: bound("none", "u2"),
                ..good.clone()
            },
            now(),
            false,
        ),
        (
            "for someone else",
            Claims {
                audiences: vec!["vault".to_owned()],
                ..good.clone()
            },
            now(),
            false,
        ),
        (
            "of another issuer",
            Claims {
                issuer: "https://else".to_owned(),
                ..good.clone()
            },
            now(),
            false,
        ),
    ] {
        assert_eq!(accepted(&claims, at), want, "{name}");
    }
    let write = put("root", "serviceaccounts", "bot", "u1");
    let gone = Write {
        change: Change::Delete { last: None },
        ..write
    };
    setup.store.commit(vec![gone]).await.unwrap();
    assert!(!accepted(&good, now()), "the account is gone");
}

#[tokio::test]
async fn a_token_that_was_touched_or_signed_elsewhere_does_not_count() {
    let (here, there) = (setup().await, setup().await);
    let token = here.accounts.sign(&claims("root")).unwrap();
    let foreign = there.accounts.sign(&claims("root")).unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    let other = here
        .accounts
        .sign(&Claims {
            name: "admin".to_owned(),
            ..claims("root")
        })
        .unwrap();
    let other_payload = other.split('.').nth(1).unwrap();
    let none_header = "eyJhbGciOiJub25lIn0";
    for (name, token) in [
        ("foreign", foreign),
        (
            "another payload",
            format!("{}.{other_payload}.{}", parts[0], parts[2]),
        ),
        ("no algorithm", format!("{none_header}.{}.", parts[1])),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("no token", "abc".to_owned()),
        ("nothing", String::new()),
    ] {
        let user = here.accounts.user(&token, Some(&cluster("root")), now());
        assert!(user.is_none(), "{name}: {user:?}");
    }
    assert!(
        here.accounts
            .user(&token, Some(&cluster("root")), now())
            .is_some(),
        "the control"
    );
}

#[tokio::test]
async fn a_review_says_for_whom_of_those_asked_for_a_token_is() {
    let setup = setup().await;
    let wanted = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let token = |audiences: &[&str]| {
        let claims = Claims {
            audiences: wanted(audiences),
            ..claims("root")
        };
        setup.accounts.sign(&claims).unwrap()
    };
    let root = cluster("root");
    let found = |token: &str, asked: &[&str]| {
        let found = setup
            .accounts
            .find(token, Some(&root), Some(&wanted(asked)), now());
        found
            .map(|found| found.audiences)
            .map_err(|error| error.to_string())
    };
    let both = token(&["vault", "registry"]);
    assert_eq!(
        found(&both, &["other", "registry"]),
        Ok(wanted(&["registry"]))
    );
    let foreign = "[invalid bearer token, token audiences [\"vault\", \"registry\"] is invalid for the target audiences [\"other\"]]";
    assert_eq!(found(&both, &["other"]), Err(foreign.to_owned()));
    assert_eq!(
        found("abc", &["other"]),
        Err("invalid bearer token".to_owned())
    );
}
