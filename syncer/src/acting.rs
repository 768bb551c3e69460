//! In whose name children are written, read and deleted.
//!
//! Children of a definition of root are the hub's: the right to publish there is the grant, as with kro. Those of a
//! definition that was authored at a cluster's path are its author's, who is impersonated there, so that the cluster
//! itself judges each call. `wheelhouse.dev/run-as` narrows either to a ServiceAccount of the cluster.
//!
//! # Invariants
//!
//! An author who is unknown is nobody: nothing is done, and never with the hub's right. An author who has lost access to the
//! cluster does nothing there. Who names a ServiceAccount at a cluster's path may impersonate it there.

use std::time::Duration;

use api::{
    GroupVersionResource, LogicalCluster,
    wheelhouse::{
        InventorySpec,
        author::{Author, RunAs, User},
        keys,
    },
};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    engine::Engine,
    state::{
        actors::{Actor, Grant, Question},
        target::{Target, TargetSort},
    },
};

/// How long an answer about impersonation holds: a right that was taken away ends within it.
const REVIEW_AGE_MAX: Duration = Duration::from_secs(5);

/// Returns the actor in a target.
///
/// # Errors
/// Reports to the user why nobody may act; also where the target does not answer whether somebody may.
pub(crate) async fn resolve(
    engine: &Engine,
    target: &Target,
    grant: &Grant,
) -> Result<Actor, String> {
    let author = match &grant.author {
        Ok(Author::Hub) => None,
        Ok(Author::User(user)) => {
            require_access(engine, target, user).await?;
            Some(known_there(target, user)?)
        }
        Err(error) => {
            return Err(format!(
                "cannot act for the author of the ResourceGraphDefinition: {error}; write its spec again as the user \
                 whose rights its resources shall have"
            ));
        }
    };
    match (&grant.run_as, author) {
        (None, None) => Ok(hub(target)),
        (None, Some(user)) => named(target, user, author_at_home(grant)),
        (Some(account), None) => named(target, account.user(), None),
        (Some(account), Some(user)) => {
            let question = Question::Impersonate(account.clone());
            if !ask(engine, target, &user, question).await? {
                let RunAs { namespace, name } = account;
                return Err(format!(
                    "user {:?} may not impersonate serviceaccount {namespace}/{name}, which annotation {} of the \
                     ResourceGraphDefinition names: grant it, or remove the annotation",
                    user.username,
                    keys::ANNOTATION_RUN_AS
                ));
            }
            named(target, account.user(), None)
        }
    }
}

/// Returns the actor that a ledger names.
///
/// # Errors
/// Where the user cannot be named.
pub(crate) fn of_ledger(target: &Target, ledger: Option<&InventorySpec>) -> Result<Actor, String> {
    let Some((ledger, user)) = ledger.and_then(|it| Some((it, it.acting_as.clone()?))) else {
        return Ok(hub(target));
    };
    // An earlier version of the hub has not recorded it: then it is in the groups that the cluster was told of.
    let is_account = user.username.starts_with("system:");
    let derived = || user.at_home().filter(|_| !is_account);
    let at_home = ledger.acting_at_hub_as.clone().or_else(derived);
    named(target, user, at_home)
}

/// The hub itself.
fn hub(target: &Target) -> Actor {
    Actor::hub(&target.dynamic).with_hub(target.hub.clone())
}

/// A user of a target, who is `at_home` where the hub knows them.
fn named(target: &Target, user: User, at_home: Option<User>) -> Result<Actor, String> {
    let actor = target.actors.named(&target.dynamic, user)?;
    let (Some(hub), Some(at_home)) = (&target.hub, at_home) else {
        return Ok(actor);
    };
    let at_home = target.actors_at_hub.named(hub, at_home)?;
    Ok(actor.known_at_hub(at_home))
}

/// The author of a definition as the hub knows them; nothing for a user of one cluster alone.
fn author_at_home(grant: &Grant) -> Option<User> {
    match &grant.author {
        Ok(Author::User(user)) if user.known_only_in.is_empty() => Some(user.clone()),
        _ => None,
    }
}

/// How an author is called in a target.
fn known_there(target: &Target, user: &User) -> Result<User, String> {
    match target.sort {
        TargetSort::Mirrored => user
            .abroad(&target.cluster, target.trusts_masters())
            .map_err(|error| error.to_string()),
        // The hub's own users are known there by their names.
        TargetSort::Embedded | TargetSort::Root => Ok(user.clone()),
    }
}

/// Asks root whether an author may enter the logical cluster still. An embedded one asks at each request by itself.
async fn require_access(engine: &Engine, target: &Target, user: &User) -> Result<(), String> {
    if target.sort != TargetSort::Mirrored || user.known_only_in == target.cluster.as_str() {
        return Ok(());
    }
    let question = Question::Access;
    let allowed = match user.at_home() {
        Some(user) => ask(engine, target, &user, question).await?,
        None => false,
    };
    if allowed {
        return Ok(());
    }
    let (username, cluster) = (&user.username, &target.cluster);
    Err(format!(
        "user {username:?}, who wrote the ResourceGraphDefinition, has no access to spoke {:?}",
        cluster.as_str()
    ))
}

/// Asks whether a user may do something; an answer is kept for a moment.
async fn ask(
    engine: &Engine,
    target: &Target,
    user: &User,
    question: Question,
) -> Result<bool, String> {
    let key = (user.clone(), question);
    let now = Instant::now();
    if let Some(allowed) = target.actors.answer(&key, REVIEW_AGE_MAX) {
        return Ok(allowed);
    }
    let gvr = GroupVersionResource::new("authorization.k8s.io", "v1", "subjectaccessreviews");
    let (dynamic, endpoint, attributes) = match &key.1 {
        Question::Access => (
            &engine.hub,
            Engine::hub_endpoint(&LogicalCluster::root(), &gvr, ""),
            json!({
                "verb": "access",
                "group": api::wheelhouse::GROUP,
                "resource": api::wheelhouse::SPOKE_RESOURCE,
                "name": target.cluster.as_str(),
            }),
        ),
        Question::Impersonate(account) => (
            &target.dynamic,
            target.endpoint(&gvr, ""),
            json!({
                "verb": "impersonate",
                "resource": "serviceaccounts",
                "namespace": account.namespace,
                "name": account.name,
            }),
        ),
    };
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "resourceAttributes": attributes,
        },
    });
    let answer = dynamic.create(&endpoint, &review).await;
    let username = &user.username;
    let answer =
        answer.map_err(|error| format!("cannot ask what user {username:?} may: {error}"))?;
    let allowed = answer["status"]["allowed"] == true;
    target.actors.keep_answer(key, now, allowed);
    Ok(allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        instances::ledger,
        state::actors::Place,
        testing::{World, east, key},
    };

    /// The story: an author's rights at the hub came from a group that spokes are not told of. When the definition was gone, the ledger
    /// named the author without it, and the instance could not be deleted.
    #[tokio::test]
    async fn a_ledger_names_who_acts_as_both_servers_know_them() {
        let jane = r#"{"username":"jane","groups":["dev","system:ops"]}"#;
        let bot = r#"{"username":"system:serviceaccount:ns:bot","groups":["system:ops"]}"#;
        let local = r#"{"username":"ann","groups":["dev"],"knownOnlyIn":"east"}"#;
        let (everyone, run_as) = ("system:authenticated", Some("default/worker"));
        // (what, the author, the account that the definition names, who acts in the spoke, who acts at the hub)
        for (name, author, account, there, here) in [
            (
                "a user",
                jane,
                None,
                vec!["jane", "dev", everyone],
                vec!["jane", "dev", "system:ops"],
            ),
            (
                "an account of root",
                bot,
                None,
                vec!["wheelhouse:root:ns:bot", everyone],
                vec!["system:serviceaccount:ns:bot", "system:ops"],
            ),
            (
                "a user of the spoke",
                local,
                None,
                vec!["ann", "dev"],
                vec![],
            ),
            (
                "an account of the spoke",
                jane,
                run_as,
                vec![
                    "system:serviceaccount:default:worker",
                    "system:serviceaccounts",
                    "system:serviceaccounts:default",
                    everyone,
                ],
                vec![],
            ),
        ] {
            let world = World::new();
            let mut annotations = json!({keys::ANNOTATION_AUTHOR: author});
            if let Some(account) = account {
                annotations[keys::ANNOTATION_RUN_AS] = json!(account);
            }
            let definition = json!({"metadata": {"annotations": annotations}});
            let grant = Grant::of(&east(), &definition).expect("a grant");
            let acting = resolve(&world.engine, &world.target, &grant)
                .await
                .expect("it may");
            let key = key("Web", "parent");
            let mut work = world.work(&key);
            work.memory.ledger = Some(InventorySpec::default());
            work.memory.mirror_uid = "m".to_owned();
            let written = ledger::name_mirror(&mut work, &acting).await;
            written.expect("it can be written");
            let mut later = world.work(&key);
            ledger::recall(&mut later).await.expect("it can be read");
            let actor = of_ledger(&world.target, later.memory.ledger.as_ref()).expect("a user");
            assert_eq!(
                acts(&world, &actor, Place::Cluster).await,
                there,
                "{name}: in the spoke"
            );
            assert_eq!(
                acts(&world, &actor, Place::Hub).await,
                here,
                "{name}: at the hub"
            );
        }
    }

    #[tokio::test]
    async fn a_ledger_of_before_names_who_acts_as_the_spoke_knows_them() {
        let account = "system:serviceaccount:default:worker";
        for (user, want) in [("jane", vec!["jane", "dev"]), (account, vec![])] {
            let world = World::new();
            let ledger = json!({"actingAs": {"username": user, "groups": ["dev"]}});
            let ledger: InventorySpec = serde_json::from_value(ledger).expect("a ledger");
            let actor = of_ledger(&world.target, Some(&ledger)).expect("a user");
            assert_eq!(acts(&world, &actor, Place::Hub).await, want, "{user}");
        }
    }

    /// Returns as whom an actor reads something in a place; nobody where it is not known there.
    async fn acts(world: &World, actor: &Actor, place: Place) -> Vec<String> {
        let Ok(dynamic) = actor.dynamic(place) else {
            return Vec::new();
        };
        let endpoint = world
            .target
            .endpoint_at(place, &crate::resources::core("pods"), "default");
        let read: Result<Value, _> = dynamic.get(&endpoint, "any").await;
        assert!(read.is_err(), "there is none");
        let server = match place {
            Place::Cluster => &world.spoke,
            Place::Hub => &world.hub,
        };
        server.asked().pop().expect("it was asked").user
    }
}
