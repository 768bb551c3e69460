//! Plans of planted bugs and holes: each must still change the file that it names.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

/// Where plans are. A plan has a `file:` line, and a Perl substitution on the lines without a key.
const FOLDERS: &[&str] = &[
    "hack/planted-bugs.d",
    "hack/planted-holes.d",
    "hack/planted-syncer-bugs.d",
];

/// Finds plans that cannot be planted any more, one line each.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for folder in FOLDERS {
        let mut plans = std::fs::read_dir(root.join(folder))
            .with_context(|| folder.to_string())?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?;
        plans.sort();
        for plan in plans {
            let text = std::fs::read_to_string(&plan)?;
            let name = plan.file_name().unwrap_or_default().to_string_lossy();
            if let Err(reason) = plant(root, &text) {
                findings.push(format!("{folder}/{name}: {reason}"));
            }
        }
    }
    Ok(findings)
}

/// Applies a plan to a copy of its file.
///
/// # Errors
/// Why nothing would be planted.
fn plant(root: &Path, plan: &str) -> Result<(), String> {
    let mut lines = plan.lines().filter(|line| !line.starts_with('#'));
    let file = lines
        .find_map(|line| line.strip_prefix("file: "))
        .ok_or("it names no file")?;
    let path = root.join(file);
    let before =
        std::fs::read_to_string(&path).map_err(|_error| format!("there is no file {file}"))?;
    let is_key = |line: &&str| {
        ["file: ", "test: ", "binary: "]
            .iter()
            .any(|key| line.starts_with(key))
    };
    let edit: Vec<&str> = lines.filter(|line| !is_key(line)).collect();
    let planted = Command::new("perl")
        .args(["-0777", "-p", "-e", &edit.join("\n")])
        .arg(&path)
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("perl cannot be started: {error}"))?;
    if !planted.status.success() {
        return Err(String::from_utf8_lossy(&planted.stderr).into_owned());
    }
    if planted.stdout == before.as_bytes() {
        return Err(format!("{file} is not as the plan expects it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace;

    #[test]
    fn a_plan_that_changes_nothing_is_found() {
        let root = workspace();
        let plan =
            |edit: &str| format!("# a bug\nfile: hack/xtask/src/plans.rs\ntest: a\n{edit}\n");
        assert_eq!(plant(&root, &plan("s/fn plant/fn planted/")), Ok(()));
        let stale = plant(&root, &plan("s/what is not th[e]re//")).expect_err("nothing matches");
        assert!(stale.contains("is not as the plan expects it"), "{stale}");
        let gone = plant(&root, "file: a/b.rs\ns/a/b/").expect_err("no such file");
        assert_eq!(gone, "there is no file a/b.rs");
        let elsewhere = plan("binary: e2e\ns/fn plant/fn planted/");
        assert_eq!(plant(&root, &elsewhere), Ok(()), "a key is no substitution");
        let broken = plant(&root, &plan("s/(/a/")).expect_err("no pattern");
        assert!(broken.contains("Unmatched ("), "{broken}");
    }
}
