use std::{net::Ipv4Addr, time::Duration};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::request::{
    SYSTEM_MASTERS,
    share::{Kind, Permit},
};

const LIMITS: Limits = Limits {
    connections_per_user: 2,
    watches_per_user: 3,
    streams_per_user: 2,
    requests_per_user: 4,
    requests: 6,
    streams: 3,
};

fn user(name: &str) -> UserInfo {
    UserInfo::authenticated(name, [] as [&str; 0])
}

fn enter(room: &Arc<Room>, last: u8) -> Seat {
    let token = CancellationToken::new();
    room.enter(address(last), &token, &token)
}

fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

#[test]
fn a_user_that_has_its_share_is_refused_alone_and_gets_it_back() {
    let quotas = Quotas::new(LIMITS);
    let (alice, bob) = (user("alice"), user("bob"));
    let share = quotas.share(&alice, None);
    let mut watches: Vec<Permit> = (0..3)
        .map(|_| share.take(Kind::Watch, &alice).unwrap())
        .collect();
    let refusal = share.take(Kind::Watch, &alice).unwrap_err();
    let status = refusal.status().unwrap();
    assert_eq!((status.code, status.retry_after_seconds()), (429, Some(1)));
    assert!(share.take(Kind::Request, &alice).is_ok(), "of another kind");
    let other = quotas.share(&bob, None);
    assert!(other.take(Kind::Watch, &bob).is_ok(), "another user");
    drop(watches.pop());
    assert!(
        share.take(Kind::Watch, &alice).is_ok(),
        "one was given back"
    );
    assert_eq!(quotas.counts().0[1], ("watches", 1));
}

#[test]
fn streams_are_counted_for_each_user_and_for_all() {
    let quotas = Quotas::new(LIMITS);
    let users = ["a", "b", "c"].map(user);
    let take = |user: &UserInfo| quotas.share(user, None).take(Kind::Stream, user);
    let of_a = [take(&users[0]).unwrap(), take(&users[0]).unwrap()];
    assert!(take(&users[0]).is_err(), "more than one user may have");
    let of_b = take(&users[1]).unwrap();
    assert!(take(&users[1]).is_err(), "more than all users may have");
    let of_c = take(&users[2]);
    assert!(of_c.is_ok(), "who has none gets one all the same");
    drop((of_a, of_b, of_c));
    assert_eq!(quotas.totals.in_use(Kind::Stream), 0, "all came back");
}

#[test]
fn above_the_limit_of_all_a_user_with_less_than_a_fair_part_gets_in() {
    let quotas = Quotas::new(LIMITS);
    let users: Vec<UserInfo> = ["a", "b", "c"].map(user).into();
    let held: Vec<Permit> = users
        .iter()
        .take(2)
        .flat_map(|user| {
            let share = quotas.share(user, None);
            (0..3).map(move |_| share.take(Kind::Request, user).unwrap())
        })
        .collect();
    assert_eq!(held.len(), 6, "all requests are taken");
    let many = quotas.share(&users[0], None);
    assert!(
        many.take(Kind::Request, &users[0]).is_err(),
        "it has its part"
    );
    let few = quotas.share(&users[2], None);
    assert!(
        few.take(Kind::Request, &users[2]).is_ok(),
        "it has nothing yet"
    );
    let admin = UserInfo::system("a");
    assert!(many.take(Kind::Request, &admin).is_ok(), "an administrator");
    drop(held);
    assert_eq!(quotas.totals.in_use(Kind::Request), 0, "all came back");
}

#[test]
fn shares_are_told_apart_by_uid_and_without_credential_by_address() {
    let quotas = Quotas::new(LIMITS);
    let same = |left: &Arc<Share>, right: &Arc<Share>| Arc::ptr_eq(left, right);
    let (mut one, mut two) = (
        user("system:serviceaccount:a:b"),
        user("system:serviceaccount:a:b"),
    );
    one.uid = "1".to_owned();
    two.uid = "2".to_owned();
    assert!(!same(&quotas.share(&one, None), &quotas.share(&two, None)));
    let nobody = UserInfo::anonymous();
    let here = quotas.share(&nobody, Some(address(1)));
    assert!(same(&here, &quotas.share(&nobody, Some(address(1)))));
    assert!(!same(&here, &quotas.share(&nobody, Some(address(2)))));
    let somewhere = quotas.share(&one, Some(address(1)));
    assert!(
        same(&somewhere, &quotas.share(&one, Some(address(2)))),
        "a user is one everywhere"
    );
}

#[test]
fn shares_that_nobody_uses_are_forgotten() {
    let quotas = Quotas::new(LIMITS);
    let kept = user("kept");
    let share = quotas.share(&kept, None);
    let _watch = share.take(Kind::Watch, &kept).unwrap();
    for index in 0..50_000 {
        drop(quotas.share(&user(&format!("user-{index}")), None));
    }
    let (_, users) = quotas.counts();
    assert!(users <= SHARD_COUNT * IDLE_SHARES_MAX, "{users} shares");
    assert!(
        Arc::ptr_eq(&share, &quotas.share(&kept, None)),
        "whoever uses one keeps it"
    );
}

#[tokio::test]
async fn large_bodies_of_one_user_wait_for_each_other_and_for_nobody_else() {
    let quotas = Quotas::new(Limits::default());
    let deadline = Instant::now() + Duration::from_secs(5);
    let (alice, bob) = (
        quotas.share(&user("alice"), None),
        quotas.share(&user("bob"), None),
    );
    let large = 3 * 1024 * 1024;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(alice.body(large, deadline).await.unwrap());
    }
    assert!(
        alice.body(1_000, deadline).await.is_ok(),
        "small ones do not wait"
    );
    assert!(bob.body(large, deadline).await.is_ok(), "another user's");
    let refusal = alice.body(large, Instant::now()).await.unwrap_err();
    assert_eq!(refusal.status().unwrap().code, 429, "in the end");
    let deadline = Instant::now() + Duration::from_secs(5);
    drop(held);
    assert!(
        alice.body(large, deadline).await.is_ok(),
        "they were given back"
    );
    let tree = alice.tree(1 << 40, deadline).await.unwrap();
    assert!(
        bob.tree(60 << 20, deadline).await.is_ok(),
        "half is left for others"
    );
    drop(tree);
}

#[tokio::test]
async fn calls_of_the_view_are_a_few_of_each_user_and_of_all() {
    let quotas = Quotas::new(Limits::default());
    let take = async |user: &UserInfo| quotas.share(user, None).view(user, Instant::now()).await;
    let mut held = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let user = user(name);
        held.push(take(&user).await.unwrap());
        held.push(take(&user).await.unwrap());
        let refusal = take(&user).await.unwrap_err();
        assert_eq!(refusal.status().unwrap().code, 429, "more than {name}'s");
    }
    let other = user("e");
    assert!(take(&other).await.is_err(), "all together have as many");
    let masters = [SYSTEM_MASTERS];
    let chief = UserInfo::authenticated("chief", masters);
    assert!(take(&chief).await.is_ok(), "there are some for masters");
    drop(held.pop());
    assert!(take(&other).await.is_ok(), "one was given back");
}

#[test]
fn a_full_waiting_room_loses_the_oldest_of_the_same_address() {
    let room = Arc::new(Room::default());
    let other = enter(&room, 2);
    let seats: Vec<Seat> = (0..6_144).map(|_| enter(&room, 1)).collect();
    assert!(seats.iter().all(|seat| !seat.cut().is_cancelled()));
    let late = enter(&room, 1);
    assert!(seats[0].cut().is_cancelled(), "the oldest");
    assert!(!seats[1].cut().is_cancelled() && !late.cut().is_cancelled());
    assert!(!other.cut().is_cancelled(), "of another address");
    drop(seats);
    assert_eq!(room.waiting_count(), 2, "whoever goes leaves its seat");
}

#[test]
fn a_connection_counts_for_the_user_of_its_first_request() {
    let quotas = Quotas::new(LIMITS);
    let room = Arc::new(Room::default());
    let alice = user("alice");
    let share = quotas.share(&alice, None);
    let seats: Vec<Seat> = (0..3).map(|_| enter(&room, 1)).collect();
    assert!(seats[0].count_for(&share, &alice).is_ok());
    assert!(seats[0].count_for(&share, &alice).is_ok(), "once");
    assert!(seats[1].count_for(&share, &alice).is_ok());
    assert!(seats[2].count_for(&share, &alice).is_err(), "it has two");
    assert!(seats[2].finish().is_cancelled(), "and the third closes");
    assert_eq!(room.waiting_count(), 1);
    drop(seats);
    assert!(
        enter(&room, 1).count_for(&share, &alice).is_ok(),
        "they came back"
    );
}

#[test]
fn a_connection_that_takes_its_requests_back_is_cut() {
    let room = Arc::new(Room::default());
    let (good, bad) = (enter(&room, 1), enter(&room, 1));
    for _ in 0..1_000 {
        good.answering().complete();
        drop(bad.answering());
    }
    for _ in 0..400 {
        drop(good.answering());
    }
    assert!(!good.cut().is_cancelled(), "most were answered");
    assert!(bad.cut().is_cancelled(), "none was");
}

#[test]
fn a_front_proxys_connection_is_no_users_to_end() {
    let quotas = Quotas::new(LIMITS);
    let room = Arc::new(Room::default());
    let alice = user("alice");
    let share = quotas.share(&alice, None);
    let own: Vec<Seat> = (0..2).map(|_| enter(&room, 1)).collect();
    for seat in &own {
        assert!(seat.count_for(&share, &alice).is_ok());
    }
    let proxys = enter(&room, 1);
    proxys.count_for_nobody();
    assert_eq!(room.waiting_count(), 0, "it is known whose it is");
    assert!(
        proxys.count_for(&share, &alice).is_ok(),
        "nobody's to count"
    );
    for _ in 0..1_000 {
        drop(proxys.answering());
    }
    assert!(!proxys.cut().is_cancelled(), "others are on it");
    // One that is a user's stays that user's.
    own[0].count_for_nobody();
    for _ in 0..1_000 {
        drop(own[0].answering());
    }
    assert!(own[0].cut().is_cancelled(), "it was alice's before");
}
