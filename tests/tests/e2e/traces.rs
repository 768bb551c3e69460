//! The trace of one apply: the hub, its syncer and the spoke's kube-apiserver tell it to one collector.

use std::time::Duration;

use serde_json::{Value, json};
use wheelhouse_tests::{
    Spoke,
    collector::{Collector, Span},
    eventually,
    hub::Settings,
    process::Scratch,
    spoke::Options,
    support::{Fixture, User},
    wait::within,
};

use super::stage::define;

const WEBAPPS: &str = "/clusters/east/apis/kro.run/v1alpha1/namespaces/default/webapps";
/// What the administrator calls the span that all others are part of.
const CALLER: &str = "00f067aa0ba902b7";

/// How long a process may take to end that cannot get rid of its spans.
const END_PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_leads_from_an_apply_through_the_syncer_into_the_spoke() {
    let collector = Collector::start().await;
    let scratch = Scratch::new("traces");
    let file = scratch.write("tracing.yaml", collector.configuration());
    let options = Options {
        without_controllers: true,
        traces: Some(collector.address()),
        ..Options::default()
    };
    let settings = Settings {
        arguments: vec![
            "--tracing-config-file".to_owned(),
            file.display().to_string(),
        ],
        ..Settings::default()
    };
    let (fixture, east) = tokio::join!(
        Fixture::start_with(&["mallory"], settings),
        Spoke::start_with("east", options)
    );
    fixture.join(&east).await;
    define(&fixture.hub.root()).await;
    let admin = fixture.admin().await;

    let first = "4bf92f3577b34da6a3ce929d0e0e4736";
    make(&admin, "shop", first).await;
    let spans = eventually("the whole trace was told", || async {
        let spans = collector.trace(first);
        whole(&spans).map(|()| spans)
    })
    .await;
    are_named(&spans);
    leads_back(&spans);

    nobody_else_has_sampled(&fixture, &admin, &collector).await;

    drop(collector);
    make(&admin, "late", "4bf92f3577b34da6a3ce929d0e0e4799").await;
    fixture.hub.process().signal("TERM");
    within(END_PATIENCE, "the hub ends without a collector", || async {
        let runs = fixture.hub.process().runs();
        if runs {
            Err("it runs".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
}

/// Creates an instance within a trace.
async fn make(user: &User, name: &str, trace: &str) {
    let parent = format!("00-{trace}-{CALLER}-01");
    let headers = [
        ("content-type", "application/json"),
        ("traceparent", &parent),
    ];
    let webapp = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "WebApp",
        "metadata": {"name": name}, "spec": {"message": "hello"},
    });
    let made = user.send("POST", WEBAPPS, &headers, webapp.to_string());
    made.await.must(201);
}

/// Says what is missing in the trace of an instance that was created.
fn whole(spans: &[Span]) -> Result<(), String> {
    let wanted: &[(&str, &str, fn(&Span) -> bool)] = &[
        ("wheelhouse", "the request", |it| {
            it.name == "POST /apis/kro.run/v1alpha1/namespaces/{:namespace}/webapps"
                && it.parent == CALLER
                && it.attributes["http.response.status_code"] == "201"
                && it.attributes["cluster"] == "east"
        }),
        ("wheelhouse", "its write", |it| it.name == "write"),
        ("wheelhouse", "the reconcile", |it| {
            it.name == "reconcile" && it.attributes["controller"] == "instance"
        }),
        ("wheelhouse", "the status of the mirror", |it| {
            it.name == "reconcile" && it.attributes["controller"] == "mirror-status"
        }),
        ("wheelhouse", "a child's apply", |it| {
            it.name == "apply" && it.attributes["name"] == "shop"
        }),
        ("wheelhouse", "a call of the spoke", |it| {
            it.name == "PATCH" && it.attributes["url.path"].ends_with("/deployments/shop")
        }),
        ("apiserver", "what the spoke did of it", |it| {
            it.name == "PATCH /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}"
        }),
    ];
    for (service, what, is_it) in wanted {
        if !spans.iter().any(|it| it.service == *service && is_it(it)) {
            return Err(format!("{service}: {what} is missing in {spans:#?}"));
        }
    }
    Ok(())
}

/// Each span of the hub says what it is, and none is there twice, for the log and for the trace.
fn are_named(spans: &[Span]) {
    for span in spans.iter().filter(|it| it.service == "wheelhouse") {
        let known = ["write", "apply", "reconcile"].contains(&span.name.as_str())
            || span.attributes.contains_key("http.request.method");
        assert!(known, "{span:?}");
    }
}

/// Follows the spoke's span back to the caller's.
fn leads_back(spans: &[Span]) {
    let leaf = spans.iter().find(|it| {
        it.service == "apiserver"
            && it.name.starts_with("PATCH /apis/apps/v1/")
            && !it.parent.is_empty()
    });
    let mut at = leaf.expect("it is there");
    let mut names = vec![at.name.as_str()];
    while at.parent != CALLER {
        let parent = spans.iter().find(|it| it.id == at.parent);
        at = parent.expect("a span hangs on another of the trace");
        names.push(&at.name);
    }
    let way = |name: &str| names.iter().position(|it| *it == name);
    let (call, apply, reconcile) = (way("PATCH"), way("apply"), way("reconcile"));
    assert!(
        call < apply && apply < reconcile && call.is_some(),
        "{names:?}"
    );
    assert!(
        names.last().is_some_and(|it| it.starts_with("POST ")),
        "{names:?}"
    );
}

/// A user whom nobody trusts decides about no trace: not in the hub, and not with the hub's rights in the spoke.
async fn nobody_else_has_sampled(fixture: &Fixture, admin: &User, collector: &Collector) {
    fixture.allow_access("mallory", "east").await;
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reads"}, "rules": [rule],
    });
    let rbac = "/clusters/east/apis/rbac.authorization.k8s.io/v1";
    admin
        .post(&format!("{rbac}/clusterroles"), &role)
        .await
        .must(201);
    fixture.bind("east", "mallory", "reads").await;
    let mallory = fixture.user("mallory").await;
    let path = "/clusters/east/api/v1/namespaces/default/configmaps";
    mallory.until_status(path, 200).await;

    let [theirs, ours] = [
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
    ];
    let read = async |user: &User, trace: &str| {
        let parent = format!("00-{trace}-{CALLER}-01");
        let headers = [
            ("traceparent", parent.as_str()),
            ("tracestate", "a=b"),
            ("baggage", "c=d"),
        ];
        user.send("GET", path, &headers, "").await.must(200);
    };
    read(&mallory, theirs).await;
    read(admin, ours).await;
    // Each process tells its spans in the order in which they end.
    eventually("the administrator's request was told by both", || async {
        let services: Vec<String> = collector
            .trace(ours)
            .into_iter()
            .map(|it| it.service)
            .collect();
        let has = |service: &str| services.iter().any(|it| it == service);
        if has("wheelhouse") && has("apiserver") {
            Ok(())
        } else {
            Err(format!("{services:?}"))
        }
    })
    .await;
    let sampled =
        collector.select(|it| it.trace == theirs || it.links.iter().any(|link| link == theirs));
    assert_eq!(sampled, [], "a tenant had something sampled");
    let paths: Vec<Value> = collector
        .select(|it| {
            it.attributes
                .get("user")
                .is_some_and(|user| user == "mallory")
        })
        .into_iter()
        .map(|it| json!(it.name))
        .collect();
    assert_eq!(paths, [] as [Value; 0], "a tenant's request was sampled");
}
