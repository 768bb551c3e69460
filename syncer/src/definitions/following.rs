//! A definition that another process reconciles: what that has recorded of it is served here too.
//!
//! # Invariants
//! - Nothing is decided here, and nothing written: the latest GraphRevision says what is served, and the KindClaim whether.
//! - A revision that does not compile against what this process knows of schemas now is not replaced by an older one: what was
//!   served goes on, and it is tried again.
//! - A definition of a spoke that another process looks after is not served here: nothing here needs it.

use std::{sync::Arc, time::Duration};

use tracing::{debug, warn};

use super::{leaving::Leaving, reconcile, resolving, revisions};
use crate::{engine::Engine, state::served::DefinitionKey};

/// The wait until it is looked again whether a definition that is deleted has instances left.
const LEAVING_DELAY: Duration = Duration::from_secs(2);

/// The wait until a revision is tried again that could not be compiled, or was not recorded yet.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Brings what is served of a definition up to date; a failure is tried again.
pub(super) async fn run(engine: &Arc<Engine>, key: &DefinitionKey) {
    if let Err(error) = step(engine, key).await {
        let (cluster, name) = (&key.cluster, key.name.as_str());
        if error.is_routine() {
            debug!(%cluster, name, error = %error, "cannot follow a definition yet");
        } else {
            warn!(%cluster, name, error = %error, "cannot follow a definition");
        }
        engine
            .definition_queue
            .retry_after(key.clone(), RETRY_DELAY);
    }
}

async fn step(engine: &Arc<Engine>, key: &DefinitionKey) -> Result<(), client::Error> {
    let known = engine.definitions.known(key);
    let Some(known) = known.filter(|_| key.cluster.is_root()) else {
        reconcile::withdraw(engine, key);
        return Ok(());
    };
    let Ok(object) = known.value() else {
        return Ok(()); // who reconciles it says so
    };
    if api::meta::is_terminating(&object) {
        let leaving = Leaving::of(engine, key, &object);
        if leaving.used(engine).await?.is_empty() {
            reconcile::withdraw(engine, key);
            return leaving.delete(engine).await;
        }
        // Its instances are looked after to their end.
        engine
            .definition_queue
            .add_after(key.clone(), LEAVING_DELAY);
    }
    let recorded = revisions::list(engine, key).await?;
    let Some(latest) = revisions::latest(&recorded) else {
        return Ok(()); // its first revision names it again
    };
    let Some(spec) = &latest.spec else {
        return Ok(());
    };
    let fetched = resolving::fetch(engine, key, spec, &engine.root).await;
    let is_first = engine.definitions.served(key).is_none();
    // Only where nothing is served, an older one is better than none.
    let eligible = if is_first {
        recorded.as_slice()
    } else {
        std::slice::from_ref(latest)
    };
    let served = reconcile::publish_last_good(engine, key, &object, eligible, &fetched);
    let is_latest = served.is_some_and(|served| served.graph.spec_hash() == graph::spec_hash(spec));
    if !is_latest {
        engine
            .definition_queue
            .retry_after(key.clone(), RETRY_DELAY);
    }
    Ok(())
}
