//! `wheelhouse dev`, as a newcomer runs it.

use std::process::Command;

use wheelhouse_tests::{
    assets, eventually,
    process::{Process, Scratch},
};

#[tokio::test(flavor = "multi_thread")]
async fn dev_brings_the_demo_up_and_every_line_that_it_prints_works_as_typed() {
    let folder = Scratch::new("dev");
    let mut command = Command::new(assets::wheelhouse());
    command
        .args(["dev", "--listen", "127.0.0.1:0"])
        .current_dir(folder.path());
    let process = Process::start(&command, &folder.file("dev.log"));
    let printed = eventually("dev is ready", || async {
        assert!(process.runs(), "dev ended:\n{}", process.log());
        let log = process.log();
        if log.contains("Ctrl-C") {
            Ok(log)
        } else {
            Err(log)
        }
    })
    .await;
    let lines: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .collect();
    assert!(
        lines.iter().any(|line| line.contains("get webapps")),
        "{printed}"
    );
    let path = std::env::var("PATH").unwrap_or_default();
    let mut script = "set -e\n".to_owned();
    for line in &lines {
        for part in ["echo '== ", &line.replace('\'', ""), "'\n", line, "\n"] {
            script.push_str(part);
        }
    }
    let output = tokio::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{path}", assets::folder().display()))
        .env("HOME", folder.path())
        .output()
        .await
        .expect("sh can be started");
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for spoke in ["spoke-1", "spoke-2"] {
        let mark = format!("== kubectl --context {spoke} get webapps\n");
        let after = stdout.split(&mark).nth(1).expect("the line was run");
        let table: String = after
            .lines()
            .take_while(|line| !line.starts_with("=="))
            .collect();
        assert!(
            table.contains("demo") && table.contains("True"),
            "{spoke}: {table}"
        );
    }
    process.signal("TERM");
    eventually("dev ends", || async {
        if process.runs() {
            Err(process.log())
        } else {
            Ok(())
        }
    })
    .await;
}
