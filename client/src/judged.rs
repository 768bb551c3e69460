//! Clients whose writes are sent in terms, or not at all.

use std::sync::Arc;

use http::{Method, Request, Uri};
use kube::client::Body;
use tower::BoxError;

use crate::{
    connection::Client,
    term::{Term, TermError},
};

/// What becomes of a request that changes something.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It is sent: it needs no term.
    Free,
    /// It is sent in this term.
    Within(Term),
    /// It is not sent: nobody here has the right.
    Refused,
}

/// Makes a client whose writes are sent as `judge` says. Reads are always sent.
pub fn in_terms(
    client: &Client,
    judge: impl Fn(&Method, &Uri) -> Verdict + Send + Sync + 'static,
) -> Client {
    let judge = Arc::new(judge);
    let (shared, inner) = (client.clone(), client.kube().clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        let verdict = if is_read(request.method()) {
            Verdict::Free
        } else {
            judge(request.method(), request.uri())
        };
        async move {
            match verdict {
                Verdict::Free => inner.send(request).await.map_err(BoxError::from),
                Verdict::Within(term) => term.send(inner, request).await,
                Verdict::Refused => Err(TermError.into()),
            }
        }
    });
    shared.through(kube::Client::new(service, "default"))
}

const fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::{
        dynamic::{Dynamic, Endpoint},
        term::{Lifetime, Moment},
        testing::{Server, json as answer_json},
    };

    const HOUR: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn writes_are_sent_in_a_term_and_reads_always() {
        let server = Server::start(|_request| answer_json(200, &json!({"kind": "X"}))).await;
        let client = server.connect().await.client();
        let lifetime = Lifetime::begin(HOUR, Moment::now());
        let term = Term::begin(&lifetime, "one");
        let given = term.clone();
        let client = in_terms(&client, move |_method, uri| {
            if uri.path().contains("others") {
                return Verdict::Refused;
            }
            Verdict::Within(given.clone())
        });
        let dynamic = Dynamic::new(client);
        let endpoint = |resource: &str| Endpoint {
            gvr: api::GroupVersionResource::new("", "v1", resource),
            ..Endpoint::default()
        };
        let object = json!({"metadata": {"name": "x"}});
        let ours = endpoint("ours");
        dynamic
            .create(&ours, &object)
            .await
            .expect("the term holds");
        let refused = dynamic.create(&endpoint("others"), &object).await;
        assert!(refused.expect_err("no term").chain().contains("is over"));
        lifetime.end();
        let over = dynamic.create(&ours, &object).await;
        assert!(over.expect_err("no lease").chain().contains("is over"));
        dynamic.get(&ours, "x").await.expect("a read is no write");
    }

    #[tokio::test]
    async fn a_term_that_ends_cancels_what_is_under_way() {
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let hanging = tower::service_fn(move |_request: Request<Body>| {
            begun.send(()).expect("the test listens");
            std::future::pending::<Result<http::Response<Body>, BoxError>>()
        });
        let term = Term::begin(&Lifetime::begin(HOUR, Moment::now()), "one");
        let given = term.clone();
        let client = Client::from(kube::Client::new(hanging, "default"));
        let client = in_terms(&client, move |_, _| Verdict::Within(given.clone()));
        let endpoint = Endpoint {
            gvr: api::GroupVersionResource::new("", "v1", "ours"),
            ..Endpoint::default()
        };
        let (calls, object) = (Dynamic::new(client), json!({}));
        let ending = async {
            begins.recv().await.expect("it is under way");
            term.close();
            term.end();
        };
        let (written, ()) = tokio::join!(calls.create(&endpoint, &object), ending);
        let error = written.expect_err("cancelled");
        assert!(error.chain().contains("is over"), "{}", error.chain());
        term.settled().await;
    }
}
