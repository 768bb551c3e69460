//! Who a user is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The group of everyone with a good credential.
pub const ALL_AUTHENTICATED: &str = "system:authenticated";
/// The group of everyone without one.
pub const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user that a request without credential acts as.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group that may do everything.
pub const SYSTEM_MASTERS: &str = "system:masters";

/// Name, groups and more of a user, as `authentication.k8s.io` `UserInfo` has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// Unique name.
    pub username: String,
    /// Tells users of the same name at different times apart; empty where the authenticator knows none.
    pub uid: String,
    /// Names of groups, [`ALL_AUTHENTICATED`] included.
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

// === impl UserInfo ===

impl UserInfo {
    /// Makes an authenticated user: adds [`ALL_AUTHENTICATED`] to `groups`.
    pub fn authenticated<I>(username: impl Into<String>, groups: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let mut groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        if !groups.iter().any(|group| group == ALL_AUTHENTICATED) {
            groups.push(ALL_AUTHENTICATED.to_owned());
        }
        Self {
            username: username.into(),
            groups,
            ..Self::default()
        }
    }

    /// Makes the user that stands for nobody in particular.
    pub fn anonymous() -> Self {
        Self {
            username: ANONYMOUS.to_owned(),
            groups: vec![ALL_UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Makes the user of a controller in this process, which may do everything.
    pub fn system(username: impl Into<String>) -> Self {
        Self::authenticated(username, [SYSTEM_MASTERS])
    }

    /// Whether the user is in `group`.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// The wire form, `{username, uid, groups, extra}`, empty parts left out.
    pub fn to_value(&self) -> Value {
        let mut value = json!({ "username": self.username });
        if !self.uid.is_empty() {
            value["uid"] = json!(self.uid);
        }
        if !self.groups.is_empty() {
            value["groups"] = json!(self.groups);
        }
        if !self.extra.is_empty() {
            value["extra"] = json!(self.extra);
        }
        value
    }
}
