//! What a preview reads of the hub, as its caller and within its time.

use std::sync::Arc;

use api::{
    ClusterScope, GroupVersionResource, LogicalCluster,
    growth::{Growth, TooLarge},
    selector::Selector,
    wheelhouse::Spoke,
};
use client::{Bounds, Budget, Client, Dynamic, Endpoint, ListRequest};
use graph::{Target, Wanted};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::told::text;
use crate::resources;

/// Objects of one page.
const PAGE_SIZE: usize = 250;
/// Objects that one external reference may select.
const EXTERNAL_COUNT_MAX: usize = 500;

/// Memory of the objects of one cluster that are kept at a time.
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// Memory of all Spokes, which are the hub's own, while they are read.
const SPOKES_BYTES_MAX: u64 = 256 << 20;
/// What is under way from one cluster. The hub hands on what a spoke answers, so no answer is trusted to be small.
const OBJECTS: Bounds = Bounds {
    total_bytes_max: 48 << 20,
    page_bytes_max: 16 << 20,
    ..Bounds::SPOKE
};

/// Reads as a caller, within what one cluster may make a preview hold.
pub(super) struct Reader {
    kube: kube::Client,
    hub: Dynamic,
    end: Instant,
    /// Guards what may still be kept. What was kept is given back with the reader.
    left: Mutex<Growth>,
}

/// Objects of a collection, as far as they were read, and how many more there are at least.
pub(super) struct Listed {
    pub(super) items: Vec<Value>,
    pub(super) left_count: u64,
}

// === impl Reader ===

impl Reader {
    pub(super) fn new(kube: kube::Client, end: Instant) -> Self {
        Self {
            hub: within(&kube, OBJECTS),
            left: Mutex::new(Growth::new(KEPT_BYTES_MAX)),
            kube,
            end,
        }
    }

    /// Returns a reader for another cluster: what one sends takes nothing from another.
    pub(super) fn anew(&self) -> Self {
        Self::new(self.kube.clone(), self.end)
    }

    /// Returns calls that read the documents of one cluster, as the controllers do.
    pub(super) fn documents(&self) -> Dynamic {
        within(&self.kube, Bounds::SPOKE)
    }

    pub(super) const fn end(&self) -> Instant {
        self.end
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
            Ok(object) => {
                self.keep(&object)?;
                Ok(Some(object))
            }
            Err(Unread::Absent) => Ok(None),
            Err(Unread::Because(reason)) => Err(reason),
        }
    }

    /// Reads the Spokes that the caller may list; tells how many more there are than `count_max`.
    pub(super) async fn spokes(&self, count_max: usize) -> Result<(Vec<Spoke>, u64), String> {
        let root = LogicalCluster::root();
        let reader = Self {
            left: Mutex::new(Growth::new(SPOKES_BYTES_MAX)),
            ..self.anew()
        };
        let listed = reader
            .list(
                &root,
                &resources::spokes(),
                "",
                ListRequest::default(),
                count_max,
            )
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
        request: ListRequest,
        count_max: usize,
    ) -> Result<Listed, String> {
        let endpoint = endpoint(cluster, gvr, namespace);
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
            // A server may send more than it was asked for, and may tell of any number.
            let beyond = page.items.len().saturating_sub(limit);
            for item in page.items.into_iter().take(limit) {
                self.keep(&item)?;
                items.push(item);
            }
            let next = page.metadata.continue_token;
            let remaining = if next.is_empty() {
                0
            } else {
                page.metadata.remaining_item_count.unwrap_or(1).max(1)
            };
            let left_count = u64::try_from(remaining)
                .unwrap_or(1)
                .saturating_add(beyond as u64);
            if next.is_empty() || beyond > 0 || items.len() >= count_max {
                return Ok(Listed { items, left_count });
            }
            if next == token {
                return Err("the list gives the same continue token again".to_owned());
            }
            token = next;
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
                let request = ListRequest {
                    label_selector: Some(selector),
                    ..ListRequest::default()
                };
                let listed = self.list(cluster, gvr, namespace, request, EXTERNAL_COUNT_MAX);
                let listed = listed.await?;
                if listed.left_count > 0 {
                    return Err("it selects more objects than a preview reads".to_owned());
                }
                Ok(listed.items)
            }
        }
    }

    /// Counts what is kept.
    ///
    /// # Errors
    /// It would be too much; from then on nothing more of this cluster is kept.
    fn keep(&self, object: &Value) -> Result<(), String> {
        let kept = self.left.lock().charge_value(object);
        kept.map_err(|TooLarge { bytes_max }| {
            let mib = bytes_max >> 20;
            format!("it was not read: a preview keeps at most {mib} MiB of one cluster")
        })
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

fn within(kube: &kube::Client, bounds: Bounds) -> Dynamic {
    let budget = Arc::new(Budget::new(bounds));
    Dynamic::new(Client::within(kube.clone(), budget))
}

fn endpoint(cluster: &LogicalCluster, gvr: &GroupVersionResource, namespace: &str) -> Endpoint {
    Endpoint {
        scope: Some(ClusterScope::One(cluster.clone())),
        gvr: gvr.clone(),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use http::{Request, Response};
    use http_body_util::Full;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A reader of a cluster that answers every list with the same page.
    fn reader(page: &Value) -> Reader {
        let page = page.to_string();
        let hub = client::in_process(tower::service_fn(move |_: Request<Body>| {
            let page = page.clone();
            async move { Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::from(page))) }
        }));
        Reader::new(hub, Instant::now() + Duration::from_mins(1))
    }

    async fn list(reader: &Reader, count_max: usize) -> Result<Listed, String> {
        let cluster = "east".parse().expect("it is a name");
        let gvr = GroupVersionResource::new("example.com", "v1", "widgets");
        reader
            .list(&cluster, &gvr, "", ListRequest::default(), count_max)
            .await
    }

    #[tokio::test]
    async fn a_page_longer_than_it_was_asked_for_is_cut() {
        let items = vec![json!({"kind": "Widget"}); 700];
        let page = json!({"kind": "WidgetList", "items": items, "metadata": {}});
        let listed = list(&reader(&page), 500).await.expect("it is read");
        assert_eq!((listed.items.len(), listed.left_count), (PAGE_SIZE, 450));
        let metadata = json!({"continue": "c", "remainingItemCount": i64::MAX});
        let page = json!({"kind": "WidgetList", "items": page["items"], "metadata": metadata});
        let listed = list(&reader(&page), 500).await.expect("it is read");
        let left_count = i64::MAX.cast_unsigned() + 450;
        assert_eq!(
            (listed.items.len(), listed.left_count),
            (PAGE_SIZE, left_count)
        );
    }

    #[tokio::test]
    async fn no_list_is_whole_that_begins_anew() {
        let page = json!({"items": [{"kind": "Widget"}], "metadata": {"continue": "c"}});
        let listed = list(&reader(&page), 500).await;
        assert!(listed.is_err_and(|reason| reason.contains("same continue token")));
    }

    #[tokio::test]
    async fn what_is_kept_of_a_cluster_is_bounded_and_given_back_with_its_reader() {
        let items = vec![json!({"kind": "Widget", "data": "x".repeat(1 << 20)}); 12];
        let page = json!({"kind": "WidgetList", "items": items, "metadata": {}});
        let one = reader(&page);
        for round in 0..5 {
            assert!(list(&one, 500).await.is_ok(), "{round}: 60 MiB fit");
        }
        let listed = list(&one, 500).await;
        assert!(listed.is_err_and(|reason| reason.contains("at most 64 MiB")));
        assert!(list(&one.anew(), 500).await.is_ok(), "another has its own");
    }

    #[tokio::test]
    async fn an_answer_of_a_spoke_is_no_larger_than_a_spokes() {
        let page = json!({"items": [{"kind": "Widget", "data": "x".repeat(17 << 20)}]});
        let listed = list(&reader(&page), 500).await;
        assert!(listed.is_err_and(|reason| reason.contains("larger than 16 MiB")));
    }
}
