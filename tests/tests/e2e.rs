//! Real clusters, real kubectl, the real binary: what a user sees.

mod e2e {
    pub(crate) mod stage;

    mod accounts;
    mod aggregation;
    mod apply;
    mod clients;
    mod conflict;
    mod crash;
    pub(crate) mod debug;
    mod deletion;
    pub(crate) mod deploy;
    mod dev;
    mod drift;
    mod etcd;
    mod everywhere;
    mod examples;
    mod imported;
    mod judged;
    mod kept;
    mod kro;
    mod kubectl;
    mod migrated;
    mod outage;
    mod pages;
    mod parting;
    mod played;
    mod preview;
    mod quickstart;
    mod replicas;
    mod restored;
    mod scaled;
    mod shares;
    mod streams;
    mod syncer_keys;
    mod syncers;
    mod told;
    mod tour;
    mod traces;
    mod upgrade;
    mod view;
}
