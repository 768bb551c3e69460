//! From verb and endpoint to the handler.

use std::sync::Arc;

use api::query::Query;
use http::Method;

use super::{create, delete, delete_collection, get, list, patch, scale, subresources};
use super::{update, watch};
use crate::authorize::Authorized;
use crate::call::{Call, Each, Gathered, Shared};
use crate::refusal::Refusal;
use crate::registry::ResourceScope;
use crate::request::Verb;
use crate::respond::{RequestBody, Response};
use crate::strategy::endpoint::Endpoint;

/// Where the objects are that a request is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// In one cluster, which serves them like this.
    One(&'a Arc<ResourceScope>),
    /// In all clusters, each of which serves them in its own way.
    Each {
        /// What the answer as a whole is called.
        face: &'a Arc<ResourceScope>,
        /// How those of each cluster are read.
        each: &'a Each,
        /// What spokes have of them themselves.
        gathered: Option<&'a Gathered>,
    },
}

pub(super) async fn serve(
    shared: &Arc<Shared>,
    place: Place<'_>,
    request: &Authorized<http::request::Parts>,
    body: RequestBody,
) -> Result<Response, Refusal> {
    let query = Query::parse(request.request().uri.query().unwrap_or_default());
    let (scope, each, gathered) = match place {
        Place::One(scope) => (scope, None, None),
        Place::Each {
            face,
            each,
            gathered,
        } => (face, Some(each), gathered),
    };
    let call = Call {
        each,
        gathered,
        ..Call::new(shared, scope, request, &query)?
    };
    let named = call.info.names_object;
    if !is_served(&call) {
        return Err(Refusal::no_such_method());
    }
    if matches!(call.endpoint, Endpoint::Running | Endpoint::Balanced) {
        return subresources::running(&call);
    }
    if !allows(&call) {
        return Err(call.not_allowed());
    }
    catch_up(&call).await?;
    // A get is the most frequent request and the smallest future. The others are boxed, so that it does not carry their
    // sizes: a future is moved several times on its way to the connection.
    if call.info.verb == Verb::Get {
        return match call.endpoint {
            Endpoint::Scale => scale::get(&call).await,
            _ if named => get::get(&call).await,
            _ => Err(call.not_allowed()),
        };
    }
    Box::pin(change_or_list(&call, named, body)).await
}

/// Serves what is no get.
async fn change_or_list(
    call: &Call<'_>,
    named: bool,
    body: RequestBody,
) -> Result<Response, Refusal> {
    match (call.info.verb, call.endpoint) {
        (Verb::List, Endpoint::Main) => list::list(call).await,
        (Verb::Watch, Endpoint::Main) => watch::watch(call),
        (Verb::Create, Endpoint::Main) if !named => create::create(call, body).await,
        (Verb::Create, Endpoint::Binding) => subresources::bind(call, body).await,
        (Verb::Create, Endpoint::Eviction) => subresources::evict(call, body).await,
        (Verb::Update, Endpoint::Scale) => scale::update(call, body).await,
        (Verb::Update, _) if named => update::update(call, body).await,
        (Verb::Patch, Endpoint::Scale) => scale::patch(call, body).await,
        (Verb::Patch, _) if named => patch::patch(call, body).await,
        (Verb::Delete, Endpoint::Main) if named => delete::delete(call, body).await,
        (Verb::DeleteCollection, Endpoint::Main) => {
            delete_collection::delete_collection(call, body).await
        }
        _ => Err(call.not_allowed()),
    }
}

/// Whether the path has the method. HEAD is authorized as the GET that it is about, and answered nowhere.
fn is_served(call: &Call<'_>) -> bool {
    match call.parts.method {
        // The legacy paths below /watch/ are watches whatever is sent to them.
        _ if call.info.verb == Verb::Watch => call.parts.method == Method::GET,
        Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE => true,
        _ => false,
    }
}

/// Waits until the store shows everything that any replica of the hub has acknowledged, unless the client is content
/// with less. With one replica that is always so.
///
/// A read at "any version" is content with what is there, and one at a version that is there, or that is yet to come
/// for a watch, needs no other. Every change begins with the newest state: the client's own version may come from another replica.
///
/// Source: kube-apiserver's consistent reads from its cache, KEP-2340.
async fn catch_up(call: &Call<'_>) -> Result<(), Refusal> {
    let store = &call.shared.store;
    let is_read = matches!(call.info.verb, Verb::Get | Verb::List | Verb::Watch);
    let version = call.query.first("resourceVersion").unwrap_or_default();
    if is_read && !version.is_empty() {
        let is_there = version
            .parse::<storage::Revision>()
            .is_ok_and(|version| version <= store.revision() || !version.is_of_a_hub());
        if is_there {
            return Ok(());
        }
    }
    store.fresh().await?;
    Ok(())
}

/// Whether discovery says that the resource, or its subresource, has the verb. A terminating definition still answers
/// create and patch here: creating is refused by admission with the reason.
fn allows(call: &Call<'_>) -> bool {
    let verb = call.info.verb.as_str();
    let has = |verbs: &[String]| verbs.iter().any(|known| known == verb);
    let kind = &call.scope.kind;
    if call.endpoint == Endpoint::Main {
        let terminating = call.scope.life.phase == crate::registry::scope::Phase::Terminating;
        return has(&kind.verbs)
            || (terminating
                && matches!(call.info.verb, Verb::Create | Verb::Patch | Verb::Update));
    }
    let subresource = kind
        .subresources
        .iter()
        .find(|it| it.name == call.info.subresource);
    subresource.is_some_and(|subresource| has(&subresource.verbs))
}
