use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicUsize, Ordering},
};

use api::{ClusterScope, cluster::LogicalCluster};
use http::HeaderValue;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    quota::{Quotas, Room},
    request::{
        UserInfo,
        share::{Kind, Limits},
    },
};

fn shares(quotas: &Quotas) -> [(UserInfo, Arc<Share>); 2] {
    ["alice", "mallory"].map(|name| {
        let user = UserInfo::authenticated(name, [] as [&str; 0]);
        let share = quotas.share(&user, None);
        (user, share)
    })
}

fn ask((user, share): &(UserInfo, Arc<Share>)) {
    drop(share.take(Kind::Request, user).expect("it is let in"));
}

/// Lets all run that is ready. The runtime's own puts who waits behind what becomes ready meanwhile, too.
async fn again() {
    let mut was_polled = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut was_polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A thousand tasks of mallory's and one of alice's, which became ready last.
///
/// Returns how many polls of mallory's tasks alice's had to wait for.
async fn polls_before(of: impl Fn(&Arc<Share>) -> Of, is_crowded: bool) -> usize {
    let quotas = Quotas::new(Limits::default());
    let [alice, mallory] = shares(&quotas);
    ask(&mallory);
    if is_crowded {
        ask(&alice);
        ask(&mallory);
    }
    let polls = Arc::new(AtomicUsize::new(0));
    let mut works = JoinSet::new();
    for _ in 0..1_000 {
        let polls = Arc::clone(&polls);
        let work = async move {
            for _ in 0..10 {
                polls.fetch_add(1, Ordering::Relaxed);
                again().await;
            }
        };
        works.spawn(Fair::new(work, of(&mallory.1)));
    }
    // All of mallory's are queued where they wait.
    again().await;
    let before = polls.load(Ordering::Relaxed);
    let seen = Arc::clone(&polls);
    let own = Fair::new(
        async move {
            for _ in 0..4 {
                again().await;
            }
            seen.load(Ordering::Relaxed)
        },
        of(&alice.1),
    );
    let mut owns = JoinSet::new();
    owns.spawn(own);
    let after = owns.join_next().await.expect("there is one");
    let after = after.expect("it ends");
    while let Some(ended) = works.join_next().await {
        ended.expect("it ends");
    }
    assert_eq!(
        polls.load(Ordering::Relaxed),
        10_000,
        "all work has been done"
    );
    after - before
}

#[tokio::test]
async fn a_user_with_many_tasks_has_few_in_the_queue_of_all() {
    let places = shares(&Quotas::new(Limits::default()))[0].1.places();
    let waited = polls_before(|share| Of::User(Arc::clone(share)), true).await;
    // Four yields, in each of which the places of one user are passed on some times before others run.
    let few = 4 * 8 * places.available_permits();
    assert!(waited <= few, "{waited} polls of another user, not {few}");
    let unfair = polls_before(|_share| Of::Nobody, true).await;
    assert!(unfair >= 1_000, "without turns it waits for {unfair} polls");
}

#[tokio::test]
async fn a_user_who_is_alone_takes_no_turns() {
    let waited = polls_before(|share| Of::User(Arc::clone(share)), false).await;
    assert!(waited >= 1_000, "{waited} polls of the only user's own");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_crowded_for_longer_than_others_send() {
    let quotas = Quotas::new(Limits::default());
    let both @ [alice, mallory] = &shares(&quotas);
    ask(alice);
    ask(alice);
    assert!(!alice.1.is_crowded(), "there is one");
    ask(mallory);
    ask(mallory);
    assert!(both.iter().all(|it| it.1.is_crowded()), "there are two");
    tokio::time::advance(std::time::Duration::from_secs(3)).await;
    ask(mallory);
    assert!(!mallory.1.is_crowded(), "the other has gone");
    ask(alice);
    assert!(alice.1.is_crowded(), "and has come back");
}

#[tokio::test]
async fn work_that_is_dropped_gives_its_place_back() {
    let quotas = Quotas::new(Limits::default());
    let both @ [alice, mallory] = &shares(&quotas);
    both.iter().for_each(ask);
    let places = mallory.1.places();
    let free = places.available_permits();
    let all = Arc::clone(&places)
        .acquire_many_owned(u32::try_from(free).expect("few"))
        .await
        .expect("it is open");
    let mut waiting = Box::pin(Fair::new(async {}, Of::User(Arc::clone(&mallory.1))));
    assert!(futures::poll!(&mut waiting).is_pending(), "it waits");
    drop(all);
    // It has been given the place, and never takes it.
    drop(waiting);
    assert_eq!(places.available_permits(), free, "all places are back");
    Fair::new(async {}, Of::User(Arc::clone(&alice.1))).await;
}

#[tokio::test]
async fn what_comes_through_a_front_proxy_takes_the_turns_of_whom_it_names() {
    let quotas = Quotas::new(Limits::default());
    let [(alice, share), _] = shares(&quotas);
    let mut context = RequestContext::new(
        Arc::new(alice.clone()),
        HeaderValue::from_static("id"),
        ClusterScope::One(LogicalCluster::root()),
        jiff::Timestamp::UNIX_EPOCH,
        tokio::time::Instant::now(),
    );
    context.share = Some(Arc::clone(&share));
    let room = Arc::new(Room::default());
    let token = CancellationToken::new();
    let enter = || room.enter(Ipv4Addr::LOCALHOST.into(), &token, &token);
    let (own, proxys) = (enter(), enter());
    own.count_for(&share, &alice).expect("there is room");
    proxys.count_for_nobody();
    for (name, seat, of_request) in [
        ("her own connection", Some(&own), false),
        ("a front proxy's", Some(&proxys), true),
        ("within another request", None, false),
    ] {
        let of = Of::request(seat, &context);
        let is_of_user = of.share().is_some_and(|of| Arc::ptr_eq(of, &share));
        assert_eq!(is_of_user, of_request, "{name}");
        let runs = seat.and_then(Seat::user).is_some();
        assert!(!(runs && is_of_user), "{name}: turns within turns");
    }
}
