//! kube-rs, with the kubeconfig of a logical cluster as it is: discovery, pages of a list, server-side apply, and a watch that goes
//! on after a restart of the hub.

use std::{collections::BTreeMap, pin::Pin, time::Duration};

use futures::{Stream, StreamExt};
use kube::{
    Api, Client, Config,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        ResourceExt, WatchEvent, WatchParams,
    },
    config::{KubeConfigOptions, Kubeconfig},
    discovery,
};
use serde_json::json;
use wheelhouse_tests::{assets, wait::within};

use super::stage::Stage;

const WEBAPP: &str = include_str!("../../fixtures/webapp.yaml");
/// How long what is awaited may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// Marks what the trial makes.
const LABEL: &str = "trial.example.org/kube-rs";

type Events = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<DynamicObject>>> + Send>>;

/// What a watch has told, added up, as a controller's cache does it.
struct Cache {
    api: Api<DynamicObject>,
    events: Option<Events>,
    version: String,
    known: BTreeMap<String, String>,
    /// How often all was read again because the history was gone.
    relists: u32,
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_rs_goes_on_over_a_restart_of_the_hub() {
    // Any of the programs that hack/real-clients builds asks for the trials.
    if assets::client("controllers").is_none() {
        return;
    }
    let mut stage = Stage::set().await;
    let root = stage.hub.root();
    root.apply(WEBAPP).await;
    let ready = [
        "wait",
        "--for=condition=Ready",
        "rgd/webapp",
        "--timeout=60s",
    ];
    root.must(&ready).await;
    let mut caches = Vec::new();
    for cluster in ["east", "inner"] {
        let client = connect(&stage, cluster).await;
        let webapps = resource(&client, "kro.run/v1alpha1", "WebApp").await;
        let maps = resource(&client, "v1", "ConfigMap").await;
        instance_lives(Api::default_namespaced_with(client.clone(), &webapps)).await;
        let api = Api::default_namespaced_with(client, &maps);
        for number in 0..25 {
            apply(&api, &format!("before-{number:02}"), "one").await;
        }
        let mut cache = Cache::list(api).await;
        assert_eq!(cache.known.len(), 25, "all pages: {:?}", cache.known);
        apply(&cache.api, "first", "one").await;
        cache.learns("first", Some("one")).await;
        caches.push(cache);
    }
    stage.hub.kill();
    stage.hub.launch().await;
    for cache in &mut caches {
        apply(&cache.api, "first", "two").await;
        apply(&cache.api, "after", "two").await;
        let gone = cache
            .api
            .delete("before-00", &DeleteParams::default())
            .await;
        gone.expect("it is deleted");
        cache.learns("first", Some("two")).await;
        cache.learns("after", Some("two")).await;
        cache.learns("before-00", None).await;
        assert_eq!(cache.known.len(), 26, "nothing else: {:?}", cache.known);
        println!("kube-rs: {} lists again", cache.relists);
    }
}

async fn connect(stage: &Stage, cluster: &str) -> Client {
    let file = Kubeconfig::read_from(stage.kubeconfig(cluster).await).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("kube-rs reads it")).expect("a client")
}

/// Finds a kind by discovery, which may be a moment behind a new definition.
async fn resource(client: &Client, version: &str, kind: &str) -> ApiResource {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let found = within(PATIENCE, "the kind is discovered", || async {
        let found = discovery::pinned_kind(client, &gvk).await;
        found.map_err(|error| error.to_string())
    });
    found.await.0
}

async fn apply(api: &Api<DynamicObject>, name: &str, text: &str) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {LABEL: "true"}}, "data": {"text": text},
    });
    let parameters = PatchParams::apply("kube-rs-trial");
    let applied = api.patch(name, &parameters, &Patch::Apply(&map)).await;
    applied.expect("server-side apply");
}

/// Makes an instance, reads its status as the hub writes it, and deletes it.
async fn instance_lives(api: Api<DynamicObject>) {
    let instance = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "WebApp",
        "metadata": {"name": "kube-rs"}, "spec": {"message": "hello"},
    });
    let parameters = PatchParams::apply("kube-rs-trial");
    let patch = Patch::Apply(&instance);
    let applied = api.patch("kube-rs", &parameters, &patch).await;
    applied.expect("an instance is applied");
    within(PATIENCE, "its status is written", || async {
        let object = api
            .get("kube-rs")
            .await
            .map_err(|error| error.to_string())?;
        let status = &object.data["status"];
        status["state"]
            .is_string()
            .then_some(())
            .ok_or_else(|| status.to_string())
    })
    .await;
    let deleted = api.delete("kube-rs", &DeleteParams::foreground()).await;
    deleted.expect("it is deleted");
    within(PATIENCE, "it is gone", || async {
        match api.get_opt("kube-rs").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

// === impl Cache ===

impl Cache {
    /// Reads all of it in pages, from which a watch can go on.
    async fn list(api: Api<DynamicObject>) -> Self {
        let mut cache = Self {
            api,
            events: None,
            version: String::new(),
            known: BTreeMap::new(),
            relists: 0,
        };
        cache.list_again().await;
        cache
    }

    async fn list_again(&mut self) {
        self.known.clear();
        let mut parameters = ListParams::default().labels(LABEL).limit(10);
        loop {
            let page = self.api.list(&parameters).await.expect("a page");
            for object in &page.items {
                self.known.insert(object.name_any(), text(object));
            }
            self.version = page.metadata.resource_version.unwrap_or_default();
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => parameters = parameters.continue_token(&token),
                _ => return,
            }
        }
    }

    /// Follows the watch until an object is known with a text, or is known to be gone.
    async fn learns(&mut self, name: &str, wanted: Option<&str>) {
        let end = tokio::time::Instant::now() + PATIENCE;
        while self.known.get(name).map(String::as_str) != wanted {
            let step = tokio::time::timeout_at(end, self.step());
            let in_time = step.await.is_ok();
            assert!(in_time, "{name} is {wanted:?}: {:?}", self.known);
        }
    }

    async fn step(&mut self) {
        let Some(events) = &mut self.events else {
            let parameters = WatchParams::default().labels(LABEL);
            match self.api.watch(&parameters, &self.version).await {
                Ok(events) => self.events = Some(events.boxed()),
                // The hub is away: what is asked of it is not answered yet.
                Err(_away) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
            return;
        };
        let change = match events.next().await {
            Some(Ok(WatchEvent::Error(status))) => {
                assert_eq!(status.code, 410, "{status:?}");
                self.relists += 1;
                self.events = None;
                self.list_again().await;
                return;
            }
            Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                self.version = bookmark.metadata.resource_version;
                return;
            }
            Some(Ok(change)) => change,
            Some(Err(_)) | None => {
                self.events = None;
                return;
            }
        };
        match change {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.version = object.resource_version().unwrap_or_default();
                self.known.insert(object.name_any(), text(&object));
            }
            WatchEvent::Deleted(object) => {
                self.version = object.resource_version().unwrap_or_default();
                self.known.remove(&object.name_any());
            }
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
        }
    }
}

fn text(object: &DynamicObject) -> String {
    let text = object.data["data"]["text"].as_str();
    text.unwrap_or_default().to_owned()
}
