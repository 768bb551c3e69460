//! Where children are written that are instances themselves.

use std::collections::BTreeMap;

use api::wheelhouse::{InventoryMember, InventorySpec, author::User, keys};
use api::{GroupVersionKind, GroupVersionResource};
use client::reflector::Event;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    state::{
        kinds::Progress,
        served::{Reaching, Served},
    },
    testing::{NAMESPACE, World, key, raw, served},
};

/// The path of the child `below` of kind App in its server; the hub has it below the spoke's path.
const PATH: &str = "/apis/kro.run/v1alpha1/namespaces/default/apps/below";

fn kind(place: Place) -> WatchedKind {
    WatchedKind {
        gvk: GroupVersionKind::new("kro.run", "v1alpha1", "App"),
        gvr: GroupVersionResource::new("kro.run", "v1alpha1", "apps"),
        place,
    }
}

fn reference() -> ObjectRef {
    ObjectRef {
        group: "kro.run".to_owned(),
        kind: "App".to_owned(),
        namespace: NAMESPACE.to_owned(),
        name: "below".to_owned(),
    }
}

/// The apply of the child.
fn apply(claim: Claim) -> Apply {
    let WatchedKind { gvk, gvr, .. } = kind(Place::Cluster);
    Apply {
        id: "below".to_owned(),
        node: "below".into(),
        reference: reference(),
        gvk,
        gvr,
        namespaced: true,
        apply_order: 0,
        object: object(json!({})),
        digest: 0,
        change: match claim {
            Claim::Absent | Claim::Foreign => Change::Create,
            Claim::Own(_) | Claim::Taken(_) => Change::Update,
        },
        claim,
    }
}

/// The child, with this metadata beside its name.
fn object(mut metadata: Value) -> Value {
    metadata["name"] = json!("below");
    metadata["namespace"] = json!(NAMESPACE);
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": metadata, "spec": {}})
}

/// Who an object of the child's name is.
#[derive(Clone, Copy, Debug)]
enum Is {
    /// One that was made where it is.
    Made(&'static str),
    /// The hub's copy of what was made in the spoke.
    Copy(&'static str),
}

// === impl Is ===

impl Is {
    fn object(self) -> Value {
        match self {
            Self::Made(uid) => object(json!({"uid": uid, "resourceVersion": "5"})),
            Self::Copy(uid) => object(json!({"uid": uid, "resourceVersion": "5",
                "annotations": {keys::ANNOTATION_ORIGIN: keys::ORIGIN_SPOKE}})),
        }
    }
}

fn put_at_hub(world: &World, object: Value) {
    world.hub.put(&format!("/clusters/east{PATH}"), object);
}

/// A ledger that names the kind of the child.
fn ledger() -> InventorySpec {
    let member = InventoryMember {
        group: "kro.run".to_owned(),
        version: "v1alpha1".to_owned(),
        kind: "App".to_owned(),
        resource: "apps".to_owned(),
        ..InventoryMember::default()
    };
    InventorySpec {
        members: vec![member],
        ..InventorySpec::default()
    }
}

/// Lets the watch of a place show an object with the labels of the instance.
fn show(world: &World, place: Place, mut object: Value) {
    object["metadata"]["labels"] = json!({"kro.run/instance-group": "kro.run",
        "kro.run/instance-kind": "Web", "kro.run/instance-name": "parent",
        "kro.run/instance-namespace": NAMESPACE});
    let kind = kind(place);
    let children = &world.target.children;
    let end = children.register(&kind, &CancellationToken::new());
    let listed = Event::Restarted {
        objects: vec![raw(&object)],
        resource_version: "9".to_owned(),
        latest_as_of: None,
    };
    children.take(&kind, &end.expect("it is watched once"), listed);
}

/// The hub itself, or an account that the spoke alone knows.
fn actor(world: &World, is_hub: bool) -> Actor {
    if is_hub {
        return Actor::hub(&world.target.dynamic).with_hub(world.target.hub.clone());
    }
    let worker = User {
        username: "system:serviceaccount:default:worker".to_owned(),
        ..User::default()
    };
    let named = world.target.actors.named(&world.target.dynamic, worker);
    named.expect("a name for a header")
}

/// A definition of Apps whose metadata says for which spokes it is; `spoke` has no labels.
fn definition(annotations: &[(&str, &str)]) -> Arc<Served> {
    let annotations = annotations.iter();
    let annotations = annotations.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let mut served = served("App");
    served.reaching = Reaching::of(&annotations.collect(), &BTreeMap::new()).expect("a selector");
    Arc::new(served)
}

/// The story: where a definition of root leaves this spoke out, another kro may serve its kind there. Parents that make such a child
/// waited for ever for a definition that was never to come.
#[tokio::test]
async fn what_the_hub_does_not_keep_is_made_in_the_spoke_once_it_is_known_that_it_will_not() {
    let refused = Progress::Refused("there is another CRD".to_owned());
    let elsewhere = [("wheelhouse.dev/spokes", "tier=prod")];
    let nowhere = [("kro.run/distribute", "false")];
    // (what, the definition of the kind, how far it is here, where the child is made)
    for (name, definition, progress, want) in [
        ("nobody defines it", None, None, Some(Place::Cluster)),
        ("not here yet", Some(definition(&[])), None, None),
        (
            "on its way",
            Some(definition(&[])),
            Some(Progress::Pending),
            None,
        ),
        (
            "refused here",
            Some(definition(&[])),
            Some(refused),
            Some(Place::Cluster),
        ),
        (
            "for other spokes",
            Some(definition(&elsewhere)),
            None,
            Some(Place::Cluster),
        ),
        (
            "for no spoke",
            Some(definition(&nowhere)),
            None,
            Some(Place::Cluster),
        ),
    ] {
        let world = World::new();
        if let Some(definition) = definition {
            world.engine.definitions.publish(Arc::clone(&definition));
            if let Some(progress) = progress {
                let kinds = &world.target.kinds;
                kinds.note(&definition, &progress, Some(true), kinds.change_count());
            }
        }
        let key = key("Web", "parent");
        let work = world.work(&key);
        let place = place_of(&work, &actor(&world, true), &apply(Claim::Absent)).await;
        assert_eq!(place.as_ref().ok(), want.as_ref(), "{name}: {place:?}");
        if let Err(error) = place {
            assert!(error.is_conflict(), "{name}: {error}");
        }
    }
}

/// What a child is, whose it is, whether the hub knows who acts, what a watch shows where, what the hub has, and where the child is
/// written.
type Case = (
    &'static str,
    fn() -> Claim,
    bool,
    Option<(Place, Is)>,
    Option<Is>,
    Place,
);

const CASES: &[Case] = {
    use Is::{Copy, Made};
    use Place::{Cluster, Hub};
    &[
        ("new", absent, true, None, None, Hub),
        (
            "new, of an account of the spoke",
            absent,
            false,
            None,
            None,
            Cluster,
        ),
        ("another's", || Claim::Foreign, true, None, None, Hub),
        (
            "seen at the hub",
            own,
            true,
            Some((Hub, Made("u"))),
            None,
            Hub,
        ),
        (
            "seen in the spoke",
            own,
            true,
            Some((Cluster, Made("u"))),
            None,
            Cluster,
        ),
        (
            "seen, of before",
            own,
            true,
            Some((Cluster, Made("v"))),
            Some(Made("u")),
            Hub,
        ),
        (
            "a copy seen at the hub",
            own,
            true,
            Some((Hub, Copy("u"))),
            Some(Copy("u")),
            Cluster,
        ),
        ("unseen, the hub's", own, true, None, Some(Made("u")), Hub),
        (
            "unseen, made in the spoke",
            own,
            true,
            None,
            Some(Copy("u")),
            Cluster,
        ),
        ("unseen, not at the hub", own, true, None, None, Cluster),
        (
            "unseen, another at the hub",
            own,
            true,
            None,
            Some(Made("v")),
            Cluster,
        ),
        (
            "to be taken, the hub's",
            taken,
            true,
            None,
            Some(Made("u")),
            Hub,
        ),
        ("to be taken, the spoke's", taken, true, None, None, Cluster),
    ]
};

fn absent() -> Claim {
    Claim::Absent
}

fn own() -> Claim {
    Claim::Own("u".to_owned())
}

fn taken() -> Claim {
    Claim::Taken("u".to_owned())
}

#[tokio::test]
async fn a_child_that_is_an_instance_is_written_where_it_was_made() {
    for (name, claim, is_hub, shown, at_hub, want) in CASES {
        let world = World::new();
        let apply = apply(claim());
        world.target.note_kept(apply.gvr.group_resource());
        if let Some((place, is)) = shown {
            show(&world, *place, is.object());
        }
        if let Some(is) = at_hub {
            put_at_hub(&world, is.object());
        }
        let key = key("Web", "parent");
        let work = world.work(&key);
        let place = place_of(&work, &actor(&world, *is_hub), &apply).await;
        assert_eq!(place.ok(), Some(*want), "{name}");
    }
}

/// The story: somebody took a label off a child that an account of the spoke had made there. The hub's copy of it, which has the same
/// uid, was taken for the child: the account may not delete there, so that the instance waited for ever.
#[tokio::test]
async fn what_has_lost_its_labels_is_found_where_it_was_made() {
    use Is::{Copy, Made};
    let (here, there) = (Ok(Some(Place::Hub)), Ok(Some(Place::Cluster)));
    let refused = || Err("known in the spoke only");
    // (what, whether the hub knows who acts, what the hub has, what is in the spoke, where it is found)
    for (name, is_hub, at_hub, in_spoke, want) in [
        ("a copy", true, Some(Copy("u")), Some(Made("u")), there),
        (
            "an account's, with its copy",
            false,
            Some(Copy("u")),
            Some(Made("u")),
            there,
        ),
        ("a copy that is left", true, Some(Copy("u")), None, Ok(None)),
        (
            "an account's copy that is left",
            false,
            Some(Copy("u")),
            None,
            Ok(None),
        ),
        (
            "the hub's, with its mirror",
            true,
            Some(Made("u")),
            Some(Made("m")),
            here,
        ),
        (
            "the hub's, and an account",
            false,
            Some(Made("u")),
            Some(Made("m")),
            refused(),
        ),
        (
            "the spoke's, before it is taken up",
            false,
            None,
            Some(Made("u")),
            there,
        ),
        ("another", true, Some(Made("v")), Some(Made("v")), Ok(None)),
        ("nothing", false, None, None, Ok(None)),
    ] {
        let world = World::new();
        world
            .target
            .note_kept(kind(Place::Hub).gvr.group_resource());
        if let Some(is) = at_hub {
            put_at_hub(&world, is.object());
        }
        if let Some(is) = in_spoke {
            world.spoke.put(PATH, is.object());
        }
        let key = key("Web", "parent");
        let mut work = world.work(&key);
        work.memory.ledger = Some(ledger());
        work.memory.claims.insert(reference(), "u".to_owned());
        let found = owned::unseen_of(&work, &actor(&world, is_hub), &reference()).await;
        match (found, want) {
            (Ok(found), Ok(want)) => {
                let place = found.map(|(kind, _)| kind.place);
                assert_eq!(place, want, "{name}");
            }
            (Err(Pause::Failure(reason)), Err(want)) => {
                assert!(reason.contains(want), "{name}: {reason}");
            }
            (found, want) => panic!("{name}: {found:?}, not {want:?}"),
        }
    }
}

/// The mirror of an instance of a hub.
fn mirror(hub: &str) -> Value {
    object(json!({"uid": "m", "resourceVersion": "5",
        "annotations": {keys::HUB: hub}, "finalizers": [keys::FINALIZER_MIRROR],
        "managedFields": [{"manager": keys::MANAGER_SYNCER, "operation": "Apply"}]}))
}

/// The story: an account of a spoke was to make a child of the name of a user's own instance. It met the mirror, and the parent told of
/// a conflict of the spoke's API server, for ever.
#[tokio::test]
async fn an_account_that_meets_a_mirror_finds_the_instance_of_the_hub() {
    let going = object(json!({"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}));
    let living = || Some(Is::Made("u").object());
    // (what, what is in the spoke, what the hub has, the uid of what is found, or what is told)
    for (name, in_spoke, at_hub, want) in [
        ("a user's instance", mirror("hub-a"), living(), Ok("u")),
        (
            "one that goes",
            mirror("hub-a"),
            Some(going),
            Err("it is another one"),
        ),
        (
            "one that is gone",
            mirror("hub-a"),
            None,
            Err("it is another one"),
        ),
        (
            "another hub's",
            mirror("hub-b"),
            living(),
            Err("another hub"),
        ),
        ("made in the spoke", Is::Made("s").object(), None, Ok("s")),
        (
            "made there, and taken up",
            Is::Made("s").object(),
            Some(Is::Copy("s").object()),
            Ok("s"),
        ),
    ] {
        let world = World::new();
        world
            .target
            .note_kept(kind(Place::Hub).gvr.group_resource());
        world.spoke.put(PATH, in_spoke);
        if let Some(at_hub) = at_hub {
            put_at_hub(&world, at_hub);
        }
        let key = key("Web", "parent");
        let work = world.work(&key);
        let written = write_one(&work, &actor(&world, false), &apply(Claim::Absent)).await;
        match (written, want) {
            (Ok(Written::Found(found)), Ok(uid)) => {
                assert_eq!(api::meta::uid(&found), uid, "{name}");
            }
            (Err(error), Err(told)) => {
                assert!(error.to_string().contains(told), "{name}: {error}");
            }
            (written, want) => panic!("{name}: {written:?}, not {want:?}"),
        }
    }
}

#[tokio::test]
async fn who_makes_at_the_hub_finds_what_was_made_in_the_spoke() {
    use Is::{Copy, Made};
    // (what, what the hub has, what is in the spoke, the uid and whether it is marked as a copy)
    for (name, at_hub, in_spoke, want) in [
        ("the hub's own", Made("u"), None, ("u", false)),
        ("a copy", Copy("u"), Some(Made("u")), ("u", false)),
        ("a copy of what is gone", Copy("u"), None, ("u", true)),
        (
            "a copy of one before",
            Copy("u"),
            Some(Made("v")),
            ("u", true),
        ),
    ] {
        let world = World::new();
        world
            .target
            .note_kept(kind(Place::Hub).gvr.group_resource());
        put_at_hub(&world, at_hub.object());
        if let Some(is) = in_spoke {
            world.spoke.put(PATH, is.object());
        }
        let key = key("Web", "parent");
        let work = world.work(&key);
        let written = write_one(&work, &actor(&world, true), &apply(Claim::Absent)).await;
        let Ok(Written::Found(found)) = written else {
            panic!("{name}: {written:?}");
        };
        let found = (api::meta::uid(&found), origin::is_of_spoke(&found));
        assert_eq!(found, want, "{name}");
    }
}

#[tokio::test]
async fn an_instance_is_named_as_the_owner_by_the_uid_of_the_place() {
    let world = World::new();
    // (what, the uid of the mirror, the owner's uid in the plan, the one at the hub)
    for (name, mirror, owner, want) in [
        ("the mirror", "m", "m", "uid-parent"),
        ("somebody else", "m", "x", "x"),
        ("no mirror yet", "", "", ""),
    ] {
        let key = key("Web", "parent");
        let mut work = world.work(&key);
        work.memory.mirror_uid = mirror.to_owned();
        let mut object = object(json!({"ownerReferences": [{"uid": owner}]}));
        name_owner_at_hub(&work, &mut object);
        let owner = &object["metadata"]["ownerReferences"][0]["uid"];
        assert_eq!(owner, want, "{name}");
    }
}

#[tokio::test]
async fn what_is_wanted_is_not_among_what_may_go() {
    let world = World::new();
    let key = key("Web", "parent");
    show(&world, Place::Cluster, Is::Made("u").object());
    let mut work = world.work(&key);
    work.memory.claims.insert(reference(), "u".to_owned());
    let (actor, wanted) = (actor(&world, true), reference());
    for (wanted, want) in [(HashSet::from([&wanted]), 0), (HashSet::new(), 1)] {
        let own = owned::own(&mut work, &actor, &wanted).await;
        let own = own.expect("it is seen");
        assert_eq!(own.objects.len(), want, "{wanted:?} is wanted");
    }
}

/// The story: children that were gone at once did not count for the brake, and a second plan took away what one may not.
#[tokio::test]
async fn a_child_that_is_gone_at_once_counts_until_the_ledger_is_exact() {
    let world = World::new();
    let key = key("Web", "parent");
    let made = Is::Made("u").object();
    world.spoke.put(PATH, made.clone());
    // The hub was not restored from a backup.
    world.engine.restored.take(Event::Restarted {
        objects: Vec::new(),
        resource_version: "9".to_owned(),
        latest_as_of: None,
    });
    let mut work = world.work(&key);
    work.memory.claims.insert(reference(), "u".to_owned());
    let own = Own {
        objects: Vec::new(),
        kinds: std::collections::HashMap::from([(reference(), kind(Place::Cluster))]),
        unseen: HashSet::new(),
    };
    let actor = actor(&world, true);
    let deleted = delete(&mut work, &actor, &own, &made).await;
    assert!(deleted.expect("it may be deleted"), "it is gone");
    assert_eq!(world.spoke.at(PATH), None);
    assert!(work.memory.gone.contains(&reference()), "and it counts");
}

/// The story: a child was orphaned, the answer was lost, and somebody took its policy off before the hub tried again. It was deleted.
#[tokio::test]
async fn what_was_parted_is_not_deleted_though_the_ledger_names_it() {
    let applied = json!([{"manager": api::kro::keys::MANAGER_APPLYSET, "operation": "Apply"}]);
    // (what, whether children have policies, who has applied it, whether it may go)
    for (name, has_policies, managers, want) in [
        ("parted", true, json!([]), false),
        ("without its labels", true, applied.clone(), true),
        ("without its labels, no policies", false, applied, true),
        ("without anything, no policies", false, json!([]), true),
    ] {
        let world = World::new();
        let metadata = json!({"uid": "u", "resourceVersion": "5", "managedFields": managers});
        world.spoke.put(PATH, object(metadata));
        let key = key("Web", "parent");
        let mut work = world.work(&key);
        let mut chosen = work.chosen.as_ref().clone();
        chosen.settings.compile.deletion_policy = has_policies;
        work.chosen = Arc::new(chosen);
        work.memory.ledger = Some(ledger());
        work.memory.claims.insert(reference(), "u".to_owned());
        let own = owned::own(&mut work, &actor(&world, true), &HashSet::new()).await;
        let own = own.expect("it is read");
        assert_eq!(own.objects.len() == 1, want, "{name}");
    }
}
