//! An issuer of tokens as OpenID Connect has it: discovery, keys that are rotated, signed tokens, sign-in with a code and PKCE; and beside it
//! a webhook that reviews tokens.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD as BASE64},
};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use ring::{
    digest::{SHA256, digest},
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use crate::{fake_spoke::acceptor, pki::Authority};

/// Where it describes itself.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// Where its keys are.
const KEYS: &str = "/keys";
/// Where browsers sign in.
const AUTHORIZE: &str = "/authorize";
/// Where codes are redeemed.
const TOKEN: &str = "/token";
/// Where it reviews tokens.
const REVIEW: &str = "/review";

/// A running issuer. Dropping it ends it.
#[derive(Debug)]
pub struct Issuer {
    address: SocketAddr,
    authority: Authority,
    shared: Arc<Mutex<Shared>>,
    _listener: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    url: String,
    mode: Mode,
    /// The last one signs.
    keys: Vec<Key>,
    /// How often its keys were read.
    reading_count: usize,
    /// What the webhook says of tokens.
    reviews: BTreeMap<String, Value>,
    /// The tokens that the webhook was shown.
    shown: Vec<String>,
    /// What is said of whoever signs in; `null` lets nobody.
    person: Value,
    /// The secret of clients.
    secret: Option<String>,
    /// What codes were given for, until they are redeemed.
    codes: BTreeMap<String, BTreeMap<String, String>>,
    code_count: usize,
}

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As it should.
    Good,
    /// 503.
    Down,
    /// Never.
    Hung,
    /// With a redirect to where it answers as it should.
    Elsewhere,
}

#[derive(Debug)]
struct Key {
    id: String,
    pair: EcdsaKeyPair,
}

impl Issuer {
    /// Starts an issuer with one key.
    pub async fn start(mode: Mode) -> Self {
        let authority = Authority::new("issuer-ca");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Mutex::new(Shared {
            url: format!("https://{address}"),
            mode,
            keys: vec![Key::new("key-0")],
            reading_count: 0,
            reviews: BTreeMap::new(),
            shown: Vec::new(),
            person: Value::Null,
            secret: None,
            codes: BTreeMap::new(),
            code_count: 0,
        }));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor(&authority), Arc::clone(&shared)));
        Self {
            address,
            authority,
            shared,
            _listener: tasks,
        }
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns the certificate of the authority of its certificate.
    pub fn certificate(&self) -> String {
        self.authority.certificate()
    }

    /// Returns a kubeconfig of its webhook.
    pub fn webhook_kubeconfig(&self) -> String {
        let client = self.authority.client("hub", None);
        let url = format!("{}{REVIEW}", self.url());
        crate::pki::kubeconfig("webhook", &url, &self.certificate(), &client)
    }

    /// Changes how it answers.
    pub fn set(&self, mode: Mode) {
        self.lock().mode = mode;
    }

    /// Signs with a new key from now on. The one before is published no more.
    pub fn rotate(&self) {
        let mut shared = self.lock();
        let id = format!("key-{}", shared.reading_count + 1);
        shared.keys = vec![Key::new(&id)];
    }

    /// Counts how often its keys were read.
    pub fn reading_count(&self) -> usize {
        self.lock().reading_count
    }

    /// Lets the webhook say this of a token: a user, or `null` for nobody's.
    pub fn review(&self, token: &str, user: Value) {
        self.lock().reviews.insert(token.to_owned(), user);
    }

    /// Returns the tokens that the webhook was shown.
    pub fn shown(&self) -> Vec<String> {
        self.lock().shown.clone()
    }

    /// Says who signs in from now on: claims, or `null` for somebody who is refused.
    pub fn sign_in_as(&self, claims: Value) {
        self.lock().person = claims;
    }

    /// Where a browser with this query at the authorization endpoint is sent back to.
    pub fn authorize(&self, query: &str) -> String {
        self.lock().authorize(query)
    }

    /// Wants a secret of clients.
    pub fn want_secret(&self, secret: &str) {
        self.lock().secret = Some(secret.to_owned());
    }

    /// Signs a token: its own issuer, an hour, and what else it says.
    pub fn token(&self, claims: Value) -> String {
        self.token_with(json!({}), claims)
    }

    /// The same, with another header.
    pub fn token_with(&self, header: Value, claims: Value) -> String {
        self.lock().token(header, claims)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn token(&self, header: Value, claims: Value) -> String {
        let key = self.keys.last().expect("it has a key");
        let mut all = json!({"iss": self.url, "iat": seconds(), "exp": seconds() + 3600});
        merge(&mut all, claims);
        let mut whole = json!({"alg": "ES256", "kid": key.id, "typ": "JWT"});
        merge(&mut whole, header);
        let signed = format!("{}.{}", encoded(&whole), encoded(&all));
        let signature = match whole["alg"].as_str() {
            Some("none") => Vec::new(),
            // The public key as a secret: what everyone knows would sign for everyone.
            Some("HS256") => {
                let secret = hmac::Key::new(hmac::HMAC_SHA256, key.pair.public_key().as_ref());
                hmac::sign(&secret, signed.as_bytes()).as_ref().to_vec()
            }
            _ => {
                let signature = key.pair.sign(&SystemRandom::new(), signed.as_bytes());
                signature.expect("a token can be signed").as_ref().to_vec()
            }
        };
        format!("{signed}.{}", BASE64.encode(signature))
    }

    /// Where a browser is sent back to that comes to sign in.
    fn authorize(&mut self, query: &str) -> String {
        let asked: BTreeMap<String, String> = dialect::url::query_pairs(query).collect();
        let part = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
        let back = part("redirect_uri").to_owned();
        let state = dialect::url::escape_query(part("state"));
        if self.person.is_null() || part("response_type") != "code" {
            return format!(
                "{back}?error=access_denied&error_description=nobody+of+ours&state={state}"
            );
        }
        self.code_count += 1;
        let code = format!("code-{}", self.code_count);
        self.codes.insert(code.clone(), asked);
        format!("{back}?code={code}&state={state}")
    }

    /// Redeems a code, once.
    fn redeem(&mut self, form: &str, authorization: &str) -> Result<Value, &'static str> {
        let sent: BTreeMap<String, String> = dialect::url::query_pairs(form).collect();
        let part = |name: &str| sent.get(name).map(String::as_str).unwrap_or_default();
        let asked = self.codes.remove(part("code")).ok_or("invalid_grant")?;
        let of_code = |name: &str| asked.get(name).map(String::as_str).unwrap_or_default();
        let challenge = digest(&SHA256, part("code_verifier").as_bytes());
        if part("grant_type") != "authorization_code"
            || part("redirect_uri") != of_code("redirect_uri")
            || of_code("code_challenge_method") != "S256"
            || BASE64.encode(challenge) != of_code("code_challenge")
        {
            return Err("invalid_grant");
        }
        let client = of_code("client_id");
        let is_known = match &self.secret {
            None => part("client_id") == client,
            Some(secret) => {
                let both = STANDARD.encode(format!("{client}:{secret}"));
                authorization == format!("Basic {both}")
            }
        };
        if !is_known {
            return Err("invalid_client");
        }
        let mut claims = json!({"aud": client, "nonce": of_code("nonce")});
        merge(&mut claims, self.person.clone());
        let token = self.token(json!({}), claims);
        Ok(json!({"id_token": token, "access_token": "unused", "token_type": "Bearer"}))
    }
}

/// Returns the seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the hub reads the same clock")]
pub fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}

fn encoded(value: &Value) -> String {
    BASE64.encode(value.to_string())
}

impl Key {
    fn new(id: &str) -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key can be made");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random);
        Self {
            id: id.to_owned(),
            pair: pair.expect("it was just made"),
        }
    }

    fn public(&self) -> Value {
        // 4, and two coordinates of 32 bytes.
        let point = self.pair.public_key().as_ref();
        let (x, y) = point.split_at(33);
        let x = x.get(1..).unwrap_or_default();
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id,
            "x": BASE64.encode(x), "y": BASE64.encode(y),
        })
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: tokio_rustls::TlsAcceptor,
    shared: Arc<Mutex<Shared>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else {
                return;
            };
            let service = service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, Infallible>(answer(&shared, request).await) }
            });
            let builder = auto::Builder::new(TokioExecutor::new());
            drop(
                builder
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}

async fn answer(shared: &Mutex<Shared>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let authorization = request.headers().get("authorization").cloned();
    let body = request.into_body().collect().await;
    let body = body
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let mode = shared.lock().unwrap_or_else(PoisonError::into_inner).mode;
    match mode {
        Mode::Hung => tokio::time::sleep(Duration::from_hours(1)).await,
        Mode::Down => return plain(StatusCode::SERVICE_UNAVAILABLE, &json!({})),
        Mode::Elsewhere if !path.starts_with("/moved") => {
            let mut answer = plain(StatusCode::FOUND, &json!({}));
            let place = format!("/moved{path}")
                .try_into()
                .expect("a path is a header");
            answer.headers_mut().insert("location", place);
            return answer;
        }
        Mode::Elsewhere | Mode::Good => {}
    }
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let found = match path.trim_start_matches("/moved") {
        DISCOVERY => {
            let at = |path: &str| format!("{}{path}", shared.url);
            json!({"issuer": shared.url, "jwks_uri": at(KEYS), "authorization_endpoint": at(AUTHORIZE), "token_endpoint": at(TOKEN)})
        }
        AUTHORIZE => {
            let mut answer = plain(StatusCode::FOUND, &json!({}));
            let place = shared.authorize(&query).try_into();
            let place = place.expect("an address is a header");
            answer.headers_mut().insert("location", place);
            return answer;
        }
        TOKEN => {
            let form = String::from_utf8_lossy(&body);
            let authorization = authorization.as_ref().and_then(|it| it.to_str().ok());
            match shared.redeem(&form, authorization.unwrap_or_default()) {
                Ok(granted) => granted,
                Err(error) => return plain(StatusCode::BAD_REQUEST, &json!({"error": error})),
            }
        }
        KEYS => {
            shared.reading_count += 1;
            json!({"keys": shared.keys.iter().map(Key::public).collect::<Vec<_>>()})
        }
        REVIEW => {
            let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
            let token = asked["spec"]["token"].as_str().unwrap_or_default();
            shared.shown.push(token.to_owned());
            let user = shared.reviews.get(token).cloned().unwrap_or_default();
            let status = json!({"authenticated": !user.is_null(), "user": user});
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status})
        }
        _ => return plain(StatusCode::NOT_FOUND, &json!({})),
    };
    plain(StatusCode::OK, &found)
}

fn plain(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(body.to_string()));
    *answer.status_mut() = status;
    answer
}
