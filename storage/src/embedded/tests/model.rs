//! Any history, shrunk to the least that differs from the model.

use proptest::prelude::*;

use super::*;
use crate::conformance::Guess;

fn deed() -> impl Strategy<Value = Deed> {
    let guess = prop_oneof![
        4 => Just(Guess::Any),
        2 => Just(Guess::Absent),
        3 => Just(Guess::Right),
        1 => Just(Guess::Wrong),
    ];
    let write = (0..8_u8, proptest::option::weighted(0.7, 0..250_u8), guess);
    prop_oneof![
        10 => proptest::collection::vec(write, 1..4).prop_map(Deed::Commit),
        4 => (0..9_u8, 0..9_u8, 0..6_u8, 0..12_u8).prop_map(|(a, b, c, d)| Deed::Read(a, b, c, d)),
        2 => (0..9_u8, 0..9_u8, 0..12_u8).prop_map(|(a, b, c)| Deed::Watch(a, b, c)),
        1 => (0..12_u8).prop_map(Deed::Compact),
        1 => Just(Deed::Reopen),
        1 => Just(Deed::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_history_is_that_of_the_model(deeds in proptest::collection::vec(deed(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut fixture = Simulated::new();
        let result = runtime.block_on(check_model(&mut fixture, &deeds));
        prop_assert_eq!(result, Ok(()));
    }
}
