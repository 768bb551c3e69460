//! CustomResourceDefinitions: what the server does with them beyond storing them.
//!
//! [`crate::strategy::definitions`] is their part in a write, and [`controller`] writes into the status which names a
//! definition got ([`crate::registry`] decides that) and removes the instances of a definition that goes. What a
//! definition makes available is the registry's business.
//!
//! Invariant: a definition is served before its status says so. Who waits for `Established` never finds a 404.
//! Source: apiextensions-apiserver/pkg/controller/{status,establish,finalizer}.

mod controller;

pub(crate) use controller::start;
