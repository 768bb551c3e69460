//! Who a user is, and who says so.
//!
//! # Invariants
//! - Names and groups count where somebody vouches for them: those that the hub vouches for in every logical cluster, those that one
//!   cluster below root vouches for (its ServiceAccounts, whom its administrators act as) in that cluster alone. No rule of root is ever asked
//!   about them, and no `system:masters` among them is one of the hub.

use std::{collections::BTreeMap, sync::Arc};

use api::cluster::{ClusterScope, LogicalCluster};
use serde_json::{Value, json};

/// The group of everyone with a good credential.
pub const ALL_AUTHENTICATED: &str = "system:authenticated";
/// The group of everyone without one.
pub const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user that a request without credential acts as.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group that may do everything.
pub const SYSTEM_MASTERS: &str = "system:masters";

/// What names of ServiceAccounts begin with.
pub(crate) const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// What ServiceAccounts of root are called in other logical clusters, where their own name is that of another one.
pub(crate) const ABROAD_PREFIX: &str = "wheelhouse:root:";
/// What ServiceAccounts of the host are called in all logical clusters.
pub(crate) const HOST_ACCOUNT_PREFIX: &str = "wheelhouse:host:";
/// What groups of ServiceAccounts are, or begin with before a `:`.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// What begins names that Kubernetes gives out.
const KUBERNETES_PREFIX: &str = "system:";
/// Groups of one user whom another than the hub vouches for.
const GROUP_COUNT_MAX: usize = 1024;
/// Bytes of all that is said of such a user: what a spoke takes as headers.
const CLAIMED_BYTES_MAX: usize = 32 * 1024;
/// What begins names that the hub gives out itself: of its controllers, and of ServiceAccounts in clusters other than their own. A host that
/// said one would name another user than its own.
const OWN_PREFIXES: [&str; 2] = ["system:wheelhouse:", "wheelhouse:"];

/// Name, groups and more of a user, as `authentication.k8s.io` `UserInfo` has them, and who vouches for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// Unique name.
    pub username: String,
    /// Distinguishes users of the same name at different times; empty where the authenticator knows none.
    pub uid: String,
    /// Names of groups, [`ALL_AUTHENTICATED`] included.
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
    /// Who vouches for all of this.
    realm: Realm,
    /// The user as root knows it, where it has another name there.
    at_home: Option<Arc<Self>>,
    /// The user as the host of the hub knows it, where the host vouches for it.
    at_host: Option<Arc<Self>>,
}

/// Who vouches for a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Realm {
    /// The hub, by its own credentials or root's rules.
    #[default]
    Hub,
    /// One logical cluster below root.
    Cluster(LogicalCluster),
}

/// Whether the key of an extra is Kubernetes' own.
pub(crate) fn is_kubernetes_key(key: &str) -> bool {
    // An extra becomes the name of a header, which has no case.
    let key = key.to_ascii_lowercase();
    let (domain, _) = key.split_once('/').unwrap_or_default();
    ["kubernetes.io", "k8s.io"].iter().any(|reserved| {
        let below = domain.strip_suffix(reserved);
        below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
    })
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

    /// Makes a user as somebody describes it; the groups are these and no others.
    pub(crate) fn claimed(
        username: String,
        uid: String,
        groups: Vec<String>,
        extra: BTreeMap<String, Vec<String>>,
    ) -> Self {
        Self {
            username,
            uid,
            groups,
            extra,
            ..Self::default()
        }
    }

    /// Reads a user as a TokenReview describes it.
    pub(crate) fn of_review(user: &Value) -> Self {
        let text = |field: &str| user[field].as_str().unwrap_or_default().to_owned();
        let texts = |value: &Value| -> Vec<String> {
            let texts = value.as_array().into_iter().flatten();
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let extra = user["extra"].as_object().into_iter().flatten();
        let extra = extra.map(|(key, values)| (key.clone(), texts(values)));
        Self::claimed(
            text("username"),
            text("uid"),
            texts(&user["groups"]),
            extra.collect(),
        )
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

    /// Makes a ServiceAccount as its own logical cluster knows it.
    pub(crate) fn service_account(namespace: &str, name: &str) -> Self {
        let groups = [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ];
        Self::authenticated(
            format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
            groups,
        )
    }

    /// Makes a ServiceAccount of root as every other logical cluster knows it, where its name must not be taken for one
    /// of that cluster's own.
    pub(crate) fn service_account_abroad(namespace: &str, name: &str) -> Self {
        Self {
            at_home: Some(Arc::new(Self::service_account(namespace, name))),
            ..Self::authenticated(format!("{ABROAD_PREFIX}{namespace}:{name}"), [""; 0])
        }
    }

    /// Makes a user of the host as the hub knows it; `None` for a name that is the hub's to give.
    ///
    /// Names and groups are believed, as an extension API server believes them, but for those of ServiceAccounts: root has its own, and one of
    /// the host must not be taken for the one of that name and namespace.
    ///
    /// Source: `apiserver/pkg/authentication/group/authenticated_group_adder.go`.
    pub(crate) fn of_host(mut user: Self) -> Option<Self> {
        let is_named = |name: &String| OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if user.username.is_empty() || is_named(&user.username) || user.groups.iter().any(is_named)
        {
            return None;
        }
        let is_decided = user.username == ANONYMOUS
            || user.in_group(ALL_AUTHENTICATED)
            || user.in_group(ALL_UNAUTHENTICATED);
        if !is_decided {
            user.groups.push(ALL_AUTHENTICATED.to_owned());
        }
        let at_host = Arc::new(user.clone());
        if let Some(account) = user.username.strip_prefix(SERVICE_ACCOUNT_PREFIX) {
            user.username = format!("{HOST_ACCOUNT_PREFIX}{account}");
        }
        user.groups.retain(|group| {
            let below = group.strip_prefix(SERVICE_ACCOUNTS);
            below.is_none_or(|below| !below.is_empty() && !below.starts_with(':'))
        });
        user.at_host = Some(at_host);
        Some(user)
    }

    /// Makes a user of an issuer, a certificate authority or an authentication webhook of the operator's. Those know people, and no name that Kubernetes or the hub gives out:
    /// whoever they call `system:masters` or `system:serviceaccount:...` would have rights that nobody has granted them.
    ///
    /// # Errors
    /// Which name may not be theirs.
    pub(crate) fn of_issuer(mut user: Self) -> Result<Self, String> {
        // What everyone with a good credential is, many webhooks say too.
        user.groups.retain(|group| group != ALL_AUTHENTICATED);
        let names = || std::iter::once(&user.username).chain(&user.groups);
        let is_reserved = |name: &&String| {
            name.starts_with(KUBERNETES_PREFIX)
                || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        if let Some(name) = names().find(is_reserved) {
            return Err(format!("the name {name:?} is reserved"));
        }
        let is_empty_or_strange = |it: &String| it.is_empty() || it.chars().any(char::is_control);
        if names().any(is_empty_or_strange) {
            return Err("a name is empty or has control characters".to_owned());
        }
        let extras = user.extra.iter().flat_map(|(key, values)| {
            let values = values.iter().map(String::len);
            std::iter::once(key.len()).chain(values)
        });
        let bytes: usize = names().map(String::len).chain(extras).sum();
        let bytes = bytes.saturating_add(user.uid.len());
        if user.groups.len() > GROUP_COUNT_MAX || bytes > CLAIMED_BYTES_MAX {
            return Err(format!(
                "more than {GROUP_COUNT_MAX} groups or {CLAIMED_BYTES_MAX} bytes"
            ));
        }
        user.groups.push(ALL_AUTHENTICATED.to_owned());
        Ok(user)
    }

    /// The user as the host of the hub knows it; `None` where another than the host vouches for it.
    pub(crate) fn at_host(&self) -> Option<&Self> {
        self.at_host.as_deref()
    }

    /// Makes it a user that a logical cluster vouches for; for root, that is the hub.
    #[must_use]
    pub(crate) fn vouched_for_by(mut self, cluster: &LogicalCluster) -> Self {
        if !cluster.is_root() {
            self.realm = Realm::Cluster(cluster.clone());
            self.at_home = None;
            self.at_host = None;
        }
        self
    }

    /// The one logical cluster that knows the user; `None` where all of them do.
    pub(crate) fn known_only_in(&self) -> Option<&LogicalCluster> {
        match &self.realm {
            Realm::Hub => None,
            Realm::Cluster(cluster) => Some(cluster),
        }
    }

    /// The user as the rules of a logical cluster know it; `None` where they do not. Every question to rules goes through here.
    pub(crate) fn as_known_in(&self, cluster: &LogicalCluster) -> Option<&Self> {
        match (&self.realm, &self.at_home) {
            (Realm::Cluster(own), _) => (own == cluster).then_some(self),
            (Realm::Hub, Some(at_home)) if cluster.is_root() => Some(at_home),
            (Realm::Hub, _) => Some(self),
        }
    }

    /// Whether the user may do everything in the whole hub.
    pub(crate) fn is_master_of_hub(&self) -> bool {
        self.realm == Realm::Hub && self.in_group(SYSTEM_MASTERS)
    }

    /// Whether the user may do everything that users may in a logical cluster, or in all of them.
    pub(crate) fn is_master_in(&self, scope: &ClusterScope) -> bool {
        self.in_group(SYSTEM_MASTERS)
            && match &self.realm {
                Realm::Hub => true,
                Realm::Cluster(own) => scope.one() == Some(own),
            }
    }

    /// Whether the user is in `group`. What `system:masters` may is a question to [`UserInfo::is_master_in`].
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
