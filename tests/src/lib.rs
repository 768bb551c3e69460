//! Real clusters for tests: spokes made of etcd, kube-apiserver and kube-controller-manager, a hub
//! made of the `wheelhouse` binary, and unmodified kubectl against both.
//!
//! In reading order: [`assets`] (where the binaries come from), [`process`] (children that never
//! outlive a test), [`pki`], [`spoke`], [`hub`], [`kubectl`], [`wait`],
//! [`proof`] (recorded histories and faults), [`support`] (users of a hub, for the trials of isolation).
//!
//! # Invariants
//!
//! Every port is free when it is taken and every folder is the test's own. Nothing that was
//! started here outlives the test process, however it ends: each child hangs on a pipe whose other
//! end the test process holds.

pub mod assets;
pub mod hub;
pub mod kubectl;
pub mod pki;
pub mod pods;
pub mod process;
pub mod proof;
pub mod spoke;
pub mod support;
pub mod wait;
pub mod wire;

pub use hub::Hub;
pub use kubectl::Kubectl;
pub use spoke::Spoke;
pub use wait::eventually;
