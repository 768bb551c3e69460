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

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use api::{
    GroupVersionResource, LogicalCluster,
    wheelhouse::{
        author::{Author, AuthorError, RunAs, User},
        keys,
    },
};
use client::Dynamic;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    engine::Engine,
    target::{Target, TargetSort},
};

/// How long an answer about impersonation holds: a right that was taken away ends within it.
const REVIEW_AGE_MAX: Duration = Duration::from_secs(5);

/// How many users' clients, and how many answers, one target keeps; beyond that all are made anew.
const KEPT_COUNT_MAX: usize = 256;

/// Who has a definition's children written, as the definition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    author: Result<Author, AuthorError>,
    run_as: Option<RunAs>,
    adopts: bool,
}

/// A user of a target, or the hub itself, with a client that acts so.
#[derive(Clone)]
pub(crate) struct Actor {
    dynamic: Dynamic,
    user: Option<Arc<User>>,
}

/// The actors of one target.
#[derive(Default)]
pub(crate) struct Actors {
    // Each guards one map; neither is held across an await nor while the other is.
    known: Mutex<HashMap<Arc<User>, Actor>>,
    reviews: Mutex<HashMap<(User, Question), (Instant, bool)>>,
}

/// What a user may have to be allowed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Question {
    /// To enter the logical cluster.
    Access,
    /// To act as an account of it.
    Impersonate(RunAs),
}

// === impl Grant ===

impl Grant {
    /// Reads who wrote a definition of a logical cluster, and the account that it names.
    ///
    /// # Errors
    /// Where the account is named in another way than it can be.
    pub(crate) fn of(cluster: &LogicalCluster, definition: &Value) -> Result<Self, String> {
        let annotation = |key| api::meta::annotation(definition, key);
        let author = if cluster.is_root() {
            Ok(Author::Hub)
        } else {
            Author::read(annotation(keys::ANNOTATION_AUTHOR))
        };
        let run_as = annotation(keys::ANNOTATION_RUN_AS).map(RunAs::parse);
        let run_as = run_as
            .transpose()
            .map_err(|error| format!("annotation {}: {error}", keys::ANNOTATION_RUN_AS))?;
        Ok(Self {
            author,
            run_as,
            adopts: annotation(keys::ANNOTATION_ADOPT) == Some("true"),
        })
    }

    /// The same for an older revision: its own author's. What another user has said since of how it is to be carried out does
    /// not count in this one's name.
    pub(crate) fn of_revision(mut self, cluster: &LogicalCluster, author: Option<&str>) -> Self {
        if cluster.is_root() {
            return self;
        }
        let author = Author::read(author);
        if author != self.author {
            self.adopts = false;
            if self.run_as.is_some() {
                self.author = Err(AuthorError::TwoAuthors);
                return self;
            }
        }
        self.author = author;
        self
    }

    /// Whether children may take the place of objects that nobody made for them.
    pub(crate) const fn adopts(&self) -> bool {
        self.adopts
    }

    /// Makes the actor in a target.
    ///
    /// # Errors
    /// Says to the user why nobody may act; also where the target does not answer whether somebody may.
    pub(crate) async fn resolve(&self, engine: &Engine, target: &Target) -> Result<Actor, String> {
        let author = match &self.author {
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
        match (&self.run_as, author) {
            (None, None) => Ok(Actor::hub(target)),
            (None, Some(user)) => Actor::named(target, user),
            (Some(account), None) => Actor::named(target, account.user()),
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
                Actor::named(target, account.user())
            }
        }
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
    if let Some((asked, allowed)) = target.actors.reviews.lock().get(&key)
        && now.duration_since(*asked) < REVIEW_AGE_MAX
    {
        return Ok(*allowed);
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
    let mut reviews = target.actors.reviews.lock();
    if reviews.len() >= KEPT_COUNT_MAX {
        reviews.clear();
    }
    reviews.insert(key, (now, allowed));
    Ok(allowed)
}

// === impl Actor ===

impl Actor {
    /// The hub itself, with the credential that it has there.
    pub(crate) fn hub(target: &Target) -> Self {
        Self {
            dynamic: target.dynamic.clone(),
            user: None,
        }
    }

    /// A user of the target.
    ///
    /// # Errors
    /// Where the user cannot be named to it.
    pub(crate) fn named(target: &Target, user: User) -> Result<Self, String> {
        let mut known = target.actors.known.lock();
        if let Some(actor) = known.get(&user) {
            return Ok(actor.clone());
        }
        let client = client::acting_as(target.dynamic.client(), &user);
        let user = Arc::new(user);
        let actor = Self {
            dynamic: Dynamic::new(client.map_err(|error| error.to_string())?),
            user: Some(Arc::clone(&user)),
        };
        if known.len() >= KEPT_COUNT_MAX {
            known.clear();
        }
        known.insert(user, actor.clone());
        Ok(actor)
    }

    /// The client that acts so.
    pub(crate) const fn dynamic(&self) -> &Dynamic {
        &self.dynamic
    }

    /// The user; `None` is the hub itself.
    pub(crate) const fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }
}

impl fmt::Debug for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actor")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Actors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actors").finish_non_exhaustive()
    }
}
