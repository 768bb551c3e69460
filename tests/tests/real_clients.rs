//! Programs that others wrote, unmodified, against a hub: `hack/real-clients` builds and runs them.
//!
//! A trial is skipped, visibly, where its programs are not named by the environment, as in the test suite.

mod real_clients {
    pub(crate) mod argo;
    mod chart;
    pub(crate) mod charts;
    pub(crate) mod stage;

    mod argo_cd;
    mod argo_host;
    mod controller_manager;
    mod controllers;
    mod etcdctl;
    mod flux;
    mod helm;
    mod kro;
    mod kube_rs;
    mod oidc;
    mod prometheus;
}
