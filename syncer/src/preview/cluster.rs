//! What a definition would do in one logical cluster.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use api::{
    GroupVersionResource, LogicalCluster,
    kro::keys,
    meta,
    selector::FieldSelector,
    wheelhouse::{
        keys as own,
        preview::{ClusterPreview, InstanceName, InstancePreview, Summary},
    },
};
use client::ListRequest;
use graph::{
    Observed, ResolvedKind, Wanted,
    foresight::{self, ChildAction, Foreseen, is_child_of},
};
use schema::{Schema, structural, validate};
use serde_json::Value;

use super::{Draft, Place, Planning, reading::Reader, told};
use crate::state::{brake::Brake, children, switches::Chosen};

/// Instances of one cluster that are read.
const INSTANCE_COUNT_MAX: usize = 500;
/// Of those, how many are planned.
const EXAMINED_COUNT_MAX: usize = 100;
/// Children of one kind that are read.
const CHILD_COUNT_MAX: usize = 5_000;
/// Instances that are told of.
const TOLD_COUNT_MAX: usize = 50;
/// Children of one instance that are told of.
const TOLD_CHILD_COUNT_MAX: usize = 50;
/// Errors of one instance that are told.
const ERROR_COUNT_MAX: usize = 8;
/// Rounds of reading what plans refer to.
const READ_ROUND_COUNT_MAX: usize = 8;

/// What is previewed.
pub(super) struct Subject<'a> {
    pub(super) new: &'a Draft,
    pub(super) before: Option<&'a Draft>,
    pub(super) home: &'a LogicalCluster,
    pub(super) hub_id: &'a str,
    pub(super) brake: Brake,
    pub(super) planning: &'a Planning,
    /// The one instance that is looked at, and compared with what is there.
    pub(super) only: Option<&'a InstanceName>,
}

/// The children in a cluster, by the set that they say they belong to.
type Children = HashMap<String, Vec<Arc<Value>>>;

/// What was found in a cluster, with counts of all of it.
pub(super) struct Looked {
    pub(super) preview: ClusterPreview,
    pub(super) counts: Summary,
}

/// Looks at a cluster; `None` where the definition is not for it, and was not.
pub(super) async fn look(reader: &Reader, subject: &Subject<'_>, place: &Place) -> Option<Looked> {
    let is_home = place.cluster == *subject.home;
    let is_for = |draft: &Draft| is_home || draft.reaching.selects(&place.labels);
    let was = subject.before.is_some_and(is_for);
    let serving = match (was, is_for(subject.new)) {
        (true, true) => "Serves",
        (false, true) => "Begins",
        (true, false) => "Ends",
        (false, false) => return None,
    };
    let mut preview = ClusterPreview {
        cluster: place.cluster.to_string(),
        serving: serving.to_owned(),
        ..ClusterPreview::default()
    };
    let mut counts = Summary::default();
    let reader = reader.anew();
    if let Err(reason) = fill(&reader, subject, place, (&mut preview, &mut counts)).await {
        preview.message = told::text(&reason);
    }
    counts.clusters = 1;
    counts.unknown_clusters = u64::from(!preview.message.is_empty());
    counts.instances = preview.instances;
    counts.examined = preview.examined;
    Some(Looked { preview, counts })
}

/// # Errors
/// Why nothing more is told of the cluster.
async fn fill(
    reader: &Reader,
    subject: &Subject<'_>,
    place: &Place,
    (preview, counts): (&mut ClusterPreview, &mut Summary),
) -> Result<(), String> {
    let (cluster, graph) = (&place.cluster, &subject.new.graph);
    let namespace = subject.only.map_or("", |only| &only.namespace);
    let request = ListRequest {
        field_selector: subject
            .only
            .map(|only| FieldSelector::equals("metadata.name", &only.name)),
        ..ListRequest::default()
    };
    let listed = reader.list(cluster, graph.gvr(), namespace, request, INSTANCE_COUNT_MAX);
    let listed = listed.await?;
    preview.instances = (listed.items.len() as u64).saturating_add(listed.left_count);
    if listed.items.is_empty() || preview.serving == "Ends" {
        return Ok(()); // what is not served any more is left as it is
    }
    let schema = ResolvedKind::defined(graph.definition(), &graph.gvr().version)?.schema;
    let only = subject.only.and_then(|_| listed.items.first());
    let children = children(reader, subject, cluster, only).await;
    let mut unread = String::new();
    let children = children.unwrap_or_else(|reason| {
        unread = format!("children are not compared: {reason}");
        None
    });
    let mut found = Vec::new();
    for instance in listed.items.iter().take(EXAMINED_COUNT_MAX) {
        if reader.is_over() {
            unread = String::from("not all instances were looked at in time");
            break;
        }
        preview.examined += 1;
        let examined = (instance, &*schema, children.as_ref());
        found.push(examine(reader, subject, place, examined, counts).await);
    }
    if subject.only.is_none() {
        counts.held += hold_together(&mut found, subject.brake);
    }
    let found = found.into_iter().map(|examined| examined.preview);
    let mut changes = found.filter(|one| !is_nothing(one));
    preview.changes = changes.by_ref().take(TOLD_COUNT_MAX).collect();
    preview.changes_omitted = changes.count() as u64;
    preview.message = told::text(&unread);
    Ok(())
}

/// What was found of an instance.
#[derive(Debug, Default)]
struct Examined {
    preview: InstancePreview,
    /// Children that would go, and how many there are.
    going: usize,
    all: usize,
}

/// Tells of all instances that lose children that it would wait, where that is so for all of them together and not for each. Returns
/// how many those are.
fn hold_together(found: &mut [Examined], brake: Brake) -> u64 {
    let going = found.iter().map(|one| one.going).sum();
    let all = found.iter().map(|one| one.all).sum();
    if !brake.holds(going, all) {
        return 0;
    }
    let held = found
        .iter_mut()
        .filter(|one| one.going > 0 && one.preview.confirmation.is_empty());
    let held = held.map(|one| {
        let what = format!("{going} of {all} children of all instances here would be deleted");
        one.preview.confirmation = format!("{what}: that waits until somebody confirms it");
    });
    held.count() as u64
}

fn is_nothing(one: &InstancePreview) -> bool {
    one.invalid.is_empty()
        && one.failure.is_empty()
        && one.confirmation.is_empty()
        && one.children.is_empty()
        && one.waiting.is_empty()
}

/// Reads the children of the definition's kinds, before and after: all of them, or those of one instance.
///
/// # Errors
/// Why a kind of them cannot be read: without it, what is there would count as absent.
async fn children(
    reader: &Reader,
    subject: &Subject<'_>,
    cluster: &LogicalCluster,
    only: Option<&Value>,
) -> Result<Option<Children>, String> {
    let selector = match only {
        Some(instance) => children::owned_by(&graph::applyset_id(instance)),
        None => children::owned(),
    };
    let drafts = subject.before.into_iter().chain([subject.new]);
    let kinds: BTreeSet<GroupVersionResource> = drafts
        .flat_map(|draft| draft.graph.child_kinds())
        .filter(|kind| kind.applied)
        .map(|kind| kind.gvr)
        .collect();
    let mut children = Children::new();
    for gvr in kinds {
        let request = ListRequest {
            label_selector: Some(selector.clone()),
            ..ListRequest::default()
        };
        let listed = reader.list(cluster, &gvr, "", request, CHILD_COUNT_MAX);
        let listed = listed
            .await
            .map_err(|reason| format!("{}: {reason}", gvr.group_resource()))?;
        if listed.left_count > 0 {
            let resource = gvr.group_resource();
            return Err(format!("{resource}: there are more than a preview reads"));
        }
        for child in listed.items {
            let set = meta::label(&child, keys::LABEL_APPLYSET_PART_OF);
            let hub = meta::label(&child, own::HUB);
            let is_ours = hub.is_none_or(|hub| hub == subject.hub_id);
            if let Some(set) = set.filter(|_| is_ours).map(str::to_owned) {
                children.entry(set).or_default().push(Arc::new(child));
            }
        }
    }
    Ok(Some(children))
}

async fn examine(
    reader: &Reader,
    subject: &Subject<'_>,
    place: &Place,
    (instance, schema, children): (&Value, &Schema, Option<&Children>),
    counts: &mut Summary,
) -> Examined {
    let (namespace, name) = told::names(instance);
    let mut found = Examined::default();
    let one = &mut found.preview;
    (one.namespace, one.name) = (namespace, name);
    let renewed = match renewed(instance, schema) {
        Ok(renewed) => renewed,
        Err(errors) => {
            counts.invalid += 1;
            one.invalid = errors;
            return found;
        }
    };
    // What the hub leaves alone changes by no definition; it may differ from it all the same.
    let is_suspended = subject.only.is_none() && graph::instance::is_suspended(instance);
    let is_left_alone = meta::is_terminating(instance) || is_suspended;
    let Some(children) = children.filter(|_| !is_left_alone) else {
        return found;
    };
    let mine = children.get(&graph::applyset_id(instance));
    let mine = mine.cloned().unwrap_or_default();
    match foresee(reader, subject, place, (instance, renewed), mine.clone()).await {
        Ok(foreseen) => {
            tell(one, &foreseen, subject.brake, mine.len());
            count(counts, &foreseen);
            let going = deletions(&foreseen);
            (found.going, found.all) = (going, mine.len());
        }
        Err(reason) => one.failure = told::text(&reason),
    }
    counts.failing += u64::from(!one.failure.is_empty());
    counts.held += u64::from(!one.confirmation.is_empty());
    found
}

/// Returns an instance as the new schema leaves it.
///
/// # Errors
/// Why the schema does not allow it.
fn renewed(instance: &Value, schema: &Schema) -> Result<Value, Vec<String>> {
    let mut renewed = instance.clone();
    structural::prune(&mut renewed, schema);
    structural::drop_nulls(&mut renewed, schema);
    structural::default(&mut renewed, schema).map_err(|error| vec![error.to_string()])?;
    let errors = validate(&renewed, schema, None);
    if errors.is_empty() {
        return Ok(renewed);
    }
    let errors = errors.iter().take(ERROR_COUNT_MAX);
    Err(errors.map(|error| told::text(&error.to_string())).collect())
}

/// Foretells, and answers what that wants to know of other objects, until it asks nothing new.
async fn foresee(
    reader: &Reader,
    subject: &Subject<'_>,
    place: &Place,
    (instance, renewed): (&Value, Value),
    children: Vec<Arc<Value>>,
) -> Result<Foreseen, String> {
    let mut observed = Observed::new();
    for child in &children {
        observed.child(Arc::clone(child));
    }
    if subject.new.grant.adopts() {
        observed.take_over();
    }
    let owner = |draft: &Draft| draft.grant.owns().then(|| meta::uid(instance).to_owned());
    let owners = (owner(subject.new), subject.before.and_then(owner));
    // Without a definition before, children are compared with what is there.
    let before = subject.before.filter(|_| subject.only.is_none());
    let mut answered: BTreeSet<Wanted> = BTreeSet::new();
    let work = Arc::new((instance.clone(), renewed, children));
    for _ in 0..READ_ROUND_COUNT_MAX {
        let asked = Asked {
            work: Arc::clone(&work),
            observed: observed.clone(),
            owners: owners.clone(),
            new: Arc::clone(&subject.new.graph),
            before: before.map(|before| Arc::clone(&before.graph)),
            chosen: Arc::clone(&place.chosen),
        };
        let foreseen = subject.planning.run(reader.end(), move || asked.answer());
        let foreseen = foreseen.await?;
        let wanted = foreseen.wanted.iter();
        let new: Vec<Wanted> = wanted
            .filter(|wanted| answered.insert((*wanted).clone()))
            .cloned()
            .collect();
        if new.is_empty() {
            return Ok(foreseen);
        }
        for wanted in new {
            match reader.external(&place.cluster, &wanted).await {
                Ok(found) => {
                    let found = found.into_iter().map(Arc::new).collect();
                    observed.external(&wanted, found);
                }
                Err(reason) => observed.external_failed(&wanted, reason),
            }
        }
    }
    Err("it refers to more objects than a preview reads".to_owned())
}

/// What goes to another thread.
struct Asked {
    work: Arc<(Value, Value, Vec<Arc<Value>>)>,
    observed: Observed,
    owners: (Option<String>, Option<String>),
    new: Arc<graph::CompiledGraph>,
    before: Option<Arc<graph::CompiledGraph>>,
    chosen: Arc<Chosen>,
}

// === impl Asked ===

impl Asked {
    fn answer(self) -> Foreseen {
        let (instance, renewed, children) = &*self.work;
        let subject = foresight::Subject {
            instance,
            renewed,
            observed: &self.observed,
            owner: self.owners.0.as_deref(),
            owner_before: self.owners.1.as_deref(),
            children,
            settings: &self.chosen.settings,
        };
        debug_assert!(
            children.iter().all(|child| is_child_of(child, instance)),
            "they were chosen by that"
        );
        self.new.foresee(self.before.as_deref(), &subject)
    }
}

fn tell(one: &mut InstancePreview, foreseen: &Foreseen, brake: Brake, all: usize) {
    one.failure = told::text(foreseen.failure.as_deref().unwrap_or_default());
    let going = deletions(foreseen);
    if brake.holds(going, all) {
        let what = format!("{going} of {all} children would be deleted");
        one.confirmation = format!("{what}: that waits until somebody confirms it");
    }
    one.deletions_wait = going > 0 && foreseen.prune_waits;
    let told = foreseen.children.iter().take(TOLD_CHILD_COUNT_MAX);
    one.children = told.map(told::child).collect();
    one.children_omitted = foreseen.children.len().saturating_sub(one.children.len()) as u64;
    one.waiting = foreseen.waiting.iter().map(told::node).collect();
}

fn deletions(foreseen: &Foreseen) -> usize {
    let children = foreseen.children.iter();
    children
        .filter(|it| matches!(it.action, ChildAction::Delete | ChildAction::Orphan))
        .count()
}

fn count(counts: &mut Summary, foreseen: &Foreseen) {
    for child in &foreseen.children {
        *match child.action {
            ChildAction::Create => &mut counts.created,
            ChildAction::Update => &mut counts.updated,
            ChildAction::Delete => &mut counts.deleted,
            ChildAction::Retain | ChildAction::Orphan => &mut counts.kept,
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_instances_are_told_that_they_wait_together() {
        // (what goes of each, of how many, which would wait)
        for (going, all, want) in [
            (vec![3, 3, 0], 4, vec![false, false, false]),
            (vec![3, 3, 2], 4, vec![true, true, true]),
            (vec![4, 0, 4], 4, vec![true, false, true]),
        ] {
            let mut found: Vec<Examined> = going
                .into_iter()
                .map(|going| Examined {
                    going,
                    all,
                    ..Examined::default()
                })
                .collect();
            let count = hold_together(&mut found, Brake::default());
            let held: Vec<bool> = found
                .iter()
                .map(|one| !one.preview.confirmation.is_empty())
                .collect();
            assert_eq!(held, want, "{found:?}");
            let want = want.into_iter().filter(|waits| *waits).count();
            assert_eq!(count, want as u64, "{found:?}");
        }
    }
}
