//! `/debug`: what an operator sees and turns in a running hub, and who may.

use std::path::Path;

use serde_json::Value;
use wheelhouse_tests::{
    Kubectl, eventually,
    process::{Process, Scratch},
};

/// The pages, at root alone.
const PAGES: [&str; 4] = ["/debug", "/debug/flags/log", "/debug/tasks", "/debug/users"];

/// Looks into the hub of `wheelhouse dev`, whose log is at `info`.
pub(crate) async fn pages(kubeconfig: &Path, folder: &Scratch, process: &Process) {
    let admin = Kubectl::new(kubeconfig);
    let read = async |path: &str| admin.must(&["get", "--raw", path]).await;
    let json = async |path: &str| -> Value {
        serde_json::from_str(&read(path).await).expect("it is JSON")
    };
    assert_eq!(json("/debug").await["paths"][0], PAGES[1], "the index");
    assert!(
        json("/debug/tasks").await["instance-worker"].is_u64(),
        "tasks"
    );
    let users = json("/debug/users").await;
    let own = users.as_array().expect("a list").iter();
    let mut own = own.filter(|it| it["user"] == "admin");
    assert!(own.any(|it| it["requests"].as_u64() >= Some(1)), "{users}");

    assert_eq!(read(PAGES[1]).await, "info\n", "the filter");
    let set = async |filter: &str| {
        let file = folder.write("filter", filter).display().to_string();
        admin
            .run(&["replace", "--raw", PAGES[1], "-f", &file])
            .await
    };
    for wrong in [
        "wheelhouse=loud",
        "nonsense",
        "info;debug",
        "info,,debug",
        "",
    ] {
        let refused = set(wrong).await;
        let told = refused.stderr.contains("the old one stays");
        assert!(told, "{wrong}: {refused:?}");
    }
    assert_eq!(read(PAGES[1]).await, "info\n", "the old one stayed");
    assert!(!process.log().contains("DEBUG"), "nothing is told at info");
    let done = set("info,wheelhouse_apiserver=debug").await;
    assert!(done.stdout.contains("successfully set"), "{done:?}");
    eventually("requests are logged", || async {
        read("/debug").await;
        let log = process.log();
        log.contains("DEBUG").then_some(()).ok_or(log)
    })
    .await;
    set("info").await;
    assert_eq!(read(PAGES[1]).await, "info\n", "it is set back");
    let told = "set the filter of the log user=\"admin\"";
    assert!(process.log().contains(told), "{}", process.log());
    elsewhere(kubeconfig, &admin).await;
    rights(&admin, folder).await;
}

/// There is none at a logical cluster, or over all of them.
async fn elsewhere(kubeconfig: &Path, admin: &Kubectl) {
    let server = [
        "config",
        "view",
        "--minify",
        "-o",
        "jsonpath={.clusters[0].cluster.server}",
    ];
    let server = admin.must(&server).await;
    for prefix in ["/clusters/spoke-1", "/clusters/*"] {
        let cluster = Kubectl::new(kubeconfig).server(format!("{server}{prefix}"));
        for page in PAGES {
            let refused = cluster.run(&["get", "--raw", page]).await;
            assert!(
                refused.stderr.contains("NotFound"),
                "{prefix}{page}: {refused:?}"
            );
        }
    }
}

/// Whoever may look may turn nothing, and whoever has no right sees nothing, whatever way is taken.
async fn rights(admin: &Kubectl, folder: &Scratch) {
    let role = [
        "create",
        "clusterrole",
        "look",
        "--verb=get",
        "--non-resource-url=/debug/*",
    ];
    admin.must(&role).await;
    let binding = [
        "create",
        "clusterrolebinding",
        "look",
        "--clusterrole=look",
        "--user=looker",
    ];
    admin.must(&binding).await;
    let get = async |page: &str, user: &str| admin.run(&["get", "--raw", page, "--as", user]).await;
    eventually("the binding counts", || async {
        get("/debug/users", "looker").await.ok()
    })
    .await;
    let file = folder.write("filter", "trace").display().to_string();
    let set = ["replace", "--raw", PAGES[1], "-f", &file, "--as", "looker"];
    let refused = admin.run(&set).await;
    assert!(refused.stderr.contains("Forbidden"), "{refused:?}");
    let ways = [
        "/debug/",
        "/debug/users/",
        "//debug/users",
        "/clusters/root/debug/users",
    ];
    for page in PAGES.into_iter().chain(ways) {
        let refused = get(page, "nobody").await;
        assert!(refused.stdout.is_empty(), "{page}: {refused:?}");
    }
}
