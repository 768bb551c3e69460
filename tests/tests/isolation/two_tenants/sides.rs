//! The hubs that one script runs on: one with both tenants, and one with each of them alone.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use wheelhouse_tests::{Spoke, spoke};

use super::super::mask;
use super::{TENANTS, steps::Step};
use crate::isolation::support::{Answer, Fixture, User};

/// Asks for all of discovery in one document.
const AGGREGATED: (&str, &str) = (
    "accept",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
);

/// A hub with some of the tenants.
pub(super) struct Side {
    pub(super) fixture: Fixture,
    pub(super) tenants: Vec<usize>,
    users: HashMap<String, User>,
    spokes: Vec<Spoke>,
    watches: HashMap<usize, Watched>,
}

/// The events of a tenant's open watch.
struct Watched {
    events: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

impl Side {
    /// Starts a hub with the clusters of these tenants, with a real spoke each where `real` says so.
    pub(super) async fn start(tenants: &[usize], real: bool) -> Self {
        let names: Vec<&str> = TENANTS.iter().flat_map(|it| [it.owner, it.weak]).collect();
        let real = if real { tenants } else { &[] };
        let options = spoke::Options {
            without_controllers: true,
            ..spoke::Options::default()
        };
        let started = real.iter().map(|tenant| async move {
            let name = format!("{}-real", TENANTS[*tenant].cluster);
            Spoke::start_with(&name, options).await
        });
        let (fixture, spokes) = tokio::join!(Fixture::start(&names), join_all(started));
        let mut side = Self {
            fixture,
            tenants: tenants.to_vec(),
            users: HashMap::new(),
            spokes,
            watches: HashMap::new(),
        };
        for tenant in tenants {
            let tenant = &TENANTS[*tenant];
            side.fixture.embed(tenant.cluster).await;
            side.fixture.tenant(tenant.owner, tenant.cluster).await;
            side.fixture.allow_access(tenant.weak, tenant.cluster).await;
        }
        for (spoke, tenant) in side.spokes.iter().zip(tenants) {
            side.fixture.join(spoke).await;
            side.admit(spoke, *tenant).await;
        }
        side.connect().await;
        side
    }

    /// Makes a tenant the administrator of its spoke.
    async fn admit(&self, spoke: &Spoke, tenant: usize) {
        let tenant = &TENANTS[tenant];
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "tenant"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": tenant.owner}],
        });
        spoke.kubectl().apply(&binding.to_string()).await;
        for user in [tenant.owner, tenant.weak] {
            self.fixture.allow_access(user, spoke.name()).await;
        }
    }

    /// Connects every user, and opens the watches.
    async fn connect(&mut self) {
        self.users
            .insert("admin".to_owned(), self.fixture.admin().await);
        for tenant in &TENANTS {
            for name in [tenant.owner, tenant.weak] {
                self.users
                    .insert(name.to_owned(), self.fixture.user(name).await);
            }
        }
        self.watches.clear();
        for tenant in self.tenants.clone() {
            let watched = self.watch(tenant).await;
            self.watches.insert(tenant, watched);
        }
    }

    async fn watch(&self, tenant: usize) -> Watched {
        let owner = self.user(TENANTS[tenant].owner);
        let path = format!(
            "{}/api/v1/configmaps?labelSelector=trial",
            TENANTS[tenant].base()
        );
        let list = owner.until_status(&path, 200).await.body;
        let revision = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default();
        let path = format!("{path}&watch=true&resourceVersion={revision}");
        let mut watch = owner.watch(&path).await.expect("the owner may watch");
        let events = Arc::new(Mutex::new(Vec::new()));
        let mut task = JoinSet::new();
        let seen = Arc::clone(&events);
        task.spawn(async move {
            while let Ok(Some(event)) = watch.next(Duration::MAX).await {
                let text = mask::mask(&event).to_string();
                seen.lock().expect("nobody panics with it").push(text);
            }
        });
        Watched {
            events,
            _task: task,
        }
    }

    /// Returns what a tenant's watch has delivered, in no order.
    pub(super) fn watched(&self, tenant: usize) -> Vec<String> {
        let events = &self.watches[&tenant].events;
        let mut events = events.lock().expect("nobody panics with it").clone();
        events.sort();
        events
    }

    /// Kills the hub and starts it again.
    pub(super) async fn restart(&mut self) {
        self.fixture.hub.kill();
        self.fixture.hub.launch().await;
        self.connect().await;
    }

    pub(super) fn user(&self, name: &str) -> &User {
        &self.users[name]
    }

    /// Sends a step as its user.
    pub(super) async fn send(&self, step: &Step) -> Result<Answer, String> {
        let path = self.resolve(step, &step.path).await?;
        let body = match &step.body {
            Value::Null => String::new(),
            body => self.resolve(step, &body.to_string()).await?,
        };
        let headers = step.sent_headers();
        let user = if let Some(user) = self.users.get(&step.user) {
            user.clone()
        } else {
            let token = self.resolve(step, &step.user).await?;
            self.fixture.bearer("an account", &token).await
        };
        user.try_send(step.method.as_str(), &path, &headers, body)
            .await
    }

    /// Puts in what this hub has answered itself.
    async fn resolve(&self, step: &Step, text: &str) -> Result<String, String> {
        let Some((before, rest)) = text.split_once("{{") else {
            return Ok(text.to_owned());
        };
        let (wanted, after) = rest.split_once("}}").ok_or("a placeholder has an end")?;
        let (sort, path) = wanted.split_once(':').ok_or("a placeholder has a path")?;
        let owner = self.user(TENANTS[step.tenant].owner);
        let answer = match sort {
            "token" => {
                let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
                owner.post(path, &request).await.body["status"]["token"].clone()
            }
            "continue" => owner.get(path).await.body["metadata"]["continue"].clone(),
            _ => owner.get(path).await.body["metadata"]["resourceVersion"].clone(),
        };
        Ok(format!(
            "{before}{}{after}",
            answer.as_str().unwrap_or("none")
        ))
    }

    /// Gets a path as a user, masked.
    pub(super) async fn look(&self, user: &str, path: &str) -> Result<(Value, Answer), String> {
        let headers: &[(&str, &str)] = if path.ends_with("/apis") {
            &[AGGREGATED]
        } else {
            &[]
        };
        let answer = self.user(user).try_send("GET", path, headers, "").await?;
        Ok((masked(&answer), answer))
    }
}

/// What of an answer must be the same in every world.
pub(super) fn masked(answer: &Answer) -> Value {
    let headers: serde_json::Map<String, Value> =
        ["content-type", "warning", "retry-after", "location"]
            .iter()
            .filter_map(|name| {
                let value = answer.headers.get(*name)?.to_str().ok()?;
                Some(((*name).to_owned(), Value::String(mask::text(value))))
            })
            .collect();
    json!({"status": answer.status, "headers": headers, "body": mask::mask(&answer.body)})
}
