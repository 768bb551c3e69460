//! What guards writes beside RBAC: admission policies as they are stored, compiled, and pure judgements by them.
//!
//! [`admit`](crate::admit) finds out which of them mean a write, and does what they say.
//!
//! Source: `apiserver/pkg/admission/plugin`.

pub(crate) mod attributes;
pub(crate) mod configurations;
pub(crate) mod expressions;
pub(crate) mod matching;
pub(crate) mod mutating_policy;
pub(crate) mod policy;
pub(crate) mod validating_policy;
pub(crate) mod webhook;

use std::collections::HashMap;
use std::sync::Arc;

use api::LogicalCluster;
use api::admission::{
    BindingSpec, MUTATING_BINDINGS, MUTATING_POLICIES, MUTATING_WEBHOOKS, MutatingPolicySpec,
    VALIDATING_BINDINGS, VALIDATING_POLICIES, VALIDATING_WEBHOOKS, ValidatingPolicySpec,
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use configurations::Configurations;
use mutating_policy::MutatingPolicy;
use policy::Binding;
use validating_policy::ValidatingPolicy;
use webhook::CompiledWebhook;

/// How many writes of one logical cluster may be judged at once; further ones wait.
const JUDGED_AT_ONCE: usize = 2;

/// The guards of all logical clusters.
#[derive(Debug)]
pub(crate) struct Guards {
    pub(crate) validating_policies: Configurations<ValidatingPolicy>,
    pub(crate) validating_bindings: Configurations<Binding>,
    pub(crate) mutating_policies: Configurations<MutatingPolicy>,
    pub(crate) mutating_bindings: Configurations<Binding>,
    pub(crate) mutating_webhooks: Configurations<Vec<CompiledWebhook>>,
    pub(crate) validating_webhooks: Configurations<Vec<CompiledWebhook>>,
    /// Leaf lock.
    seats: Mutex<HashMap<LogicalCluster, Arc<Semaphore>>>,
}

// === impl Guards ===

impl Guards {
    pub(crate) fn new() -> Self {
        Self {
            validating_policies: Configurations::new(VALIDATING_POLICIES, |name, object| {
                let spec = spec_of::<ValidatingPolicySpec>(object)?;
                Ok(ValidatingPolicy::compile(name, spec))
            }),
            validating_bindings: Configurations::new(VALIDATING_BINDINGS, binding_of),
            mutating_policies: Configurations::new(MUTATING_POLICIES, |name, object| {
                let spec = spec_of::<MutatingPolicySpec>(object)?;
                Ok(MutatingPolicy::compile(name, spec))
            }),
            mutating_bindings: Configurations::new(MUTATING_BINDINGS, binding_of),
            mutating_webhooks: Configurations::new(MUTATING_WEBHOOKS, |_name, object| {
                CompiledWebhook::of_configuration(object)
            }),
            validating_webhooks: Configurations::new(VALIDATING_WEBHOOKS, |_name, object| {
                CompiledWebhook::of_configuration(object)
            }),
            seats: Mutex::default(),
        }
    }

    /// Waits for a seat of a logical cluster: the policies of one cannot take all threads from the others. `None` never
    /// happens: the semaphore is not closed.
    pub(crate) async fn seat(&self, cluster: &LogicalCluster) -> Option<OwnedSemaphorePermit> {
        let seats = {
            let mut seats = self.seats.lock();
            if !seats.contains_key(cluster) {
                // Those of a cluster in which nothing is judged now are as good as new ones.
                seats.retain(|_, seats| {
                    Arc::strong_count(seats) > 1 || seats.available_permits() < JUDGED_AT_ONCE
                });
            }
            let seats = seats
                .entry(cluster.clone())
                .or_insert_with(|| Arc::new(Semaphore::new(JUDGED_AT_ONCE)));
            Arc::clone(seats)
        };
        seats.acquire_owned().await.ok()
    }
}

fn binding_of(name: &str, object: &Value) -> Result<Binding, String> {
    let spec = spec_of::<BindingSpec>(object)?;
    Ok(Binding::new(name, spec))
}

fn spec_of<'a, T: Deserialize<'a>>(object: &'a Value) -> Result<T, String> {
    T::deserialize(&object["spec"]).map_err(|error| error.to_string())
}
