//! Hands served kinds over to the one who writes documents.

use std::sync::Arc;

use api::wheelhouse;
use bytes::Bytes;
use schema::{
    builtin,
    openapi::{self, PublishedKind, PublishedSchema, PublishedSubresource},
};
use serde_json::{Value, json};

use crate::served::{KindSource, ServedKind, ServedSubresource};

/// The definition of the kind that scales are read and written as.
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// The document of kinds that share group and version.
pub(super) fn document(kinds: &[&Arc<ServedKind>]) -> Bytes {
    let published: Vec<PublishedKind> = kinds.iter().filter_map(|kind| publish(kind)).collect();
    openapi::document(&published).to_string().into()
}

/// A served kind as it is published; `None` for a built-in kind that the catalogue does not know.
fn publish(kind: &ServedKind) -> Option<PublishedKind> {
    match kind.source {
        KindSource::BuiltIn => {
            let resource = builtin::catalog().by_resource(&kind.gvr)?;
            let mut published = PublishedKind::of_builtin(resource);
            // A log is text: the kind that discovery names for it is not what is answered.
            let is_served = |name: &str| {
                name != "log" && kind.subresources.iter().any(|served| served.name == name)
            };
            published
                .subresources
                .retain(|subresource| is_served(&subresource.name));
            published.verbs.clone_from(&kind.verbs);
            Some(published)
        }
        KindSource::Definition => Some(PublishedKind {
            gvk: kind.gvk.clone(),
            list_kind: kind.list_kind.clone(),
            resource: kind.gvr.resource.clone(),
            namespaced: kind.namespaced,
            verbs: kind.verbs.clone(),
            // What is answered below a proxy is another document's.
            subresources: kind
                .subresources
                .iter()
                .filter(|served| served.name != wheelhouse::PROXY_SUBRESOURCE)
                .map(publish_subresource)
                .collect(),
            schema: PublishedSchema::Custom(
                schema_of(kind),
                kind.selectable_fields
                    .iter()
                    .map(|path| path.trim_start_matches('.').to_owned())
                    .collect(),
            ),
        }),
    }
}

fn publish_subresource(served: &ServedSubresource) -> PublishedSubresource {
    PublishedSubresource {
        name: served.name.clone(),
        gvk: served.gvk.clone(),
        verbs: served.verbs.clone(),
        definition: (served.name == "scale").then(|| SCALE.to_owned()),
    }
}

/// The schema as it was written; one that takes anything where there is none.
fn schema_of(kind: &ServedKind) -> Value {
    kind.definition_schema
        .as_ref()
        .and_then(|text| serde_json::from_slice(text).ok())
        .unwrap_or_else(
            || json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        )
}
