//! Previews: what a definition would do to the fleet, told before it is applied.
//!
//! ```text
//!   the definition ──► compile, with the schemas that the caller sees ──► the CRD: what breaks
//!        for each cluster: its instances ──► the new schema: which of them it does not allow
//!                          their children, what they refer to ──► graph::foresight: what would become of them ──► the brake
//! ```
//!
//! The compiler, the planner and the rules of the brake are those of the controllers; nothing of what the controllers know is looked at.
//!
//! # Invariants
//! - Everything is read over the hub's API, with a client that acts as the caller: who may not read something is told that it was not
//!   looked at, and nothing about it. A kind that cannot be read is never taken for one that is empty.
//! - Nothing is written, by any call: the client is given away to nobody who would.
//! - Time, objects that are read, and what is answered are bounded, and what is left out is told.

mod cluster;
mod reading;
mod told;

use std::{collections::BTreeMap, num::NonZero, sync::Arc, thread, time::Duration};

use api::{
    LogicalCluster,
    crd::CustomResourceDefinition,
    kro::{ResourceGraphDefinition, keys},
    wheelhouse::{
        keys as own,
        preview::{ClusterPreview, CrdPreview, PreviewSpec, PreviewStatus, Summary},
    },
};
use client::apart;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use graph::{CompiledGraph, Owner, compatibility};
use serde_json::Value;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use crate::{
    definitions::resolving::{self, Fetched},
    resources,
    state::{
        actors::Grant,
        brake::Brake,
        served::Reaching,
        switches::{Chosen, Switchboard, Switches},
    },
};
use cluster::Subject;
use reading::Reader;
use told::text;

/// How long everything may take that is read, so that there is an answer with what came before a client gives up.
const READ_TIMEOUT: Duration = Duration::from_secs(25);
/// The work is done apart from the threads that serve, however small a definition or an instance is.
const WORK_IS_LONG: usize = usize::MAX;
/// Clusters that are looked at. A hub is built for some more than that.
const CLUSTER_COUNT_MAX: usize = 1_000;
/// Clusters that are looked at together.
const TOGETHER: usize = 4;
/// Bytes of all changes that are told, as JSON.
const TOLD_BYTES_MAX: usize = 4 << 20;
/// Texts about what was left out.
const OMITTED_COUNT_MAX: usize = 64;

/// What previews are made with: what the controllers of this hub were started with.
#[derive(Clone, Debug)]
pub struct Previewer {
    /// Names this hub to other writers of the same spoke.
    pub hub_id: String,
    /// When deletions wait to be confirmed.
    pub brake: Brake,
    /// kro's switches.
    pub switches: Switches,
    /// All previews together leave room for the work of others.
    planning: Planning,
}

/// Turns of compiling and planning; cheap to clone, and the clones share them.
#[derive(Clone, Debug)]
struct Planning(Arc<Semaphore>);

/// A logical cluster that a definition may be for, as far as the caller sees it.
struct Place {
    cluster: LogicalCluster,
    labels: BTreeMap<String, String>,
    chosen: Arc<Chosen>,
}

/// A definition as somebody would write it, or as it is.
struct Draft {
    graph: Arc<CompiledGraph>,
    grant: Grant,
    reaching: Reaching,
}

// === impl Planning ===

impl Planning {
    /// Runs work apart from the threads that serve, if its turn comes before `end`.
    ///
    /// # Errors
    /// It does not, or the work fails.
    async fn run<T: Send + 'static>(
        &self,
        end: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let place = timeout_at(end, Arc::clone(&self.0).acquire_owned()).await;
        let place = place.map_err(|_elapsed| "its turn did not come in time".to_owned())?;
        let place = place.map_err(|error| error.to_string())?;
        let worked = apart::run(WORK_IS_LONG, move || {
            let _place = place; // a call that is given up does not end the work
            work()
        });
        worked.await.map_err(|error| error.to_string())
    }
}

impl Default for Planning {
    /// Half of the cores.
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self(Arc::new(Semaphore::new((cores / 2).max(1))))
    }
}

// === impl Previewer ===

impl Previewer {
    /// Makes previews, with what the controllers were started with.
    pub fn new(hub_id: &str, brake: Brake, switches: &Switches) -> Self {
        Self {
            hub_id: hub_id.to_owned(),
            brake,
            switches: switches.clone(),
            planning: Planning::default(),
        }
    }

    /// Tells what would happen if a definition were written to the logical cluster `home`, to one instance or to all of them. `hub` is a client
    /// of this hub that acts as the caller.
    pub async fn preview(
        &self,
        hub: kube::Client,
        home: LogicalCluster,
        spec: PreviewSpec,
    ) -> PreviewStatus {
        let reader = Reader::new(hub, Instant::now() + READ_TIMEOUT);
        let mut status = PreviewStatus::default();
        if let Err(reason) = self.look(&reader, &home, &spec, &mut status).await {
            status.accepted = false;
            status.message = text(&reason);
        }
        status
    }

    /// # Errors
    /// Why the definition would be refused.
    async fn look(
        &self,
        reader: &Reader,
        home: &LogicalCluster,
        spec: &PreviewSpec,
        status: &mut PreviewStatus,
    ) -> Result<(), String> {
        let PreviewSpec {
            definition,
            instance: only,
        } = spec;
        let typed = typed(definition)?;
        let places = self.places(reader, home, status).await;
        let live = reader.definition(home, &typed.metadata.name).await;
        let live = live.unwrap_or_else(|reason| {
            let what = "what is there under this name is not compared";
            omit(status, &format!("{what}: {reason}"));
            None
        });
        let chosen = match places.iter().find(|place| place.cluster == *home) {
            Some(place) => Arc::clone(&place.chosen),
            None => self.board().of(home),
        };
        let fetched = self.fetch(reader, &places, &typed).await;
        let fetched = Arc::new(fetched);
        let new = self
            .draft(reader, home, (definition, &typed), (&fetched, &chosen))
            .await?;
        status.accepted = true;
        let before = match live.as_ref().map(|live| (live, self::typed(live))) {
            Some((live, Ok(typed))) => {
                let before = self
                    .draft(reader, home, (live, &typed), (&fetched, &chosen))
                    .await;
                before.ok() // children are compared with what is there then
            }
            Some((_, Err(_))) | None => None,
        };
        status.changed = before
            .as_ref()
            .is_none_or(|before| before.graph.spec_hash() != new.graph.spec_hash());
        let uid = live.as_ref().map_or("", |live| api::meta::uid(live));
        let owner = Owner {
            name: typed.metadata.name.clone(),
            uid: uid.to_owned(),
        };
        let crd = crd(reader, home, &new, before.as_ref(), &owner, &typed).await;
        status.crd = Some(crd);
        let subject = Subject {
            new: &new,
            before: before.as_ref(),
            home,
            hub_id: &self.hub_id,
            brake: self.brake,
            planning: &self.planning,
            only: only.as_ref(),
        };
        look_at(reader, &subject, &places, status).await;
        Ok(())
    }

    /// Finds the logical clusters that the caller sees.
    async fn places(
        &self,
        reader: &Reader,
        home: &LogicalCluster,
        status: &mut PreviewStatus,
    ) -> Vec<Place> {
        let board = self.board();
        let mut places = vec![Place {
            cluster: home.clone(),
            labels: BTreeMap::new(),
            chosen: board.of(home),
        }];
        let spokes = match reader.spokes(CLUSTER_COUNT_MAX).await {
            Ok((spokes, left_count)) => {
                if left_count > 0 {
                    omit(
                        status,
                        &format!("{left_count} clusters, because there are too many"),
                    );
                }
                spokes
            }
            Err(reason) if home.is_root() => {
                let what = "the clusters of the fleet, because Spokes cannot be listed";
                omit(status, &format!("{what}: {reason}"));
                Vec::new()
            }
            Err(_) => Vec::new(),
        };
        for spoke in spokes {
            let Ok(cluster) = spoke.metadata.name.parse::<LogicalCluster>() else {
                continue;
            };
            board.note(&cluster, &spoke.spec.kro);
            if cluster == *home {
                places[0].chosen = board.of(home);
            } else if home.is_root() {
                places.push(Place {
                    chosen: board.of(&cluster),
                    labels: spoke.metadata.labels,
                    cluster,
                });
            }
        }
        places
    }

    /// Compiles a definition.
    async fn draft(
        &self,
        reader: &Reader,
        home: &LogicalCluster,
        (definition, typed): (&Value, &ResourceGraphDefinition),
        (fetched, chosen): (&Arc<Fetched>, &Chosen),
    ) -> Result<Draft, String> {
        let (options, name) = (chosen.settings.compile, typed.metadata.name.clone());
        let (spec, fetched) = (typed.spec.clone(), Arc::clone(fetched));
        let compiled = self.planning.run(reader.end(), move || {
            fetched.compile(|schemas| graph::compile_with(&spec, &name, schemas, &options))
        });
        let (graph, _) = compiled.await?.map_err(|error| error.to_string())?;
        let metadata = &typed.metadata;
        Ok(Draft {
            graph,
            grant: Grant::of(home, definition)?,
            reaching: Reaching::of(&metadata.annotations, &metadata.labels)?,
        })
    }

    fn board(&self) -> Switchboard {
        let label = (own::HUB.to_owned(), self.hub_id.clone());
        Switchboard::new(self.switches.clone(), BTreeMap::from([label]))
    }

    async fn fetch(
        &self,
        reader: &Reader,
        places: &[Place],
        typed: &ResourceGraphDefinition,
    ) -> Fetched {
        let scopes: Vec<_> = places
            .iter()
            .map(|place| api::ClusterScope::One(place.cluster.clone()))
            .collect();
        let dynamics: Vec<_> = places.iter().map(|_| reader.documents()).collect();
        let sources: Vec<_> = places
            .iter()
            .zip(&scopes)
            .zip(&dynamics)
            .map(|((place, scope), dynamic)| resolving::Source {
                dynamic,
                cluster: &place.cluster,
                scope: Some(scope),
            })
            .collect();
        resolving::fetch_as_seen(&sources, &typed.spec, reader.end()).await
    }
}

/// Looks at the clusters, a few at a time, and tells what there is in them as far as it fits.
async fn look_at(
    reader: &Reader,
    subject: &Subject<'_>,
    places: &[Place],
    status: &mut PreviewStatus,
) {
    let is_meant = |place: &&Place| {
        let only = subject.only;
        only.is_none_or(|only| only.cluster == place.cluster.as_str())
    };
    let looked: Vec<BoxFuture<'_, _>> = places
        .iter()
        .filter(is_meant)
        .map(|place| cluster::look(reader, subject, place).boxed())
        .collect();
    let mut looked = stream::iter(looked).buffered(TOGETHER);
    let (mut left, mut cut_count) = (TOLD_BYTES_MAX, 0_usize);
    while let Some(looked) = looked.next().await {
        let Some(mut looked) = looked else { continue };
        add(&mut status.summary, &looked.counts);
        cut_count += usize::from(cut(&mut looked.preview, &mut left));
        status.clusters.push(looked.preview);
    }
    if cut_count > 0 {
        let what = format!("changes in {cut_count} clusters");
        omit(
            status,
            &format!("{what}, because there are too many to tell"),
        );
    }
}

fn typed(definition: &Value) -> Result<ResourceGraphDefinition, String> {
    let typed: ResourceGraphDefinition =
        serde_json::from_value(definition.clone()).map_err(|error| error.to_string())?;
    let is_one = typed.kind == api::kro::RGD_KIND && typed.api_version == api::kro::API_VERSION;
    if !is_one {
        return Err(format!(
            "it is no {} of {}",
            api::kro::RGD_KIND,
            api::kro::API_VERSION
        ));
    }
    if typed.metadata.name.is_empty() {
        return Err("it has no name".to_owned());
    }
    Ok(typed)
}

/// Tells what would become of the CRD in the definition's home.
async fn crd(
    reader: &Reader,
    home: &LogicalCluster,
    new: &Draft,
    before: Option<&Draft>,
    owner: &Owner,
    typed: &ResourceGraphDefinition,
) -> CrdPreview {
    let wanted = new.graph.definition();
    let name = wanted.metadata.name.clone();
    let mut preview = CrdPreview {
        name: name.clone(),
        ..CrdPreview::default()
    };
    // Who may not read CRDs may have read the definition that this one is generated from.
    let live = match reader.object(home, &resources::crds(), "", &name).await {
        Ok(live) => live.and_then(|live| CustomResourceDefinition::from_value(&live).ok()),
        Err(_) => before.map(|before| before.graph.definition().clone()),
    };
    let Some(live) = live else {
        preview.action = String::from("Create");
        return preview;
    };
    let is_generated = live.metadata.uid.is_empty(); // it was not read, so nobody can say whose it is
    let refusal = graph::ownership(&live, owner).refusal(&name);
    if let Some(reason) = refusal.filter(|_| !is_generated) {
        preview.action = String::from("Refused");
        preview.message = text(&reason);
        return preview;
    }
    let report = match compatibility::compare(&live, wanted) {
        Ok(report) => report,
        Err(reason) => {
            preview.action = String::from("Refused");
            preview.message = text(&reason);
            return preview;
        }
    };
    let told = |changes: &[compatibility::Change]| -> Vec<String> {
        let changes = changes.iter().take(OMITTED_COUNT_MAX);
        changes
            .map(|it| text(&format!("{}: {it}", it.path)))
            .collect()
    };
    preview.breaking = told(&report.breaking);
    preview.other = told(&report.other);
    let annotations = &typed.metadata.annotations;
    let is_allowed = annotations
        .get(keys::ANNOTATION_ALLOW_BREAKING_CHANGES)
        .is_some_and(|it| it == "true");
    let action = match report.refusal(&name) {
        Some(reason) if !is_allowed => {
            preview.message = text(&reason);
            "Refused"
        }
        _ if report.is_empty() => "None",
        _ => "Update",
    };
    preview.action = String::from(action);
    preview
}

/// Leaves out the changes for which no bytes are left; tells whether there were such.
fn cut(preview: &mut ClusterPreview, left: &mut usize) -> bool {
    let all = preview.changes.len();
    preview.changes.retain(|change| {
        let bytes = serde_json::to_vec(change).map_or(usize::MAX, |text| text.len());
        // After the first one that does not fit, none does: what is told is the beginning.
        *left = left.saturating_sub(bytes);
        *left > 0
    });
    let cut_count = all.saturating_sub(preview.changes.len()) as u64;
    preview.changes_omitted = preview.changes_omitted.saturating_add(cut_count);
    cut_count > 0
}

/// Adds counts, some of which are what a spoke says.
fn add(summary: &mut Summary, counts: &Summary) {
    let add = |sum: &mut u64, count: u64| *sum = sum.saturating_add(count);
    add(&mut summary.clusters, counts.clusters);
    add(&mut summary.unknown_clusters, counts.unknown_clusters);
    add(&mut summary.instances, counts.instances);
    add(&mut summary.examined, counts.examined);
    add(&mut summary.invalid, counts.invalid);
    add(&mut summary.failing, counts.failing);
    add(&mut summary.created, counts.created);
    add(&mut summary.updated, counts.updated);
    add(&mut summary.deleted, counts.deleted);
    add(&mut summary.kept, counts.kept);
    add(&mut summary.held, counts.held);
}

fn omit(status: &mut PreviewStatus, what: &str) {
    if status.omitted.len() < OMITTED_COUNT_MAX {
        status.omitted.push(text(what));
    }
}

#[cfg(test)]
mod tests {
    use api::wheelhouse::preview::InstancePreview;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_waits_for_its_turn_and_no_longer_than_it_may() {
        let planning = Planning(Arc::new(Semaphore::new(1)));
        let soon = || Instant::now() + Duration::from_millis(20);
        let later = Instant::now() + Duration::from_mins(1);
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let long = planning.run(soon(), move || receiver.recv());
        let given_up = tokio::time::timeout(Duration::from_millis(20), long).await;
        assert!(given_up.is_err(), "it is still at work");
        assert!(
            planning.run(soon(), || ()).await.is_err(),
            "and has the place"
        );
        sender.send(()).expect("it still waits");
        assert_eq!(planning.run(later, || 7).await, Ok(7));
    }

    #[test]
    fn changes_are_told_up_to_a_sum_over_all_clusters() {
        let change = || InstancePreview {
            failure: "x".repeat(400),
            ..InstancePreview::default()
        };
        let mut left = 2_000;
        let mut told = Vec::new();
        for _ in 0..3 {
            let mut preview = ClusterPreview {
                changes: vec![change(); 3],
                changes_omitted: 1,
                ..ClusterPreview::default()
            };
            let is_cut = cut(&mut preview, &mut left);
            told.push((preview.changes.len(), preview.changes_omitted, is_cut));
        }
        assert_eq!(told, [(3, 1, false), (1, 3, true), (0, 4, true)]);
    }

    #[test]
    fn counts_that_spokes_make_up_do_not_overflow() {
        let mut summary = Summary::default();
        for _ in 0..3 {
            let counts = Summary {
                instances: i64::MAX.cast_unsigned(),
                deleted: 1,
                ..Summary::default()
            };
            add(&mut summary, &counts);
        }
        assert_eq!((summary.instances, summary.deleted), (u64::MAX, 3));
    }
}
