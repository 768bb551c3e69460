//! The hub's process, its spokes, and the network between them.

mod controllers;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock},
    time::Duration,
};

use api::{
    ClusterScope, GroupVersionResource,
    kro::{self, FeatureGates},
    wheelhouse,
};
use apiserver::{Hub, request::UserInfo};
use client::{DeleteRequest, Dynamic, Endpoint, Patch};
use serde_json::{Value, json};
use spokes::{Dialer, Policy};
use tasks::Tasks;
use tempfile::TempDir;

use crate::{
    definition::{Definition, NAMESPACE, OUTSIDE},
    dice::Dice,
    judge::Judge,
    network::{HubLink, Network, SpokeLink},
    spoke::{Key, Spoke, Writer},
    store::SteadyStore,
};

/// What the hub writes on its objects in spokes.
const HUB_ID: &str = "simulated";

/// How long a user tries what the hub cannot do yet.
const USER_PATIENCE: Duration = Duration::from_mins(5);

/// Between two tries of a user.
const USER_PAUSE: Duration = Duration::from_millis(500);

/// The hub's certificates: made once, because nothing here depends on them.
static DATA_DIR: LazyLock<Option<TempDir>> = LazyLock::new(|| tempfile::tempdir().ok());

/// What went wrong with a run itself, or with what it tries.
pub type Failure = String;

/// A hub, its syncer, and spokes.
pub struct Fleet {
    /// The run's randomness.
    pub dice: Arc<Dice>,
    /// What judges each write.
    pub judge: Arc<Judge>,
    /// What lies between.
    pub network: Arc<Network>,
    /// By name.
    pub spokes: BTreeMap<String, Arc<Spoke>>,
    store: Arc<SteadyStore>,
    gates: FeatureGates,
    process: Option<Process>,
    /// The spokes' own controllers.
    controllers: Tasks,
}

struct Process {
    hub: Hub,
    tasks: Tasks,
}

// === impl Fleet ===

impl Fleet {
    /// Starts a hub without spokes.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub async fn start(seed: u64, gates: FeatureGates) -> Result<Self, Failure> {
        let dice = Arc::new(Dice::new(seed));
        let judge = Arc::new(Judge::default());
        let store = Arc::new(SteadyStore::open().map_err(failure)?);
        judge.observe(&store);
        let mut fleet = Self {
            network: Network::new(Arc::clone(&dice)),
            dice,
            judge,
            spokes: BTreeMap::new(),
            store,
            gates,
            process: None,
            controllers: Tasks::new(),
        };
        fleet.boot().await?;
        Ok(fleet)
    }

    /// Starts the hub's process over what is in its store.
    ///
    /// # Errors
    /// Where the hub cannot be opened.
    pub async fn boot(&mut self) -> Result<(), Failure> {
        let tasks = Tasks::new();
        let link = SpokeLink::new(&self.network);
        let network = client::Network::new(link);
        let dialer = Dialer::over(Policy::default(), Some(network));
        let directory = DATA_DIR.as_ref().ok_or("no directory for certificates")?;
        let config = apiserver::Config {
            hub_id: HUB_ID.to_owned(),
            dialer,
            ..apiserver::Config::new(directory.path())
        };
        let store = Arc::clone(&self.store);
        let hub = Hub::open_over(store, config, &tasks).await;
        let hub = hub.map_err(failure)?;
        let user = UserInfo::system(wheelhouse::keys::USER_SYNCER);
        let link = HubLink::new(&self.network, hub.in_process(user));
        let config = syncer::Config {
            switches: syncer::Switches {
                gates: self.gates,
                ..syncer::Switches::default()
            },
            hub: kube::Client::new(link, "default"),
            hub_id: HUB_ID.to_owned(),
            brake: syncer::Brake::default(),
            spokes: hub.spokes().clone(),
            publication: None,
            metrics: syncer::WorkMetrics::default(),
            sharing: None,
        };
        syncer::start(config, &tasks);
        self.process = Some(Process { hub, tasks });
        Ok(())
    }

    /// Kills the hub's process: what it has in memory is gone, what it has under way does not happen.
    pub async fn kill(&mut self) {
        self.network.kill();
        if let Some(process) = self.process.take() {
            drop(process.tasks.shutdown(Duration::ZERO).await);
        }
    }

    /// Ends everything.
    pub async fn end(mut self) {
        self.kill().await;
        drop(self.controllers.shutdown(Duration::ZERO).await);
    }

    /// Joins a new spoke.
    ///
    /// # Errors
    /// Where the hub refuses it.
    pub async fn join(&mut self, name: &str) -> Result<(), Failure> {
        let spoke = Spoke::new(name, Arc::clone(&self.dice), Arc::clone(&self.judge));
        self.network.join(&spoke);
        furnish(&spoke);
        controllers::start(&self.controllers, &spoke, &self.dice);
        self.spokes.insert(name.to_owned(), spoke);
        let kubeconfig = format!(
            "{{current-context: a, clusters: [{{name: a, cluster: {{server: 'https://{name}.sim'}}}}], \
             users: [{{name: a, user: {{token: t}}}}], contexts: [{{name: a, context: {{cluster: a, user: a}}}}]}}"
        );
        let (secret, object) = spokes::join_objects(name, &kubeconfig, &BTreeMap::new());
        let secrets = GroupVersionResource::new("", "v1", "secrets");
        self.write(&root(&secrets, Some("kube-system")), &secret)
            .await?;
        self.write(&root(&spokes_resource(), None), &object).await
    }

    /// Writes an object as a user does, as often as it needs.
    ///
    /// # Errors
    /// Where the hub does not take it for minutes.
    pub async fn write(&self, endpoint: &Endpoint, object: &Value) -> Result<(), Failure> {
        let name = api::meta::name(object);
        let tries = async {
            loop {
                let user = self.user()?;
                let answer = match user.get(endpoint, name).await {
                    Ok(live) => {
                        let mut wanted = live.clone();
                        wanted["spec"] = object["spec"].clone();
                        user.update(endpoint, name, None, &wanted).await
                    }
                    Err(_) => user.create(endpoint, object).await,
                };
                match answer {
                    Ok(_) => return Ok::<(), Failure>(()),
                    Err(error) => {
                        tracing::debug!(name, error = error.chain(), "a user tries again");
                    }
                }
                tokio::time::sleep(USER_PAUSE).await;
            }
        };
        tokio::time::timeout(USER_PATIENCE, tries)
            .await
            .unwrap_or_else(|_| Err(format!("{name} cannot be written")))
    }

    /// Deletes an object as a user does.
    ///
    /// # Errors
    /// Where the hub does not take it.
    pub async fn delete(&self, endpoint: &Endpoint, name: &str) -> Result<(), Failure> {
        let request = DeleteRequest::default();
        match self.user()?.delete(endpoint, name, &request).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(format!("{name} cannot be deleted: {}", error.chain())),
        }
    }

    /// Puts an annotation on an object as a user does, if the hub takes it.
    ///
    /// # Errors
    /// Where the process is not there.
    pub async fn annotate(
        &self,
        endpoint: &Endpoint,
        name: &str,
        (key, value): (&str, &str),
    ) -> Result<(), Failure> {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        let patched = self
            .user()?
            .patch(endpoint, name, None, Patch::Merge(&patch))
            .await;
        if let Err(error) = patched {
            tracing::debug!(name, error = error.chain(), "a user cannot annotate yet");
        }
        Ok(())
    }

    /// Reads an object as a user does.
    ///
    /// # Errors
    /// Where the process is not there.
    pub async fn read(&self, endpoint: &Endpoint, name: &str) -> Result<Option<Value>, Failure> {
        Ok(self.user()?.get(endpoint, name).await.ok())
    }

    /// Does something after a while, whatever becomes of the hub's process.
    pub fn later(&self, after: Duration, act: impl FnOnce() + Send + 'static) {
        self.controllers.spawn("later", async move {
            tokio::time::sleep(after).await;
            act();
        });
    }

    fn user(&self) -> Result<Dynamic, Failure> {
        let process = self.process.as_ref().ok_or("the hub's process is dead")?;
        let user = UserInfo::system("admin");
        let client = kube::Client::new(process.hub.in_process(user), "default");
        Ok(Dynamic::new(client))
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("spokes", &self.spokes)
            .finish_non_exhaustive()
    }
}

/// Puts into a cluster what others have made there.
pub(crate) fn furnish(spoke: &Spoke) {
    let outside = Key::new("", "configmaps", NAMESPACE, OUTSIDE);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "v0"}});
    spoke.put(outside, object, Writer::Foreign);
}

/// Names the instances of a definition at a spoke's path.
pub fn instances(definition: &Definition, cluster: &str) -> Result<Endpoint, Failure> {
    let cluster = cluster.parse().map_err(failure)?;
    Ok(Endpoint {
        scope: Some(ClusterScope::One(cluster)),
        gvr: GroupVersionResource::new(kro::GROUP, "v1alpha1", definition.resource()),
        namespace: Some(NAMESPACE.to_owned()),
    })
}

/// Names the definitions of root, or of a spoke's path.
pub fn definitions(home: Option<&str>) -> Result<Endpoint, Failure> {
    let gvr = GroupVersionResource::new(kro::GROUP, kro::VERSION, kro::RGD_RESOURCE);
    let mut endpoint = root(&gvr, None);
    if let Some(home) = home {
        endpoint.scope = Some(ClusterScope::One(home.parse().map_err(failure)?));
    }
    Ok(endpoint)
}

/// Names the Spokes.
pub fn spokes_endpoint() -> Endpoint {
    root(&spokes_resource(), None)
}

fn spokes_resource() -> GroupVersionResource {
    wheelhouse::Spoke::gvr()
}

fn root(gvr: &GroupVersionResource, namespace: Option<&str>) -> Endpoint {
    Endpoint {
        scope: None,
        gvr: gvr.clone(),
        namespace: namespace.map(str::to_owned),
    }
}

fn failure(error: impl std::error::Error) -> Failure {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
