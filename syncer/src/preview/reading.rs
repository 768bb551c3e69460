//! What a preview reads of the hub, as its caller and within its time.

use api::{
    ClusterScope, GroupVersionResource, LogicalCluster, selector::Selector, wheelhouse::Spoke,
};
use client::{Dynamic, Endpoint, ListRequest};
use graph::{Target, Wanted};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::told::text;
use crate::resources;

/// Objects of one page.
const PAGE_SIZE: usize = 250;
/// Objects that one external reference may select.
const EXTERNAL_COUNT_MAX: usize = 500;

/// Reads as a caller.
pub(super) struct Reader {
    hub: Dynamic,
    end: Instant,
}

/// Objects of a collection, as far as they were read, and how many more there are at least.
pub(super) struct Listed {
    pub(super) items: Vec<Value>,
    pub(super) left_count: u64,
}

// === impl Reader ===

impl Reader {
    pub(super) const fn new(hub: Dynamic, end: Instant) -> Self {
        Self { hub, end }
    }

    pub(super) const fn dynamic(&self) -> &Dynamic {
        &self.hub
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Reads the definition of a name, if there is one.
    pub(super) async fn definition(
        &self,
        home: &LogicalCluster,
        name: &str,
    ) -> Result<Option<Value>, String> {
        self.object(home, &resources::definitions(), "", name).await
    }

    /// Reads an object, if there is one.
    pub(super) async fn object(
        &self,
        cluster: &LogicalCluster,
        gvr: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, String> {
        let endpoint = endpoint(cluster, gvr, namespace);
        match self.timely(self.hub.get(&endpoint, name)).await {
            Ok(object) => Ok(Some(object)),
            Err(Unread::Absent) => Ok(None),
            Err(Unread::Because(reason)) => Err(reason),
        }
    }

    /// Reads the Spokes that the caller may list; tells how many more there are than `count_max`.
    pub(super) async fn spokes(&self, count_max: usize) -> Result<(Vec<Spoke>, u64), String> {
        let root = LogicalCluster::root();
        let listed = self
            .list(&root, &resources::spokes(), "", None, count_max)
            .await?;
        let spokes = listed.items.into_iter();
        let spokes = spokes.filter_map(|spoke| serde_json::from_value(spoke).ok());
        Ok((spokes.collect(), listed.left_count))
    }

    /// Reads objects of a collection, up to `count_max`; nothing where it is not served.
    pub(super) async fn list(
        &self,
        cluster: &LogicalCluster,
        gvr: &GroupVersionResource,
        namespace: &str,
        label_selector: Option<Selector>,
        count_max: usize,
    ) -> Result<Listed, String> {
        let endpoint = endpoint(cluster, gvr, namespace);
        let request = ListRequest {
            label_selector,
            field_selector: None,
        };
        let mut items: Vec<Value> = Vec::new();
        let mut token = String::new();
        loop {
            let limit = PAGE_SIZE.min(count_max - items.len());
            let page = self.hub.list_page(&endpoint, &request, limit, &token);
            let page = match self.timely(page).await {
                Ok(page) => page,
                Err(Unread::Absent) => {
                    return Ok(Listed {
                        items,
                        left_count: 0,
                    });
                }
                Err(Unread::Because(reason)) => return Err(reason),
            };
            items.extend(page.items);
            let next = page.metadata.continue_token;
            if next.is_empty() || next == token {
                return Ok(Listed {
                    items,
                    left_count: 0,
                });
            }
            token = next;
            if items.len() >= count_max {
                let left = page.metadata.remaining_item_count.unwrap_or(1).max(1);
                let left_count = u64::try_from(left).unwrap_or(1);
                return Ok(Listed { items, left_count });
            }
        }
    }

    /// Reads what an external reference means.
    pub(super) async fn external(
        &self,
        cluster: &LogicalCluster,
        wanted: &Wanted,
    ) -> Result<Vec<Value>, String> {
        match &wanted.target {
            Target::Name(name) => {
                let found = self.object(cluster, &wanted.gvr, &wanted.namespace, name);
                Ok(found.await?.into_iter().collect())
            }
            Target::Selector(selector) => {
                let selector = selector.parse::<Selector>();
                let selector = selector.map_err(|error| error.to_string())?;
                let (gvr, namespace) = (&wanted.gvr, &wanted.namespace);
                let listed = self.list(cluster, gvr, namespace, Some(selector), EXTERNAL_COUNT_MAX);
                let listed = listed.await?;
                if listed.left_count > 0 {
                    return Err("it selects more objects than a preview reads".to_owned());
                }
                Ok(listed.items)
            }
        }
    }

    async fn timely<T>(
        &self,
        call: impl Future<Output = Result<T, client::Error>>,
    ) -> Result<T, Unread> {
        match timeout_at(self.end, call).await {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(error)) if error.is_not_found() => Err(Unread::Absent),
            Ok(Err(error)) => Err(Unread::Because(text(&error.to_string()))),
            Err(_elapsed) => Err(Unread::Because("it was not read in time".to_owned())),
        }
    }
}

/// Why something was not read.
enum Unread {
    /// It is not there.
    Absent,
    /// For another reason.
    Because(String),
}

fn endpoint(cluster: &LogicalCluster, gvr: &GroupVersionResource, namespace: &str) -> Endpoint {
    Endpoint {
        scope: Some(ClusterScope::One(cluster.clone())),
        gvr: gvr.clone(),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
    }
}
