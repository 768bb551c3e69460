//! A whole hub from the inside: requests with credentials, as they come from connections.

mod audited;
mod bypass;
mod coverage;
mod credentials;
mod escalation;
mod preview;
mod standing;
mod syncers;
mod view;
mod world;
