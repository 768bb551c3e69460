//! How a request of the fleet view is answered, and how its calls come back to the hub as their caller.

use std::time::Duration;

use api::ClusterScope;
use http::{HeaderMap, Request, request::Parts};
use tokio::time::Instant;

use super::{Head, Hub};
use crate::{
    quota::Seat,
    refusal::Refusal,
    request::{Peer, UserInfo, share::Kind},
    respond::{self, Held, RequestBody, Response},
    view::{self, Asker},
};

/// How long a call waits for a place: as long as others take.
const PLACE_TIMEOUT: Duration = Duration::from_secs(5);
/// Which path a call is judged by where requests without credential are let in by their path.
const VIEW_PATH: &str = "/ui/";

/// The other end of a connection, as whom the hub is asked.
struct Caller<'a> {
    hub: &'a Hub,
    peer: &'a Peer,
    seat: Option<&'a Seat>,
}

// === impl Caller ===

impl Asker for Caller<'_> {
    async fn place(&self, headers: &HeaderMap, scope: &ClusterScope) -> Result<Held, Refusal> {
        let parts = &self.hub.parts;
        let now = jiff::Timestamp::now();
        let authenticator = &parts.authenticator;
        let sender = authenticator.identify(headers, self.peer, scope, VIEW_PATH, now);
        let sender = sender.await?;
        let user = sender.user();
        let share = match self.seat {
            Some(seat) => seat.share(&parts.quotas, user),
            None => parts.quotas.share(user, None),
        };
        if let Some(seat) = self.seat {
            seat.count_for(&share, user)?;
        }
        // Who waits counts as well.
        let permit = share.take(Kind::Request, user)?;
        let place = share.view(user, Instant::now() + PLACE_TIMEOUT).await?;
        Ok(Box::new((permit, place)))
    }

    async fn ask(&self, request: Request<RequestBody>) -> Response {
        self.hub.answer(request, self.peer, self.seat).await
    }
}

impl Hub {
    /// Answers a request below `/ui`.
    pub(super) async fn view(
        &self,
        page: ui::Page<'_>,
        (parts, body): (&Parts, RequestBody),
        (peer, seat): (&Peer, Option<&Seat>),
        head: &Head,
    ) -> Response {
        let caller = Caller {
            hub: self,
            peer,
            seat,
        };
        let answered = match page {
            ui::Page::SignIn => self.sign_in(parts, body, seat).await,
            _ => view::answer(page, parts, &caller).await,
        };
        match answered {
            Ok(mut response) => {
                respond::finish(&mut response, &head.audit_id, &[], head.takes_gzip);
                let requests = self.parts.metrics.requests();
                let code = response.status().as_u16();
                requests.count(None, code, head.started.elapsed());
                response
            }
            Err(refusal) => self.refuse_early(parts, None, &refusal, head).await,
        }
    }

    /// Answers a stranger who signs in, and counts for its address.
    async fn sign_in(
        &self,
        parts: &Parts,
        body: RequestBody,
        seat: Option<&Seat>,
    ) -> Result<Response, Refusal> {
        let (own, user) = (&self.parts, UserInfo::anonymous());
        let address = seat.map(Seat::address);
        let share = own.quotas.share(&user, address);
        let _permit = share.take(Kind::Request, &user)?;
        view::sign_in::answer(own.sign_in.as_ref(), parts, body).await
    }
}
