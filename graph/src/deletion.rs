//! Deletion of an instance's children, wave by wave, without its graph.
//!
//! Every child carries the number of its wave. The highest goes first; only when all of it is gone does the next one go.
//! A child without a number, or with a broken one, goes last.
//!
//! Source: kro `pkg/controller/instance/deletion.go`.

mod policy;

use std::sync::Arc;

use api::kro::keys;
use api::meta;
use serde_json::Value;

pub use policy::ChildPolicy;

/// The wave of children without a number.
const LAST: i64 = 0;

/// Children that go at once.
#[derive(Clone, Debug)]
pub struct DeletionWave {
    /// The number of the wave.
    pub order: i64,
    /// The children; those that are being deleted already are to be waited for.
    pub objects: Vec<Arc<Value>>,
}

/// Finds the wave that goes next among the members that are left. Nothing when none is: then the instance's finalizer
/// may go.
pub fn next_wave(members: &[Arc<Value>]) -> Option<DeletionWave> {
    let order = members.iter().map(|member| order_of(member)).max()?;
    let objects = members
        .iter()
        .filter(|member| order_of(member) == order)
        .map(Arc::clone)
        .collect();
    Some(DeletionWave { order, objects })
}

fn order_of(member: &Value) -> i64 {
    let order =
        meta::annotation(member, keys::ANNOTATION_APPLY_ORDER).and_then(|text| text.parse().ok());
    order.filter(|order| *order > LAST).unwrap_or(LAST)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_highest_wave_goes_first_and_the_unnumbered_last() {
        let member = |name: &str, order: Option<&str>| {
            let mut object = json!({"metadata": {"name": name}});
            if let Some(order) = order {
                object["metadata"]["annotations"] = json!({keys::ANNOTATION_APPLY_ORDER: order});
            }
            Arc::new(object)
        };
        let mut members = vec![
            member("a", Some("1")),
            member("b", Some("3")),
            member("none", None),
            member("c", Some("3")),
            member("broken", Some("x")),
            member("negative", Some("-4")),
        ];
        let mut got = Vec::new();
        while let Some(wave) = next_wave(&members) {
            let names: Vec<&str> = wave
                .objects
                .iter()
                .map(|object| meta::name(object))
                .collect();
            got.push(format!("{}: {}", wave.order, names.join(" ")));
            members.retain(|member| !wave.objects.iter().any(|gone| Arc::ptr_eq(gone, member)));
        }
        assert_eq!(got, ["3: b c", "1: a", "0: none broken negative"]);
    }
}
