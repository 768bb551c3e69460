//! What the fleet view reads for one user takes little of the hub, whatever a spoke answers (S14).

use futures::future::join_all;
use wheelhouse_tests::{
    FakeSpoke, assets,
    fake_spoke::{GROUP, Mode},
};

use super::{
    joined::{calls, until},
    support::Fixture,
};

/// What the hub may use. Unoptimized it needs as much memory as optimized.
const PEAK_MAX: u64 = 300 << 20;
/// Calls at the same time, of one user.
const CALL_COUNT: usize = 20;
/// Kinds of one call.
const KIND_COUNT: usize = 6;

/// The highest resident size that the hub ever had.
fn peak(fixture: &Fixture) -> u64 {
    let path = format!("/proc/{}/status", fixture.hub.process().pid());
    let status = std::fs::read_to_string(path).expect("the hub runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("the kernel tells it") << 10
}

/// One call once kept 64 MiB of each kind, and nothing counted the calls.
#[tokio::test(flavor = "multi_thread")]
async fn s14_what_a_spoke_answers_to_the_view_takes_little_memory() {
    let fixture = Fixture::start(&["bob"]).await;
    let mallory = FakeSpoke::start("mallory").await;
    let from = mallory.kubeconfig().display().to_string();
    let arguments = ["spoke", "add", "mallory", "--from", &from];
    let added = fixture.hub.wheelhouse(&arguments).await;
    added.succeeded("spoke add");
    until(&calls(&fixture.hub).await, "mallory", "Ready", "True").await;
    fixture.embed("b").await;
    let (admin, bob) = (fixture.admin().await, fixture.tenant("bob", "b").await);

    let kinds: Vec<String> = (0..KIND_COUNT)
        .map(|number| format!("kind=k{number}.v1.{GROUP}"))
        .collect();
    let hostile = format!("/ui/api/instances?{}&cluster=mallory", kinds.join("&"));
    let own = "/ui/api/instances?kind=clusterroles.v1.rbac.authorization.k8s.io&cluster=b";
    for (mode, codes) in [
        (Mode::EndlessItems, [200, 429]),
        (Mode::HugeRefusals, [500, 429]),
    ] {
        mallory.set(mode.clone());
        until(&calls(&fixture.hub).await, "mallory", "Reachable", "True").await;
        let calls = join_all((0..CALL_COUNT).map(|_| admin.get(&hostile)));
        let (answers, of_bob) = tokio::join!(calls, bob.get(own));
        of_bob.must(200);
        let found: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert!(found.contains(&codes[0]), "{mode:?}: {found:?}");
        let is_known = |answer: &super::support::Answer| codes.contains(&answer.status);
        assert!(answers.iter().all(is_known), "{mode:?}: {found:?}");
        if let Some(read) = answers.iter().find(|answer| answer.status == 200) {
            let failures = read.body["failures"].as_array().expect("they are told");
            let codes: Vec<_> = failures.iter().map(|it| it["code"].as_u64()).collect();
            assert_eq!(codes, [Some(413); KIND_COUNT], "{}", read.body);
        }
        let peak = peak(&fixture);
        assets::tell(&format!("{mode:?}: the hub had at most {} MiB", peak >> 20));
        assert!(peak < PEAK_MAX, "{mode:?}: {} MiB", peak >> 20);
    }
}
