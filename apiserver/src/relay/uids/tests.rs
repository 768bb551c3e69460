use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, StreamBody};

use super::{
    swap::{Direction, Swapped},
    *,
};

const INSTANCE: &str = "11111111-2222-4333-8444-555555555555";
const MIRROR: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";
const OTHER: &str = "99999999-2222-4333-8444-555555555555";

fn pairs() -> Arc<Pairs> {
    let uids = Uids::default();
    let ledger = |mirror: &str| format!(r#"{{"metadata":{{}},"spec":{{"mirrorUID":"{mirror}"}}}}"#);
    uids.put(&key("east", INSTANCE), ledger(MIRROR).as_bytes());
    // Neither is a uid, so neither may be put into a body.
    uids.put(&key("east", "short"), ledger(MIRROR).as_bytes());
    uids.put(&key("east", OTHER), ledger("short").as_bytes());
    uids.of(&"east".parse().unwrap())
}

fn key(cluster: &str, name: &str) -> Vec<u8> {
    let (group, resource) = (wheelhouse::INTERNAL_GROUP, wheelhouse::INVENTORY_RESOURCE);
    format!("/{group}/{resource}/{cluster}//{name}").into_bytes()
}

async fn swapped(pieces: &[&[u8]], direction: Direction) -> Vec<u8> {
    let pieces: Vec<Result<Frame<Bytes>, Infallible>> = pieces
        .iter()
        .map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece))))
        .collect();
    let body = StreamBody::new(stream::iter(pieces));
    let body = Swapped::new(body, Some(pairs()), direction);
    body.collect().await.unwrap().to_bytes().to_vec()
}

/// What stands in a body, and whether the uid in it is replaced.
fn bodies() -> Vec<(&'static str, Vec<u8>, bool)> {
    let text = |before: &str, behind: &str| format!("{before}{INSTANCE}{behind}").into_bytes();
    let protobuf = |tag: u8| [&[0x0a, tag, 0x24], INSTANCE.as_bytes(), &[0x30, 1]].concat();
    vec![
        (
            "JSON",
            text(r#"{"ownerReferences":[{"uid":""#, r#""}]}"#),
            true,
        ),
        ("indented", text("{\n  \"uid\": \"", "\"\n}\n"), true),
        (
            "owned fields",
            text(r#"{"k:{\"uid\":\""#, r#"\"}":{}}"#),
            true,
        ),
        ("protobuf", protobuf(0x22), true),
        ("the beginning alone", text(r#"{"uid":""#, ""), true),
        ("another protobuf field", protobuf(0x12), false),
        (
            "a label",
            text(r#"{"labels":{"kro.run/instance-id":""#, r#""}}"#),
            false,
        ),
        ("a text", text(r#"{"message":"uid: "#, r#""}"#), false),
        ("a longer one", text(r#"{"uid":"0"#, r#""}"#), false),
        (
            "in capitals",
            text(r#"{"uid":""#, r#""}"#).to_ascii_uppercase(),
            false,
        ),
    ]
}

#[tokio::test]
async fn uids_are_swapped_where_references_have_them_however_a_body_is_cut() {
    for (name, body, is_replaced) in bodies() {
        let text = String::from_utf8_lossy(&body).into_owned();
        let want = if is_replaced {
            text.replace(INSTANCE, MIRROR)
        } else {
            text
        };
        for cut in 0..=body.len() {
            let (left, right) = body.split_at(cut);
            let there = swapped(&[left, right], Direction::ToSpoke).await;
            assert_eq!(
                String::from_utf8_lossy(&there),
                want,
                "{name}, cut at {cut}"
            );
            let (left, right) = there.split_at(cut);
            let back = swapped(&[left, right], Direction::FromSpoke).await;
            assert_eq!(back, body, "{name}, back, cut at {cut}");
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        let there = swapped(&bytes, Direction::ToSpoke).await;
        assert_eq!(String::from_utf8_lossy(&there), want, "{name}, in bytes");
    }
}

/// The story: what is held back until the next event comes is an event that is not shown.
#[tokio::test]
async fn an_event_of_a_watch_does_not_wait_for_the_next() {
    let json = format!(
        r#"{{"type":"ADDED","object":{{"metadata":{{"ownerReferences":[{{"uid":"{INSTANCE}"}}]}}}}}}"#
    );
    // runtime.Unknown ends with an empty contentEncoding and an empty contentType.
    let protobuf = [&b"k8s\0\x22\x24"[..], INSTANCE.as_bytes(), b"\x1a\0\x22\0"].concat();
    for event in [format!("{json}\n").into_bytes(), protobuf] {
        let length = event.len();
        let first = Ok::<_, Infallible>(Frame::data(Bytes::from(event)));
        let endless = stream::iter([first]);
        let endless = futures::StreamExt::chain(endless, stream::pending());
        let mut body = Swapped::new(StreamBody::new(endless), Some(pairs()), Direction::ToSpoke);
        let frame = body.frame().await.unwrap().unwrap();
        let passed = frame.into_data().unwrap();
        assert_eq!(passed.len(), length, "all of it");
        assert!(String::from_utf8_lossy(&passed).contains(MIRROR));
        assert!(!body.is_end_stream(), "it goes on");
    }
}

#[test]
fn a_pair_goes_with_its_inventory_and_follows_a_new_mirror() {
    let uids = Uids::default();
    let east: LogicalCluster = "east".parse().unwrap();
    let (instance, mirror) = (INSTANCE.parse().unwrap(), MIRROR.parse().unwrap());
    let pairs = uids.of(&east);
    assert!(pairs.is_empty(), "nothing is known");
    pairs.set(instance, Some(mirror));
    let other: Uuid = OTHER.parse().unwrap();
    pairs.set(instance, Some(other));
    let known = |pairs: &Pairs| {
        let known = pairs.known.read();
        (
            known.mirrors.get(&instance).copied(),
            known.instances.get(&mirror).copied(),
            known.instances.get(&other).copied(),
        )
    };
    assert_eq!(known(&pairs), (Some(other), None, Some(instance)));
    assert!(
        uids.of(&"west".parse().unwrap()).is_empty(),
        "of one cluster"
    );
    pairs.set(instance, None);
    assert_eq!(known(&pairs), (None, None, None));
    assert!(uids.of(&east).is_empty());
}

#[test]
fn a_selector_of_events_names_the_mirror() {
    let pairs = pairs();
    for (name, query, is_swapped) in [
        (
            "kubectl",
            "fieldSelector=involvedObject.uid%3DUID%2CinvolvedObject.kind%3DWeb&limit=500",
            true,
        ),
        (
            "plain",
            "watch=1&fieldSelector=involvedObject.uid=UID",
            true,
        ),
        (
            "two equal signs, and the other group",
            "fieldSelector=type%3dNormal,regarding.uid%3d%3dUID",
            true,
        ),
        ("another field", "fieldSelector=metadata.name%3DUID", false),
        (
            "another parameter",
            "labelSelector=involvedObject.uid%3DUID",
            false,
        ),
        (
            "a value that begins with it",
            "fieldSelector=involvedObject.uid%3Dx-UID",
            false,
        ),
        ("cut off", "fieldSelector=involvedObject.uid%3D", false),
        ("nothing", "", false),
    ] {
        let asked = query.replace("UID", INSTANCE);
        let want = query.replace("UID", if is_swapped { MIRROR } else { INSTANCE });
        assert_eq!(selector::swapped(&asked, &pairs), want, "{name}");
    }
    let twice = "fieldSelector=involvedObject.uid=UID,regarding.uid!=UID";
    let asked = twice.replace("UID", INSTANCE);
    let want = format!("fieldSelector=involvedObject.uid={MIRROR},regarding.uid!={MIRROR}");
    assert_eq!(
        selector::swapped(&asked, &pairs),
        want,
        "each, where it is asked for"
    );
    let foreign = format!("fieldSelector=involvedObject.uid={OTHER}");
    assert_eq!(
        selector::swapped(&foreign, &pairs),
        foreign,
        "one that has no mirror"
    );
}
