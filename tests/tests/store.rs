//! The hub's store, seen through the API of a real process: killed, full, failing, slow to be read,
//! out of time. Each trial is named after its row of `docs/trials.md`, and takes
//! a tenth of a night's counts; `hack/soak` runs them whole and by seed.

mod store {
    mod churn;
    mod clock;
    mod disk;
    mod kill;
    mod reads;
    mod slow;
}
