//! A request with what is known of it.

use super::{RequestContext, RequestInfo};

/// A request, what its path says, and who sends it: what the stages that judge a request hand on. They box it once: it is large, and
/// each await that it is handed through would copy it.
#[derive(Debug)]
pub(crate) struct Asked<R> {
    /// The request itself: `http::request::Parts` in the server.
    pub(crate) request: R,
    /// What the path says.
    pub(crate) info: RequestInfo,
    /// Who asks.
    pub(crate) context: RequestContext,
}
