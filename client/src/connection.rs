//! One cluster and one credential: how a request gets there and as whom.
//!
//! A connection sends as the hub, with the credential of the kubeconfig, or anonymously: with what stands in the
//! request and nothing else. The two never share a TLS connection, because a client certificate speaks for every
//! request on its connection, whatever token the request carries.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use dialect::error_chain;
use futures::future::BoxFuture;
use http::{Request, Response, Uri, header};
use http_body::Body;
use http_body_util::BodyExt as _;
use kube::client::ConfigExt as _;
use kube::config::KubeConfigOptions;
use rustls::client::Resumption;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};

use crate::bounds::Budget;
use crate::error::Error;
use crate::term::USER_AGENT;
use crate::transport::{Protocol, RequestBody, ResponseBody, Timing, Transport, Upgrade, upgrade};

mod kubeconfig;
mod switch;
mod traced;

use switch::Switch;
use traced::Traced;

pub use kubeconfig::CredentialSources;

/// TLS sessions that can be resumed: rustls keeps as many tickets of a server.
const SESSION_COUNT: usize = 8;

/// How a connection behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// When a connection counts as dead.
    pub timing: Timing,
    /// Where the credential may come from.
    pub sources: CredentialSources,
    /// Who is calling.
    pub user_agent: String,
    /// How much the cluster may make its clients hold; for the hub itself by default.
    pub budget: Arc<Budget>,
    /// What carries requests in place of the machine's network, where something does.
    pub network: Option<Network>,
}

/// Carries requests in place of TCP and TLS; cheap to clone. The simulated fleet has one, with faults by seed.
#[derive(Clone)]
pub struct Network(Stack);

/// As whom a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// With the credential of the kubeconfig.
    Kubeconfig,
    /// With what stands in the request, over a connection without a client certificate.
    Request,
}

/// Sends calls to one cluster, and knows what that cluster may make it hold; cheap to clone.
#[derive(Clone)]
pub struct Client {
    kube: kube::Client,
    budget: Arc<Budget>,
}

type Stack = BoxCloneSyncService<Request<RequestBody>, Response<ResponseBody>, BoxError>;

/// One cluster and one credential; cheap to clone.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    server: Uri,
    is_verified: bool,
    client: Client,
    as_kubeconfig: Switch,
    as_request: Switch,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            sources: CredentialSources::Inline,
            user_agent: USER_AGENT.to_owned(),
            budget: Arc::default(),
            network: None,
        }
    }
}

// === impl Network ===

impl Network {
    /// Makes a network of a service that is sent every request, each with an absolute URL.
    pub fn new<S, B>(service: S) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = ServiceBuilder::new()
            .map_response(|response: Response<B>| {
                response.map(|body| ResponseBody::other(request_body(body)))
            })
            .map_err(Into::into)
            .service(service);
        Self(BoxCloneSyncService::new(service))
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

/// Makes a connection from a kubeconfig, by its current context unless another is named. Nothing is dialled yet.
///
/// # Errors
/// [`Error::Config`] where the kubeconfig cannot be read, has no such context, or takes a credential from where
/// [`Options::sources`] does not allow it.
pub async fn connect(
    kubeconfig: &str,
    context: Option<&str>,
    options: &Options,
) -> Result<Connection, Error> {
    let kubeconfig = kubeconfig::parse(kubeconfig)?;
    let selection = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    kubeconfig::judge(&kubeconfig, context, options.sources)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &selection)
        .await
        .map_err(config_error)?;
    Connection::from_config(config, options)
}

/// Makes a client of a service in the same process, of the hub for example.
pub fn in_process<S, B>(service: S) -> kube::Client
where
    S: Service<Request<kube::client::Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    kube::Client::new(service, "default")
}

// === impl Client ===

impl Client {
    /// Takes a client of the hub for reading what clusters answer through it: what it holds is charged to `budget`.
    pub const fn within(kube: kube::Client, budget: Arc<Budget>) -> Self {
        Self { kube, budget }
    }

    /// Borrows the client without its bounds.
    pub const fn kube(&self) -> &kube::Client {
        &self.kube
    }

    /// Borrows what the cluster may make this client hold.
    pub const fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Sends calls by another way; what the cluster may make both clients hold is one.
    #[must_use]
    pub(crate) fn through(&self, kube: kube::Client) -> Self {
        Self {
            kube,
            budget: Arc::clone(&self.budget),
        }
    }
}

impl From<kube::Client> for Client {
    /// Takes a client of the hub: one in this process, or one that a user's own kubeconfig names.
    fn from(kube: kube::Client) -> Self {
        Self {
            kube,
            budget: Arc::default(),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

// === impl Connection ===

impl Connection {
    /// Makes a connection from a configuration that was read elsewhere.
    ///
    /// # Errors
    /// [`Error::Config`] where the credential cannot be used, or a proxy is asked for.
    pub fn from_config(config: kube::Config, options: &Options) -> Result<Self, Error> {
        if let Some(proxy) = &config.proxy_url {
            return Err(Error::Config(format!("proxy-url {proxy} is not supported")));
        }
        if config.cluster_url.host().is_none() {
            return Err(Error::Config(format!(
                "server {} has no host",
                config.cluster_url
            )));
        }
        let as_kubeconfig = Switch::new(stack(&config, options)?);
        let mut anonymous = config.clone();
        anonymous.auth_info = kube::config::AuthInfo::default();
        let as_request = Switch::new(stack(&anonymous, options)?);
        let service = ServiceBuilder::new()
            .map_request(|request: Request<kube::client::Body>| {
                crate::term::guard(request.map(request_body))
            })
            .service(as_kubeconfig.clone());
        let client = Client {
            kube: kube::Client::new(service, config.default_namespace),
            budget: Arc::clone(&options.budget),
        };
        let server = config.cluster_url;
        Ok(Self {
            shared: Arc::new(Shared {
                server,
                is_verified: !config.accept_invalid_certs,
                client,
                as_kubeconfig,
                as_request,
            }),
        })
    }

    /// Hands out a client that sends as the kubeconfig says.
    pub fn client(&self) -> Client {
        self.shared.client.clone()
    }

    /// Borrows the URL of the server, with the path below which it is.
    pub fn server(&self) -> &Uri {
        &self.shared.server
    }

    /// Returns whether the server has to prove who it is.
    pub fn is_verified(&self) -> bool {
        self.shared.is_verified
    }

    /// Lets another connection take the place of this one: whoever has this one, or a client of it, sends with the other's
    /// credential from now on. What is under way, watches too, ends where it began. Returns whether it did, which it does
    /// only for the same URL: elsewhere there may be another cluster.
    pub fn succeed_by(&self, successor: &Self) -> bool {
        let (ours, theirs) = (&*self.shared, &*successor.shared);
        if ours.server != theirs.server {
            return false;
        }
        ours.as_kubeconfig.put(theirs.as_kubeconfig.stack());
        ours.as_request.put(theirs.as_request.stack());
        true
    }

    /// Sends a request for a reverse proxy: the bodies stream in both directions and are never held as a whole.
    /// Path and query are taken from the request and put below the server's URL.
    ///
    /// Redirects are not followed. Hop headers are the caller's to remove; only `Host` is replaced here, and no request
    /// asks for another protocol ([`Connection::upgrade`] does). There is no deadline.
    ///
    /// # Errors
    /// [`Error::Transport`] where no response came. Whatever the server answers is a response, not an error.
    ///
    /// # Cancel safety
    /// Dropping the future or the response resets the stream; what the server did by then stays done.
    pub async fn send<B>(
        &self,
        request: Request<B>,
        identity: Identity,
    ) -> Result<Response<ResponseBody>, Error>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.call(request.map(request_body), identity).await
    }

    /// Asks the server to speak another protocol, with a request that has no body. It goes over an HTTP/1.1 connection of
    /// its own, with the same credential and headers as any other ([`Connection::send`]). There is no deadline.
    ///
    /// # Errors
    /// [`Error::Transport`] where no response came, [`Error::Switch`] where the server switched to something else. What it
    /// answers in HTTP is no error.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; what the server did by then stays done.
    pub async fn upgrade(
        &self,
        request: Request<()>,
        protocol: Protocol,
        identity: Identity,
    ) -> Result<Upgrade, Error> {
        let empty = http_body_util::Empty::<Bytes>::new();
        let mut request = request.map(|()| request_body(empty));
        upgrade::ask(&mut request, protocol);
        let answer = self.call(request, identity).await?;
        Upgrade::of(answer, protocol).await
    }

    async fn call(
        &self,
        mut request: Request<RequestBody>,
        identity: Identity,
    ) -> Result<Response<ResponseBody>, Error> {
        request.headers_mut().remove(header::HOST);
        let stack = match identity {
            Identity::Kubeconfig => self.shared.as_kubeconfig.stack(),
            Identity::Request => self.shared.as_request.stack(),
        };
        // Named as a type of its own: the compiler cannot prove the stack's future `Send` from outside.
        let sent: BoxFuture<'static, Result<Response<ResponseBody>, BoxError>> =
            Box::pin(stack.oneshot(request));
        sent.await.map_err(Error::transport)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.shared.server)
            .finish_non_exhaustive()
    }
}

/// Puts the layers of a configuration around a transport of its own.
fn stack(config: &kube::Config, options: &Options) -> Result<Stack, Error> {
    let transport = match &options.network {
        Some(network) => network.0.clone(),
        None => BoxCloneSyncService::new(transport(config, options.timing)?),
    };
    let user_agent = http::HeaderValue::from_str(&options.user_agent).map_err(config_error)?;
    let service = ServiceBuilder::new()
        .map_request(move |mut request: Request<RequestBody>| {
            let headers = request.headers_mut();
            headers
                .entry(header::USER_AGENT)
                .or_insert_with(|| user_agent.clone());
            request
        })
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(config_error)?)
        .layer(config.extra_headers_layer().map_err(config_error)?)
        .map_err(BoxError::from)
        .layer_fn(Traced::new)
        .service(transport);
    Ok(BoxCloneSyncService::new(service))
}

fn transport(config: &kube::Config, timing: Timing) -> Result<Transport, Error> {
    let mut tls = config
        .rustls_client_config()
        .map_err(|error| tls_error(&error))?;
    // There is one server. By default there is room for 32, which takes 60 KB.
    tls.resumption = Resumption::in_memory_sessions(SESSION_COUNT);
    let server_name = match &config.tls_server_name {
        Some(name) => Some(name.clone().try_into().map_err(config_error)?),
        None => None,
    };
    Ok(Transport::new(tls, server_name, timing))
}

fn request_body<B>(body: B) -> RequestBody
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// Says what to do where the words of the TLS library lead astray: it calls a certificate that is too old a wrong key.
fn tls_error(error: &kube::Error) -> Error {
    let text = error_chain(error);
    if text.contains("UnsupportedCertVersion") {
        let old = "the client certificate is of X.509 version 1, without extensions: have one of version 3 made, with openssl x509 -extfile";
        return Error::Config(old.to_owned());
    }
    Error::Config(text)
}

fn config_error(error: impl std::error::Error + 'static) -> Error {
    Error::Config(error_chain(&error))
}

#[cfg(test)]
mod tests;
