//! How a request of the fleet view is answered, and how its calls come back to the hub as their caller.

use http::{Request, request::Parts};

use super::{Head, Hub};
use crate::{
    quota::Seat,
    request::Peer,
    respond::{self, RequestBody, Response},
    view::{self, Asker},
};

/// The other end of a connection, as whom the hub is asked.
struct Caller<'a> {
    hub: &'a Hub,
    peer: &'a Peer,
    seat: Option<&'a Seat>,
}

// === impl Caller ===

impl Asker for Caller<'_> {
    async fn ask(&self, request: Request<RequestBody>) -> Response {
        self.hub.answer(request, self.peer, self.seat).await
    }
}

impl Hub {
    /// Answers a request below `/ui`.
    pub(super) async fn view(
        &self,
        page: ui::Page<'_>,
        parts: &Parts,
        (peer, seat): (&Peer, Option<&Seat>),
        head: &Head,
    ) -> Response {
        let caller = Caller {
            hub: self,
            peer,
            seat,
        };
        match view::answer(page, parts, &caller).await {
            Ok(mut response) => {
                respond::finish(&mut response, &head.audit_id, &[], head.takes_gzip);
                let requests = self.parts.metrics.requests();
                let code = response.status().as_u16();
                requests.count(None, code, head.started.elapsed());
                response
            }
            Err(refusal) => self.refuse_early(parts, None, &refusal, head),
        }
    }
}
