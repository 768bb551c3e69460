use spokes::TroubleKind;

use super::*;
use crate::definitions::wanted::covers;
use crate::{
    state::kinds::{Kinds, Wanted},
    testing::{World, served},
};

/// The story: a spoke that never established a CRD kept every definition of root from becoming Active.
#[test]
fn a_target_is_waited_for_once_and_not_again_before_it_serves_something() {
    let kinds = Kinds::default();
    let (now, late) = (Instant::now(), Instant::now() + AWAIT_MAX * 2);
    let (first, second) = (served("A"), served("B"));
    assert_eq!(kinds.awaits(&first, now), Some(AWAIT_MAX));
    assert_eq!(kinds.awaits(&first, late), None, "that was long enough");
    assert_eq!(kinds.awaits(&second, late), None, "it is known to be late");
    kinds.note(&second, &Progress::Served, Some(true), kinds.change_count());
    assert_eq!(kinds.awaits(&second, late), Some(AWAIT_MAX));
}

/// The story: a CRD was deleted while the look that a change before had asked for was on its way. That look had still seen
/// it, so that the deletion's own look found nothing to do, and the kind was gone for good.
#[test]
fn a_change_during_a_look_is_looked_at_again() {
    let (kinds, one) = (Kinds::default(), served("A"));
    let before = kinds.change_count();
    kinds.expire();
    kinds.note(&one, &Progress::Served, Some(true), before);
    assert!(!kinds.is_current(&one), "it may be gone");
    kinds.note(&one, &Progress::Served, Some(true), kinds.change_count());
    assert!(kinds.is_current(&one), "it was read after the change");
}

/// The story: with 160 definitions, each new one had the CRDs and records of all others read again, in each spoke.
#[test]
fn a_change_of_a_crd_concerns_its_own_kind() {
    let (kinds, one, other) = (Kinds::default(), served("A"), served("B"));
    let note = |of: &Served, since: u64| kinds.note(of, &Progress::Served, Some(true), since);
    let (crd, foreign) = (
        one.graph.gvr().group_resource().to_string(),
        "a.example.com",
    );
    for of in [&one, &other] {
        note(of, kinds.change_count());
    }
    kinds.expire_one(&crd);
    assert!(!kinds.is_current(&one), "its CRD has changed");
    assert!(kinds.is_current(&other), "that of another has not");
    // During a look, too.
    for (changed, is_current) in [(foreign, true), (crd.as_str(), false), (foreign, false)] {
        let before = kinds.change_count() - u64::from(changed == foreign && !is_current);
        kinds.expire_one(changed);
        note(&one, before);
        assert_eq!(kinds.is_current(&one), is_current, "{changed}");
    }
    // So many changes that the first of them is not told apart any more.
    let before = kinds.change_count();
    for _ in 0..1_000 {
        kinds.expire_one(foreign);
    }
    note(&one, before);
    assert!(!kinds.is_current(&one), "it may have been its own");
}

#[test]
fn records_are_read_while_one_may_be_left_that_nobody_wants() {
    let kinds = Kinds::default();
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    let wanted = |records: &[&str], definitions: &[&str]| Wanted {
        records: names(records),
        definitions: names(definitions),
    };
    let one = wanted(&["a"], &["a"]);
    assert!(kinds.may_retire(one.clone()).is_some(), "nothing is known");
    kinds.note_retired(Some(one.clone()));
    assert!(kinds.may_retire(one.clone()).is_none(), "as it was");
    let two = wanted(&["a", "b"], &["a", "b"]);
    assert!(
        kinds.may_retire(two.clone()).is_none(),
        "one more is wanted"
    );
    assert!(
        kinds.may_retire(wanted(&["a"], &["a", "b"])).is_some(),
        "b's kind is another"
    );
    assert!(
        kinds.may_retire(wanted(&["a", "b"], &["a"])).is_some(),
        "b is gone"
    );
    kinds.note_record("c");
    assert!(
        kinds.may_retire(two).is_some(),
        "c was made, and is not wanted"
    );
    kinds.note_retired(None);
    assert!(
        kinds.may_retire(one).is_some(),
        "one waits for its last instance"
    );
}

/// The story: after a restart of the hub a definition was looked at before its spoke had answered. It was said to be served,
/// and a second later to be refused, as it had been all the time.
#[test]
fn a_home_that_does_not_answer_says_neither_yes_nor_no() {
    let away = || {
        Reach::Unreachable(Trouble {
            since: "2026-01-01T00:00:00Z".to_owned(),
            kind: TroubleKind::Silent,
            reason: "not asked yet".to_owned(),
        })
    };
    for known in [
        None,
        Some(Progress::Pending),
        Some(Progress::Failed(String::new())),
    ] {
        let standing = remembered(known, away());
        assert!(matches!(standing, Some(Standing::Away(_))), "{standing:?}");
    }
    let served = remembered(Some(Progress::Served), away());
    assert!(matches!(served, Some(Standing::Settled)), "{served:?}");
    let refused = remembered(Some(Progress::Refused("why".to_owned())), away());
    assert!(matches!(refused, Some(Standing::Refused(_))), "{refused:?}");
    assert!(
        remembered(None, Reach::Reachable).is_none(),
        "it is looked at"
    );
}

#[test]
fn a_crd_covers_what_is_wanted_if_all_of_it_is_there() {
    let cases = [
        ("the same", json!({"a": 1}), json!({"a": 1}), true),
        ("more there", json!({"a": 1, "b": 2}), json!({"a": 1}), true),
        (
            "less there",
            json!({"a": 1}),
            json!({"a": 1, "b": 2}),
            false,
        ),
        ("another value", json!({"a": 1}), json!({"a": 2}), false),
        ("another type", json!({"a": {}}), json!({"a": []}), false),
        (
            "more below",
            json!({"a": {"b": 1, "c": 2}}),
            json!({"a": {"b": 1}}),
            true,
        ),
        (
            "less below",
            json!({"a": {}}),
            json!({"a": {"b": 1}}),
            false,
        ),
        ("more in a list", json!([1, 2]), json!([1]), false),
        ("less in a list", json!([1]), json!([1, 2]), false),
        ("another order", json!([2, 1]), json!([1, 2]), false),
        (
            "more in an element",
            json!([{"a": 1, "b": 2}]),
            json!([{"a": 1}]),
            true,
        ),
        (
            "a status subresource that was lost",
            json!({"subresources": {}}),
            json!({"subresources": {"status": {}}}),
            false,
        ),
        (
            "a scale subresource that was dropped",
            json!({"subresources": {"status": {}, "scale": {}}}),
            json!({"subresources": {"status": {}}}),
            false,
        ),
        (
            "a short name that was dropped",
            json!({"names": {"shortNames": ["a"]}}),
            json!({"names": {}}),
            false,
        ),
    ];
    for (name, live, wanted, want) in cases {
        assert_eq!(covers(&live, &wanted), want, "{name}");
    }
}

#[test]
fn a_schema_is_covered_by_the_same_schema_alone() {
    let schema = |properties: Value| json!({"openAPIV3Schema": {"properties": properties}});
    let cases = [
        (
            "the same schema",
            schema(json!({"a": {}})),
            schema(json!({"a": {}})),
            true,
        ),
        // A property that a new graph no longer has must go.
        (
            "a wider schema",
            schema(json!({"a": {}, "b": {}})),
            schema(json!({"a": {}})),
            false,
        ),
        (
            "a narrower schema",
            schema(json!({})),
            schema(json!({"a": {}})),
            false,
        ),
        (
            "status in a schema",
            schema(json!({})),
            schema(json!({"status": {}})),
            false,
        ),
    ];
    for (name, live, wanted, want) in cases {
        assert_eq!(covers(&live, &wanted), want, "{name}");
    }
}

#[test]
fn a_crd_is_established_only_if_the_server_says_so() {
    for (name, conditions, want) in [
        ("no conditions", json!(null), false),
        (
            "true",
            json!([{"type": "Established", "status": "True"}]),
            true,
        ),
        (
            "false",
            json!([{"type": "Established", "status": "False"}]),
            false,
        ),
        (
            "another one",
            json!([{"type": "NamesAccepted", "status": "True"}]),
            false,
        ),
    ] {
        let crd = json!({"status": {"conditions": conditions}});
        assert_eq!(established(&crd), want, "{name}");
    }
}

/// Where the hub records that it serves kind App at the spoke's path.
const RECORD: &str =
    "/clusters/east/apis/internal.wheelhouse.dev/v1alpha1/servedresources/apps.kro.run";

/// A hub that serves kind App for a definition that is gone.
fn leftover() -> World {
    let world = World::new();
    world.hub.put(
        RECORD,
        record("record", &json!({keys::LABEL_RGD_NAME: "gone"})),
    );
    world.engine.definitions.set_listed();
    world
        .target
        .note_kept(resource_of(&record("record", &json!({}))));
    world
}

fn record(uid: &str, labels: &Value) -> Value {
    let served = served("App");
    json!({"metadata": {"name": "apps.kro.run", "uid": uid, "labels": labels},
        "spec": {"crd": served.definition.to_value()["spec"], "state": "Serving"}})
}

#[tokio::test]
async fn a_kind_that_nobody_gives_is_retired() {
    let world = leftover();
    retire(&world.engine, &world.target)
        .await
        .expect("it can be deleted");
    assert_eq!(world.hub.at(RECORD), None, "it is the spoke's again");
    assert!(!world.target.keeps(served("App").graph.gvr()));
}

/// The story: while the CRD of one kind was on its way to a slow spoke, a definition took up the kind of another that had been deleted.
/// It was served, and then its record was deleted, by what had been read before; nothing made it again.
#[tokio::test]
async fn a_kind_that_is_taken_up_while_another_is_looked_after_stays() {
    let world = leftover();
    world.engine.definitions.publish(Arc::new(served("Web")));
    let engine = Arc::clone(&world.engine);
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/webs.kro.run";
    world.spoke.when(crd, move || {
        engine.definitions.publish(Arc::new(served("App")));
    });
    look_after(&world.engine, &world.target.cluster).await;
    assert!(world.spoke.at(crd).is_some(), "it was looked after");
    assert!(world.hub.at(RECORD).is_some(), "somebody gives it");
    assert!(world.target.keeps(served("App").graph.gvr()));
}

#[tokio::test]
async fn a_record_is_deleted_as_it_was_read_and_in_its_turn() {
    let world = leftover();
    let turn = world.target.defining.lock().await;
    let waits = retire(&world.engine, &world.target);
    let moment = Duration::from_millis(50);
    assert!(
        tokio::time::timeout(moment, waits).await.is_err(),
        "a CRD is being written"
    );
    assert_eq!(world.hub.asked(), [], "nothing is read before");
    drop(turn);
    let hub = Arc::clone(&world.hub);
    world.hub.when(RECORD, move || {
        hub.put(RECORD, record("another", &json!({})));
    });
    let retired = retire(&world.engine, &world.target).await;
    assert!(
        retired.is_err_and(|error| error.is_conflict()),
        "it is another one"
    );
    assert!(world.hub.at(RECORD).is_some());
    assert!(
        world.target.keeps(served("App").graph.gvr()),
        "it is served"
    );
}

#[tokio::test]
async fn a_record_names_the_definition_that_has_the_kind_now() {
    for (name, labels) in [
        (
            "another one's",
            json!({keys::LABEL_RGD_NAME: "gone", "team": "x"}),
        ),
        ("without labels", json!(null)),
    ] {
        let world = leftover();
        world.hub.put(RECORD, record("record", &labels));
        let served = served("App");
        let definition = served.definition.to_value();
        let state = shadow(&world.engine, &world.target, &served, &definition, None).await;
        assert_eq!(
            state.expect("it is recorded"),
            ServedState::Serving,
            "{name}"
        );
        let kept = world.hub.at(RECORD).expect("it is there");
        assert_eq!(definition_of(&kept), "app", "{name}");
        assert_eq!(kept["metadata"]["labels"]["team"], labels["team"], "{name}");
        let version = kept["metadata"]["resourceVersion"].clone();
        let again = shadow(&world.engine, &world.target, &served, &definition, None).await;
        assert_eq!(
            again.expect("it is recorded"),
            ServedState::Serving,
            "{name}"
        );
        let kept = world.hub.at(RECORD).expect("it is there");
        assert_eq!(
            kept["metadata"]["resourceVersion"], version,
            "{name}: nothing is new"
        );
    }
}
