//! The fleet view: files for strangers, and calls that read as their caller and no further.

use http::{Method, header};
use serde_json::{Value, json};

use super::world::{ADMIN, ANONYMOUS, Findings, NOBODY, Sent, World, rule};

const RGDS: &str = "apis/kro.run/v1alpha1/resourcegraphdefinitions";
const SEARCH: &str = "/ui/api/instances?kind=resourcegraphdefinitions.v1alpha1.kro.run";

fn definition(name: &str) -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": name},
        "spec": {"schema": {"kind": "Web", "apiVersion": "v1"}, "resources": [
            {"id": "config", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}},
        ]},
    })
}

#[tokio::test]
async fn the_files_of_the_view_are_for_everybody_and_run_nothing_foreign() {
    let mut findings = Findings::default();
    let world = World::new().await;
    let moved = world.get(ANONYMOUS, "/ui").await;
    assert_eq!(
        (moved.code, &moved.headers[header::LOCATION]),
        (301, &"/ui/".parse().unwrap())
    );
    for path in [
        "/ui/",
        "/ui/app.js",
        "/ui/app.css",
        "/ui/vendor/lit-html.js",
    ] {
        for token in [ANONYMOUS, "expired", NOBODY] {
            let answer = world.get(token, path).await;
            findings.expect(answer.code == 200, || {
                format!("{path} for {token:?}: {}", answer.code)
            });
            let policy = answer.headers.get(header::CONTENT_SECURITY_POLICY);
            let policy = policy.and_then(|it| it.to_str().ok()).unwrap_or_default();
            for part in [
                "default-src 'none'",
                "script-src 'self';",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
            ] {
                findings.expect(policy.contains(part), || format!("{path}: {policy}"));
            }
            findings.expect(!policy.contains("unsafe"), || format!("{path}: {policy}"));
            findings.expect(answer.headers.contains_key("audit-id"), || {
                format!("{path}: no id")
            });
        }
    }
    let tag = world.get(ANONYMOUS, "/ui/app.js").await.headers[header::ETAG].clone();
    let known = world
        .send(Sent {
            token: ANONYMOUS,
            method: Method::GET,
            path: "/ui/app.js",
            headers: &[("if-none-match", tag.to_str().unwrap())],
            body: Value::Null,
        })
        .await;
    assert_eq!((known.code, known.text.as_str()), (304, ""));
    for path in [
        "/ui/none.js",
        "/ui/../Cargo.toml",
        "/ui/%2e%2e/x",
        "/ui/api",
        "/ui/api/drawing/root",
    ] {
        let answer = world.get(ADMIN, path).await;
        findings.expect(answer.code == 404, || format!("{path}: {}", answer.code));
    }
    for method in [
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::PATCH,
        Method::OPTIONS,
    ] {
        let answer = world.ask(ADMIN, method.clone(), "/ui/", json!({})).await;
        findings.expect(answer.code == 405, || format!("{method}: {}", answer.code));
    }
    for base in ["/clusters/east", "/clusters/root", "/clusters/*"] {
        let answer = world.get(ADMIN, &format!("{base}/ui/")).await;
        findings.expect(answer.code == 404, || format!("{base}: {}", answer.code));
    }
}

#[tokio::test]
async fn a_call_of_the_view_reads_what_its_caller_may_read() {
    let mut findings = Findings::default();
    let world = World::new().await;
    world.made(&format!("/{RGDS}"), &definition("fleet")).await;
    world
        .made(&format!("/clusters/east/{RGDS}"), &definition("own"))
        .await;
    let read = |names: &[&str]| {
        json!([rule(
            &["get", "list"],
            "kro.run",
            &["resourcegraphdefinitions"],
            names
        )])
    };
    let access = |name: &str| json!([rule(&["access"], "wheelhouse.dev", &["spokes"], &[name])]);
    // alice reads in east, bob in root; carol may enter east and read nothing there, dave could read there and may not enter.
    world.grant("", "", "alice", access("east")).await;
    world.grant("/clusters/east", "", "alice", read(&[])).await;
    world.grant("", "", "bob", read(&[])).await;
    world.grant("", "", "carol", access("east")).await;
    world.grant("/clusters/east", "", "dave", read(&[])).await;
    world.settled().await;
    let names = |answer: &Value| {
        let rows = answer["rows"].as_array().cloned().unwrap_or_default();
        let name = |row: &Value| {
            format!(
                "{}/{}",
                row["cluster"].as_str().unwrap(),
                row["name"].as_str().unwrap()
            )
        };
        rows.iter().map(name).collect::<Vec<_>>()
    };
    for (user, want) in [
        (ADMIN, vec!["east/own", "root/fleet"]),
        ("alice", vec!["east/own"]),
        ("bob", vec!["root/fleet"]),
    ] {
        let answer = world.get(user, SEARCH).await;
        findings.expect(answer.code == 200 && names(&answer.json()) == want, || {
            format!("{user}: {answer:?}")
        });
        let cells = answer.json()["cells"].as_array().map_or(0, Vec::len);
        findings.expect(cells == want.len(), || {
            format!("{user} counts {cells} clusters")
        });
    }
    refused(&world, &mut findings).await;
    let drawing = world.get("alice", "/ui/api/drawing/east/own").await.json();
    assert_eq!(drawing["nodes"][0]["id"], "config");
}

/// What those get who may not look.
async fn refused(world: &World, findings: &mut Findings) {
    for (user, code) in [
        ("carol", 403),
        ("dave", 403),
        (NOBODY, 403),
        (ANONYMOUS, 403),
        ("expired", 401),
    ] {
        for path in [
            SEARCH,
            &format!("{SEARCH}&cluster=east"),
            "/ui/api/drawing/east/own",
            "/ui/api/drawing/root/fleet",
        ] {
            let answer = world.get(user, path).await;
            findings.expect(answer.code == code, || {
                format!("{user:?} {path}: {answer:?}")
            });
            findings.expect(!answer.text.contains("config"), || {
                format!("{user:?} {path}: {answer:?}")
            });
        }
    }
    for (user, path, code) in [
        ("alice", "/ui/api/drawing/east/own", 200),
        ("alice", "/ui/api/drawing/root/fleet", 403),
        ("bob", "/ui/api/drawing/root/fleet", 200),
        ("bob", "/ui/api/drawing/east/own", 403),
        // Where there is nothing is told apart from where one may not look only to those who may.
        ("bob", "/ui/api/drawing/none/own", 403),
        (ADMIN, "/ui/api/drawing/east/none", 404),
        (ADMIN, "/ui/api/instances", 400),
    ] {
        let answer = world.get(user, path).await;
        findings.expect(answer.code == code, || format!("{user} {path}: {answer:?}"));
    }
}

#[tokio::test]
async fn a_call_of_the_view_acts_for_whom_its_caller_may_act_for() {
    let world = World::new().await;
    world.made(&format!("/{RGDS}"), &definition("fleet")).await;
    let read = json!([rule(
        &["get", "list"],
        "kro.run",
        &["resourcegraphdefinitions"],
        &[]
    )]);
    world.grant("", "", "bob", read).await;
    world.settled().await;
    for (token, acting_for, code) in [
        (ADMIN, "bob", 200),
        (ADMIN, NOBODY, 403),
        (NOBODY, "bob", 403),
    ] {
        let answer = world
            .send(Sent {
                token,
                method: Method::GET,
                path: SEARCH,
                headers: &[("impersonate-user", acting_for)],
                body: Value::Null,
            })
            .await;
        assert_eq!(answer.code, code, "{token} for {acting_for}: {answer:?}");
    }
}
