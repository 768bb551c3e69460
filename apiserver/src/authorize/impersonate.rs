//! Lets a request act as another user, where its sender may.
//!
//! Each part of the other identity is a question of its own: `impersonate` on `users`, `groups`, `serviceaccounts`,
//! `uids` and `userextras/<key>`. Whose RBAC answers: root's, or, in a logical cluster whose RBAC objects the
//! hub stores, that cluster's. The sender passes the first gate as itself before any of it.
//!
//! # Invariants
//! - Whom the rules of one cluster let somebody act as, that cluster alone vouches for: no name and no group taken there is one of the
//!   hub's, `system:masters` included.
//! - Whom a master of the hub acts as passes the first gate too: what is seen as a user is what that user sees.
//!
//! Source: `apiserver/pkg/endpoints/filters/impersonation`.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    cluster::{ClusterScope, LogicalCluster},
    status::Status,
};
use http::{HeaderMap, HeaderValue, request::Parts};

use super::{Attributes, Authorizer, Refused, refuse_unless_allowed};
use crate::{
    authenticate::Authenticated,
    refusal::Refusal,
    request::{
        ABROAD_PREFIX, ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, SERVICE_ACCOUNT_PREFIX,
        UserInfo,
    },
};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";
/// With what all of them begin.
const PREFIX: &str = "impersonate-";
const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// The identity that the headers ask for, before anything is added to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// Replaces the user of a request with the one that its headers ask for. Without such headers nothing changes.
pub(super) fn apply(
    authorizer: &Authorizer,
    authenticated: Authenticated<Parts>,
) -> Result<Authenticated<Parts>, Box<Refused<Parts>>> {
    let wanted = match read_headers(&authenticated.request().headers) {
        Ok(None) => return Ok(authenticated),
        Ok(Some(wanted)) => wanted,
        Err(status) => {
            return Err(Box::new(Refused {
                refusal: status.into(),
                authenticated,
            }));
        }
    };
    let sender = &authenticated.context().user;
    match check(authorizer, sender, &authenticated.info().cluster, &wanted) {
        Ok(user) => Ok(authenticated.acting_as(Arc::new(user))),
        Err(refusal) => Err(Box::new(Refused {
            refusal,
            authenticated,
        })),
    }
}

/// Reads the headers; `None` where there are none.
pub(super) fn read_headers(headers: &HeaderMap) -> Result<Option<Wanted>, Status> {
    // Nearly always, and cheaper than a look for each.
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let text = |value: &HeaderValue| {
        String::from_utf8(value.as_bytes().to_vec())
            .map_err(|_utf8| Status::bad_request("impersonation headers must be UTF-8"))
    };
    let mut groups = Vec::new();
    for value in headers.get_all(GROUP) {
        groups.push(text(value)?);
    }
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            extra
                .entry(unescape_key(key))
                .or_default()
                .push(text(value)?);
        }
    }
    let uid = headers.get(UID).map(text).transpose()?.unwrap_or_default();
    let username = headers.get(USER).map(text).transpose()?.unwrap_or_default();
    if username.is_empty() {
        if groups.is_empty() && extra.is_empty() && uid.is_empty() {
            return Ok(None);
        }
        return Err(Status::bad_request(
            "requested impersonation of groups, a uid or extra fields without impersonating a user",
        ));
    }
    Ok(Some(Wanted {
        username,
        uid,
        groups,
        extra,
    }))
}

/// Reads the headers and makes the user of them; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub(super) fn read(headers: &HeaderMap) {
    if let Ok(Some(wanted)) = read_headers(headers) {
        let parts = 1 + wanted.groups.len() + usize::from(!wanted.uid.is_empty());
        let extras: usize = wanted.extra.values().map(Vec::len).sum();
        let root = ClusterScope::One(LogicalCluster::root());
        let nobody = UserInfo::anonymous();
        let base = Attributes {
            user: &nobody,
            cluster: &root,
            verb: "impersonate",
            group: "",
            version: "v1",
            resource: "users",
            subresource: "",
            namespace: "",
            name: "",
            path: "",
            is_resource: true,
        };
        assert_eq!(
            wanted.questions(base).len(),
            parts + extras,
            "every part of the identity is asked for"
        );
        let user = wanted.user();
        assert!(!user.username.is_empty(), "someone is impersonated");
    }
}

/// Undoes the percent escapes of an extra key; a key that cannot be decoded stays as it came.
fn unescape_key(key: &str) -> String {
    let mut decoded = Vec::with_capacity(key.len());
    let mut bytes = key.bytes();
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        match (bytes.next().and_then(digit), bytes.next().and_then(digit)) {
            (Some(high), Some(low)) => decoded.push(high << 4 | low),
            _ => return key.to_owned(),
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_utf8| key.to_owned())
}

/// Makes the user that `sender` acts as at the path of `cluster`, where it may. Asks nobody but rules in memory.
pub(super) fn check(
    authorizer: &Authorizer,
    sender: &UserInfo,
    cluster: &ClusterScope,
    wanted: &Wanted,
) -> Result<UserInfo, Refusal> {
    authorizer.enter(sender, cluster)?;
    let root = ClusterScope::One(LogicalCluster::root());
    let embedded = cluster.one().filter(|it| authorizer.is_embedded(it));
    let judged_in = if embedded.is_some() { cluster } else { &root };
    let base = Attributes {
        user: sender,
        cluster: judged_in,
        verb: "impersonate",
        group: "",
        version: "v1",
        resource: "users",
        subresource: "",
        namespace: "",
        name: "",
        path: "",
        is_resource: true,
    };
    for asked in wanted.questions(base) {
        let verdict = authorizer.judge_here(&asked).unwrap_or_default();
        refuse_unless_allowed(&asked, &verdict)?;
    }
    let Some(embedded) = embedded else {
        let is_root = cluster.one().is_some_and(LogicalCluster::is_root);
        return Ok(if is_root {
            wanted.user()
        } else {
            wanted.user_abroad(sender)
        });
    };
    let is_own_account = wanted.service_account().is_some();
    if sender.is_master_of_hub() && !is_own_account {
        authorizer.enter(&wanted.user_abroad(sender), cluster)?;
    }
    Ok(wanted.user().vouched_for_by(embedded))
}

// === impl Wanted ===

impl Wanted {
    /// One question per part of the identity.
    fn questions<'a>(&'a self, base: Attributes<'a>) -> Vec<Attributes<'a>> {
        let mut questions = Vec::with_capacity(1 + self.groups.len());
        questions.push(match self.service_account() {
            Some((namespace, name)) => Attributes {
                resource: "serviceaccounts",
                namespace,
                name,
                ..base
            },
            None => Attributes {
                name: &self.username,
                ..base
            },
        });
        for group in &self.groups {
            questions.push(Attributes {
                resource: "groups",
                name: group,
                ..base
            });
        }
        let authentication = Attributes {
            group: AUTHENTICATION_GROUP,
            ..base
        };
        if !self.uid.is_empty() {
            questions.push(Attributes {
                resource: "uids",
                name: &self.uid,
                ..authentication
            });
        }
        for (key, values) in &self.extra {
            for value in values {
                questions.push(Attributes {
                    resource: "userextras",
                    subresource: key,
                    name: value,
                    ..authentication
                });
            }
        }
        questions
    }

    fn service_account(&self) -> Option<(&str, &str)> {
        self.username
            .strip_prefix(SERVICE_ACCOUNT_PREFIX)?
            .split_once(':')
            .filter(|(namespace, name)| {
                !namespace.is_empty() && !name.is_empty() && !name.contains(':')
            })
    }

    /// The user to act as: with the groups of a service account, and as authenticated or not.
    fn user(&self) -> UserInfo {
        let mut groups = self.groups.clone();
        if let Some((namespace, _)) = self.service_account()
            && groups.is_empty()
        {
            groups = vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ];
        }
        self.completed(UserInfo::default(), self.username.clone(), groups)
    }

    /// The same where ServiceAccounts of root are meant, and have another name. That other name stands for them too where a master of the
    /// hub asks for it: for anybody else it is a name like any, since the right to act as users is none to act as ServiceAccounts.
    fn user_abroad(&self, sender: &UserInfo) -> UserInfo {
        let by_other_name = || {
            let own = self.username.strip_prefix(ABROAD_PREFIX)?.split_once(':');
            own.filter(|_| sender.is_master_of_hub())
        };
        let Some((namespace, name)) = self.service_account().or_else(by_other_name) else {
            return self.user();
        };
        let user = UserInfo::service_account_abroad(namespace, name);
        let username = user.username.clone();
        self.completed(user, username, self.groups.clone())
    }

    fn completed(&self, mut user: UserInfo, username: String, groups: Vec<String>) -> UserInfo {
        user.groups = groups;
        let is_known = user.in_group(ALL_AUTHENTICATED) || user.in_group(ALL_UNAUTHENTICATED);
        if !is_known {
            let group = if username == ANONYMOUS {
                ALL_UNAUTHENTICATED
            } else {
                ALL_AUTHENTICATED
            };
            user.groups.push(group.to_owned());
        }
        user.username = username;
        user.uid.clone_from(&self.uid);
        user.extra.clone_from(&self.extra);
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn nothing_is_wanted_without_headers() {
        assert_eq!(read_headers(&headers(&[("accept", "x")])), Ok(None));
    }

    #[test]
    fn parts_of_an_identity_need_a_user() {
        for header in [
            "impersonate-group",
            "impersonate-uid",
            "impersonate-extra-scopes",
        ] {
            let refused = read_headers(&headers(&[(header, "x")])).unwrap_err();
            assert_eq!(refused.code, 400, "{header}");
        }
    }

    #[test]
    fn extra_keys_are_decoded() {
        let wanted = read_headers(&headers(&[
            ("impersonate-user", "jane"),
            ("impersonate-extra-acme.com%2fproject", "one"),
        ]))
        .unwrap()
        .unwrap();
        assert_eq!(wanted.extra["acme.com/project"], ["one"]);
    }

    #[test]
    fn groups_follow_from_the_kind_of_user() {
        for (user, groups, want) in [
            ("jane", &[][..], &["system:authenticated"][..]),
            ("jane", &["a"], &["a", "system:authenticated"]),
            ("system:anonymous", &[], &["system:unauthenticated"]),
            (
                "jane",
                &["system:unauthenticated"],
                &["system:unauthenticated"],
            ),
            (
                "system:serviceaccount:ns:bob",
                &[],
                &[
                    "system:serviceaccounts",
                    "system:serviceaccounts:ns",
                    "system:authenticated",
                ],
            ),
        ] {
            let mut pairs = vec![("impersonate-user", user)];
            pairs.extend(groups.iter().map(|group| ("impersonate-group", *group)));
            let mut map = HeaderMap::new();
            for (name, value) in pairs {
                map.append(name, value.parse().unwrap());
            }
            let acting = read_headers(&map).unwrap().unwrap().user();
            assert_eq!(acting.groups, want, "{user} {groups:?}");
        }
    }
}
