//! Says who asks.
//!
//! In this order, the first that knows the caller wins: the identity of a controller in this process, the client
//! certificate, the bearer token, anonymous. A token or certificate that is presented and not good is 401, also where
//! anonymous requests are allowed.
//!
//! Source: `apiserver/pkg/authentication/request/union`, `.../x509`, `.../bearertoken`, `.../anonymous`.

mod user;

pub use user::UserInfo;

use crate::{context::RequestContext, route::RequestInfo};

/// A request whose sender is known. Only this module makes it.
#[derive(Debug)]
pub struct Authenticated<R> {
    request: R,
    info: RequestInfo,
    context: RequestContext,
}

// === impl Authenticated ===

impl<R> Authenticated<R> {
    /// The request itself.
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

    /// Takes the request apart, for the authorizer, which makes an `Authorized` out of the parts.
    pub(crate) fn into_parts(self) -> (R, RequestInfo, RequestContext) {
        (self.request, self.info, self.context)
    }
}
