//! The fixture itself: a spoke starts, serves, and leaves nothing behind.

use wheelhouse_tests::{Spoke, eventually};

#[tokio::test]
async fn a_spoke_starts_and_leaves_no_process_and_no_folder_behind() {
    let spoke = Spoke::start("fixture").await;
    let folder = spoke
        .kubeconfig()
        .parent()
        .expect("the kubeconfig lies in a folder")
        .to_owned();
    let pids = [spoke.api().pid(), spoke.etcd().pid()];
    let namespaces = spoke
        .kubectl()
        .must(&["get", "namespaces", "-o", "name"])
        .await;
    assert!(namespaces.contains("namespace/default"), "{namespaces}");
    drop(spoke);
    assert!(!folder.exists(), "{} is left", folder.display());
    for pid in pids {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(
            stat.is_empty() || stat.contains(") Z "),
            "process {pid} is left: {stat}"
        );
    }
}

/// The story: a test that is killed cannot run its destructors, and spokes of 300 MB each piled up.
#[tokio::test]
async fn a_killed_test_leaves_no_process_and_no_folder_behind() {
    if let Some(report) = std::env::var_os("WHEELHOUSE_FIXTURE_VICTIM") {
        let spoke = Spoke::start("victim").await;
        let folder = spoke
            .kubeconfig()
            .parent()
            .expect("in a folder")
            .display()
            .to_string();
        let text = format!("{} {} {folder}", spoke.api().pid(), spoke.etcd().pid());
        std::fs::write(&report, text).expect("the report can be written");
        std::future::pending::<()>().await;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = folder.path().join("report");
    let program = std::env::current_exe().expect("this test has a program");
    let mut victim = tokio::process::Command::new(program)
        .args([
            "--exact",
            "a_killed_test_leaves_no_process_and_no_folder_behind",
        ])
        .env("WHEELHOUSE_FIXTURE_VICTIM", &report)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .process_group(0)
        .spawn()
        .expect("the test can run itself");
    let text = eventually("the victim's spoke is up", || async {
        std::fs::read_to_string(&report)
            .ok()
            .filter(|text| text.split(' ').count() == 3)
            .ok_or_else(|| "no report".to_owned())
    })
    .await;
    // The whole group, as `timeout` and a terminal do it.
    let group = format!("-{}", victim.id().expect("it runs"));
    let killed = tokio::process::Command::new("kill")
        .args(["-KILL", "--", &group])
        .status()
        .await;
    assert!(
        killed.expect("kill can be started").success(),
        "kill {group}"
    );
    victim.wait().await.expect("the victim ends");
    let parts: Vec<&str> = text.split(' ').collect();
    eventually("the victim's processes and folder are gone", || async {
        let left = [
            format!("/proc/{}/cmdline", parts[0]),
            format!("/proc/{}/cmdline", parts[1]),
            parts[2].to_owned(),
        ];
        match left.iter().find(|path| std::path::Path::new(path).exists()) {
            Some(path) => Err(format!("{path} is left")),
            None => Ok(()),
        }
    })
    .await;
}
