//! Every target on its seeds and on mutations of them, the same ones in each run.

use std::panic::{AssertUnwindSafe, catch_unwind};

use wheelhouse_fuzz::{TARGETS, Target, mutate, seeds};

/// Mutations for each target: together a few seconds without optimization. `WHEELHOUSE_FUZZ_MUTATIONS` asks for more,
/// `WHEELHOUSE_FUZZ_SEED` for others, and `WHEELHOUSE_FUZZ_TARGET` for one target alone.
const MUTATION_COUNT: usize = 400;

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(target: &Target, data: &[u8]) {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(data)));
    assert!(
        outcome.is_ok(),
        "target {} fails on {:?}",
        target.name,
        String::from_utf8_lossy(data)
    );
}

#[test]
fn every_target_withstands_its_seeds_and_mutations_of_them() {
    let count = number("WHEELHOUSE_FUZZ_MUTATIONS").unwrap_or(MUTATION_COUNT);
    let seed = number("WHEELHOUSE_FUZZ_SEED").unwrap_or(1);
    let only = std::env::var("WHEELHOUSE_FUZZ_TARGET").ok();
    let wanted = |target: &&&Target| only.as_ref().is_none_or(|only| only == target.name);
    for target in TARGETS.iter().filter(wanted) {
        if let Some(folder) = seeds::missing(target) {
            println!(
                "skipped: {} is absent, {} has fewer seeds",
                folder.display(),
                target.name
            );
        }
        let seeds = seeds::all(target).expect("the corpus is readable");
        assert!(!seeds.is_empty(), "{} has a seed", target.name);
        run(target, b"");
        for seed in &seeds {
            run(target, seed);
        }
        // Long seeds cost time and teach little here.
        let short: Vec<&Vec<u8>> = seeds.iter().filter(|seed| seed.len() < 4096).collect();
        let mut random = mutate::Random::new(seed as u64);
        for _mutation in 0..count {
            let Some(seed) = short.get(random.below(short.len())) else {
                break;
            };
            let other = short.get(random.below(short.len())).copied();
            let mut data = (*seed).clone();
            mutate::mutate(
                &mut random,
                target,
                &mut data,
                other.map_or(b"", Vec::as_slice),
            );
            run(target, &data);
        }
    }
}

#[test]
fn names_of_targets_are_given_once() {
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
