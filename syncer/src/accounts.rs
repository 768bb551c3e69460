//! The ServiceAccount `default` of every namespace that the hub itself keeps, and the tokens of Secrets.
//!
//! Root and embedded logical clusters have no controller manager. A real cluster's makes this
//! account in each namespace and puts it back when it is deleted; Pods, bindings and tokens name
//! it.
//!
//! Source: kubernetes `pkg/controller/serviceaccount/serviceaccounts_controller.go`.

mod tokens;

use std::{collections::HashSet, sync::Arc, time::Duration};

use api::{selector::FieldSelector, status::CAUSE_NAMESPACE_TERMINATING};
use client::reflector::{Event, RawObject};
use parking_lot::Mutex;
use serde_json::json;
use tasks::WorkQueue;
use tracing::{Instrument as _, debug_span, warn};

use crate::{
    resources,
    spans::{self, traced_span},
    state::target::Target,
};

/// The name of the account.
const NAME: &str = "default";

/// The wait after the account could not be made.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// What one logical cluster needs.
#[derive(Debug)]
struct Accounts {
    // Guards what was seen; never held across an await.
    seen: Mutex<Seen>,
    /// Namespaces to be looked at.
    queue: WorkQueue<String>,
}

/// What was seen of namespaces and accounts.
#[derive(Debug, Default)]
struct Seen {
    /// Namespaces that are not being deleted.
    active: HashSet<String>,
    /// Namespaces that have the account.
    having: HashSet<String>,
    /// Whether all accounts have been seen: absence counts from then on.
    synced: bool,
}

/// Looks after the accounts of a logical cluster that the hub keeps, until its target ends.
pub(crate) fn start(target: &Arc<Target>) {
    tokens::start(target);
    let accounts = Arc::new(Accounts {
        seen: Mutex::default(),
        queue: target.tasks().queue("account"),
    });
    let namespaces = target.source(&resources::core("namespaces"), None);
    follow(target, namespaces, &accounts, Seen::take_namespace);
    let mut existing = target.source(&resources::core("serviceaccounts"), None);
    existing.field_selector = Some(FieldSelector::name(NAME));
    follow(target, existing, &accounts, Seen::take_account);
    let target = Arc::clone(target);
    let tasks = target.tasks().clone();
    tasks.spawn("accounts", async move {
        while let Some(namespace) = accounts.queue.next_until(&target.token).await {
            if accounts.seen.lock().lacks(&namespace) {
                let (cluster, key) = (&target.cluster, namespace.as_str());
                let span = debug_span!("reconcile", controller = "account", %cluster, key);
                let traced = spans::sampled(
                    String::new,
                    || traced_span!(controller = "account", %cluster, key),
                );
                let work = make(&target, &accounts, &namespace).instrument(traced);
                work.instrument(span).await;
            }
            accounts.queue.done(&namespace);
        }
    });
}

fn follow(
    target: &Arc<Target>,
    source: client::reflector::Config,
    accounts: &Arc<Accounts>,
    take: fn(&mut Seen, Event) -> Vec<String>,
) {
    let mut events = target.follow(source, target.token.clone());
    let accounts = Arc::clone(accounts);
    target.tasks().spawn("accounts-watch", async move {
        while let Some(event) = events.recv().await {
            let concerned = take(&mut accounts.seen.lock(), event);
            for namespace in concerned {
                accounts.queue.add(namespace);
            }
        }
    });
}

async fn make(target: &Target, accounts: &Accounts, namespace: &str) {
    let endpoint = target.endpoint(&resources::core("serviceaccounts"), namespace);
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": namespace},
    });
    let Err(error) = target.dynamic.create(&endpoint, &account).await else {
        return;
    };
    let is_going = error
        .status()
        .is_some_and(|status| status.has_cause(CAUSE_NAMESPACE_TERMINATING));
    // There is one, or there is no namespace for one: the watches tell.
    if !(error.is_already_exists() || error.is_not_found() || is_going) {
        warn!(cluster = %target.cluster, namespace, error = %error, "cannot create the default ServiceAccount");
        accounts
            .queue
            .retry_after(namespace.to_owned(), RETRY_DELAY);
    }
}

// === impl Seen ===

impl Seen {
    /// Returns whether a namespace needs the account.
    fn lacks(&self, namespace: &str) -> bool {
        self.synced && self.active.contains(namespace) && !self.having.contains(namespace)
    }

    /// Takes up an event of namespaces, and names those to be looked at.
    fn take_namespace(&mut self, event: Event) -> Vec<String> {
        let is_active = |namespace: &RawObject| namespace.deletion_timestamp.is_none();
        match event {
            Event::Restarted { objects, .. } => {
                let active = objects.iter().filter(|it| is_active(it));
                self.active = active.map(|it| it.name.clone()).collect();
                self.lacking()
            }
            Event::Applied(namespace) if is_active(&namespace) => {
                self.active.insert(namespace.name.clone());
                self.looked_at(&namespace.name)
            }
            Event::Applied(namespace) | Event::Deleted(namespace) => {
                self.active.remove(&namespace.name);
                Vec::new()
            }
            Event::Interrupted(_) | Event::Resumed => Vec::new(),
        }
    }

    /// Takes up an event of accounts, and names the namespaces to be looked at.
    fn take_account(&mut self, event: Event) -> Vec<String> {
        let namespace = |account: &RawObject| account.namespace.clone().unwrap_or_default();
        match event {
            Event::Restarted { objects, .. } => {
                self.having = objects.iter().map(|it| namespace(it)).collect();
                self.synced = true;
                self.lacking()
            }
            Event::Applied(account) => {
                self.having.insert(namespace(&account));
                Vec::new()
            }
            Event::Deleted(account) => {
                let namespace = namespace(&account);
                self.having.remove(&namespace);
                self.looked_at(&namespace)
            }
            Event::Interrupted(_) | Event::Resumed => Vec::new(),
        }
    }

    fn looked_at(&self, namespace: &str) -> Vec<String> {
        let lacks = self.lacks(namespace);
        lacks.then(|| namespace.to_owned()).into_iter().collect()
    }

    fn lacking(&self) -> Vec<String> {
        let active = self.active.iter();
        active.filter(|it| self.lacks(it)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(namespace: &str, name: &str, going: bool) -> Arc<RawObject> {
        let mut object = json!({"metadata": {"name": name, "namespace": namespace}});
        if going {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Arc::new(RawObject::from_value(&object).expect("an object"))
    }

    fn list(objects: Vec<Arc<RawObject>>) -> Event {
        Event::Restarted {
            objects,
            resource_version: "1".to_owned(),
            latest_as_of: None,
        }
    }

    #[test]
    fn a_namespace_without_the_account_is_named_once_absence_counts() {
        let mut seen = Seen::default();
        let named = seen.take_namespace(list(vec![object("", "a", false), object("", "b", true)]));
        assert_eq!(named, [""; 0], "accounts have not been seen yet");
        let named = seen.take_account(list(Vec::new()));
        assert_eq!(named, ["a"], "b is going");
        for (name, event, want) in [
            (
                "a new one",
                Event::Applied(object("", "c", false)),
                vec!["c"],
            ),
            (
                "one that is going",
                Event::Applied(object("", "a", true)),
                vec![],
            ),
        ] {
            assert_eq!(seen.take_namespace(event), want, "{name}");
        }
        assert!(!seen.lacks("a"), "it is going");
    }

    #[test]
    fn an_account_that_is_deleted_is_put_back_while_its_namespace_stays() {
        for (name, going, want) in [("stays", false, vec!["a"]), ("goes", true, vec![])] {
            let mut seen = Seen::default();
            seen.take_namespace(list(vec![object("", "a", going)]));
            seen.take_account(list(vec![object("a", NAME, false)]));
            assert!(!seen.lacks("a"), "{name}: it has one");
            let named = seen.take_account(Event::Deleted(object("a", NAME, false)));
            assert_eq!(named, want, "{name}");
        }
    }
}
