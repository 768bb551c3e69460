//! Crate edges, circles of modules, file sizes, headers, trailing space, unowned notes, and stale plans of planted bugs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::circles;

/// Which crate may import which: downwards only, as ARCHITECTURE.md draws it.
const EDGES: &[(&str, &[&str])] = &[
    ("wheelhouse-dialect", &[]),
    ("wheelhouse-api", &["wheelhouse-dialect"]),
    ("wheelhouse-tasks", &[]),
    ("wheelhouse-telemetry", &["wheelhouse-dialect"]),
    ("wheelhouse-ui", &["wheelhouse-api"]),
    ("wheelhouse-storage", &[]),
    ("wheelhouse-storage-conformance", &["wheelhouse-storage"]),
    ("wheelhouse-cel", &["wheelhouse-dialect"]),
    (
        "wheelhouse-schema",
        &["wheelhouse-dialect", "wheelhouse-api", "wheelhouse-cel"],
    ),
    (
        "wheelhouse-graph",
        &[
            "wheelhouse-dialect",
            "wheelhouse-api",
            "wheelhouse-cel",
            "wheelhouse-schema",
        ],
    ),
    (
        "wheelhouse-client",
        &[
            "wheelhouse-dialect",
            "wheelhouse-api",
            "wheelhouse-tasks",
            "wheelhouse-telemetry",
        ],
    ),
    (
        "wheelhouse-spokes",
        &[
            "wheelhouse-dialect",
            "wheelhouse-api",
            "wheelhouse-tasks",
            "wheelhouse-client",
        ],
    ),
    (
        "wheelhouse-apiserver",
        &[
            "wheelhouse-ui",
            "wheelhouse-dialect",
            "wheelhouse-api",
            "wheelhouse-tasks",
            "wheelhouse-telemetry",
            "wheelhouse-storage",
            "wheelhouse-cel",
            "wheelhouse-schema",
            "wheelhouse-client",
            "wheelhouse-spokes",
        ],
    ),
    (
        "wheelhouse-syncer",
        &[
            "wheelhouse-api",
            "wheelhouse-tasks",
            "wheelhouse-telemetry",
            "wheelhouse-cel",
            "wheelhouse-schema",
            "wheelhouse-graph",
            "wheelhouse-client",
            "wheelhouse-spokes",
        ],
    ),
    (
        "wheelhouse-simulator",
        &["wheelhouse-api", "wheelhouse-tasks", "wheelhouse-client"],
    ),
    (
        "wheelhouse",
        &[
            "wheelhouse-dialect",
            "wheelhouse-api",
            "wheelhouse-tasks",
            "wheelhouse-telemetry",
            "wheelhouse-schema",
            "wheelhouse-graph",
            "wheelhouse-client",
            "wheelhouse-spokes",
            "wheelhouse-apiserver",
            "wheelhouse-syncer",
            "wheelhouse-simulator",
            "wheelhouse-ui",
        ],
    ),
    ("wheelhouse-xtask", &[]),
    (
        "wheelhouse-fuzz",
        &[
            "wheelhouse-dialect",
            "wheelhouse-api",
            "wheelhouse-telemetry",
            "wheelhouse-cel",
            "wheelhouse-schema",
            "wheelhouse-graph",
            "wheelhouse-client",
            "wheelhouse-storage",
            "wheelhouse-storage-conformance",
            "wheelhouse-apiserver",
        ],
    ),
    (
        // Test support: nothing may import it.
        "wheelhouse-simulation",
        &[
            "wheelhouse-api",
            "wheelhouse-tasks",
            "wheelhouse-storage",
            "wheelhouse-storage-conformance",
            "wheelhouse-schema",
            "wheelhouse-client",
            "wheelhouse-spokes",
            "wheelhouse-apiserver",
            "wheelhouse-syncer",
        ],
    ),
    (
        "wheelhouse-tests",
        // The store's recorder and checker of histories, not its engines; and the compiler, which a benchmark has do nothing else.
        &[
            "wheelhouse-dialect",
            "wheelhouse-api",
            "wheelhouse-graph",
            "wheelhouse-client",
            "wheelhouse-storage",
            "wheelhouse-storage-conformance",
        ],
    ),
];

/// Lines of a Rust file without its tests. Source: the house style.
const LINE_COUNT_MAX: usize = 800;

/// Lines of shell above which a script should be a program.
const SHELL_LINE_COUNT_MAX: usize = 80;

/// Returns the root folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Finds what is untidy, one line each.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let metadata = metadata(root)?;
    let mut findings = edges(&metadata)?;
    findings.extend(circles::check(root, &metadata)?);
    let exceptions = size_exceptions(root)?;
    for file in files(root)? {
        let path = root.join(&file);
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue; // deleted but not yet committed, or no text
        };
        findings.extend(text_findings(&file, &text, &exceptions));
    }
    findings.extend(crate::plans::check(root)?);
    findings.sort();
    Ok(findings)
}

fn metadata(root: &Path) -> Result<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .context("cargo metadata cannot be started")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("cargo metadata is JSON")
}

fn edges(metadata: &Value) -> Result<Vec<String>> {
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let mut findings = Vec::new();
    for package in metadata["packages"]
        .as_array()
        .context("cargo metadata has packages")?
    {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(targets) = allowed.get(name) else {
            findings.push(format!(
                "{name}: a crate that hack/xtask/src/tidy.rs does not know"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = dependency["name"].as_str().unwrap_or_default();
            let ours = target == "wheelhouse" || target.starts_with("wheelhouse-");
            let development = dependency["kind"].as_str() == Some("dev");
            if ours && !development && !targets.contains(&target) {
                findings.push(format!(
                    "{name} must not import {target}: imports go downwards"
                ));
            }
        }
    }
    Ok(findings)
}

fn files(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("git cannot be started")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).context("paths are UTF-8")?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn size_exceptions(root: &Path) -> Result<Vec<String>> {
    let file = root.join("hack/xtask/size_exceptions.txt");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (path, reason) = line.split_once(": ").context("`path: reason`")?;
            ensure!(!reason.trim().is_empty(), "{path} needs a reason");
            Ok(path.to_owned())
        })
        .collect()
}

fn text_findings(file: &str, text: &str, exceptions: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    let rust = Path::new(file)
        .extension()
        .is_some_and(|extension| extension == "rs");
    let shell = text.starts_with("#!") && text.lines().next().is_some_and(|l| l.contains("sh"));
    if rust {
        if !text.starts_with("//!") && !file.ends_with("/tests.rs") {
            findings.push(format!("{file}: begins without a //! header"));
        }
        if file.ends_with("/mod.rs") {
            findings.push(format!(
                "{file}: name it after its folder, foo.rs beside foo/"
            ));
        }
        let body = text
            .split("\n#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or(text);
        let count = body.lines().count();
        let tests = file.contains("/tests/") || file.ends_with("/tests.rs");
        if count > LINE_COUNT_MAX && !tests && !exceptions.iter().any(|path| path == file) {
            findings.push(format!(
                "{file}: {count} lines without tests, at most {LINE_COUNT_MAX}"
            ));
        }
    }
    if shell && text.lines().count() > SHELL_LINE_COUNT_MAX {
        findings.push(format!(
            "{file}: more than {SHELL_LINE_COUNT_MAX} lines of shell"
        ));
    }
    if rust || shell {
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if line.ends_with([' ', '\t']) {
                findings.push(format!("{file}:{number}: trailing space"));
            }
            if let Some(rest) = line.split_once(concat!("TO", "DO")).map(|(_, rest)| rest)
                && !rest.starts_with('(')
            {
                findings.push(format!(
                    "{file}:{number}: an unowned {}",
                    concat!("TO", "DO")
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let findings = check(&workspace()).expect("tidy can read the tree");
        assert!(findings.is_empty(), "\n{}", findings.join("\n"));
    }

    #[test]
    fn an_edge_upwards_is_found() {
        let metadata = serde_json::json!({"packages": [{"name": "wheelhouse-api",
            "dependencies": [{"name": "wheelhouse-storage", "kind": null}]}]});
        let findings = edges(&metadata).expect("well formed");
        assert_eq!(
            findings,
            ["wheelhouse-api must not import wheelhouse-storage: imports go downwards"],
            "api is at the bottom"
        );
    }

    #[test]
    fn untidy_text_is_found() {
        let long = format!("//! Header.\n{}", "fn a() {}\n".repeat(LINE_COUNT_MAX));
        let cases = [
            ("no header", "a/src/lib.rs", "fn main() {}\n", 1),
            (
                "trailing space",
                "a/src/lib.rs",
                "//! A.\nfn main() {} \n",
                1,
            ),
            ("too long", "a/src/lib.rs", long.as_str(), 1),
            ("a long test", "a/src/lib/tests.rs", long.as_str(), 0),
            ("clean", "a/src/lib.rs", "//! A.\nfn main() {}\n", 0),
        ];
        for (name, file, text, want) in cases {
            assert_eq!(text_findings(file, text, &[]).len(), want, "{name}");
        }
    }
}
