//! Circles of modules: files of one crate that need each other.
//!
//! An arrow runs from file A to file B when A names an item that is defined in B, by a `use`, a path in the code, a
//! macro's tokens or an attribute; re-exports are followed to the definition. Tests (`#[cfg(test)]`) do not count.
//!
//! # The rule about parents
//! A file may always name what the files above it on the module tree define: `foo/bar.rs` builds on the types of `foo.rs`,
//! which holds the state and the flow of control and calls its leaves. These arrows are left out, so a parent and its
//! own children are no circle, and what `lib.rs` defines can be used everywhere. What remains is what makes code hard to
//! follow: siblings that need each other, and a folder that needs another one that needs it.
//!
//! `module_circles.txt` lists the circles that are allowed, each with its reason. A listed circle that does not exist
//! any more, or has other files, is reported too.

mod modules;
mod names;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use petgraph::{algo::tarjan_scc, graphmap::DiGraphMap};
use serde_json::Value;

/// The arrows of a crate: from file, to file, and the names that tie them.
pub(crate) type Arrows = BTreeMap<(String, String), BTreeSet<String>>;

/// How many arrows of a circle a finding shows.
const SHOWN_ARROW_COUNT_MAX: usize = 12;

/// Where the allowed circles are listed, from the workspace's root.
const LIST: &str = "hack/xtask/module_circles.txt";

/// Finds the circles that are not listed, and the listed ones that do not exist.
pub(crate) fn check(root: &Path, metadata: &Value) -> Result<Vec<String>> {
    let list = std::fs::read_to_string(root.join(LIST)).context(LIST)?;
    let mut allowed = parse(&list)?;
    let mut findings = Vec::new();
    for source in targets(metadata)? {
        let arrows = modules::arrows(root, Path::new(source))?;
        for circle in circles(&arrows) {
            if !allowed.remove(&circle) {
                findings.push(describe(&circle, &arrows));
            }
        }
    }
    findings.extend(allowed.iter().map(|circle| {
        format!(
            "{LIST}: no circle of exactly these files exists, remove its line: {}",
            join(circle)
        )
    }));
    Ok(findings)
}

/// Returns the root files of all libraries and binaries.
fn targets(metadata: &Value) -> Result<BTreeSet<&str>> {
    let packages = metadata["packages"].as_array();
    let packages = packages.context("cargo metadata has packages")?;
    let targets = packages
        .iter()
        .flat_map(|package| package["targets"].as_array().into_iter().flatten());
    Ok(targets
        .filter(|target| {
            let kinds = target["kind"].as_array().into_iter().flatten();
            kinds
                .filter_map(Value::as_str)
                .any(|kind| kind == "lib" || kind == "bin")
        })
        .filter_map(|target| target["src_path"].as_str())
        .collect())
}

/// Parses lines of `file file ...: reason`.
fn parse(list: &str) -> Result<BTreeSet<BTreeSet<String>>> {
    let lines = list
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (files, reason) = line
                .split_once(": ")
                .with_context(|| format!("{LIST}: not `file file ...: reason`: {line}"))?;
            ensure!(!reason.trim().is_empty(), "{LIST}: {files} needs a reason");
            Ok(files.split_whitespace().map(str::to_owned).collect())
        })
        .collect()
}

/// Returns the strongly connected components of more than one file.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let graph: DiGraphMap<&str, ()> = arrows
        .keys()
        .map(|(from, to)| (from.as_str(), to.as_str()))
        .collect::<Vec<_>>()
        .into_iter()
        .collect();
    tarjan_scc(&graph)
        .into_iter()
        .filter(|component| component.len() > 1)
        .map(|component| component.into_iter().map(str::to_owned).collect())
        .collect()
}

fn describe(circle: &BTreeSet<String>, arrows: &Arrows) -> String {
    let ties: Vec<String> = arrows
        .iter()
        .filter(|((from, to), _)| circle.contains(from) && circle.contains(to))
        .map(|((from, to), names)| format!("\n    {from} -> {to}: {}", join(names)))
        .collect();
    let shown = ties.len().min(SHOWN_ARROW_COUNT_MAX);
    let more = match ties.len() - shown {
        0 => String::new(),
        count => format!("\n    and {count} more"),
    };
    format!(
        "{}: a circle of modules, not in {LIST}:{}{more}",
        join(circle),
        ties.get(..shown).unwrap_or_default().concat()
    )
}

fn join(words: &BTreeSet<String>) -> String {
    words
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests;
