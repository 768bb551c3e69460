//! How the view's page of sign-in begins and ends: with what a browser needs for the issuer, and with a token.
//!
//! Both are for strangers. `GET` tells what is no secret; `POST` redeems a code, which makes the hub call the issuer: a stranger counts by
//! its address, and there are few at a time.

use api::{Status, StatusReason};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::{CALL_TIMEOUT, method_not_allowed};
use crate::{
    authenticate::{Redemption, SignIn, SignInError},
    negotiate::Negotiated,
    refusal::Refusal,
    respond::{self, RequestBody, Response},
};

/// The longest body: a code, a verifier and an address.
const BODY_BYTES_MAX: usize = 16 * 1024;
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Answers a request of a stranger.
///
/// # Errors
/// 400 for what is no redemption, 404 where nobody signs in like this, 405, 415, 429, and what the issuer says: 401 where it refuses the
/// code or the hub its token, 503 where it cannot be asked.
pub(crate) async fn answer(
    sign_in: Option<&SignIn>,
    parts: &Parts,
    body: RequestBody,
) -> Result<Response, Refusal> {
    match parts.method {
        Method::GET | Method::HEAD => {
            // `null` while the issuer cannot be read.
            let offer = sign_in.map(SignIn::offer);
            let offered = match offer {
                None => json!({}),
                Some(offer) => json!({"oidc": offer}),
            };
            respond::value(StatusCode::OK, Negotiated::JSON, &offered)
        }
        Method::POST => {
            let sign_in = sign_in.ok_or_else(Refusal::no_such_path)?;
            // Another site can send a form, and not JSON: nobody is signed in as somebody else without noticing.
            if !is_json(&parts.headers) {
                let text = "the body of the request was not in application/json";
                let reason = StatusReason::UnsupportedMediaType;
                return Err(Status::failure(415, reason, text).into());
            }
            let deadline = Instant::now() + CALL_TIMEOUT;
            let body = body.read(BODY_BYTES_MAX, deadline).await?;
            let redemption: Redemption = serde_json::from_slice(&body).map_err(|_error| {
                Status::bad_request("the body has a code, a codeVerifier and a redirectUri")
            })?;
            let token = sign_in.redeem(&redemption, Timestamp::now()).await;
            let token = token.map_err(|error| refusal(&error))?;
            let answer = json!({ "token": token });
            let mut response = respond::value(StatusCode::OK, Negotiated::JSON, &answer)?;
            response
                .headers_mut()
                .insert(header::CACHE_CONTROL, NO_STORE);
            Ok(response)
        }
        _ => Err(method_not_allowed()),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let media = crate::audit::media_of(headers);
    media == Some(crate::negotiate::MediaType::Json)
}

fn refusal(error: &SignInError) -> Refusal {
    let text = error.to_string();
    let (code, reason) = match error {
        SignInError::Request(_) => (400, StatusReason::BadRequest),
        SignInError::Busy => (429, StatusReason::TooManyRequests),
        SignInError::Refused(_) | SignInError::NotAccepted => (401, StatusReason::Unauthorized),
        SignInError::Unreachable(_) => (503, StatusReason::ServiceUnavailable),
    };
    Status::failure(code, reason, text).into()
}
