//! Kubeconfig files: found, merged and resolved as kubectl does.
//!
//! # Invariants
//!
//! A file that a kubeconfig names by a relative path lies beside that kubeconfig, wherever the
//! command is run. Of several kubeconfigs, the first that has an entry of a name gives the whole
//! entry, and the first that sets a value gives the value.
//!
//! Source: client-go `tools/clientcmd/loader.go` (Load, ResolveLocalPaths, RelativizePaths).

use std::{
    ffi::OsStr,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use dialect::yaml::{self, Aliases};
use serde_json::{Value, json};

/// The lists of a kubeconfig, with what an entry of each is called.
const LISTS: [(&str, &str); 3] = [
    ("clusters", "cluster"),
    ("users", "user"),
    ("contexts", "context"),
];

/// The fields of an entry that name files, by list.
const FILE_FIELDS: [(&str, &str); 4] = [
    ("clusters", "certificate-authority"),
    ("users", "client-certificate"),
    ("users", "client-key"),
    ("users", "tokenFile"),
];

/// One kubeconfig, whatever the number of files that it comes from. All paths in it are absolute.
#[derive(Debug)]
pub(crate) struct Kubeconfig {
    /// The files, for messages.
    origin: String,
    merged: Value,
}

/// The cluster's and the user's part of a context.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) cluster: Value,
    pub(super) user: Value,
}

// === impl Kubeconfig ===

impl Kubeconfig {
    /// Reads one file, which must be there.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        Self::merge(&[file.to_owned()], Missing::Fails)
    }

    /// Reads what kubectl would: the file of a flag, else the list of `$KUBECONFIG`, else the
    /// default.
    pub(super) fn find(flag: Option<&Path>) -> Result<Self> {
        let variable = std::env::var_os("KUBECONFIG");
        let home = std::env::var_os("HOME");
        let found = match (flag, listed(variable.as_deref()), home) {
            (Some(file), _, _) => Self::read(file),
            (None, files, _) if !files.is_empty() => Self::merge(&files, Missing::IsEmpty),
            (None, _, home) => {
                let home = home.context("pass --kubeconfig with the hub's kubeconfig")?;
                Self::read(&PathBuf::from(home).join(".kube/config"))
            }
        };
        found.context("cannot read the hub's kubeconfig; name it with --kubeconfig, or with export KUBECONFIG=FILE")
    }

    /// Returns the files that it comes from.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Finds the cluster's and the user's part of a context.
    pub(super) fn parts(&self, context: Option<&str>) -> Result<Parts> {
        let config = &self.merged;
        let name = context
            .or_else(|| config["current-context"].as_str())
            .filter(|name| !name.is_empty())
            .context("the kubeconfig has no current context; name one")?;
        let find = |list: &str, part: &str, name: &str| {
            let mut entries = config[list].as_array().into_iter().flatten();
            let found = entries.find(|entry| entry["name"] == name && entry[part].is_object());
            found
                .map(|entry| entry[part].clone())
                .with_context(|| format!("no {part} {name:?}"))
        };
        let context = find("contexts", "context", name)?;
        let named = |part: &str| context[part].as_str().unwrap_or_default();
        Ok(Parts {
            cluster: find("clusters", "cluster", named("cluster"))?,
            user: find("users", "user", named("user"))?,
        })
    }

    fn merge(files: &[PathBuf], missing: Missing) -> Result<Self> {
        let names: Vec<String> = files.iter().map(|it| it.display().to_string()).collect();
        let mut merged = json!({"clusters": [], "users": [], "contexts": []});
        let mut is_empty = true;
        for file in files {
            let text = match std::fs::read_to_string(file) {
                Err(error)
                    if error.kind() == ErrorKind::NotFound && missing == Missing::IsEmpty =>
                {
                    continue;
                }
                text => text.with_context(|| file.display().to_string())?,
            };
            let config = parse(&text, file).with_context(|| file.display().to_string())?;
            add(&mut merged, config);
            is_empty = false;
        }
        if is_empty {
            bail!("$KUBECONFIG names no file that exists: {}", names.join(":"));
        }
        Ok(Self {
            origin: names.join(":"),
            merged,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Fails,
    IsEmpty,
}

/// The files that `$KUBECONFIG` lists, each once.
fn listed(variable: Option<&OsStr>) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for file in variable.into_iter().flat_map(std::env::split_paths) {
        if !file.as_os_str().is_empty() && !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// Reads a kubeconfig and makes the paths in it absolute.
fn parse(text: &str, file: &Path) -> Result<Value> {
    let config = yaml::document(text, Aliases::Few);
    let mut config = config.context("the kubeconfig is no YAML")?;
    if !config.is_object() && !config.is_null() {
        bail!("it is no kubeconfig");
    }
    let file = std::path::absolute(file)?;
    let folder = file.parent().unwrap_or(&file);
    for (list, part) in LISTS {
        let entries = config.get_mut(list).and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            let Some(part) = entry.get_mut(part) else {
                continue;
            };
            for (_, field) in FILE_FIELDS.iter().filter(|(of, _)| *of == list) {
                resolve(part, field, folder);
            }
            // A plug-in by name is looked for in $PATH.
            if let Some(exec) = part.get_mut("exec")
                && exec["command"].as_str().is_some_and(|it| it.contains('/'))
            {
                resolve(exec, "command", folder);
            }
        }
    }
    Ok(config)
}

fn resolve(part: &mut Value, field: &str, folder: &Path) {
    let Some(path) = part[field].as_str().filter(|path| !path.is_empty()) else {
        return;
    };
    // An absolute path stays as it is.
    let path = folder.join(path).to_string_lossy().into_owned();
    part[field] = Value::from(path);
}

/// Adds what a further file has and those before have not.
fn add(merged: &mut Value, config: Value) {
    let Value::Object(fields) = config else {
        return; // an empty file
    };
    for (field, value) in fields {
        if is_unset(&merged[&field]) {
            merged[&field] = value;
            continue;
        }
        let is_list = LISTS.iter().any(|(list, _)| *list == field);
        let (Some(known), Value::Array(entries), true) =
            (merged[&field].as_array_mut(), value, is_list)
        else {
            continue;
        };
        for entry in entries {
            if !known.iter().any(|it| it["name"] == entry["name"]) {
                known.push(entry);
            }
        }
    }
}

fn is_unset(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(str::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, current: bool) -> String {
        let current = if current { name } else { "\"\"" };
        format!(
            "current-context: {current}\n\
             clusters:\n\
             - {{name: {name}, cluster: {{server: 'https://{name}', certificate-authority: {name}.crt}}}}\n\
             - {{name: shared, cluster: {{server: 'https://shared-of-{name}'}}}}\n\
             users:\n\
             - {{name: {name}, user: {{client-certificate: pki/c.crt, client-key: /etc/c.key, tokenFile: ../t}}}}\n\
             - {{name: plug-in, user: {{exec: {{command: ./bin/login}}}}}}\n\
             - {{name: in-path, user: {{exec: {{command: login}}}}}}\n\
             contexts:\n\
             - {{name: {name}, context: {{cluster: {name}, user: {name}}}}}\n\
             - {{name: shared, context: {{cluster: shared, user: {name}}}}}\n"
        )
    }

    /// Files `a` and `b` in folders of their own; `c` is missing.
    fn files() -> (tempfile::TempDir, [PathBuf; 3]) {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ["a", "b", "c"].map(|name| folder.path().join(name).join("config"));
        for (name, file) in ["a", "b"].iter().zip(&files) {
            std::fs::create_dir(file.parent().expect("a folder")).expect("a folder");
            std::fs::write(file, text(name, *name == "b")).expect("a file");
        }
        (folder, files)
    }

    #[test]
    fn a_list_of_files_of_which_none_exists_is_refused_by_name() {
        let (_folder, [_, file, missing]) = files();
        let refused = Kubeconfig::merge(std::slice::from_ref(&missing), Missing::IsEmpty);
        let refused = refused.expect_err("no file").to_string();
        assert!(refused.contains(&*missing.to_string_lossy()), "{refused}");
        let found = Kubeconfig::merge(&[missing, file], Missing::IsEmpty);
        assert!(found.is_ok(), "as with kubectl, one is enough: {found:?}");
    }

    #[test]
    fn relative_paths_lie_beside_the_kubeconfig() {
        let (_folder, [file, ..]) = files();
        let beside = |path: &str| {
            let folder = file.parent().expect("a folder");
            folder.join(path).to_string_lossy().into_owned()
        };
        let config = Kubeconfig::read(&file).expect("a kubeconfig");
        let Parts { cluster, user } = config.parts(Some("a")).expect("context a");
        let exec = |index: usize| &config.merged["users"][index]["user"]["exec"]["command"];
        for (name, got, want) in [
            (
                "authority",
                &cluster["certificate-authority"],
                beside("a.crt"),
            ),
            (
                "certificate",
                &user["client-certificate"],
                beside("pki/c.crt"),
            ),
            (
                "an absolute path",
                &user["client-key"],
                "/etc/c.key".to_owned(),
            ),
            ("token", &user["tokenFile"], beside("../t")),
            ("plug-in by path", exec(1), beside("./bin/login")),
            ("plug-in by name", exec(2), "login".to_owned()),
        ] {
            assert_eq!(*got, want, "{name}");
        }
    }

    #[test]
    fn of_several_files_the_first_that_has_something_gives_it() {
        let (_folder, [a, b, missing]) = files();
        let merged = Kubeconfig::merge(&[missing.clone(), a, b], Missing::IsEmpty);
        let merged = merged.expect("two of three are there");
        let server = |context: Option<&str>| {
            let parts = merged.parts(context).expect("a context");
            parts.cluster["server"].clone()
        };
        assert_eq!(server(None), "https://b", "only b has a current context");
        assert_eq!(server(Some("a")), "https://a", "a's own");
        assert_eq!(server(Some("shared")), "https://shared-of-a", "a is first");
        let refused = Kubeconfig::read(&missing).expect_err("it was named");
        assert!(format!("{refused:#}").contains("config"), "{refused:#}");
    }

    #[test]
    fn the_variable_lists_files_and_each_counts_once() {
        for (variable, want) in [
            (None, vec![]),
            (Some(""), vec![]),
            (Some("/a"), vec!["/a"]),
            (Some("/a::/b:/a:"), vec!["/a", "/b"]),
        ] {
            let got = listed(variable.map(OsStr::new));
            let want: Vec<PathBuf> = want.into_iter().map(PathBuf::from).collect();
            assert_eq!(got, want, "{variable:?}");
        }
    }

    #[test]
    fn a_context_that_is_not_there_is_named() {
        let (_folder, [a, ..]) = files();
        let config = Kubeconfig::read(&a).expect("a kubeconfig");
        for (context, want) in [
            (None, "the kubeconfig has no current context; name one"),
            (Some("other"), "no context \"other\""),
        ] {
            let refused = config.parts(context).expect_err(want);
            assert_eq!(refused.to_string(), want, "{context:?}");
        }
    }
}
