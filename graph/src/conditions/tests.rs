//! How conditions start, change, sort and make up the root.

use super::*;

const CREATED: &str = "2026-01-01T00:00:00Z";

fn object(generation: i64, conditions: &Value) -> Value {
    json!({
        "metadata": {"generation": generation, "creationTimestamp": CREATED},
        "status": {"conditions": conditions},
    })
}

/// The set as lines `type status/reason message @time`.
fn lines(set: &ConditionSet) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    set.conditions()
        .iter()
        .map(|c| {
            let time = text(&c.last_transition_time);
            let time = time
                .trim_start_matches("2026-01-01T00:00:")
                .trim_end_matches('Z');
            format!(
                "{} {}/{} @{time}",
                c.kind,
                c.status.as_str(),
                text(&c.reason)
            )
        })
        .collect()
}

#[test]
fn a_new_object_awaits_its_conditions_since_its_creation() {
    let set = ConditionSet::open(&INSTANCE, &object(1, &json!([])), "2026-01-01T00:00:09Z");
    let want = [
        "InstanceManaged Unknown/AwaitingReconciliation @00",
        "GraphResolved Unknown/AwaitingReconciliation @00",
        "ResourcesReady Unknown/AwaitingReconciliation @00",
        "Ready Unknown/AwaitingReconciliation @00",
    ];
    assert_eq!(lines(&set), want);
    let message = set.get("GraphResolved").and_then(|c| c.message.clone());
    assert_eq!(
        message.as_deref(),
        Some("condition \"GraphResolved\" is awaiting reconciliation")
    );
    let root = set.get(READY).and_then(|c| c.message.clone());
    assert_eq!(
        root.as_deref(),
        Some("condition \"InstanceManaged\" is awaiting reconciliation")
    );
}

#[test]
fn conditions_sort_by_transition_and_the_root_stays_last() {
    let mut set = ConditionSet::open(&INSTANCE, &object(1, &json!([])), "2026-01-01T00:00:03Z");
    set.mark(Mark::holds("InstanceManaged", "Managed", "m"));
    set.now = "2026-01-01T00:00:05Z".to_owned();
    set.mark(Mark::holds("GraphResolved", "Resolved", "r"));
    let want = [
        "ResourcesReady Unknown/AwaitingReconciliation @00",
        "InstanceManaged True/Managed @03",
        "GraphResolved True/Resolved @05",
        "Ready Unknown/AwaitingReconciliation @00",
    ];
    assert_eq!(lines(&set), want);
    set.now = "2026-01-01T00:00:07Z".to_owned();
    set.mark(Mark::holds("ResourcesReady", "AllResourcesReady", "a"));
    assert_eq!(
        lines(&set).last().map(String::as_str),
        Some("Ready True/Ready @07")
    );
    assert!(set.is_ready());
    assert_eq!(set.get(READY).and_then(|c| c.message.as_deref()), Some(""));
}

#[test]
fn the_root_copies_the_worst_dependent() {
    let mut set = ConditionSet::open(&DEFINITION, &object(2, &json!([])), "2026-01-01T00:00:03Z");
    set.mark(Mark::waits(
        "GraphRevisionsResolved",
        "WaitingForGraphRevisionWarmup",
        "w",
    ));
    set.mark(Mark::fails("KindReady", "Failed", "older"));
    assert_eq!(
        lines(&set).last().map(String::as_str),
        Some("Ready False/Failed @03")
    );
    set.now = "2026-01-01T00:00:04Z".to_owned();
    set.mark(Mark::fails(
        "GraphAccepted",
        "InvalidResourceGraph",
        "newer",
    ));
    assert_eq!(
        lines(&set).last().map(String::as_str),
        Some("Ready False/InvalidResourceGraph @03")
    );
    assert!(!set.is_true("GraphAccepted"));
}

#[test]
fn the_transition_time_is_kept_while_the_status_is() {
    let mut set = ConditionSet::open(&INSTANCE, &object(1, &json!([])), "2026-01-01T00:00:03Z");
    set.mark(Mark::fails("ResourcesReady", "NotReady", "one"));
    let stored = object(1, &json!(set.to_values()));
    let mut set = ConditionSet::open(&INSTANCE, &stored, "2026-01-01T00:00:09Z");
    set.mark(Mark::fails("ResourcesReady", "NotReady", "two"));
    let condition = set.get("ResourcesReady").expect("is set");
    assert_eq!(condition.message.as_deref(), Some("two"));
    assert_eq!(
        condition.last_transition_time.as_deref(),
        Some("2026-01-01T00:00:03Z")
    );
}

#[test]
fn marking_what_is_marked_changes_nothing() {
    let mut set = ConditionSet::open(&INSTANCE, &object(1, &json!([])), "2026-01-01T00:00:03Z");
    for kind in ["InstanceManaged", "GraphResolved", "ResourcesReady"] {
        set.mark(Mark::holds(kind, "Fine", "fine"));
    }
    let stored = object(1, &json!(set.to_values()));
    let mut again = ConditionSet::open(&INSTANCE, &stored, "2026-01-01T00:00:30Z");
    for kind in ["InstanceManaged", "GraphResolved", "ResourcesReady"] {
        again.mark(Mark::holds(kind, "Fine", "fine"));
    }
    assert_eq!(again.to_values(), set.to_values());
}

#[test]
fn a_condition_of_an_older_generation_is_unhealthy() {
    let mut set = ConditionSet::open(&REVISION, &object(1, &json!([])), "2026-01-01T00:00:03Z");
    set.mark(Mark::holds("GraphVerified", "Verified", "v"));
    assert!(set.is_ready());
    let stored = object(2, &json!(set.to_values()));
    let mut set = ConditionSet::open(&REVISION, &stored, "2026-01-01T00:00:05Z");
    assert!(!set.is_ready(), "the root speaks of generation 1");
    set.mark(Mark::holds("GraphVerified", "Verified", "v"));
    assert!(set.is_ready());
}

#[test]
fn retired_and_strange_conditions_are_told_apart() {
    let stored = object(
        1,
        &json!([
            {"type": "ResourceGraphAccepted", "status": "True"},
            {"type": "Mine", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
            {"type": "Broken", "status": "Perhaps"},
        ]),
    );
    let set = ConditionSet::open(&DEFINITION, &stored, "2026-01-01T00:00:03Z");
    assert!(set.get("ResourceGraphAccepted").is_none());
    assert!(set.get("Broken").is_none());
    assert!(set.get("Mine").is_some());
    assert_eq!(set.own_conditions().filter(|c| c.kind == "Mine").count(), 0);
}
