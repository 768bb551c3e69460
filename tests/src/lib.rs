//! Real clusters for tests: spokes made of etcd, kube-apiserver and kube-controller-manager, a hub
//! made of the `wheelhouse` binary, and unmodified kubectl against both.
//!
//! In reading order: [`assets`] (where the binaries come from), [`process`] (children that never
//! outlive a test), [`pki`], [`spoke`], [`hub`], [`kubectl`], [`wait`],
//! [`proof`] (recorded histories and faults), [`support`] (users of a hub, for the trials of isolation),
//! [`openmetrics`] (what `/metrics` returns), [`wire`] (requests byte by byte), [`fake_spoke`] (an API server that lies),
//! [`cable`] and [`balancer`] (what lies between a client and a server),
//! [`issuer`] (who signs tokens), [`kubelet`] and [`backend`] (a node that streams, and what its pods serve), [`manifests`] (what
//! `deploy/` ships), [`typed`] (pages of the documentation), [`browser`], [`collector`] (of traces).
//!
//! # Invariants
//!
//! Every port is free when it is taken and every folder is the test's own. Nothing that was
//! started here outlives the test process, however it ends: each child hangs on a pipe whose other
//! end the test process holds.

pub mod assets;
pub mod backend;
pub mod balancer;
pub mod browser;
pub mod cable;
pub mod collector;
pub mod etcd;
pub mod fake_spoke;
pub mod host;
pub mod hub;
pub mod issuer;
pub mod kubectl;
pub mod kubelet;
pub mod manifests;
pub mod openmetrics;
pub mod pki;
pub mod pods;
pub mod process;
pub mod proof;
pub mod spoke;
pub mod support;
pub mod typed;
pub mod wait;
pub mod wire;

pub use balancer::Balancer;
pub use cable::Cable;
pub use fake_spoke::FakeSpoke;
pub use hub::Hub;
pub use kubectl::Kubectl;
pub use kubelet::Kubelet;
pub use spoke::Spoke;
pub use wait::eventually;
