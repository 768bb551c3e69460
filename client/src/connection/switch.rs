//! A stack of layers that another one may take the place of, while clients that were made of it go on.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{Request, Response};
use tower::{BoxError, Service, ServiceExt as _};

use super::Stack;
use crate::transport::{RequestBody, ResponseBody};

/// Sends each request through the stack that is in place when it is sent. Clones are the same.
#[derive(Clone)]
pub(super) struct Switch {
    /// Guards the stack, which is cloned out. A leaf of the lock order.
    stack: Arc<RwLock<Stack>>,
}

// === impl Switch ===

impl Switch {
    pub(super) fn new(stack: Stack) -> Self {
        Self {
            stack: Arc::new(RwLock::new(stack)),
        }
    }

    /// Returns the stack that is in place.
    pub(super) fn stack(&self) -> Stack {
        let stack = self.stack.read();
        stack.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another stack in place. What is under way ends where it began.
    pub(super) fn put(&self, stack: Stack) {
        *self.stack.write().unwrap_or_else(PoisonError::into_inner) = stack;
    }
}

impl Service<Request<RequestBody>> for Switch {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(())) // the stack is waited for where it is called
    }

    fn call(&mut self, req: Request<RequestBody>) -> Self::Future {
        Box::pin(self.stack().oneshot(req))
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").finish_non_exhaustive()
    }
}
