//! Names that expressions give, and policies: checked before anything is asked for by them.
//!
//! What a name may look like is for the API server of its kind to say; here is refused what could not stand in a URL as one
//! segment, or be the name of any namespace. Source: apimachinery `pkg/api/validation/path`, KEP-1040 for namespaces.

use api::meta;
use api::validation::{is_dns_label, is_path_segment};
use dialect::quote;
use serde_json::Value;

use super::run::Stop;
use crate::deletion::ChildPolicy;
use crate::graph::Node;
use crate::settings::Settings;

/// How much of a refused name a message shows, in characters.
const SHOWN_MAX: usize = 64;
/// The longest name of any kind. Source: apimachinery `DNS1123SubdomainMaxLength`.
const NAME_BYTES_MAX: usize = 253;

/// Refuses a resolved object whose name or namespace cannot be one; an empty one is for the caller to judge.
pub(super) fn check(node: &Node, object: &Value) -> Result<(), Stop> {
    let name = meta::name(object);
    if let Some(why) = wrong_name(name) {
        return Err(refused(node, "metadata.name", name, &why));
    }
    let namespace = meta::namespace(object);
    let wrong = is_dns_label(namespace).into_iter().next();
    match wrong.filter(|_| !namespace.is_empty()) {
        Some(why) => Err(refused(node, "metadata.namespace", namespace, &why)),
        None => Ok(()),
    }
}

/// Refuses a resolved object whose deletion policy is none, where policies count.
pub(super) fn check_policy(node: &Node, object: &Value, settings: &Settings) -> Result<(), Stop> {
    if !settings.compile.deletion_policy {
        return Ok(());
    }
    let policy = ChildPolicy::of(object);
    policy
        .map(|_| ())
        .map_err(|why| Stop::Failed(format!("node {}: {why}", quote(&node.id))))
}

fn wrong_name(name: &str) -> Option<String> {
    if name.len() > NAME_BYTES_MAX {
        return Some(format!("must be no more than {NAME_BYTES_MAX} bytes"));
    }
    if name.chars().any(char::is_control) {
        return Some("may not contain control characters".to_owned());
    }
    is_path_segment(name).into_iter().next()
}

fn refused(node: &Node, field: &str, value: &str, why: &str) -> Stop {
    let id = quote(&node.id);
    let mut shown: String = value.chars().take(SHOWN_MAX).collect();
    if shown.len() < value.len() {
        shown.push_str("...");
    }
    Stop::Failed(format!(
        "node {id}: invalid {field} {}: {why}",
        quote(&shown)
    ))
}
