//! Calls in another user's name: the server judges that user, not the one whose credential is used.
//!
//! **Invariant:** a client that was made here sends nothing without saying in whose name.
//!
//! Source: client-go `transport/round_trippers.go` (`impersonatingRoundTripper`).

use std::fmt::Write as _;

use api::wheelhouse::author::User;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use kube::client::Body;

use crate::connection::Client;
use crate::error::Error;

/// Makes a client that acts as a user.
///
/// # Errors
/// [`Error::Config`] where the user cannot be named in headers.
pub fn acting_as(client: &Client, user: &User) -> Result<Client, Error> {
    let headers = headers(user)?;
    let (shared, client) = (client.clone(), client.kube().clone());
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let client = client.clone();
        request.headers_mut().extend(headers.clone());
        async move { client.send(request).await }
    });
    Ok(shared.through(kube::Client::new(service, "default")))
}

fn headers(user: &User) -> Result<HeaderMap, Error> {
    let refused = |what: &str| {
        let username = &user.username;
        Error::Config(format!(
            "user {username:?} cannot be named in a header: its {what}"
        ))
    };
    let value = |what: &str, text: &str| {
        let survives = text.trim() == text && !text.chars().any(char::is_control);
        let value = survives.then(|| HeaderValue::from_bytes(text.as_bytes()).ok());
        value.flatten().ok_or_else(|| refused(what))
    };
    if user.username.is_empty() {
        return Err(refused("name is empty"));
    }
    let mut headers = HeaderMap::new();
    headers.insert(
        HeaderName::from_static("impersonate-user"),
        value("name", &user.username)?,
    );
    if !user.uid.is_empty() {
        headers.insert(
            HeaderName::from_static("impersonate-uid"),
            value("uid", &user.uid)?,
        );
    }
    for group in &user.groups {
        headers.append(
            HeaderName::from_static("impersonate-group"),
            value("groups", group)?,
        );
    }
    for (key, values) in &user.extra {
        let name = format!("impersonate-extra-{}", escaped(key));
        let name = HeaderName::try_from(name).map_err(|_invalid| refused("extra"))?;
        for text in values {
            headers.append(name.clone(), value("extra", text)?);
        }
    }
    Ok(headers)
}

/// Encodes what a header's name cannot hold.
fn escaped(key: &str) -> String {
    let mut encoded = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let written = write!(encoded, "%{byte:02X}");
            debug_assert!(written.is_ok(), "writing to a String cannot fail");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::dynamic::Dynamic;
    use crate::testing::{Server, json as answer_json};

    fn user(name: &str) -> User {
        User {
            username: name.to_owned(),
            uid: "u-1".to_owned(),
            groups: vec!["dev".to_owned(), "ops team".to_owned()],
            extra: [("acme.com/project".to_owned(), vec!["one".to_owned()])].into(),
            ..User::default()
        }
    }

    #[tokio::test]
    async fn every_call_says_in_whose_name_it_is() {
        let seen: Arc<Mutex<Vec<HeaderMap>>> = Arc::default();
        let kept = Arc::clone(&seen);
        let server = Server::start(move |request| {
            kept.lock().unwrap().push(request.headers().clone());
            answer_json(200, &serde_json::json!({"items": []}))
        })
        .await;
        let client = acting_as(&server.connect().await.client(), &user("jane")).unwrap();
        Dynamic::new(client).raw_get("/version").await.unwrap();
        let seen = seen.lock().unwrap();
        let headers = seen.last().unwrap();
        let all = |name: &str| -> Vec<&str> {
            let values = headers.get_all(name).iter();
            values.map(|it| it.to_str().unwrap()).collect()
        };
        assert_eq!(all("impersonate-user"), ["jane"]);
        assert_eq!(all("impersonate-uid"), ["u-1"]);
        assert_eq!(all("impersonate-group"), ["dev", "ops team"]);
        assert_eq!(all("impersonate-extra-acme.com%2fproject"), ["one"]);
    }

    #[test]
    fn a_user_that_a_header_would_change_is_refused() {
        for name in ["", " jane", "jane\r\nImpersonate-Group: system:masters"] {
            assert!(headers(&user(name)).is_err(), "{name:?}");
        }
    }
}
