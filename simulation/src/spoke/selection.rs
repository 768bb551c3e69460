//! The label and field selectors of a list or a watch.

use api::selector::Selector;
use serde_json::Value;

use super::Asked;

/// Which objects a list or a watch is about.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    labels: Option<Selector>,
    name: Option<String>,
}

// === impl Selection ===

impl Selection {
    pub(crate) fn of(asked: &Asked) -> Self {
        let labels = asked.parameter("labelSelector");
        let fields = asked.parameter("fieldSelector").unwrap_or_default();
        Self {
            labels: labels.and_then(|text| text.parse().ok()),
            name: fields.strip_prefix("metadata.name=").map(str::to_owned),
        }
    }

    pub(crate) fn takes(&self, object: &Value) -> bool {
        let by_name = self.name.as_deref();
        by_name.is_none_or(|name| api::meta::name(object) == name)
            && self
                .labels
                .as_ref()
                .is_none_or(|labels| labels.matches(&api::meta::labels(object)))
    }
}
