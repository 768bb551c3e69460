//! Lists of all logical clusters, as far as these can be asked.

use std::collections::BTreeMap;

use api::wheelhouse::keys::REASON_SPOKE_FAILED;
use client::{Dynamic, Endpoint, ListRequest};
use serde_json::Value;

/// What could not be asked, by cluster: why not, where the hub says so.
pub(super) type Unknown = BTreeMap<String, String>;

/// The objects of a kind in all clusters that could be asked.
#[derive(Debug)]
pub(super) struct Everywhere {
    pub(super) items: Vec<Value>,
    pub(super) unknown: Unknown,
}

/// Lists a kind in all clusters. What is missing is known: the hub is asked for a part only once it has named what it cannot give.
///
/// # Errors
/// The hub refuses it, or does not answer.
pub(super) async fn list(hub: &Dynamic, endpoint: &Endpoint) -> Result<Everywhere, client::Error> {
    let unknown = match hub.list(endpoint, &ListRequest::default()).await {
        Ok(listed) => {
            return Ok(Everywhere {
                items: listed.items,
                unknown: Unknown::new(),
            });
        }
        Err(error) => left_out(&error).ok_or(error)?,
    };
    let request = ListRequest {
        partial: true,
        ..ListRequest::default()
    };
    let items = hub.list(endpoint, &request).await?.items;
    Ok(Everywhere { items, unknown })
}

/// Returns the clusters that a list of all was refused for.
fn left_out(error: &client::Error) -> Option<Unknown> {
    let causes = &error.status()?.details.as_ref()?.causes;
    let failed = causes.iter().filter(|it| it.reason == REASON_SPOKE_FAILED);
    let unknown: Unknown = failed
        .map(|it| (it.field.clone(), it.message.clone()))
        .collect();
    Some(unknown).filter(|it| !it.is_empty())
}
