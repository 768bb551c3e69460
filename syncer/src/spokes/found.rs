//! Spokes of clusters that a source has found: made where there is none, and let go when the source lets go of the cluster.
//!
//! # Invariants
//!
//! - A Spoke that a person made is theirs, whatever is found under its name.
//! - What is not found any more is not drained: while the hub holds anything for the Spoke, it stays, says so, and is not
//!   written to, because its credential is gone. A source that cannot be read says nothing.

use std::{sync::Arc, time::Duration};

use api::{
    LogicalCluster,
    wheelhouse::{Connection, keys},
};
use client::{DeleteRequest, Patch};
use serde_json::{Value, json};
use spokes::{Renewed, Sighted, Source};
use tracing::info;

use super::{left, row::Row};
use crate::{engine::Engine, resources};

/// How soon a Spoke that is not found any more is looked at again: whether it is empty is told by no watch.
const EMPTY_DELAY: Duration = Duration::from_secs(10);

/// Whether a Spoke goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Yes,
    /// It was deleted.
    No,
}

/// Where a Spoke comes from.
#[derive(Debug, PartialEq, Eq)]
enum Origin {
    /// A person made it.
    Hand,
    /// A source found its cluster.
    Found(Source),
    /// A source found it that this version does not have.
    Unknown(String),
}

/// Starts to reconcile spokes whose sightings change.
pub(super) fn start(engine: &Arc<Engine>) {
    let (engine, end) = (Arc::clone(engine), engine.tasks.child_token());
    let tasks = engine.tasks.clone();
    tasks.spawn("spokes-found", async move {
        let sightings = engine.spokes.sightings();
        loop {
            let renewed = tokio::select! {
                biased;
                () = end.cancelled() => return,
                renewed = sightings.renewed() => renewed,
            };
            let names = match renewed {
                Renewed::Some(names) => names,
                Renewed::All => &sightings.names() | &engine.spokes.names(),
            };
            for name in names {
                engine.spoke_queue.add(name);
            }
        }
    });
}

/// Makes the Spoke of a cluster that was found, if it was.
pub(super) async fn make(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
) -> Result<(), client::Error> {
    let sighted = engine.spokes.sightings().of(cluster);
    let Some((source, sighting)) = sighted.by.first() else {
        return Ok(());
    };
    let spoke = sighting.spoke(cluster, source).to_value();
    let endpoint = Engine::hub_endpoint(&LogicalCluster::root(), &resources::spokes(), "");
    match engine.hub.create(&endpoint, &spoke).await {
        Ok(_) => {
            info!(spoke = %cluster, item = sighting.item, "made a Spoke of a cluster that was found");
            Ok(())
        }
        Err(error) if error.is_already_exists() => Ok(()), // the watch has not shown it yet
        Err(error) => Err(error),
    }
}

/// Keeps a Spoke as its source has it, or deletes it where that lets go of an empty one.
pub(super) async fn keep(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    object: &Value,
) -> Result<Kept, client::Error> {
    let Origin::Found(source) = origin(object) else {
        return Ok(Kept::Yes);
    };
    let sightings = engine.spokes.sightings();
    let endpoint = Engine::hub_endpoint(&LogicalCluster::root(), &resources::spokes(), "");
    let connection = connection(object);
    if let Some(sighting) = sightings.of(cluster).by(&source, connection.as_ref()) {
        if sighting.connection != connection {
            let moved = json!({"spec": {"connection": sighting.connection}});
            let name = api::meta::name(object);
            engine
                .hub
                .patch(&endpoint, name, None, Patch::Merge(&moved))
                .await?;
        }
        return Ok(Kept::Yes);
    }
    if !sightings.is_read(&source) {
        return Ok(Kept::Yes);
    }
    // A restored hub may not know what it has in the spoke.
    let is_empty = engine.restored.is_original()
        && left::count(engine, cluster, false).await? == 0
        && engine.restored.is_original();
    if !is_empty {
        engine.spoke_queue.add_after(cluster.clone(), EMPTY_DELAY);
        return Ok(Kept::Yes);
    }
    let request = DeleteRequest::of(api::meta::uid(object));
    info!(spoke = %cluster, source = %source, "deleted a Spoke whose cluster no longer exists in any source");
    let name = api::meta::name(object);
    match engine.hub.delete(&endpoint, name, &request).await {
        Ok(_) => Ok(Kept::No),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(Kept::No),
        Err(error) => Err(error),
    }
}

/// Says what became of the sightings of a Spoke; nothing of one that a person made and nobody else sees.
pub(super) fn row(engine: &Engine, object: &Value) -> Option<Row> {
    let cluster: LogicalCluster = api::meta::name(object).parse().ok()?;
    let sightings = engine.spokes.sightings();
    let sighted = sightings.of(&cluster);
    let origin = origin(object);
    let is_read = match &origin {
        Origin::Found(source) => sightings.is_read(source),
        Origin::Hand | Origin::Unknown(_) => false,
    };
    verdict(&origin, is_read, &sighted, connection(object).as_ref())
}

fn verdict(
    origin: &Origin,
    is_read: bool,
    sighted: &Sighted,
    connection: Option<&Connection>,
) -> Option<Row> {
    let row = |status, reason, message: String| {
        Some(Row::new(keys::CONDITION_FOUND, status, reason, message))
    };
    let source = match origin {
        Origin::Found(source) => source,
        Origin::Unknown(text) => {
            let message = format!("it was found by {text:?}, which this hub does not know");
            return row("Unknown", "SourceNotRead", message);
        }
        Origin::Hand => {
            let mut others = sighted.by.iter().map(|(_, sighting)| sighting);
            let other = others.find(|it| it.connection.as_ref() != connection)?;
            let message = format!(
                "{} is of this name too, and is not used: this Spoke was made by hand",
                other.item
            );
            return row("False", "MadeByHand", message);
        }
    };
    let Some(sighting) = sighted.by(source, connection) else {
        return if is_read {
            let message = format!(
                "{source} has it no more: the Spoke goes when nothing is left in its logical cluster, and nothing is \
                 deleted for it"
            );
            row("False", "SourceGone", message)
        } else {
            let message = format!("{source} is not read here, or not yet");
            row("Unknown", "SourceNotRead", message)
        };
    };
    let others = sighted.by.iter().map(|(_, it)| it);
    let others: Vec<&str> = others
        .filter(|it| *it != sighting)
        .map(|it| it.item.as_str())
        .collect();
    if others.is_empty() {
        return row("True", "Found", sighting.item.clone());
    }
    let message = format!(
        "{} is used; of this name too, and not used: {}",
        sighting.item,
        others.join(", ")
    );
    row("True", "FoundTwice", message)
}

fn origin(object: &Value) -> Origin {
    match api::meta::annotation(object, keys::ANNOTATION_FOUND_IN) {
        None => Origin::Hand,
        Some(text) => {
            Source::parse(text).map_or_else(|| Origin::Unknown(text.to_owned()), Origin::Found)
        }
    }
}

fn connection(object: &Value) -> Option<Connection> {
    serde_json::from_value(object["spec"]["connection"].clone()).ok()
}

#[cfg(test)]
mod tests {
    use api::wheelhouse::{Provider, SecretKeyReference};
    use spokes::{Sighting, SourceSort};

    use super::*;

    fn at(name: &str) -> Connection {
        Connection {
            secret_ref: Some(SecretKeyReference {
                namespace: "n".to_owned(),
                name: name.to_owned(),
                ..SecretKeyReference::default()
            }),
            ..Connection::default()
        }
    }

    fn source(place: &str) -> Source {
        Source {
            sort: SourceSort::ClusterApi,
            place: place.to_owned(),
        }
    }

    fn sighted(by: &[(&str, &str)]) -> Sighted {
        let sighting = |(place, name): &(&str, &str)| {
            let sighting = Sighting {
                item: format!("Secret {place}/{name}"),
                provider: Provider::Kubeconfig,
                connection: Some(at(name)),
            };
            (source(place), sighting)
        };
        Sighted {
            by: by.iter().map(sighting).collect(),
        }
    }

    #[test]
    fn what_was_found_twice_or_under_the_name_of_another_is_told() {
        let found = || Origin::Found(source("a"));
        let hand = || Origin::Hand;
        let foreign = || Origin::Unknown("later:a".to_owned());
        // (what, where it comes from, whether that is read, who sees it, status, reason, what is said)
        let cases = [
            (
                "one",
                found(),
                true,
                vec![("a", "1")],
                "True",
                "Found",
                "Secret a/1",
            ),
            (
                "two",
                found(),
                true,
                vec![("a", "1"), ("b", "2")],
                "True",
                "FoundTwice",
                "Secret a/1 is used; of this name too, and not used: Secret b/2",
            ),
            (
                "gone",
                found(),
                true,
                vec![("b", "1")],
                "False",
                "SourceGone",
                "cluster-api:a has it no more",
            ),
            (
                "silent",
                found(),
                false,
                vec![],
                "Unknown",
                "SourceNotRead",
                "not yet",
            ),
            (
                "later",
                foreign(),
                false,
                vec![],
                "Unknown",
                "SourceNotRead",
                "does not know",
            ),
            (
                "mine",
                hand(),
                false,
                vec![("a", "2")],
                "False",
                "MadeByHand",
                "Secret a/2 is of this name too",
            ),
        ];
        for (name, origin, is_read, by, status, reason, says) in cases {
            let row = verdict(&origin, is_read, &sighted(&by), Some(&at("1")));
            let row = row.expect("something is said");
            assert_eq!((row.status, row.reason), (status, reason), "{name}");
            assert!(row.message.contains(says), "{name}: {}", row.message);
        }
        for by in [vec![], vec![("a", "1")]] {
            let row = verdict(&Origin::Hand, false, &sighted(&by), Some(&at("1")));
            assert!(row.is_none(), "it names what is found itself: {row:?}");
        }
    }
}
