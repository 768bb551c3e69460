//! What the hub would take over from a kro, and what keeps it from that.
//!
//! # Invariants
//!
//! Whatever the spoke says, children of a definition that is taken over are written in the name of one ServiceAccount of that spoke: the
//! one that kro had, or the one that the administrator named. Nobody gets more rights by a migration, and nobody acts with the hub's.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    crd::CustomResourceDefinition,
    meta,
    wheelhouse::{
        ChildCount, MigratedDefinition, Migration, MigrationStatus,
        author::{Author, RunAs, User},
        keys,
    },
};
use client::reflector::RawObject;
use graph::{CompiledGraph, Owner};
use serde_json::{Value, json};

use super::{
    found::{Definition, Found, place},
    kro::Kro,
};
use crate::{
    definitions::{claims, resolving},
    engine::Engine,
    resources,
    state::{
        kind_claims::Standing,
        mirrors::{self, Maker},
        served::DefinitionKey,
        target::Target,
    },
};

/// How many definitions, obstacles and notes a status names.
const NAMED_COUNT_MAX: usize = 100;

/// How long what it says of one is.
const TEXT_BYTES_MAX: usize = 512;

/// What a definition in a spoke is to the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The hub does not have it.
    Spoke,
    /// The hub has it, all of it or a part.
    Hub,
    /// The hub has had it: somebody has deleted it at the hub's path.
    Gone,
}

/// A plan, with what it is carried out by.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) status: MigrationStatus,
    /// In whose name children are written; `None` while that is not known.
    pub(super) author: Option<User>,
}

/// Makes a plan.
pub(super) async fn make(
    engine: &Arc<Engine>,
    target: &Arc<Target>,
    wanted: &Migration,
    found: &Found,
    kro: &Kro,
) -> Result<Plan, client::Error> {
    let mut planning = Planning {
        engine,
        target,
        status: MigrationStatus::default(),
    };
    planning
        .status
        .obstacles
        .extend(found.troubles.iter().cloned());
    for reason in &kro.running {
        planning.obstacle(format!(
            "kro runs: {reason}; stop it, and wait until it has ended"
        ));
    }
    if found.definitions.is_empty() {
        planning.obstacle("the spoke has no ResourceGraphDefinitions".to_owned());
    }
    let account = planning.account(wanted, kro).await?;
    planning.version(found);
    for definition in &found.definitions {
        planning.definition(definition, account.as_ref()).await?;
    }
    planning.count(found);
    let mut status = planning.status;
    if let Some(account) = &account {
        status.service_account = format!("{}/{}", account.namespace, account.name);
        status.notes.insert(0, format!(
            "children of these definitions are written as ServiceAccount {} of the spoke; who changes a definition at the \
             hub's path becomes its author, with the rights that they have themselves",
            status.service_account
        ));
    }
    found.version().clone_into(&mut status.kro_version);
    bound(&mut status);
    let author = account.map(|account| User {
        known_only_in: target.cluster.to_string(),
        ..account.user()
    });
    Ok(Plan { status, author })
}

/// Finds out what a definition of the spoke is to the hub.
///
/// # Errors
/// Why it is somebody else's.
pub(super) async fn place_of(
    engine: &Engine,
    target: &Target,
    definition: &Definition,
) -> Result<Result<Place, String>, client::Error> {
    let taken_by = meta::annotation(&definition.object, keys::ANNOTATION_TAKEN_BY);
    if taken_by.is_some_and(|hub| hub != engine.hub_id) {
        return Ok(Err("another hub has taken it over".to_owned()));
    }
    let endpoint = Engine::hub_endpoint(&target.cluster, &resources::definitions(), "");
    Ok(match engine.hub.get(&endpoint, &definition.name).await {
        Ok(known) if meta::uid(&known) == definition.uid => Ok(Place::Hub),
        Ok(_) => Err("the hub has another one of this name at the path of the spoke".to_owned()),
        Err(error) if error.is_not_found() => Ok(match taken_by {
            Some(_) => Place::Gone,
            None => Place::Spoke,
        }),
        Err(error) => return Err(error),
    })
}

struct Planning<'a> {
    engine: &'a Arc<Engine>,
    target: &'a Arc<Target>,
    status: MigrationStatus,
}

// === impl Planning ===

impl Planning<'_> {
    fn obstacle(&mut self, text: String) {
        self.status.obstacles.push(text);
    }

    /// Finds the account in whose name children are written.
    async fn account(
        &mut self,
        wanted: &Migration,
        kro: &Kro,
    ) -> Result<Option<RunAs>, client::Error> {
        let account = match (wanted.service_account.as_str(), kro.accounts.as_slice()) {
            ("", [account]) => account.clone(),
            ("", []) => {
                self.obstacle(
                    "there is no Deployment of kro that would name its ServiceAccount: name one in spec.migration.serviceAccount"
                        .to_owned(),
                );
                return Ok(None);
            }
            ("", several) => {
                let names = several
                    .iter()
                    .map(|it| format!("{}/{}", it.namespace, it.name));
                let names: Vec<String> = names.collect();
                self.obstacle(format!(
                    "Deployments of kro name several ServiceAccounts ({}): name one in spec.migration.serviceAccount",
                    names.join(", ")
                ));
                return Ok(None);
            }
            (said, _) => match RunAs::parse(said) {
                Ok(account) => account,
                Err(reason) => {
                    self.obstacle(format!("spec.migration.serviceAccount: {reason}"));
                    return Ok(None);
                }
            },
        };
        let endpoint = self
            .target
            .endpoint(&resources::core("serviceaccounts"), &account.namespace);
        match self.target.dynamic.get(&endpoint, &account.name).await {
            Ok(_) => Ok(Some(account)),
            Err(error) if error.is_not_found() => {
                let RunAs { namespace, name } = &account;
                self.obstacle(format!(
                    "the spoke has no ServiceAccount {namespace}/{name}"
                ));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Requires that labels stay as they are.
    fn version(&mut self, found: &Found) {
        let chosen = self.engine.switches.of(&self.target.cluster);
        let (ours, theirs) = (&chosen.settings.kro_version, found.version());
        self.status.hub_version.clone_from(ours);
        if !theirs.is_empty() && theirs != ours {
            self.obstacle(format!(
                "labels in the spoke name version {theirs:?} of kro, and the hub would write {ours:?} on each child: set \
                 spec.kro.version"
            ));
        }
        if found.versions.len() > 1 {
            let versions: Vec<&str> = found.versions.keys().map(String::as_str).collect();
            let versions = versions.join(", ");
            self.status.notes.push(format!(
                "labels name several versions of kro ({versions}): all become {ours:?}"
            ));
        }
    }

    async fn definition(
        &mut self,
        definition: &Definition,
        account: Option<&RunAs>,
    ) -> Result<(), client::Error> {
        let name = &definition.name;
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.status.definitions.push(MigratedDefinition {
            name: name.clone(),
            kind: definition.kind(),
            state: definition.state().to_owned(),
            revisions: count(definition.revisions.len()),
            instances: count(definition.instances.len()),
        });
        let about = format!("ResourceGraphDefinition {name:?}");
        match place_of(self.engine, self.target, definition).await? {
            Err(reason) => self.obstacle(format!("{about}: {reason}")),
            Ok(Place::Hub) => {}
            Ok(Place::Gone) => self.status.notes.push(format!(
                "{about} was deleted at the hub's path and is left alone: delete it in the spoke too, before a kro runs there"
            )),
            Ok(Place::Spoke) => {
                if meta::is_terminating(&definition.object) {
                    self.obstacle(format!("{about} is being deleted"));
                }
                self.instances(definition);
                self.graph(definition, &about, account).await?;
            }
        }
        Ok(())
    }

    fn instances(&mut self, definition: &Definition) {
        for instance in &definition.instances {
            let about = format!("{} {}", meta::kind(instance), place(instance));
            if meta::is_terminating(instance) {
                self.obstacle(format!("{about} is being deleted: let kro end that first"));
            }
            let made =
                RawObject::from_value(instance).map(|it| mirrors::maker(&it, &self.engine.hub_id));
            if !made.is_ok_and(|made| made == Maker::Spoke) {
                self.obstacle(format!("{about} is the mirror of an instance of a hub"));
            }
        }
    }

    /// Compiles a definition as the hub will.
    async fn graph(
        &mut self,
        definition: &Definition,
        about: &str,
        account: Option<&RunAs>,
    ) -> Result<(), client::Error> {
        let is_active = definition.state() == api::kro::keys::RGD_STATE_ACTIVE;
        let refused = |reason: &str| {
            if is_active {
                format!("{about} is refused by the hub: {reason}")
            } else {
                format!("{about} is not Active, and will not be: {reason}")
            }
        };
        let key = DefinitionKey {
            cluster: self.target.cluster.clone(),
            name: definition.name.clone(),
        };
        let compiled = match &definition.spec {
            Some(spec) => {
                let fetched = resolving::fetch(self.engine, &key, spec, self.target).await;
                let options = self.engine.switches.of(&key.cluster).settings.compile;
                let compiled = fetched
                    .compile(|schemas| graph::compile_with(spec, &key.name, schemas, &options));
                compiled
                    .map(|(graph, _)| graph)
                    .map_err(|error| error.to_string())
            }
            None => Err("its spec cannot be read".to_owned()),
        };
        let graph = match compiled {
            Ok(graph) => graph,
            Err(reason) if is_active => {
                self.obstacle(refused(&reason));
                return Ok(());
            }
            Err(reason) => {
                self.status.notes.push(refused(&reason));
                return Ok(());
            }
        };
        if let Standing::Refused(holder) =
            claims::foresee(self.engine, &key, &graph.gvr().group_resource()).await?
        {
            let (kind, cluster) = (graph.group_kind(), &holder.cluster);
            self.obstacle(format!(
                "{about}: kind {kind} is held by ResourceGraphDefinition {:?} of logical cluster {:?}",
                holder.name,
                cluster.as_str()
            ));
        }
        self.revision(definition, &graph, about);
        self.crd(definition, &graph, about).await?;
        if let Some(account) = account {
            self.rights(&graph, about, account).await?;
        }
        Ok(())
    }

    fn revision(&mut self, definition: &Definition, graph: &CompiledGraph, about: &str) {
        let latest = definition.revisions.iter().rev();
        let latest = latest
            .clone()
            .find(|revision| !meta::is_terminating(revision));
        let spec = latest.and_then(|revision| {
            serde_json::from_value(revision["spec"]["snapshot"]["spec"].clone()).ok()
        });
        if spec.is_none_or(|spec| graph::spec_hash(&spec) != graph.spec_hash()) {
            let note = format!(
                "{about} is not what its latest revision says: a new revision will be made"
            );
            self.status.notes.push(note);
        }
    }

    async fn crd(
        &mut self,
        definition: &Definition,
        graph: &CompiledGraph,
        about: &str,
    ) -> Result<(), client::Error> {
        let name = graph.gvr().group_resource().to_string();
        let endpoint = self.target.endpoint(&resources::crds(), "");
        let live = match self.target.dynamic.get(&endpoint, &name).await {
            Ok(live) => live,
            Err(error) if error.is_not_found() => {
                self.status
                    .notes
                    .push(format!("{about}: CRD {name} is not there and will be made"));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let owner = Owner {
            name: definition.name.clone(),
            uid: definition.uid.clone(),
        };
        let refusal = CustomResourceDefinition::from_value(&live).map_or_else(
            |_unreadable| Some(format!("CRD {name} cannot be read")),
            |live| graph::ownership(&live, &owner).refusal(&name),
        );
        if let Some(reason) = refusal {
            self.obstacle(format!("{about}: {reason}"));
        }
        Ok(())
    }

    /// Asks the spoke whether the account may do what kro did.
    async fn rights(
        &mut self,
        graph: &CompiledGraph,
        about: &str,
        account: &RunAs,
    ) -> Result<(), client::Error> {
        for kind in graph.child_kinds() {
            if kind.external {
                continue;
            }
            if resources::is_kept_by_hub(&kind.gvr) {
                self.obstacle(format!(
                    "{about} makes {}, which the hub keeps, and a ServiceAccount of the spoke cannot write them there",
                    kind.gvr.resource
                ));
                continue;
            }
            for verb in ["patch", "delete"] {
                if !self.may(account, verb, &kind.gvr).await? {
                    let RunAs { namespace, name } = account;
                    let resource = kind.gvr.group_resource();
                    self.obstacle(format!(
                        "{about}: ServiceAccount {namespace}/{name} may not {verb} {resource} in all namespaces"
                    ));
                }
            }
        }
        Ok(())
    }

    async fn may(
        &self,
        account: &RunAs,
        verb: &str,
        gvr: &api::GroupVersionResource,
    ) -> Result<bool, client::Error> {
        let reviews =
            api::GroupVersionResource::new("authorization.k8s.io", "v1", "subjectaccessreviews");
        let user = account.user();
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user.username, "groups": user.groups, "resourceAttributes": {
                "verb": verb, "group": gvr.group, "version": gvr.version, "resource": gvr.resource,
            }},
        });
        let endpoint = self.target.endpoint(&reviews, "");
        let answer = self.target.dynamic.create(&endpoint, &review).await?;
        Ok(answer["status"]["allowed"] == true)
    }

    /// Counts children that belong to instances.
    fn count(&mut self, found: &Found) {
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for instance in found.definitions.iter().flat_map(|it| &it.instances) {
            for child in found.children_of(instance) {
                let kind = if child.gvk.group.is_empty() {
                    child.gvk.kind.clone()
                } else {
                    format!("{}.{}", child.gvk.kind, child.gvk.group)
                };
                *counts.entry(kind).or_default() += 1;
            }
        }
        let counts = counts.into_iter();
        self.status.children = counts
            .map(|(kind, count)| ChildCount { kind, count })
            .collect();
    }
}

/// Cuts what is told, and takes out what steers a terminal: a spoke must not make its Spoke too large to be written, nor speak to who
/// reads it.
pub(super) fn bound(status: &mut MigrationStatus) {
    for texts in [&mut status.obstacles, &mut status.notes] {
        let more = texts.len().saturating_sub(NAMED_COUNT_MAX);
        texts.truncate(NAMED_COUNT_MAX);
        texts.iter_mut().for_each(shorten);
        if more > 0 {
            texts.push(format!("and {more} more"));
        }
    }
    let more = status.definitions.len().saturating_sub(NAMED_COUNT_MAX);
    status.definitions.truncate(NAMED_COUNT_MAX);
    for definition in &mut status.definitions {
        shorten(&mut definition.kind);
        shorten(&mut definition.state);
    }
    if more > 0 {
        status
            .notes
            .push(format!("{more} more definitions are not named here"));
    }
    status.children.truncate(NAMED_COUNT_MAX);
}

fn shorten(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push_str(" ...");
    }
    if text.contains(char::is_control) {
        *text = text.replace(char::is_control, " ");
    }
}

/// Writes who is the author of what is taken over.
pub(super) fn author_text(author: &User) -> Value {
    json!(Author::User(author.clone()).to_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spoke_cannot_make_its_status_too_large() {
        let mut status = MigrationStatus {
            obstacles: vec!["é".repeat(1000); 1000],
            notes: vec!["sh\u{1b}ort".to_owned()],
            definitions: vec![
                MigratedDefinition {
                    state: "x".repeat(100_000),
                    ..MigratedDefinition::default()
                };
                1000
            ],
            ..MigrationStatus::default()
        };
        bound(&mut status);
        assert_eq!(status.obstacles.len(), NAMED_COUNT_MAX + 1);
        assert_eq!(status.obstacles[NAMED_COUNT_MAX], "and 900 more");
        assert_eq!(
            status.notes,
            ["sh ort", "900 more definitions are not named here"]
        );
        assert!(json!(status).to_string().len() < 200 * 1024);
    }
}
