//! Histories of many clients on an engine, by seed, over crashes: the trials R05, R06 and
//! R08 of `docs/trials.md`, and the planted bugs that their checker must find.

mod proof {
    pub(crate) mod machine;
    pub(crate) mod misbehaving;

    mod compaction;
    mod etcd;
    mod linearizability;
    mod planted;
    mod sweeps;
    mod watches;
}
