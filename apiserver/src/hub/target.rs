//! Who answers a request.

use std::sync::Arc;

use api::{
    cluster::{ClusterScope, LogicalCluster},
    group::{GroupResource, GroupVersionResource},
    query::Query,
    status::Status,
};
use http::{Method, request::Parts};

use super::{Hub, debug, preview, syncers};
use crate::{
    authenticate::ServiceAccounts,
    authorize::{Authorized, Judge},
    backup,
    call::{Gathered, PARTIAL},
    discovery,
    handle::LEFT_OUT,
    openapi,
    refusal::Refusal,
    registry::{ClusterKind, Registry, ResourceScope},
    relay,
    request::{RequestInfo, RequestOrigin, Verb},
    respond::{RequestBody, Response},
    review::{Review, kubeconfig_request, token_request},
    served::{KindSource, ServedKinds},
    side,
};

/// Whom a host's aggregation layer names where it asks for itself: for OpenAPI, for discovery and whether the hub is there.
///
/// Source: `kube-aggregator/pkg/controllers/openapi/aggregator/aggregator.go`, `.../pkg/apiserver/handler_discovery.go`.
const AGGREGATORS: [&str; 2] = ["system:aggregator", "system:kube-aggregator"];

/// Who answers a request. Found before it is known whether it may be answered.
#[derive(Debug)]
pub(super) enum Target {
    /// This process: health, version, metrics, the index; discovery and OpenAPI of what the hub serves.
    Page,
    /// The store, all of it.
    Backup,
    /// What syncers are told of the hub.
    Syncer,
    /// What operators look at in the process.
    Debug,
    /// The authorizer.
    Review(Review),
    /// Who previews definitions, as the caller ([`Hub::preview`]).
    Preview,
    /// The one who issues tokens of ServiceAccounts.
    Token(LogicalCluster),
    /// The one who makes kubeconfigs.
    Kubeconfig,
    /// The hub's store.
    Stored(Arc<ResourceScope>),
    /// The hub's store and spokes, over all clusters.
    Each {
        /// The hub stores the resource for these.
        stored: Vec<LogicalCluster>,
        /// The spokes of these have it themselves, if they have it.
        relayed: Vec<LogicalCluster>,
    },
    /// A spoke.
    Spoke,
    /// Nobody: only lists and watches go over all clusters.
    NotOverAll,
    /// Nobody: there is no such cluster.
    NoSuchCluster,
    /// Nobody: there is no such resource or path.
    Nothing,
}

// === impl Target ===

impl Target {
    /// Finds who answers a request that comes from `origin`.
    pub(super) fn of(registry: &Registry, info: &RequestInfo, origin: RequestOrigin) -> Self {
        let cluster = match &info.cluster {
            ClusterScope::One(cluster) => cluster,
            ClusterScope::All => return Self::over_all(registry, info),
        };
        let Some((kind, scope)) = registry.find(cluster, info) else {
            return Self::NoSuchCluster;
        };
        if info.is_resource {
            if kind != ClusterKind::Composite && is_token_request(info) {
                return Self::Token(cluster.clone());
            }
            if preview::is_asked_for(info) {
                return Self::Preview;
            }
            if kubeconfig_request::is_asked_for(info) {
                return Self::Kubeconfig;
            }
            let is_seen = |scope: &Arc<ResourceScope>| scope.is_served() || origin.is_controller();
            if let Some(scope) = scope.filter(is_seen) {
                return Self::Stored(scope);
            }
            if kind == ClusterKind::Composite {
                return Self::Spoke;
            }
            return Review::of(info).map_or(Self::Nothing, Self::Review);
        }
        if backup::is_asked_for(info) {
            return Self::Backup;
        }
        if syncers::is_asked_for(info) {
            return Self::Syncer;
        }
        if debug::is_asked_for(info) {
            return Self::Debug;
        }
        if kind == ClusterKind::Composite && !is_of_process(&info.path) {
            return Self::Spoke;
        }
        Self::Page
    }

    /// Finds who answers a request over all clusters. Only lists and watches are judged by each cluster; anything else is
    /// refused; the message depends on whether the caller may access all clusters.
    fn over_all(registry: &Registry, info: &RequestInfo) -> Self {
        if info.is_resource {
            if let Some(review) = Review::of(info) {
                return Self::Review(review);
            }
            let gvr = GroupVersionResource::new(
                info.group.as_str(),
                info.version.as_str(),
                info.resource.as_str(),
            );
            let (stored, relayed) = (registry.serving(&gvr), registry.relaying(&gvr));
            return match info.verb {
                Verb::List | Verb::Watch => Self::Each { stored, relayed },
                _ if stored.is_empty() && relayed.is_empty() => Self::Nothing,
                _ => Self::NotOverAll,
            };
        }
        if backup::is_asked_for(info) {
            return Self::Backup;
        }
        Self::Page
    }

    /// Who says whether the request may be answered.
    pub(super) fn judge(&self) -> Judge<'_> {
        match self {
            Self::Page
            | Self::Backup
            | Self::Syncer
            | Self::Debug
            | Self::Review(_)
            | Self::Preview
            | Self::Token(_)
            | Self::Kubeconfig
            | Self::Stored(_)
            | Self::NotOverAll
            | Self::Nothing => Judge::Rules,
            Self::Each { stored, relayed } => Judge::Each { stored, relayed },
            Self::Spoke => Judge::Spoke,
            Self::NoSuchCluster => Judge::FirstGate,
        }
    }

    /// Whether the answer may be another protocol: a stream to a spoke. Who else answers does so in HTTP.
    pub(super) fn switches(&self, parts: &Parts, info: &RequestInfo) -> bool {
        matches!(self, Self::Spoke) && relay::asked_protocol(parts, info).is_some()
    }

    /// Answers.
    pub(super) async fn answer(
        self,
        hub: &Hub,
        request: &Authorized<Parts>,
        body: RequestBody,
    ) -> Result<Response, Refusal> {
        let info = request.info();
        match self {
            // The most frequent. What is awaited otherwise is boxed: a request does not carry the sizes of answers that it
            // does not get.
            Self::Stored(scope) => hub.parts.handlers.serve(scope, request, body).await,
            Self::Each { .. } => {
                let gathered = Box::pin(gathered(hub, request)).await?;
                let handlers = &hub.parts.handlers;
                Box::pin(handlers.serve_each(request, body, gathered)).await
            }
            Self::NotOverAll => {
                let resource = GroupResource::new(info.group.as_str(), info.resource.as_str());
                Err(Status::method_not_allowed(&resource, info.verb.as_str()).into())
            }
            // It is answered where it is known how the caller came.
            Self::Preview => Err(Refusal::no_such_path()),
            Self::Page => Box::pin(hub.page(request)).await,
            Self::Backup => {
                let parts = &hub.parts;
                Box::pin(parts.backups.serve(&parts.authorizer, request)).await
            }
            Self::Syncer => syncers::serve(hub.id(), request),
            Self::Debug => {
                let parts = &hub.parts;
                let pages = debug::Debug {
                    log: parts.config.log_filter.as_deref(),
                    tasks: parts.metrics.tasks(),
                    quotas: &parts.quotas,
                };
                Box::pin(pages.serve(request, body)).await
            }
            Self::Review(review) => {
                let parts = &hub.parts;
                let (authorizer, authenticator) = (&parts.authorizer, &parts.authenticator);
                Box::pin(review.serve(authorizer, authenticator, request, body)).await
            }
            Self::Token(cluster) => {
                let accounts = &hub.parts.accounts;
                Box::pin(token_request::serve(accounts, &cluster, request, body)).await
            }
            Self::Kubeconfig => {
                let parts = &hub.parts;
                let issue = kubeconfig_request::Issue {
                    authenticator: &parts.authenticator,
                    authorizer: &parts.authorizer,
                    passes: &parts.passes,
                    pki: &parts.pki,
                };
                Box::pin(issue.serve(request, body)).await
            }
            Self::Spoke => {
                let parts = &hub.parts;
                let served = parts.registry.served(&info.cluster);
                let served = served.ok_or_else(|| no_such_cluster(info))?;
                let stand_in = || parts.registry.stand_in();
                let openapi = &parts.openapi;
                let relayed = parts
                    .relay
                    .answer(request, body, &served, &stand_in, openapi);
                Box::pin(relayed).await
            }
            Self::NoSuchCluster => hub
                .stand_in(request)
                .unwrap_or_else(|| Err(no_such_cluster(info))),
            Self::Nothing => Err(hub.nothing_served(info)),
        }
    }
}

/// Asks the spokes that have the kind themselves for their part of a list. Controllers of the hub's own are told what it stores, and
/// look into spokes themselves.
///
/// # Errors
/// 405 for a watch, unless the client takes a part: there is no version of all spokes to go on from.
async fn gathered(hub: &Hub, request: &Authorized<Parts>) -> Result<Option<Gathered>, Refusal> {
    let info = request.info();
    if request.spokes().is_empty() || request.context().origin.is_controller() {
        return Ok(None);
    }
    if info.verb == Verb::Watch {
        let query = Query::parse(request.request().uri.query().unwrap_or_default());
        if query.flag(PARTIAL) {
            let text = "what spokes keep themselves of it";
            request.context().warn(format!("{LEFT_OUT}{text}"));
            return Ok(None);
        }
        let resource = GroupResource::new(info.group.as_str(), info.resource.as_str());
        let mut status = Status::method_not_allowed(&resource, info.verb.as_str());
        status.message = format!(
            "{}: over all clusters it can be listed, and what the hub stores of it watched ({PARTIAL}=true); the clusters \
             of spokes are watched one by one, at /clusters/<name>",
            status.message
        );
        return Err(status.into());
    }
    hub.parts.relay.gather(request).await.map(Some)
}

/// Whether this is `serviceaccounts/<name>/token`.
fn is_token_request(info: &RequestInfo) -> bool {
    (info.group.as_str(), info.version.as_str()) == ("", "v1")
        && (info.resource.as_str(), info.subresource.as_str()) == ("serviceaccounts", "token")
        && !info.namespace.is_empty()
}

/// Whether a path is one of discovery or OpenAPI.
fn is_published(path: &str) -> bool {
    discovery::Page::of(path).is_some() || openapi::Page::of(path).is_some()
}

/// Whether a page knows no other method than GET: those that Kubernetes serves by its REST library.
fn is_for_get_alone(path: &str) -> bool {
    use discovery::Page::{Core, CoreVersion, GroupVersion};
    use side::Page::{Issuer, Keys, Version};
    let is_side = matches!(side::Page::of(path), Some(Version | Issuer | Keys));
    let page = discovery::Page::of(path);
    is_side || matches!(page, Some(Core | CoreVersion(_) | GroupVersion(..)))
}

/// Whether a path of a spoke's logical cluster is answered for this process all the same.
fn is_of_process(path: &str) -> bool {
    matches!(side::Page::of(path), Some(side::Page::Health(..)))
}

pub(super) fn no_such_cluster(info: &RequestInfo) -> Refusal {
    let spokes = GroupResource {
        group: "wheelhouse.dev".to_owned(),
        resource: "spokes".to_owned(),
    };
    let cluster = info.cluster.to_string();
    let mut status = Status::not_found(&spokes, &cluster);
    status.message = format!(
        "spoke {cluster:?} not found: this hub has no such logical cluster; \"kubectl get spokes\" at root lists those that \
         there are, and \"wheelhouse spoke add {cluster} --from KUBECONFIG\" joins one"
    );
    status.into()
}

impl Hub {
    /// Answers what is not about objects. Some pages are answered whatever the method is, as in a kube-apiserver.
    async fn page(&self, request: &Authorized<Parts>) -> Result<Response, Refusal> {
        let answered = self.page_by_get(request).await;
        if request.request().method == Method::GET || !is_for_get_alone(&request.info().path) {
            return answered;
        }
        match answered {
            Err(refusal) if refusal.is_not_found() => Err(refusal),
            Ok(_) | Err(_) => Err(Refusal::no_such_method()),
        }
    }

    async fn page_by_get(&self, request: &Authorized<Parts>) -> Result<Response, Refusal> {
        let (parts, info) = (request.request(), request.info());
        let page = side::Page::of(&info.path);
        let query = parts.uri.query().unwrap_or_default();
        match page {
            Some(side::Page::Health(probe, check)) => {
                return self.parts.health.serve(probe, check, query);
            }
            Some(side::Page::Version) => return side::version(parts),
            Some(side::Page::Metrics) if is_unprefixed(&info.cluster) => {
                return self.parts.metrics.serve().await;
            }
            Some(side::Page::Metrics) => return Err(Refusal::no_such_path()),
            Some(page @ (side::Page::Issuer | side::Page::Keys)) => {
                return self.issuer_page(request, page);
            }
            Some(side::Page::Index) | None => {}
        }
        let registry = &self.parts.registry;
        let served = match info.cluster {
            ClusterScope::All => registry.listed_anywhere(),
            ClusterScope::One(_) => registry
                .served(&info.cluster)
                .ok_or_else(|| no_such_cluster(info))?,
        };
        let served = self.seen_by_aggregator(request).unwrap_or(served);
        if page == Some(side::Page::Index) {
            return side::index(parts, self.parts.discovery.of(&served).groups());
        }
        self.published(request, &served)
    }

    /// What a host's aggregation layer is shown that asks for itself and for no user: the groups that it carries. It merges what it is shown with
    /// what the host serves, and of a group version that both have, Kubernetes' own for instance, it would publish now one and now the other.
    ///
    /// Source: `kube-aggregator/pkg/controllers/openapiv3/aggregator/aggregator.go`.
    fn seen_by_aggregator(&self, request: &Authorized<Parts>) -> Option<Arc<ServedKinds>> {
        let (info, context) = (request.info(), request.context());
        let asks_for_itself =
            context.is_proxied() && AGGREGATORS.contains(&context.user.username.as_str());
        let is_root = info.cluster.one().is_some_and(LogicalCluster::is_root);
        if !asks_for_itself || !is_root {
            return None;
        }
        let served = self.parts.registry.served(&info.cluster)?;
        Some(Arc::new(served.of_groups(&self.parts.config.host.groups)))
    }

    /// Answers who issues the tokens of a cluster's ServiceAccounts, or how they are checked.
    fn issuer_page(
        &self,
        request: &Authorized<Parts>,
        page: side::Page<'_>,
    ) -> Result<Response, Refusal> {
        let (parts, info) = (request.request(), request.info());
        let cluster = info.cluster.one().ok_or_else(Refusal::no_such_path)?;
        let document = if page == side::Page::Keys {
            self.parts.accounts.key_set()
        } else {
            let base = side::base_url(parts, &info.prefix());
            ServiceAccounts::issuer_configuration(cluster, &base)
        };
        side::issuer_page(parts, page, &document)
    }

    /// Answers what a client needs to name an object, at the path of a cluster that is not there: clients ask for it first, and show no reason
    /// where that fails. What they ask then is refused with the reason. `None` for any other request.
    fn stand_in(&self, request: &Authorized<Parts>) -> Option<Result<Response, Refusal>> {
        let info = request.info();
        let is_read = matches!(info.verb, Verb::Get | Verb::Head);
        if info.is_resource || !is_published(&info.path) || !is_read {
            return None;
        }
        Some(self.published(request, &self.parts.registry.stand_in()))
    }

    /// Answers with discovery or OpenAPI of what is served.
    fn published(
        &self,
        request: &Authorized<Parts>,
        served: &ServedKinds,
    ) -> Result<Response, Refusal> {
        let (parts, info) = (request.request(), request.info());
        if let Some(page) = discovery::Page::of(&info.path) {
            return discovery::serve(&self.parts.discovery.of(served), page, parts);
        }
        match openapi::Page::of(&info.path).ok_or_else(Refusal::no_such_path)? {
            openapi::Page::V2 => openapi::serve_v2(&self.parts.openapi.v2(served), parts),
            openapi::Page::Index => openapi::serve_index(&self.parts.openapi.index(served), parts),
            openapi::Page::Document(name) => {
                let document = self.parts.openapi.document(served, name);
                let document = document.ok_or_else(Refusal::no_such_path)?;
                {
                    let context = request.context();
                    let old_hash = openapi::OldHash::by_way_of(context);
                    openapi::serve_document(name, &document, parts, context.now, old_hash)
                }
            }
        }
    }

    /// Why a resource is not there: a `Status` in a group of Kubernetes' own, as its own handlers say it, and plain text
    /// elsewhere, where the request falls through.
    fn nothing_served(&self, info: &RequestInfo) -> Refusal {
        let is_built_in = self
            .parts
            .registry
            .served(&info.cluster)
            .is_some_and(|served| {
                served
                    .of_group_version(&info.group, &info.version)
                    .any(|kind| kind.source == KindSource::BuiltIn)
            });
        if is_built_in {
            Status::resource_not_found().into()
        } else {
            Refusal::no_such_path()
        }
    }
}

/// Whether metrics are for this path: they are the process's, so only without a prefix.
fn is_unprefixed(cluster: &ClusterScope) -> bool {
    cluster.one().is_some_and(LogicalCluster::is_root)
}
