//! Clusters that kubeconfig files of the operator reach: every context is one.
//!
//! The files are those of the command line, read again when they change. Unlike a kubeconfig in a Secret they may name files
//! and credential plug-ins, because whoever starts the hub writes them. With several replicas, each reads its own.
//!
//! # Invariants
//! - A file that cannot be read says nothing: what it said last stays.
//! - Which context a Spoke uses is decided by its name and by the file that it was found in, never by anything else that it says.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use api::{
    LogicalCluster,
    wheelhouse::{self, Spoke, keys},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use dialect::yaml::{self, Aliases};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tasks::{Shutdown, Tasks};

use super::{Answer, Concerned, Provider};
use crate::{
    access::Access,
    dialer::{Credential, Dialer},
    fault::Fault,
    inventory,
    plugin::{Issuer, Plugin},
    sightings::{Sighting, Sightings, Source, SourceSort},
};

/// Between two looks at the files, and at those that they name.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// How large a file may be that is looked at: a kubeconfig of a thousand clusters has some MiB.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// What plug-ins of files are counted as.
const FILES: &str = "files";
/// A DNS label. Source: RFC 1123.
const NAME_BYTES_MAX: usize = 63;

/// The fields of a user or a cluster that name files, with those that hold the same as base64.
const FILE_FIELDS: [(&str, &str); 3] = [
    ("certificate-authority", "certificate-authority-data"),
    ("client-certificate", "client-certificate-data"),
    ("client-key", "client-key-data"),
];

/// The provider of clusters that kubeconfig files reach.
pub(super) struct KubeconfigFiles {
    shared: Arc<Shared>,
}

struct Shared {
    files: Vec<PathBuf>,
    sightings: Arc<Sightings>,
    /// Guards what was read. A leaf of the lock order.
    read: Mutex<BTreeMap<PathBuf, Contexts>>,
    issuer: Arc<Issuer>,
}

/// What one file says, by the name of the Spoke; the first context of a name counts.
type Contexts = BTreeMap<LogicalCluster, Vec<Context>>;

/// One context of a file, as it was read, with how old the files are that it names.
#[derive(Clone, PartialEq)]
struct Context {
    name: String,
    cluster: Value,
    user: Value,
    stamps: Vec<Option<(SystemTime, u64)>>,
}

// === impl KubeconfigFiles ===

impl KubeconfigFiles {
    pub(super) fn new(dialer: &Dialer, sightings: &Arc<Sightings>, issuer: &Arc<Issuer>) -> Self {
        Self {
            shared: Arc::new(Shared {
                files: dialer.policy().kubeconfig_files.clone(),
                sightings: Arc::clone(sightings),
                read: Mutex::default(),
                issuer: Arc::clone(issuer),
            }),
        }
    }
}

impl Provider for KubeconfigFiles {
    fn start(&self, concerned: Concerned, tasks: &Tasks) {
        if self.shared.files.is_empty() {
            return;
        }
        let (shared, end) = (Arc::clone(&self.shared), tasks.child_token());
        tasks.spawn("spoke-files", async move {
            follow(&shared, &concerned, &end).await;
        });
    }

    fn access<'a>(&'a self, spoke: &'a LogicalCluster, object: &'a Spoke) -> BoxFuture<'a, Answer> {
        Box::pin(async { Ok(self.shared.access(spoke, object).await) })
    }
}

async fn follow(shared: &Arc<Shared>, concerned: &Concerned, end: &Shutdown) {
    loop {
        let reader = Arc::clone(shared);
        let changed = tokio::task::spawn_blocking(move || reader.look()).await;
        let changed = changed.unwrap_or_default();
        if !changed.is_empty() {
            concerned.add_named(|spoke| changed.contains(spoke));
        }
        tokio::select! {
            biased;
            () = end.cancelled() => return,
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
    }
}

// === impl Shared ===

impl Shared {
    /// Reads all files. Returns the spokes whose access may have changed.
    fn look(&self) -> Vec<LogicalCluster> {
        let mut changed = Vec::new();
        for file in &self.files {
            let contexts = match read(file) {
                Ok(contexts) => contexts,
                Err(error) => {
                    tracing::warn!(file = %file.display(), error, "cannot read a kubeconfig; what it said last stays");
                    continue;
                }
            };
            let before = self.read.lock().insert(file.clone(), contexts.clone());
            if before.as_ref() == Some(&contexts) {
                continue;
            }
            let before = before.unwrap_or_default();
            let names = before.keys().chain(contexts.keys());
            let is_changed = |name: &&LogicalCluster| before.get(*name) != contexts.get(*name);
            changed.extend(names.filter(is_changed).cloned());
            self.sightings.replace(&source(file), seen(file, &contexts));
        }
        changed
    }

    async fn access(&self, spoke: &LogicalCluster, object: &Spoke) -> Result<Access, Fault> {
        let Some((place, context)) = self.context(spoke, object) else {
            return Err(Fault::NotInFile {
                spoke: spoke.to_string(),
            });
        };
        let unusable = |reason: String| Fault::Local {
            place: place.clone(),
            reason,
        };
        let mut cluster = context.cluster;
        let mut user = context.user;
        let mut renew_at = None;
        inline(&mut cluster).await.map_err(unusable)?;
        if let Some(mut plugin) = Plugin::parse(&user["exec"]) {
            if user["exec"]["provideClusterInfo"] == true {
                plugin.cluster = Some(inventory::told(&cluster));
            }
            let issued = self.issuer.issue(spoke, FILES, plugin).await;
            let issued = issued.map_err(|fault| unusable(fault.to_string()))?;
            user = issued.user;
            renew_at = issued.renew_at;
        }
        inline(&mut user).await.map_err(unusable)?;
        let credential = Credential::of_parts(&cluster, &user, place, renew_at);
        Ok(Access::Kubeconfig(credential))
    }

    /// Finds the context of a Spoke: in the file that it was found in, else in the first that has one.
    fn context(&self, spoke: &LogicalCluster, object: &Spoke) -> Option<(String, Context)> {
        let found_in = object.metadata.annotations.get(keys::ANNOTATION_FOUND_IN);
        let found_in = found_in.and_then(|it| Source::parse(it));
        let read = self.read.lock();
        let mut files = self.files.iter();
        files.find_map(|file| {
            if found_in.as_ref().is_some_and(|it| *it != source(file)) {
                return None;
            }
            let context = read.get(file)?.get(spoke)?.first()?;
            Some((item(file, &context.name), context.clone()))
        })
    }
}

fn source(file: &Path) -> Source {
    Source {
        sort: SourceSort::KubeconfigFile,
        place: file.display().to_string(),
    }
}

fn item(file: &Path, context: &str) -> String {
    format!("context {context:?} of file {}", file.display())
}

fn seen(file: &Path, contexts: &Contexts) -> BTreeMap<LogicalCluster, Vec<Sighting>> {
    let sighting = |context: &Context| Sighting {
        item: item(file, &context.name),
        provider: wheelhouse::Provider::KubeconfigFile,
        connection: None,
    };
    let contexts = contexts.iter();
    contexts
        .map(|(name, of_name)| (name.clone(), of_name.iter().map(sighting).collect()))
        .collect()
}

fn read(file: &Path) -> Result<Contexts, String> {
    let size = std::fs::metadata(file)
        .map_err(|error| error.to_string())?
        .len();
    if size > FILE_BYTES_MAX {
        return Err(format!("it has {size} bytes, more than {FILE_BYTES_MAX}"));
    }
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let folder = std::path::absolute(file).map_err(|error| error.to_string())?;
    parse(&text, folder.parent().unwrap_or(Path::new("/")))
}

/// Reads the contexts of a kubeconfig in a folder. The error shows nothing of the text.
fn parse(text: &str, folder: &Path) -> Result<Contexts, String> {
    let config = yaml::document(text, Aliases::Few).map_err(|error| error.to_string())?;
    if !config["contexts"].is_array() {
        return Err("it has no contexts".to_owned()); // half a file says nothing
    }
    let find = |list: &str, part: &str, name: &Value| {
        let mut entries = config[list].as_array().into_iter().flatten();
        let entry = entries.find(|entry| entry["name"] == *name && entry[part].is_object())?;
        Some(entry[part].clone())
    };
    let mut contexts = Contexts::new();
    for entry in config["contexts"].as_array().into_iter().flatten() {
        let Some(name) = entry["name"].as_str() else {
            continue;
        };
        let context = &entry["context"];
        let parts = find("clusters", "cluster", &context["cluster"]).zip(find(
            "users",
            "user",
            &context["user"],
        ));
        let (Some((mut cluster, mut user)), Some(label)) = (parts, label(name)) else {
            tracing::debug!(context = name, "a context makes no Spoke");
            continue;
        };
        let mut stamps = resolve(&mut cluster, folder);
        stamps.extend(resolve(&mut user, folder));
        contexts.entry(label).or_default().push(Context {
            name: name.to_owned(),
            cluster,
            user,
            stamps,
        });
    }
    Ok(contexts)
}

/// Makes the paths in a part absolute. Returns how old the files are.
///
/// Source: client-go `tools/clientcmd/loader.go` (ResolveLocalPaths).
fn resolve(part: &mut Value, folder: &Path) -> Vec<Option<(SystemTime, u64)>> {
    let fields = FILE_FIELDS.map(|(field, _)| field).into_iter();
    let mut stamps = Vec::new();
    for field in fields.chain(["tokenFile"]) {
        let Some(path) = part[field].as_str().filter(|it| !it.is_empty()) else {
            continue;
        };
        let path = folder.join(path);
        let stamp = std::fs::metadata(&path);
        stamps.push(stamp.and_then(|it| Ok((it.modified()?, it.len()))).ok());
        part[field] = json!(path.to_string_lossy());
    }
    // A plug-in by name is looked for in $PATH.
    let command = part["exec"]["command"].as_str();
    if let Some(command) = command.filter(|it| it.contains('/')) {
        part["exec"]["command"] = json!(folder.join(command).to_string_lossy());
    }
    stamps
}

/// Puts what stands in files into a part.
async fn inline(part: &mut Value) -> Result<(), String> {
    for (field, data) in FILE_FIELDS {
        if let Some(bytes) = content(part, field).await? {
            part[data] = json!(STANDARD.encode(bytes));
        }
    }
    if let Some(bytes) = content(part, "tokenFile").await? {
        let token =
            String::from_utf8(bytes).map_err(|_unsaid| "tokenFile is no text".to_owned())?;
        part["token"] = json!(token.trim());
    }
    Ok(())
}

/// Takes the path out of a field and reads the file.
async fn content(part: &mut Value, field: &str) -> Result<Option<Vec<u8>>, String> {
    let Some(Value::String(path)) = part.as_object_mut().and_then(|it| it.remove(field)) else {
        return Ok(None);
    };
    if path.is_empty() {
        return Ok(None);
    }
    let read = tokio::fs::read(&path).await;
    read.map(Some)
        .map_err(|error| format!("{field} {path}: {error}"))
}

/// Makes the name of a Spoke of that of a context: what no DNS label has becomes a hyphen. `None` where nothing is left.
fn label(context: &str) -> Option<LogicalCluster> {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_lowercase() || c.is_ascii_digit() => c,
        _ => '-',
    };
    let label: String = context.chars().map(plain).take(NAME_BYTES_MAX).collect();
    let cluster: LogicalCluster = label.trim_matches('-').parse().ok()?;
    (!cluster.is_root()).then_some(cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_context_has_a_name_that_a_spoke_may_have() {
        let (long, cut) = ("a".repeat(70), "a".repeat(63));
        for (context, want) in [
            ("east", Some("east")),
            ("kubernetes-admin@East", Some("kubernetes-admin-east")),
            (
                "arn:aws:eks:eu-west-1:1:cluster/prod",
                Some("arn-aws-eks-eu-west-1-1-cluster-prod"),
            ),
            ("gke_project_zone_name", Some("gke-project-zone-name")),
            (long.as_str(), Some(cut.as_str())),
            ("__", None),
            ("root", None),
            ("", None),
        ] {
            let got = label(context).map(|it| it.to_string());
            assert_eq!(got.as_deref(), want, "{context}");
        }
    }

    #[test]
    fn a_file_that_is_half_written_says_nothing_and_names_that_meet_are_both_there() {
        let folder = Path::new("/etc/wheelhouse");
        for text in [
            "",
            "contexts",
            "{clusters: []}",
            "contexts: {a: b}",
            "a: [b",
        ] {
            assert!(parse(text, folder).is_err(), "{text}");
        }
        let text = "clusters: [{name: c, cluster: {server: 'https://c', certificate-authority: ca.crt}}]\n\
             users: [{name: u, user: {exec: {command: ./login}, client-key: /k}}]\n\
             contexts: [{name: A, context: {cluster: c, user: u}}, {name: a, context: {cluster: c, user: u}},\n\
               {name: lost, context: {cluster: d, user: u}}]";
        let contexts = parse(text, folder).expect("a kubeconfig");
        let names: Vec<_> = contexts
            .iter()
            .map(|(name, of)| (name.as_str(), of.len()))
            .collect();
        assert_eq!(names, [("a", 2)]);
        let context = contexts.values().flatten().next().expect("A");
        assert_eq!(context.name, "A", "the first one counts");
        assert_eq!(
            context.cluster["certificate-authority"],
            "/etc/wheelhouse/ca.crt"
        );
        assert_eq!(context.user["exec"]["command"], "/etc/wheelhouse/./login");
        assert_eq!(context.user["client-key"], "/k");
    }
}
