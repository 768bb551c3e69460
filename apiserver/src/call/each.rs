//! Objects of all logical clusters in one answer.
//!
//! Each cluster has definitions of its own, also of kinds that are called the same elsewhere. So an object is selected,
//! decoded, defaulted, converted and framed by the definition of the cluster that it is in, and left out where that cluster
//! does not serve the version that was asked for, or does not let the caller look.
//!
//! # Invariants
//! - No definition of one cluster decides about an object of another: not its schema, not its scope, not its name in the
//!   store, and not how long a watch lasts.
//! - An object that its own definition cannot convert is left out; it fails nobody's list.

use std::sync::Arc;

use api::{GroupResource, GroupVersionResource, LogicalCluster};
use schema::Schema;
use schema::columns::Columns;
use storage::{Entry, KeyRange, RangeQuery, Revision, Store};

use super::Shared;
use super::gathered::{Failed, SpokeList};
use crate::authorize::{Attributes, Authorized, Authorizer, Sight};
use crate::objects::{ResourcePrefix, parse_key};
use crate::refusal::Refusal;
use crate::registry::scope::{Conversion, Life, ResourceRules};
use crate::registry::{Registry, ResourceScope};
use crate::request::{RequestInfo, RequestOrigin, UserInfo};
use crate::served::ServedKind;
use crate::strategy;
use crate::strategy::rules::AuthorStamp;
use crate::strategy::version::{StatusMode, VersionRules};

/// What a request over all clusters asks for, and who asks.
#[derive(Debug, Clone)]
pub(crate) struct Each {
    registry: Arc<Registry>,
    authorizer: Arc<Authorizer>,
    user: Arc<UserInfo>,
    info: RequestInfo,
    gvr: GroupVersionResource,
    /// Fields beside those of metadata that are selected by: clusters that do not know them have nothing to show.
    fields: Vec<String>,
    sight: Sight,
    origin: RequestOrigin,
}

/// By whose definition one object is read.
#[derive(Debug)]
pub(crate) enum Lens<'a> {
    /// The one that the request is about.
    Given(&'a ResourceScope),
    /// That of the object's own cluster.
    Own(Arc<ResourceScope>),
}

/// Finds the definitions of objects that come sorted by cluster.
#[derive(Debug)]
pub(crate) struct Lenses<'a> {
    each: Option<&'a Each>,
    given: &'a ResourceScope,
    last: Option<(String, Option<Arc<ResourceScope>>)>,
}

// === impl Each ===

impl Each {
    /// Takes up a request that was judged cluster by cluster.
    ///
    /// # Errors
    /// An internal error for a request that was judged otherwise.
    pub(crate) fn new(
        shared: &Shared,
        request: &Authorized<http::request::Parts>,
    ) -> Result<Self, Refusal> {
        let info = request.info();
        let sight = request.sight().ok_or_else(|| {
            Refusal::internal("a request over all clusters was not judged by each")
        })?;
        Ok(Self {
            registry: Arc::clone(&shared.registry),
            authorizer: Arc::clone(&shared.authorizer),
            user: Arc::clone(&request.context().user),
            info: info.clone(),
            gvr: GroupVersionResource::new(
                info.group.as_str(),
                info.version.as_str(),
                info.resource.as_str(),
            ),
            fields: Vec::new(),
            sight: sight.clone(),
            origin: request.context().origin,
        })
    }

    /// The definition of the kind in a cluster that has something to show.
    pub(crate) fn scope(&self, cluster: &str) -> Option<Arc<ResourceScope>> {
        if !self.sight.sees(cluster) {
            return None;
        }
        let scope = self.registry.lookup_by_name(cluster, &self.gvr)?;
        if !scope.is_served() && !self.origin.is_controller() {
            return None;
        }
        let fits = self.info.namespace.is_empty() || scope.kind.namespaced;
        let selects = self.fields.iter().all(|field| selects_by(&scope, field));
        (fits && selects).then_some(scope)
    }

    /// The clusters that have something to show, with their definitions.
    pub(crate) fn serving(&self) -> Vec<(LogicalCluster, Arc<ResourceScope>)> {
        let clusters = self.registry.serving(&self.gvr).into_iter();
        clusters
            .filter_map(|cluster| {
                let scope = self.scope(cluster.as_str())?;
                Some((cluster, scope))
            })
            .collect()
    }

    /// Selects by a field as well. Tells whether a cluster knows it.
    pub(crate) fn select_by(&mut self, field: &str) -> bool {
        self.fields.push(field.to_owned());
        !self.serving().is_empty()
    }

    /// What the answer as a whole is called, and where its objects lie: made of what the clusters agree on.
    ///
    /// `None` where no cluster has the kind.
    pub(crate) fn face(&self) -> Option<ResourceScope> {
        let serving = self.serving();
        let mut scopes = serving.iter().map(|(_, scope)| scope.as_ref());
        let first = scopes.next()?;
        let kinds: Vec<_> = serving.iter().map(|(_, scope)| &scope.kind).collect();
        let kind = ServedKind::common(&kinds)?;
        // What nobody can define is the same everywhere.
        let is_given =
            api::reserved::claim_kind(&self.gvr.group, &self.gvr.resource, &first.kind.gvk.kind)
                .is_err();
        let columns = if is_given || scopes.all(|it| it.version.number == first.version.number) {
            Arc::clone(&first.version.columns)
        } else {
            plain_columns()
        };
        let prefix = first.rules.prefix.clone();
        Some(face(&self.gvr, kind, prefix, columns))
    }

    /// [`Each::face`] of a kind of which the hub stores nothing for the caller: as Kubernetes has it, or as most spokes name it.
    pub(crate) fn face_of_spokes(&self, lists: &[SpokeList]) -> ResourceScope {
        let resource = self.gvr.group_resource();
        let prefix = ResourcePrefix::new(&resource);
        if let Some(scope) = Registry::built_in(&self.gvr) {
            let columns = Arc::clone(&scope.version.columns);
            return face(&self.gvr, ServedKind::clone(&scope.kind), prefix, columns);
        }
        let mut kind = ServedKind::unknown(&self.gvr);
        let count = |wanted: &SpokeList| {
            lists
                .iter()
                .filter(|it| it.list_kind == wanted.list_kind)
                .count()
        };
        // Of names that equally many have, the first.
        if let Some(list) = lists.iter().rev().max_by_key(|list| count(list)) {
            kind.gvk.kind.clone_from(&list.kind);
            kind.list_kind.clone_from(&list.list_kind);
        }
        face(&self.gvr, kind, prefix, plain_columns())
    }

    /// [`Each::face`] of a kind that no cluster has yet.
    pub(crate) fn blank_face(&self) -> ResourceScope {
        let resource = self.gvr.group_resource();
        let kind = ServedKind::unknown(&self.gvr);
        let prefix = ResourcePrefix::new(&resource);
        face(&self.gvr, kind, prefix, plain_columns())
    }

    /// The parts of a range in which there may be something to show, in the order of keys.
    pub(crate) fn parts_of(&self, whole: &KeyRange, prefix: &ResourcePrefix) -> Vec<KeyRange> {
        if self.sight.only().is_none() {
            return vec![whole.clone()];
        }
        let namespace = Some(self.info.namespace.as_str()).filter(|it| !it.is_empty());
        let mut parts: Vec<KeyRange> = self
            .serving()
            .into_iter()
            .map(|(cluster, _)| {
                let mut part = prefix.range(&api::ClusterScope::One(cluster), namespace);
                if part.start < whole.start {
                    part.start = whole.start.clone();
                }
                part
            })
            .filter(|part| !part.is_empty())
            .collect();
        parts.sort_by(|a, b| a.start.cmp(&b.start));
        parts
    }

    /// Everything of one cluster at a revision.
    pub(crate) fn of_cluster(
        &self,
        store: &dyn Store,
        prefix: &ResourcePrefix,
        cluster: &LogicalCluster,
        at: Revision,
    ) -> Result<Vec<Entry>, storage::Error> {
        let namespace = Some(self.info.namespace.as_str()).filter(|it| !it.is_empty());
        let range = prefix.range(&api::ClusterScope::One(cluster.clone()), namespace);
        Ok(store.range(RangeQuery::of(range).at(at))?.entries)
    }

    /// Asks again which clusters the caller may look into.
    pub(crate) async fn look_again(&mut self) {
        if self.sight.only().is_some() {
            let asked = Attributes {
                user: &self.user,
                cluster: &self.info.cluster,
                verb: self.info.verb.as_str(),
                group: &self.info.group,
                version: &self.info.version,
                resource: &self.info.resource,
                subresource: &self.info.subresource,
                namespace: &self.info.namespace,
                name: &self.info.name,
                path: &self.info.path,
                is_resource: true,
            };
            let clusters = self.registry.serving(&self.gvr);
            let sight = self.authorizer.sight(&asked, &clusters).await;
            self.sight = sight.or_as(&self.sight);
        }
    }

    /// The clusters of which it is not known whether they have something to show, with the reason.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = Failed> {
        let unknown = self.sight.unknown().into_iter().flatten();
        unknown.map(|(cluster, reason)| Failed {
            cluster: cluster.clone(),
            reason: reason.clone(),
        })
    }

    /// Whether rights have to be asked for again.
    pub(crate) fn is_judged(&self) -> bool {
        self.sight.only().is_some()
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The name that each cluster's definition of the kind has.
    pub(crate) fn definition_name(&self) -> String {
        self.gvr.group_resource().to_string()
    }
}

/// Whether a cluster's definition lets its objects be selected by a field.
fn selects_by(scope: &ResourceScope, field: &str) -> bool {
    let mut selectable = scope.version.selectable.iter();
    selectable.any(|known| known.label == field)
}

/// Name and age.
fn plain_columns() -> Arc<Columns> {
    Arc::new(Columns::of_version(&[]).expect("no column has a path that is no path"))
}

fn face(
    gvr: &GroupVersionResource,
    kind: ServedKind,
    prefix: ResourcePrefix,
    columns: Arc<Columns>,
) -> ResourceScope {
    let api_version = gvr.group_version().to_string();
    let version = Arc::new(VersionRules {
        number: VersionRules::next_number(),
        lead: VersionRules::lead_of(&api_version, &kind.gvk.kind),
        gvk: kind.gvk.clone(),
        api_version,
        schema: Arc::new(Schema::any()),
        hash: 0,
        columns,
        selectable: Vec::new(),
        status: StatusMode::Inline,
        scale: None,
        deprecation: None,
    });
    ResourceScope {
        kind: Arc::new(kind),
        rules: Arc::new(ResourceRules {
            resource: GroupResource::new(gvr.group.as_str(), gvr.resource.as_str()),
            prefix,
            strategy: strategy::custom(AuthorStamp::Absent),
            storage: Arc::clone(&version),
            versions: vec![Arc::clone(&version)],
            conversion: Conversion::None,
        }),
        version,
        life: Life::endless(),
    }
}

// === impl Lens ===

impl std::ops::Deref for Lens<'_> {
    type Target = ResourceScope;

    fn deref(&self) -> &ResourceScope {
        match self {
            Self::Given(scope) => scope,
            Self::Own(scope) => scope,
        }
    }
}

// === impl Lenses ===

impl<'a> Lenses<'a> {
    pub(crate) fn new(each: Option<&'a Each>, given: &'a ResourceScope) -> Self {
        Self {
            each,
            given,
            last: None,
        }
    }

    /// The definition that an object is read by; `None` for one that is not to be shown.
    pub(crate) fn of(&mut self, entry: &Entry) -> Option<Lens<'a>> {
        let Some(each) = self.each else {
            return Some(Lens::Given(self.given));
        };
        let cluster = parse_key(entry.key())?.cluster;
        if let Some((last, scope)) = &self.last
            && last == cluster
        {
            return scope.clone().map(Lens::Own);
        }
        let scope = each.scope(cluster);
        self.last = Some((cluster.to_owned(), scope.clone()));
        scope.map(Lens::Own)
    }

    /// Passes an object on that its definition could show. Over all clusters, what one cluster cannot show is left out.
    ///
    /// # Errors
    /// The refusal, where the request is about one cluster.
    pub(crate) fn or_left_out<T>(&self, shown: Result<T, Refusal>) -> Result<Option<T>, Refusal> {
        match shown {
            Ok(shown) => Ok(Some(shown)),
            Err(refusal) if self.each.is_some() => {
                tracing::debug!(error = %refusal, "object omitted from a list over all clusters");
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }
}
