//! Health, version and metrics as probes and tools read them.

use std::{sync::Arc, time::Duration};

use http::{Method, Request};
use http_body_util::BodyExt;
use storage::{Store, Write, embedded};
use tasks::Tasks;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    quota::Quotas,
    request::{RequestInfo, Verb, share::Limits},
    route,
};

async fn text_of(response: Response) -> String {
    String::from_utf8(
        response
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .to_vec(),
    )
    .unwrap()
}

#[test]
fn a_path_is_a_page() {
    for (path, want) in [
        ("/", Some(Page::Index)),
        ("/version", Some(Page::Version)),
        ("/version/", Some(Page::Version)),
        ("/metrics", Some(Page::Metrics)),
        ("/livez", Some(Page::Health(Probe::Livez, ""))),
        ("/readyz/etcd", Some(Page::Health(Probe::Readyz, "etcd"))),
        (
            "/healthz/poststarthook/bootstrap",
            Some(Page::Health(Probe::Healthz, "poststarthook/bootstrap")),
        ),
        ("/livezz", None),
        ("/api", None),
        ("", None),
    ] {
        assert_eq!(Page::of(path), want, "{path}");
    }
}

#[tokio::test]
async fn health_is_told_as_kubernetes_tells_it() {
    let directory = tempfile::tempdir().unwrap();
    let engine = embedded::Engine::open(directory.path(), embedded::Config::default()).unwrap();
    let draining = CancellationToken::new();
    let health = Health::new(Arc::new(engine), None, draining.clone());
    let ask = |probe, check: &'static str, query: &'static str| {
        let answer = health.serve(probe, check, query);
        async move {
            match answer {
                Ok(response) => (response.status().as_u16(), text_of(response).await),
                Err(refusal) => (404, refusal.to_string()),
            }
        }
    };

    assert_eq!(ask(Probe::Livez, "", "").await, (200, "ok".to_owned()));
    let (code, report) = ask(Probe::Readyz, "", "").await;
    assert_eq!(code, 500, "not ready before the first objects are there");
    assert!(
        report.contains("[-]poststarthook/bootstrap failed: reason withheld\n"),
        "{report}"
    );
    let excluded = ask(Probe::Readyz, "", "exclude=poststarthook/bootstrap").await;
    assert_eq!(excluded, (200, "ok".to_owned()));

    health.set_bootstrapped();
    assert_eq!(ask(Probe::Readyz, "", "").await, (200, "ok".to_owned()));
    assert_eq!(
        ask(Probe::Readyz, "", "verbose&exclude=ping&exclude=x").await,
        (
            200,
            "[+]ping excluded: ok\n[+]log ok\n[+]etcd ok\n[+]informer-sync ok\n\
             [+]poststarthook/bootstrap ok\n[+]shutdown ok\n\
             warn: some health checks cannot be excluded: no matches for \"x\"\n\
             readyz check passed\n"
                .to_owned()
        )
    );
    assert_eq!(ask(Probe::Readyz, "etcd", "").await, (200, "ok".to_owned()));
    assert_eq!(ask(Probe::Readyz, "nothing", "").await.0, 404);

    draining.cancel();
    let (code, report) = ask(Probe::Readyz, "", "").await;
    assert_eq!(code, 500, "not ready while it drains");
    assert!(report.ends_with("readyz check failed\n"), "{report}");
    assert_eq!(
        ask(Probe::Livez, "", "").await.0,
        200,
        "but no reason to restart"
    );
}

#[tokio::test]
async fn the_version_is_one_that_tools_can_parse() {
    let parts = Request::get("/version").body(()).unwrap().into_parts().0;
    let version: Value = serde_json::from_str(&text_of(version(&parts).unwrap()).await).unwrap();
    assert_eq!(version["major"], "1");
    assert_eq!(version["minor"], "36");
    let text = version["gitVersion"].as_str().unwrap();
    assert!(text.starts_with("v1.36.3+wheelhouse-"), "{text}");
    for field in [
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ] {
        assert!(version[field].is_string(), "{field}");
    }
}

fn info(verb: Verb, group: &str, resource: &str) -> RequestInfo {
    let mut info = route::route(&Method::GET, &"/version".parse().unwrap()).unwrap();
    (info.group, info.resource) = (group.to_owned(), resource.to_owned());
    RequestInfo { verb, ..info }
}

#[tokio::test]
async fn requests_are_counted_under_kubernetes_names_and_tenants_cannot_add_series() {
    let directory = tempfile::tempdir().unwrap();
    let engine = embedded::Engine::open(directory.path(), embedded::Config::default()).unwrap();
    let store: Arc<dyn Store> = Arc::new(engine);
    for key in [
        "/core/pods/east/a/one",
        "/core/pods/east/a/two",
        "/x.dev/xs/east//one",
    ] {
        store.commit(vec![Write::put(key, "{}")]).await.unwrap();
    }
    let quotas = Arc::new(Quotas::new(Limits::default()));
    let metrics = Metrics::new(
        &store,
        &quotas,
        None,
        crate::audit::Metrics::default(),
        &Tasks::new(),
    );
    let requests = metrics.requests();
    let pods = info(Verb::Get, "", "pods");
    requests.count(Some(&pods), 200, Duration::from_micros(40));
    requests.count(Some(&pods), 200, Duration::from_millis(3));
    let strangers = ["pod", "podses", "evil\"}\n", "zzz", "other"];
    for resource in strangers {
        let stranger = info(Verb::Create, "", resource);
        requests.count(Some(&stranger), 418, Duration::from_mins(1));
    }
    requests.count(
        Some(&info(Verb::Create, "evil.dev", "pods")),
        418,
        Duration::from_mins(1),
    );
    requests.count(None, 400, Duration::ZERO);
    let running = requests.long_running(Verb::Watch);
    let in_flight = requests.in_flight(Verb::Patch);
    let text = text_of(metrics.serve().await.unwrap()).await;
    for line in [
        r#"apiserver_request_total{verb="GET",group="",resource="pods",code="200",component="apiserver"} 2"#,
        r#"apiserver_request_total{verb="POST",group="",resource="other",code="other",component="apiserver"} 6"#,
        r#"apiserver_request_total{verb="other",group="",resource="",code="400",component="apiserver"} 1"#,
        r#"apiserver_request_duration_seconds_bucket{le="0.00005",verb="GET",component="apiserver"} 1"#,
        r#"apiserver_request_duration_seconds_bucket{le="+Inf",verb="GET",component="apiserver"} 2"#,
        r#"apiserver_request_duration_seconds_sum{verb="GET",component="apiserver"} 0.00304"#,
        r#"apiserver_request_duration_seconds_bucket{le="10.0",verb="POST",component="apiserver"} 0"#,
        r#"apiserver_longrunning_requests{verb="WATCH"} 1"#,
        r#"apiserver_current_inflight_requests{request_kind="mutating"} 1"#,
        r#"apiserver_current_inflight_requests{request_kind="readOnly"} 0"#,
        r#"apiserver_storage_objects{resource="pods"} 2"#,
        r#"apiserver_storage_objects{resource="other"} 1"#,
        "wheelhouse_store_commits_total 3",
        "wheelhouse_store_group_writes_sum 3.0",
    ] {
        assert!(
            text.lines().any(|own| own == line),
            "{line} is not in\n{text}"
        );
    }
    drop((running, in_flight));
    let text = text_of(metrics.serve().await.unwrap()).await;
    assert!(text.contains("apiserver_longrunning_requests{verb=\"WATCH\"} 0\n"));
    assert!(text.contains("requests{request_kind=\"mutating\"} 0\n"));
}
