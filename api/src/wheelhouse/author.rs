//! Who wanted an object, and as whom that user enters a spoke.
//!
//! **Invariant:** an author that cannot be read is nobody: whoever acts in an author's name refuses, and never falls
//! back to a right of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::keys::{GROUP_MASTERS, USER_SYNCER};
use crate::LogicalCluster;
use crate::wire::{is_default, or_default};
use dialect::quote;

/// The group of everyone with a good credential.
const AUTHENTICATED: &str = "system:authenticated";
/// What begins the name of a ServiceAccount.
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// What begins the name of a ServiceAccount of root in other clusters.
const ABROAD_PREFIX: &str = "wheelhouse:root:";
/// What begins the names of the hub's own controllers.
const CONTROLLER_PREFIX: &str = "system:wheelhouse:";

/// A user as the hub saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct User {
    /// Its name.
    pub username: String,
    /// Distinguishes users of one name; empty where the authenticator knows none.
    #[serde(
        default,
        skip_serializing_if = "is_default",
        deserialize_with = "or_default"
    )]
    pub uid: String,
    /// Its groups.
    #[serde(default, deserialize_with = "or_default")]
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    #[serde(
        default,
        skip_serializing_if = "is_default",
        deserialize_with = "or_default"
    )]
    pub extra: BTreeMap<String, Vec<String>>,
    /// The one logical cluster that knows the user, a ServiceAccount of its own for example; empty where the hub does.
    #[serde(
        default,
        rename = "knownOnlyIn",
        skip_serializing_if = "is_default",
        deserialize_with = "or_default"
    )]
    pub known_only_in: String,
}

/// Whose intent an object is, as its annotation says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Author {
    /// The hub's own controller: a definition of root made the object.
    Hub,
    /// A user.
    User(User),
}

/// Why an annotation names no author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorError {
    /// There is no annotation.
    #[error("the hub has not recorded who wrote it")]
    Missing,
    /// It cannot be read.
    #[error("the record of who wrote it cannot be read")]
    Malformed,
    /// What is written and how it is to be carried out are two users' words.
    #[error("another user wrote how it is to be carried out")]
    TwoAuthors,
    /// It names a user that nobody can be.
    #[error("user {} is the hub's own, and nobody's to act as", quote(.0))]
    Reserved(String),
}

/// A user that does not enter spokes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("user {} does not enter spokes", quote(.username))]
pub struct NoEntryError {
    /// Its name.
    pub username: String,
}

/// A ServiceAccount by which a definition's children are written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunAs {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

// === impl Author ===

impl Author {
    /// Reads the annotation.
    ///
    /// # Errors
    /// Where it is missing, cannot be read, or names a controller of the hub in the form of a user.
    pub fn read(annotation: Option<&str>) -> Result<Self, AuthorError> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            hub: bool,
            #[serde(flatten)]
            user: Option<User>,
        }
        let text = annotation.ok_or(AuthorError::Missing)?;
        let wire: Wire = serde_json::from_str(text).map_err(|_malformed| AuthorError::Malformed)?;
        match (wire.hub, wire.user) {
            (true, None) => Ok(Self::Hub),
            (false, Some(user)) if user.username.starts_with(CONTROLLER_PREFIX) => {
                Err(AuthorError::Reserved(user.username))
            }
            (false, Some(user)) if !user.username.is_empty() => Ok(Self::User(user)),
            _ => Err(AuthorError::Malformed),
        }
    }

    /// Writes the annotation.
    pub fn to_text(&self) -> String {
        match self {
            Self::Hub => r#"{"hub":true}"#.to_owned(),
            Self::User(user) => serde_json::json!(user).to_string(),
        }
    }

    /// Whether a user is the controller that writes for definitions of root.
    pub fn is_hub(username: &str) -> bool {
        username == USER_SYNCER
    }
}

// === impl User ===

impl User {
    /// Returns the identity under which a user enters the spoke of a logical cluster. Whom that cluster itself knows is there who it is.
    ///
    /// ServiceAccounts of root have names of their own there; other `system:` users do not enter; `system:` groups are
    /// dropped, but for `system:masters` where the Spoke trusts them. Names with space at an end do not enter: header
    /// values lose it on their way, and ` system:masters` would arrive as another group than the one that was judged.
    ///
    /// # Errors
    /// For a user that does not enter.
    pub fn abroad(
        &self,
        cluster: &LogicalCluster,
        trusts_masters: bool,
    ) -> Result<Self, NoEntryError> {
        if self.known_only_in == cluster.as_str() {
            return Ok(self.clone());
        }
        if !self.known_only_in.is_empty() {
            let username = self.username.clone();
            return Err(NoEntryError { username });
        }
        let username = name_abroad(&self.username)?;
        Ok(Self {
            username,
            groups: groups_abroad(&self.groups, trusts_masters),
            uid: self.uid.clone(),
            extra: self.extra.clone(),
            known_only_in: String::new(),
        })
    }

    /// The user as root's rules know it: ServiceAccounts of root have another name in all other clusters. `None` where they do
    /// not know it.
    pub fn at_home(&self) -> Option<Self> {
        if !self.known_only_in.is_empty() {
            return None;
        }
        let account = self.username.strip_prefix(ABROAD_PREFIX);
        match account.and_then(|it| it.split_once(':')) {
            Some((namespace, name)) => Some(account_user(namespace, name)),
            None => Some(self.clone()),
        }
    }
}

/// Returns the name of a user of the hub in a spoke.
///
/// # Errors
/// For a user that does not enter spokes.
pub fn name_abroad(username: &str) -> Result<String, NoEntryError> {
    if let Some(account) = username.strip_prefix(ACCOUNT_PREFIX) {
        return Ok(format!("{ABROAD_PREFIX}{account}"));
    }
    if username.starts_with("system:") || !survives_a_header(username) {
        return Err(NoEntryError {
            username: username.to_owned(),
        });
    }
    Ok(username.to_owned())
}

/// Returns the groups of a spoke that a user of the hub is in.
pub fn groups_abroad(groups: &[String], trusts_masters: bool) -> Vec<String> {
    let mut abroad: Vec<String> = groups
        .iter()
        .filter(|group| !group.starts_with("system:") && survives_a_header(group))
        .cloned()
        .collect();
    abroad.push(AUTHENTICATED.to_owned());
    if trusts_masters && groups.iter().any(|group| group == GROUP_MASTERS) {
        abroad.push(GROUP_MASTERS.to_owned());
    }
    abroad
}

/// Whether a text arrives as it was sent when it is a header's value.
pub fn survives_a_header(text: &str) -> bool {
    !text.is_empty() && text.trim() == text && !text.chars().any(char::is_control)
}

// === impl RunAs ===

impl RunAs {
    /// Reads the annotation: `<namespace>/<name>`, or `system:serviceaccount:<namespace>:<name>`.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = match text.strip_prefix(ACCOUNT_PREFIX) {
            Some(rest) => rest.split_once(':'),
            None => text.split_once('/'),
        };
        let valid = |(namespace, name): &(&str, &str)| {
            crate::validation::is_dns_label(namespace).is_empty()
                && crate::validation::is_dns_subdomain(name).is_empty()
        };
        let Some((namespace, name)) = parts.filter(valid) else {
            let shown: String = text.chars().take(64).collect();
            return Err(format!(
                "{} names no ServiceAccount: write <namespace>/<name>",
                quote(&shown)
            ));
        };
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The user that the account is, in its own cluster.
    pub fn user(&self) -> User {
        account_user(&self.namespace, &self.name)
    }
}

fn account_user(namespace: &str, name: &str) -> User {
    User {
        username: format!("{ACCOUNT_PREFIX}{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            AUTHENTICATED.to_owned(),
        ],
        ..User::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_that_cannot_be_read_is_nobody() {
        let jane = User {
            username: "jane".to_owned(),
            groups: vec!["dev".to_owned()],
            ..User::default()
        };
        for (annotation, want) in [
            (None, Err(AuthorError::Missing)),
            (Some(""), Err(AuthorError::Malformed)),
            (Some("{}"), Err(AuthorError::Malformed)),
            (Some(r#"{"username":""}"#), Err(AuthorError::Malformed)),
            (
                Some(r#"{"hub":true,"username":"jane"}"#),
                Err(AuthorError::Malformed),
            ),
            (
                Some(r#"{"username":"jane","groups":"dev"}"#),
                Err(AuthorError::Malformed),
            ),
            (
                Some(r#"{"username":"system:wheelhouse:syncer","groups":["system:masters"]}"#),
                Err(AuthorError::Reserved("system:wheelhouse:syncer".to_owned())),
            ),
            (Some(r#"{"hub":true}"#), Ok(Author::Hub)),
            (
                Some(r#"{"username":"jane","groups":["dev"]}"#),
                Ok(Author::User(jane)),
            ),
        ] {
            let read = Author::read(annotation);
            assert_eq!(read, want, "{annotation:?}");
            if let Ok(author) = read {
                assert_eq!(Author::read(Some(&author.to_text())), Ok(author));
            }
        }
    }

    #[test]
    fn users_enter_spokes_without_the_groups_of_the_system() {
        for (username, groups, trusts_masters, want) in [
            (
                "jane",
                &["dev"][..],
                false,
                Some(("jane", vec!["dev", AUTHENTICATED])),
            ),
            (
                "admin",
                &["system:masters", "system:nodes"],
                false,
                Some(("admin", vec![AUTHENTICATED])),
            ),
            (
                "admin",
                &["system:masters"],
                true,
                Some(("admin", vec![AUTHENTICATED, "system:masters"])),
            ),
            (
                "system:serviceaccount:ns:bot",
                &["system:serviceaccounts"],
                true,
                Some(("wheelhouse:root:ns:bot", vec![AUTHENTICATED])),
            ),
            (
                "jane",
                &[" system:masters"],
                true,
                Some(("jane", vec![AUTHENTICATED])),
            ),
            ("system:kube-scheduler", &[], true, None),
            (" jane", &[], true, None),
        ] {
            let user = User {
                username: username.to_owned(),
                groups: groups.iter().map(|&it| it.to_owned()).collect(),
                ..User::default()
            };
            let east = "east".parse().unwrap();
            let got = user.abroad(&east, trusts_masters).ok();
            let got = got.as_ref().map(|it| {
                (
                    it.username.as_str(),
                    it.groups.iter().map(String::as_str).collect(),
                )
            });
            assert_eq!(got, want, "{username}");
        }
    }

    #[test]
    fn whom_one_cluster_knows_is_nobody_elsewhere() {
        let (east, west) = ("east".parse().unwrap(), "west".parse().unwrap());
        let bot = User {
            known_only_in: "east".to_owned(),
            ..account_user("ns", "bot")
        };
        assert_eq!(bot.abroad(&east, true), Ok(bot.clone()));
        assert!(bot.abroad(&west, true).is_err());
        assert_eq!(bot.at_home(), None);
        let of_root = User {
            username: "wheelhouse:root:ns:bot".to_owned(),
            ..User::default()
        };
        let home = of_root.at_home().unwrap();
        assert_eq!(home.username, "system:serviceaccount:ns:bot");
    }

    #[test]
    fn run_as_names_one_account() {
        let account = |namespace: &str, name: &str| RunAs {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        for (text, want) in [
            ("apps/deployer", Some(account("apps", "deployer"))),
            (
                "system:serviceaccount:apps:deployer",
                Some(account("apps", "deployer")),
            ),
            ("deployer", None),
            ("/deployer", None),
            ("apps/", None),
            ("apps/a/b", None),
            ("system:masters", None),
            ("system:serviceaccount:apps:a:b", None),
            ("a\r\nb/c", None),
        ] {
            assert_eq!(RunAs::parse(text).ok(), want, "{text}");
        }
        assert_eq!(
            account("apps", "deployer").user().username,
            "system:serviceaccount:apps:deployer"
        );
    }
}
