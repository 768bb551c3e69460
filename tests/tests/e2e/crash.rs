//! A hub that is killed at any point loses nothing and does nothing twice.

use std::time::Duration;

use wheelhouse_tests::{eventually, pods};

use super::stage::{Stage, gone, instance};

/// From an apply to Ready takes about this long here; the crashes are spread over it.
const SPAN: Duration = Duration::from_millis(1500);

/// The story: a crash between two writes is what controllers forget. Ten points between apply and
/// Ready, in random order of distance; the seed is printed.
#[tokio::test(flavor = "multi_thread")]
async fn a_hub_killed_at_ten_random_points_ends_in_the_same_state() {
    let mut stage = Stage::set().await;
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut state = seed;
    for round in 0..10 {
        let name = format!("app-{round}");
        stage
            .path()
            .apply(&instance(&name, "message: hello, expose: true"))
            .await;
        // A linear congruential step, Knuth's constants: a few good bits are enough.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let delay = SPAN
            .mul_f64(f64::from(u32::try_from(state >> 33).unwrap_or(0)) / f64::from(u32::MAX >> 1));
        // Not a wait for a condition: the point in time is what the test varies.
        tokio::time::sleep(delay).await;
        stage.hub.kill();
        stage.hub.launch().await;
        let path = stage.path();
        path.must(&["get", "webapp", &name]).await; // acknowledged, so it is there
        pods::make_ready(&stage.direct(), &name).await;
        let resource = format!("webapp/{name}");
        path.must(&["wait", "--for=condition=Ready", &resource, "--timeout=60s"])
            .await;
        assert_children(&stage, &name, round).await;
        path.must(&["delete", "webapp", &name, "--wait=false"])
            .await;
        gone(&path, &["get", "webapp", &name]).await;
        gone(&stage.direct(), &["get", "webapp", &name]).await;
        eventually("no pod is left", || async {
            let pods = stage.direct().json(&["get", "pods"]).await?;
            if pods["items"].as_array().is_some_and(Vec::is_empty) {
                return Ok(());
            }
            Err(pods["items"].to_string())
        })
        .await;
    }
}

/// Each child is there once, and nothing else of the instance is.
async fn assert_children(stage: &Stage, name: &str, round: usize) {
    let selector = format!("kro.run/instance-name={name}");
    let kinds = "configmaps,deployments,services,ingresses";
    let arguments = ["get", kinds, "-A", "-l", selector.as_str()];
    let listed = stage
        .direct()
        .json(&arguments)
        .await
        .expect("the spoke lists");
    let mut names: Vec<String> = listed["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| format!("{} {}", item["kind"], item["metadata"]["name"]).replace('"', ""))
        .collect();
    names.sort();
    let want = [
        format!("ConfigMap {name}-config"),
        format!("Deployment {name}"),
        format!("Ingress {name}"),
        format!("Service {name}"),
    ];
    assert_eq!(names, want, "round {round}");
}
