//! Where the real binaries are: `hack/assets` builds or finds them, once for a test process.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Returns the root folder of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests folder has a parent")
}

/// Returns the folder of kube-apiserver, kube-controller-manager, kubectl and etcd.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| run_assets(&[]))
}

/// Returns the folder that also holds the peer `kro` and its CRDs (`kro-crds/`).
pub fn peers_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| run_assets(&["--peers"]))
}

/// Returns the `wheelhouse` binary that is upgraded from: `WHEELHOUSE_OLD_BIN`, else the one under test. `hack/upgrade` builds that
/// of another revision.
pub fn older_wheelhouse() -> PathBuf {
    let older = std::env::var_os("WHEELHOUSE_OLD_BIN");
    older.map_or_else(|| wheelhouse().to_owned(), PathBuf::from)
}

/// Returns the `wheelhouse` binary under test: `WHEELHOUSE_BIN`, else the debug build, made now.
pub fn wheelhouse() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(binary) = std::env::var_os("WHEELHOUSE_BIN") {
            return PathBuf::from(binary);
        }
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "wheelhouse"])
            .current_dir(workspace())
            .status()
            .expect("cargo can be started");
        assert!(status.success(), "the wheelhouse binary must build");
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| workspace().join("target"), PathBuf::from);
        target.join("debug/wheelhouse")
    })
}

/// Finds the kubectl of an older minor version, on `PATH` or beside the cloud SDK, if there is one.
pub fn kubectl_of_minor(minor: &str) -> Option<PathBuf> {
    let name = format!("kubectl.{minor}");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/lib/google-cloud-sdk/bin")])
        .map(|folder| folder.join(&name))
        .find(|file| file.is_file())
}

/// Returns a program that `hack/real-clients` builds, from the variable that it sets (`WHEELHOUSE_HELM`), or says visibly
/// that it is absent.
pub fn client(name: &str) -> Option<PathBuf> {
    built_by(name, "hack/real-clients")
}

/// The same for a program that another script builds.
pub fn built_by(name: &str, script: &str) -> Option<PathBuf> {
    let variable = format!("WHEELHOUSE_{}", name.to_uppercase().replace('-', "_"));
    let found = std::env::var_os(&variable).map(PathBuf::from);
    if found.is_none() {
        skipped(&format!("{variable} names no program; {script} builds it"));
    }
    found
}

/// Returns the folder of the shared test data, or says visibly that it is absent.
pub fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("WHEELHOUSE_CORPUS")
        .map_or_else(|| workspace().join("../shared/corpus"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    skipped(&format!(
        "corpus absent ({} is no folder)",
        folder.display()
    ));
    None
}

/// Returns the script of axe-core, from the variable that `hack/test` sets, or says visibly that it is absent.
pub fn axe_core() -> Option<PathBuf> {
    let found = std::env::var_os("WHEELHOUSE_AXE_CORE").map(PathBuf::from);
    if found.is_none() {
        skipped("WHEELHOUSE_AXE_CORE names no script; hack/axe-core installs it");
    }
    found
}

/// Returns the program hadolint, from the variable that `hack/test` sets, or says visibly that it is absent.
pub fn hadolint() -> Option<PathBuf> {
    let found = std::env::var_os("WHEELHOUSE_HADOLINT").map(PathBuf::from);
    if found.is_none() {
        skipped("WHEELHOUSE_HADOLINT names no program; hack/hadolint installs it");
    }
    found
}

/// Says why a trial is skipped.
pub fn skipped(why: &str) {
    tell(&format!("skipped: {why}"));
}

/// Says something past the test harness, which would hide it.
pub fn tell(what: &str) {
    // Nobody is left to tell when standard error is gone.
    drop(writeln!(std::io::stderr(), "{what}"));
}

fn run_assets(arguments: &[&str]) -> PathBuf {
    let output = Command::new(workspace().join("hack/assets"))
        .args(arguments)
        .stderr(std::process::Stdio::inherit())
        .output()
        .expect("hack/assets can be started");
    assert!(
        output.status.success(),
        "hack/assets must find or build the real parts"
    );
    let text = String::from_utf8(output.stdout).expect("a path in UTF-8");
    PathBuf::from(text.trim())
}
