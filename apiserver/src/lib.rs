//! The hub's Kubernetes API, in the order in which a request meets it.
//!
//! A request arrives at [`serve`] over a connection that [`tls`] has made; [`route`] reads from its path which logical
//! cluster and which resource it means. [`hub`] conducts the rest: it has [`authenticate`] say who asks and
//! [`authorize`] whether they may, takes their share of [`quota`], and hands the request to whoever answers: [`side`] (health, version, index), [`discovery`], [`openapi`], [`review`] (what is
//! computed and never stored), [`handle`] (what the hub's own store serves) or [`relay`] (what a spoke serves).
//! [`respond`] makes the answer, [`audit`] the record of it.
//!
//! # Invariants
//! - Stages are types: a handler takes an [`Authorized`](authorize::Authorized) request, which only [`authorize`] makes,
//!   out of an [`Authenticated`](authenticate::Authenticated) one, which only [`authenticate`] makes.
//! - The path is decoded once, in [`route`]; authorizer and handlers look at the same [`RequestInfo`](request::RequestInfo).
//! - Nothing but [`refusal`] maps an error of the store to a status code.
//! - What several stages read stands in [`request`], [`refusal`] and [`call`], so that no stage imports the one that calls it.

// Shared vocabulary: what more than one stage speaks of.
pub mod config;
pub mod refusal;
pub mod request;
pub mod served;

// The way in.
pub mod serve;
pub mod tls;

// Before the handlers.
mod answers;
pub mod authenticate;
pub mod authorize;
mod host;
pub mod negotiate;
mod quota;
pub mod route;

// What a connection speaks beside HTTP.
mod websocket;

// Who answers what.
pub mod hub;
pub mod kubeconfig;

// Answers that need no store.
pub mod discovery;
pub mod openapi;
pub mod review;
pub mod side;
mod view;

// Answers from the store.
pub mod admit;
mod backup;
pub mod call;
pub mod definitions;
mod following;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod guards;
pub mod handle;
pub mod objects;
pub mod offline;
pub mod protobuf;
pub mod registry;
mod reseal;
mod strategy;
mod sweep;
mod table;
mod terms;
mod watch;
pub mod webhooks;

// Answers from a spoke.
pub(crate) mod relay;

// The way out.
pub mod audit;
pub mod respond;

pub use config::{
    AdminToken, Anonymous, Config, EtcdConfig, IssuersConfig, LogFilter, OidcFlags, SignInConfig,
    StoreConfig, Syncers, TokenWebhook,
};
pub use hub::{AsCaller, Hub, Previewer};
pub use request::share::Limits;
