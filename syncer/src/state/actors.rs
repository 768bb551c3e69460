//! In whose name children of a definition are written, as the definition says, and the clients that act so.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use api::{
    LogicalCluster, Status, StatusReason,
    wheelhouse::{
        author::{Author, AuthorError, RunAs, User},
        keys,
    },
};
use client::Dynamic;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

/// How many users' clients, and how many answers, one target keeps; beyond that all are made anew.
const KEPT_COUNT_MAX: usize = 256;

/// Who has a definition's children written, as the definition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) author: Result<Author, AuthorError>,
    pub(crate) run_as: Option<RunAs>,
    adopts: bool,
    owns: bool,
    confirms: Option<String>,
}

/// Where the objects of a kind are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    /// In the cluster behind the logical cluster.
    Cluster,
    /// In the hub's store, at the path of a real spoke.
    Hub,
}

/// A user of a target, or the hub itself, with a client that acts so.
#[derive(Clone)]
pub(crate) struct Actor {
    dynamic: Dynamic,
    /// The same in the hub, for what it keeps at the path of a real spoke; nothing where the hub does not know the user.
    at_hub: Option<Dynamic>,
    user: Option<Arc<User>>,
    /// The user as the hub knows it, which may be by another name, and in groups that the cluster is not told of.
    user_at_hub: Option<Arc<User>>,
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
pub(crate) enum Question {
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
            owns: annotation(keys::ANNOTATION_OWNER_REFERENCES) == Some("true"),
            confirms: annotation(keys::ANNOTATION_CONFIRM_DELETIONS).map(str::to_owned),
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
            self.owns = false;
            self.confirms = None;
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

    /// Returns what of the deletions of its instances is confirmed.
    pub(crate) fn confirms(&self) -> Option<&str> {
        self.confirms.as_deref()
    }

    /// Whether instances are named as the owners of their children.
    pub(crate) const fn owns(&self) -> bool {
        self.owns
    }
}

// === impl Actor ===

impl Actor {
    /// The hub itself, with the credential that it has there.
    pub(crate) fn hub(dynamic: &Dynamic) -> Self {
        Self {
            dynamic: dynamic.clone(),
            at_hub: None,
            user: None,
            user_at_hub: None,
        }
    }

    /// The same, who acts by another client upon what the hub keeps.
    pub(crate) fn with_hub(mut self, at_hub: Option<Dynamic>) -> Self {
        self.at_hub = at_hub;
        self
    }

    /// The same, who is that other actor upon what the hub keeps.
    pub(crate) fn known_at_hub(mut self, at_hub: Self) -> Self {
        self.at_hub = Some(at_hub.dynamic);
        self.user_at_hub = at_hub.user;
        self
    }

    /// Returns the client that acts so in a place.
    ///
    /// # Errors
    /// Where the hub does not know the user.
    pub(crate) fn dynamic(&self, place: Place) -> Result<&Dynamic, client::Error> {
        match place {
            Place::Cluster => Ok(&self.dynamic),
            Place::Hub => self.at_hub.as_ref().ok_or_else(|| {
                let user = self.user.as_ref().map_or("", |user| user.username.as_str());
                let message = format!(
                    "user {user:?} is known in the spoke only, and the hub keeps this object: write the definition as a user \
                     of the hub, without the annotation {}",
                    keys::ANNOTATION_RUN_AS
                );
                let status = Status::failure(403, StatusReason::Forbidden, message);
                client::Error::Status(Box::new(status))
            }),
        }
    }

    /// Returns where the actor makes an object of a kind that instances of the hub have: at the hub's path, unless the spoke
    /// alone knows the user.
    pub(crate) const fn home(&self) -> Place {
        if self.at_hub.is_some() {
            Place::Hub
        } else {
            Place::Cluster
        }
    }

    /// The user; `None` is the hub itself.
    pub(crate) const fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }

    /// The user as the hub knows it, if it does; `None` for the hub itself.
    pub(crate) const fn user_at_hub(&self) -> Option<&Arc<User>> {
        self.user_at_hub.as_ref()
    }
}

impl fmt::Debug for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actor")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

// === impl Actors ===

impl Actors {
    /// Returns a user of a target; `hub` is the client with which the hub itself comes there.
    ///
    /// # Errors
    /// Where the user cannot be named to the target.
    pub(crate) fn named(&self, hub: &Dynamic, user: User) -> Result<Actor, String> {
        let mut known = self.known.lock();
        if let Some(actor) = known.get(&user) {
            return Ok(actor.clone());
        }
        let client = client::acting_as(hub.client(), &user);
        let user = Arc::new(user);
        let actor = Actor {
            dynamic: Dynamic::new(client.map_err(|error| error.to_string())?),
            at_hub: None,
            user: Some(Arc::clone(&user)),
            user_at_hub: None,
        };
        if known.len() >= KEPT_COUNT_MAX {
            known.clear();
        }
        known.insert(user, actor.clone());
        Ok(actor)
    }

    /// Returns an answer about what a user may do, if it is not older than `age_max`.
    pub(crate) fn answer(&self, asked: &(User, Question), age_max: Duration) -> Option<bool> {
        let reviews = self.reviews.lock();
        let (at, allowed) = reviews.get(asked)?;
        (Instant::now().duration_since(*at) < age_max).then_some(*allowed)
    }

    /// Keeps an answer that was asked for at some time.
    pub(crate) fn keep_answer(&self, asked: (User, Question), at: Instant, allowed: bool) {
        let mut reviews = self.reviews.lock();
        if reviews.len() >= KEPT_COUNT_MAX {
            reviews.clear();
        }
        reviews.insert(asked, (at, allowed));
    }
}

impl fmt::Debug for Actors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actors").finish_non_exhaustive()
    }
}
