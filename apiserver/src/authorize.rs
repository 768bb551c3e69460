//! Says whether a request may be done.
//!
//! Source: `apiserver/pkg/authorization`, `kubernetes/plugin/pkg/auth/authorizer/rbac`.

mod attributes;

pub use attributes::{Attributes, Decision};

use crate::{context::RequestContext, route::RequestInfo};

/// A request that its sender may do. Only this module makes it.
#[derive(Debug)]
pub struct Authorized<R> {
    request: R,
    info: RequestInfo,
    context: RequestContext,
}

// === impl Authorized ===

impl<R> Authorized<R> {
    /// The request itself: `http::request::Parts` in the server.
    pub fn request(&self) -> &R {
        &self.request
    }

    /// What the path says.
    pub fn info(&self) -> &RequestInfo {
        &self.info
    }

    /// Who asks.
    pub fn context(&self) -> &RequestContext {
        &self.context
    }

    /// Makes an authorized request without asking anyone, for component tests of handlers.
    #[cfg(test)]
    pub(crate) fn for_test(request: R, info: RequestInfo, context: RequestContext) -> Self {
        Self {
            request,
            info,
            context,
        }
    }
}
