//! Clusters that were found: what each source has seen, and which Spokes are to be there because of it.
//!
//! A source says all that it sees, again whenever that changes. The controller of Spokes, in the replica that leads, makes a
//! Spoke of what is seen and has none; which credential a Spoke may use is not decided here but by [`crate::dialer`].
//!
//! # Invariants
//! - A source that has not been read says nothing: nothing is gone because it is silent.
//! - The source that first found a Spoke owns it for as long as it reports it; other sightings of its name are reported and have no effect.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use api::{
    LogicalCluster,
    wheelhouse::{Connection, Provider, Spoke, SpokeSpec, keys},
};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// What finds clusters. Its text stands before the colon of a Spoke's `wheelhouse.dev/found-in`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceSort {
    /// Secrets with the labels of multicluster-runtime.
    MulticlusterRuntime,
    /// Secrets of Cluster API.
    ClusterApi,
    /// Kubeconfig files of the operator.
    KubeconfigFile,
    /// ClusterProfiles.
    ClusterProfile,
}

/// A source: a sort, and the namespace or the file that it reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The sort.
    pub sort: SourceSort,
    /// What it reads.
    pub place: String,
}

/// A cluster as one source sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Where in the source.
    pub item: String,
    /// What stands behind the Spoke.
    pub provider: Provider,
    /// How the Spoke is reached.
    pub connection: Option<Connection>,
}

/// What is known of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sighted {
    /// Who sees it, the first one first.
    pub by: Vec<(Source, Sighting)>,
}

/// What all sources see. Filled in each process, read by the controller of Spokes.
#[derive(Debug, Default)]
pub struct Sightings {
    /// Guards what is seen. A leaf of the lock order.
    inner: Mutex<Inner>,
    wake: Notify,
}

/// Which names are to be looked at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewed {
    /// These.
    Some(BTreeSet<LogicalCluster>),
    /// Every one: a source was read for the first time, so that what it does not show is gone.
    All,
}

#[derive(Debug, Default)]
struct Inner {
    sources: BTreeMap<Source, Seen>,
    changed: BTreeSet<LogicalCluster>,
    is_first_read: bool,
}

/// What one source sees. A name may be seen at several items.
type Seen = BTreeMap<LogicalCluster, Vec<Sighting>>;

// === impl SourceSort ===

impl SourceSort {
    const ALL: [Self; 4] = [
        Self::MulticlusterRuntime,
        Self::ClusterApi,
        Self::KubeconfigFile,
        Self::ClusterProfile,
    ];

    /// Returns the sort as labels and annotations have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MulticlusterRuntime => "multicluster-runtime",
            Self::ClusterApi => "cluster-api",
            Self::KubeconfigFile => "kubeconfig-file",
            Self::ClusterProfile => "cluster-profile",
        }
    }
}

// === impl Source ===

impl Source {
    /// Reads the annotation of a Spoke that was found.
    pub fn parse(text: &str) -> Option<Self> {
        let (sort, place) = text.split_once(':')?;
        let mut sorts = SourceSort::ALL.into_iter();
        let sort = sorts.find(|it| it.as_str() == sort)?;
        Some(Self {
            sort,
            place: place.to_owned(),
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sort.as_str(), self.place)
    }
}

// === impl Sighting ===

impl Sighting {
    /// Makes the Spoke of a cluster that is seen.
    pub fn spoke(&self, cluster: &LogicalCluster, source: &Source) -> Spoke {
        let mut spoke = Spoke::new(
            cluster.as_str(),
            SpokeSpec {
                provider: self.provider,
                connection: self.connection.clone(),
                ..SpokeSpec::default()
            },
        );
        let metadata = &mut spoke.metadata;
        let by = source.sort.as_str().to_owned();
        metadata.labels.insert(keys::LABEL_FOUND_BY.to_owned(), by);
        let place = source.to_string();
        metadata
            .annotations
            .insert(keys::ANNOTATION_FOUND_IN.to_owned(), place);
        spoke
    }
}

// === impl Sightings ===

impl Sightings {
    /// Notes all that a source sees now.
    pub(crate) fn replace(&self, source: &Source, seen: Seen) {
        let mut inner = self.inner.lock();
        match inner.sources.get(source) {
            None => inner.is_first_read = true,
            Some(before) => {
                let is_changed = |name: &&LogicalCluster| before.get(*name) != seen.get(*name);
                let names = before.keys().chain(seen.keys());
                let changed: Vec<_> = names.filter(is_changed).cloned().collect();
                inner.changed.extend(changed);
            }
        }
        inner.sources.insert(source.clone(), seen);
        drop(inner);
        self.wake.notify_one();
    }

    /// Returns who sees a name.
    pub fn of(&self, cluster: &LogicalCluster) -> Sighted {
        let inner = self.inner.lock();
        let by = inner.sources.iter().flat_map(|(source, seen)| {
            let sightings = seen.get(cluster).into_iter().flatten();
            sightings.map(|it| (source.clone(), it.clone()))
        });
        Sighted { by: by.collect() }
    }

    /// Whether a source has been read, so that what it does not show is not there.
    pub fn is_read(&self, source: &Source) -> bool {
        self.inner.lock().sources.contains_key(source)
    }

    /// Returns every name that is seen.
    pub fn names(&self) -> BTreeSet<LogicalCluster> {
        let inner = self.inner.lock();
        let names = inner.sources.values().flat_map(BTreeMap::keys);
        names.cloned().collect()
    }

    /// Waits for changes and takes them. There is one caller.
    ///
    /// # Cancel safety
    /// Cancel safe: the names are taken only in the poll that returns them.
    pub async fn renewed(&self) -> Renewed {
        loop {
            {
                let mut inner = self.inner.lock();
                let changed = std::mem::take(&mut inner.changed);
                if std::mem::take(&mut inner.is_first_read) {
                    return Renewed::All;
                }
                if !changed.is_empty() {
                    return Renewed::Some(changed);
                }
            }
            self.wake.notified().await;
        }
    }
}

// === impl Sighted ===

impl Sighted {
    /// Returns the sighting that a Spoke of a source goes by: that of its source, and the same item while it is seen.
    pub fn by(&self, source: &Source, connection: Option<&Connection>) -> Option<&Sighting> {
        let of_source = || self.by.iter().filter(|(it, _)| it == source);
        let same = of_source().find(|(_, sighting)| sighting.connection.as_ref() == connection);
        same.or_else(|| of_source().next()).map(|(_, it)| it)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn source(place: &str) -> Source {
        Source {
            sort: SourceSort::ClusterApi,
            place: place.to_owned(),
        }
    }

    fn sighting(item: &str) -> Sighting {
        Sighting {
            item: item.to_owned(),
            provider: Provider::Kubeconfig,
            connection: None,
        }
    }

    fn seen(names: &[(&str, &str)]) -> Seen {
        let mut seen = Seen::new();
        for (name, item) in names {
            let name = name.parse().expect("a name");
            let sightings: &mut Vec<_> = seen.entry(name).or_default();
            sightings.push(sighting(item));
        }
        seen
    }

    #[test]
    fn a_source_says_once_what_changed_and_that_it_was_read() {
        let sightings = Sightings::default();
        let (a, east) = (source("a"), "east".parse::<LogicalCluster>().expect("name"));
        assert!(sightings.renewed().now_or_never().is_none());
        assert!(!sightings.is_read(&a), "it has not been read");
        sightings.replace(&a, seen(&[("east", "1"), ("west", "2")]));
        assert!(sightings.is_read(&a));
        assert_eq!(sightings.renewed().now_or_never(), Some(Renewed::All));
        assert!(sightings.renewed().now_or_never().is_none());
        sightings.replace(&a, seen(&[("east", "3"), ("west", "2")]));
        let east_alone = Renewed::Some([east.clone()].into());
        assert_eq!(sightings.renewed().now_or_never(), Some(east_alone.clone()));
        sightings.replace(&a, seen(&[("west", "2")]));
        assert_eq!(sightings.renewed().now_or_never(), Some(east_alone));
        assert_eq!(sightings.of(&east), Sighted::default());
    }

    #[test]
    fn a_spoke_says_by_which_source_it_was_found() {
        for source in [source("a"), source("a:b")] {
            let east = "east".parse().expect("a name");
            let spoke = sighting("1").spoke(&east, &source);
            let said = spoke.metadata.annotations.get(keys::ANNOTATION_FOUND_IN);
            assert_eq!(said.and_then(|it| Source::parse(it)), Some(source));
        }
        for text in ["", "cluster-api", "nobody:a"] {
            assert_eq!(Source::parse(text), None, "{text}");
        }
    }
}
