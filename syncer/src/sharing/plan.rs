//! Who is to look after which spoke: rendezvous hashing with bounded load, and as few moves as possible. Pure.
//!
//! # Invariants
//! - Everybody who sees the same members, spokes and holders comes to the same plan.
//! - Nobody is given more than the mean, rounded up.
//! - What is held stays where it is, unless its holder is gone or has more than that.

use std::collections::{BTreeMap, BTreeSet};

use api::LogicalCluster;

/// Gives each spoke to a member. `holders` are those who hold one now, members or not.
pub(super) fn assign(
    members: &BTreeSet<String>,
    spokes: &BTreeSet<LogicalCluster>,
    holders: &BTreeMap<LogicalCluster, String>,
) -> BTreeMap<LogicalCluster, String> {
    let mut plan = BTreeMap::new();
    if members.is_empty() {
        return plan;
    }
    let most = spokes.len().div_ceil(members.len());
    let mut loads: BTreeMap<&str, usize> = members.iter().map(|it| (it.as_str(), 0)).collect();
    // The same order for everybody, and another one than that of names: those are often given in series.
    let mut ordered: Vec<&LogicalCluster> = spokes.iter().collect();
    ordered.sort_by_cached_key(|spoke| (weight("", spoke), (*spoke).clone()));
    let mut give = |spoke: &LogicalCluster, member: &str| {
        let load = loads.get_mut(member).filter(|load| **load < most);
        let is_given = load.map(|load| *load += 1).is_some();
        if is_given {
            plan.insert(spoke.clone(), member.to_owned());
        }
        is_given
    };
    let mut left = Vec::new();
    for spoke in ordered {
        let stays = holders.get(spoke).is_some_and(|holder| give(spoke, holder));
        if !stays {
            left.push(spoke);
        }
    }
    for spoke in left {
        // One of the ranked has room: together they have as much as there are spokes.
        let is_given = ranked(members, spoke)
            .iter()
            .any(|member| give(spoke, member));
        debug_assert!(is_given, "there is room for all");
    }
    plan
}

/// Returns who comes first for something that one member has for all.
pub(super) fn first<'m>(members: &'m BTreeSet<String>, of: &LogicalCluster) -> Option<&'m String> {
    ranked(members, of).first().copied()
}

fn ranked<'m>(members: &'m BTreeSet<String>, spoke: &LogicalCluster) -> Vec<&'m String> {
    let mut ranked: Vec<&String> = members.iter().collect();
    ranked.sort_by_cached_key(|member| (u64::MAX - weight(member, spoke), (*member).clone()));
    ranked
}

/// A hash that is the same in every version of the hub: FNV-1a, and the last steps of `MurmurHash3`, since FNV alone
/// spreads little what differs in the last bytes.
fn weight(member: &str, spoke: &LogicalCluster) -> u64 {
    let bytes = member.bytes().chain([0]).chain(spoke.as_str().bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn spokes(count: usize) -> BTreeSet<LogicalCluster> {
        let names = (0..count).map(|number| format!("spoke-{number}"));
        names.map(|it| it.parse().expect("a name")).collect()
    }

    fn loads(plan: &BTreeMap<LogicalCluster, String>) -> Vec<usize> {
        let mut loads = BTreeMap::new();
        for member in plan.values() {
            *loads.entry(member).or_insert(0) += 1;
        }
        loads.into_values().collect()
    }

    fn moved(
        before: &BTreeMap<LogicalCluster, String>,
        after: &BTreeMap<LogicalCluster, String>,
    ) -> usize {
        before
            .iter()
            .filter(|&(spoke, member)| after.get(spoke) != Some(member))
            .count()
    }

    #[test]
    fn spokes_are_shared_evenly_and_only_what_must_move_moves() {
        let (two, three) = (members(&["a", "b"]), members(&["a", "b", "c"]));
        let all = spokes(30);
        let first = assign(&three, &all, &BTreeMap::new());
        assert_eq!(loads(&first), [10, 10, 10]);
        assert_eq!(
            assign(&three, &all, &first),
            first,
            "nothing moves by itself"
        );

        let without = assign(&two, &all, &first);
        assert_eq!(loads(&without), [15, 15]);
        assert_eq!(moved(&first, &without), 10, "those of who is gone");

        let again = assign(&three, &all, &without);
        assert_eq!(loads(&again), [10, 10, 10]);
        assert_eq!(moved(&without, &again), 10, "those for who is new");

        let more = assign(&three, &spokes(31), &first);
        assert_eq!(
            moved(&first, &more),
            0,
            "a spoke that is new moves no other"
        );
        assert_eq!(loads(&more).iter().max(), Some(&11));
        assert_eq!(assign(&members(&[]), &all, &first), BTreeMap::new());
    }

    /// Members that come and go in any order, as long as somebody is there.
    #[test]
    fn nobody_ever_has_more_than_the_mean_rounded_up() {
        let mut seed = 7_u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).unwrap_or_default() % below
        };
        let mut holders = BTreeMap::new();
        for round in 0..500 {
            let names: Vec<String> = (0..=next(6))
                .map(|it| format!("m{}", it + next(3)))
                .collect();
            let there: BTreeSet<String> = names.into_iter().collect();
            let all = spokes(next(60));
            let plan = assign(&there, &all, &holders);
            assert_eq!(plan.len(), all.len(), "round {round}: each has somebody");
            let most = all.len().div_ceil(there.len());
            assert!(
                loads(&plan).iter().all(|load| *load <= most),
                "round {round}: {plan:?}"
            );
            assert_eq!(
                assign(&there, &all, &plan),
                plan,
                "round {round}: it is settled"
            );
            holders = plan;
        }
    }

    #[test]
    fn hashes_are_those_of_every_version() {
        let spoke: LogicalCluster = "east".parse().expect("a name");
        assert_eq!(weight("a", &spoke), weight("a", &spoke));
        let near: LogicalCluster = "eash".parse().expect("a name");
        assert_ne!(weight("a", &spoke) >> 32, weight("a", &near) >> 32);
    }
}
