//! R10: the disk is full. R11: the disk fails.

use std::time::Duration;

use serde_json::Value;
use storage::Expect;
use storage_conformance::{
    Trial,
    histories::{Checked, Subject, Verdict, Wish, Workload},
};
use wheelhouse_tests::{
    Hub, eventually,
    hub::Settings,
    proof::{
        Api, Load,
        fault::{FailingCalls, SmallDisk},
    },
};

const R10: Trial = Trial("R10");
const R11: Trial = Trial("R11");

const WORKLOAD: Workload = Workload {
    seed: 0,
    calls: 40,
    keys: 20,
    reads: 20,
    lists: 5,
};

fn wish(key: &str, value: &str) -> Wish {
    Wish {
        key: key.to_owned(),
        value: Some(value.to_owned()),
        expect: Expect::Any,
    }
}

/// Sends a write, and the whole answer to it.
async fn write(api: &Api, name: &str, size: usize) -> (u16, Value) {
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name}, "data": {"filler": "x".repeat(size)},
    });
    let path = api.collection().to_owned();
    api.send("POST", &path, "application/json", &object.to_string())
        .await
        .expect("the hub answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_a_full_disk_refuses_writes_says_why_and_recovers_without_a_restart() {
    let Some(disk) = SmallDisk::mount(64) else {
        return;
    };
    let seed = Trial::seeds(1)[0];
    let settings = Settings {
        data: Some(disk.path().join("data")),
        ..Settings::default()
    };
    let mut hub = Hub::start_with(settings).await;
    let api = Api::connect(&hub.kubeconfig()).await;
    api.prepare().await;
    let mut load = Load::new(&api, seed);
    let after = load.revision().await;
    load.follow(after, 0);
    load.follow(after, 10);
    for round in 0..2 {
        let done = load.clients(4, WORKLOAD).done().await;
        R10.must(seed, done);
        disk.fill();
        // What is set aside for the log is used up first; it is not much.
        let mut refused = None;
        for n in 0..600 {
            let (code, status) = write(&api, &format!("filler-{round}-{n}"), 200_000).await;
            if code != 201 {
                refused = Some((code, status));
                break;
            }
        }
        let (code, status) = refused.expect("a full disk refuses");
        assert!(matches!(code, 500 | 507), "{code} {status}");
        let message = status["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("full") || message.contains("space"),
            "{status}"
        );
        // Reads, lists and new watches go on.
        let read = load.api.read("k0001").await;
        assert!(read.is_ok(), "{read:?}");
        load.revision().await;
        load.follow(after, 0);
        // A small one may find room that a large one does not.
        let small = [wish("full", &format!("in round {round}"))];
        let call = load.recorder.batch(&small);
        match api.write(&small).await {
            Verdict::Nothing => load.recorder.nothing(call),
            Verdict::Written(revision) => load.recorder.written(call, revision),
            Verdict::Unknown => {}
            other => unreachable!("{other:?}"),
        }
        disk.free();
        eventually("writes are taken up again", || async {
            match write(&api, &format!("again-{round}"), 10).await {
                (201 | 409, _) => Ok(()),
                (code, status) => Err(format!("{code} {status}")),
            }
        })
        .await;
        if round == 0 {
            delete_fillers(&api).await; // which takes as much of the log again
        }
    }
    R10.must(seed, load.finish().await);
    hub.kill();
    load.recorder.death();
    hub.launch().await;
    api.reconnect(&hub.kubeconfig()).await;
    load.revision().await;
    let checked = R10.prove(seed, &load.recorder);
    println!("R10: {checked:?}");
}

async fn delete_fillers(api: &Api) {
    let (_, list) = api.get(api.collection()).await.expect("the hub answers");
    let items = list["items"].as_array().cloned().unwrap_or_default();
    for name in items
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
    {
        if name.starts_with("filler") {
            let path = format!("{}/{name}", api.collection());
            let (code, status) = api
                .send("DELETE", &path, "application/json", "")
                .await
                .expect("the hub answers");
            assert_eq!(code, 200, "{status}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r11_after_a_failed_sync_or_write_nothing_is_accepted_until_a_restart() {
    for (calls, why) in [
        ("fsync,fdatasync", "syncs fail"),
        ("pwrite64,pwritev,pwritev2", "writes fail"),
    ] {
        let Some(checked) = one_failure(calls, why).await else {
            return;
        };
        println!("R11, {why}: {checked:?}");
    }
}

async fn one_failure(calls: &str, why: &str) -> Option<Checked> {
    let seed = Trial::seeds(1)[0];
    let mut hub = Hub::start().await;
    let api = Api::connect(&hub.kubeconfig()).await;
    api.prepare().await;
    let mut load = Load::new(&api, seed);
    let after = load.revision().await;
    load.follow(after, 0);
    let done = load.clients(4, WORKLOAD).done().await;
    R11.must(seed, done);
    // Only the thread that writes the store may fail: sockets are written with the same calls.
    let traced = commit_thread(hub.process().pid());
    let failing = FailingCalls::inject(traced, calls, "EIO").await?;
    // It has no answer, and may have happened or not.
    load.recorder.batch(&[wish("k0001", "fails")]);
    let verdict = api.write(&[wish("k0001", "fails")]).await;
    assert_eq!(verdict, Verdict::Unknown, "{why}");
    // The disk is well again, and that must not matter: what it lost is not known.
    drop(failing);
    for n in 0..20 {
        let (code, status) = write(&api, &format!("later-{n}"), 10).await;
        assert!(
            code >= 500,
            "{why}: a write was accepted after a failed one: {code} {status}"
        );
    }
    eventually("readiness fails and says so", || async {
        let (code, text) = api.get("/readyz").await.ok_or("no answer")?;
        let (_, verbose) = api.get("/readyz?verbose").await.ok_or("no answer")?;
        if code >= 500 && verbose.to_string().contains("failed") {
            return Ok(());
        }
        Err(format!("{code} {text} {verbose}"))
    })
    .await;
    let (code, _) = api.get("/livez").await.expect("the hub answers");
    let read = api.read("k0002").await;
    assert!(
        read.is_ok(),
        "{why}: reads go on, livez is {code}: {read:?}"
    );
    load.revision().await;
    hub.kill();
    load.recorder.death();
    tokio::time::timeout(Duration::from_mins(1), hub.launch())
        .await
        .expect("the hub starts again");
    api.reconnect(&hub.kubeconfig()).await;
    R11.must(seed, load.finish().await);
    let checked = R11.prove(seed, &load.recorder);
    Some(checked)
}

/// The thread of a hub that writes its store.
fn commit_thread(pid: u32) -> u32 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the hub runs");
    let named = tasks.filter_map(Result::ok).find(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        name.trim() == "store-commit"
    });
    let task = named.expect("the hub has a commit thread").file_name();
    let number = task.to_str().and_then(|name| name.parse().ok());
    number.expect("tasks are numbers")
}
