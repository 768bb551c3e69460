//! Where a webhook is, and whether it may be called there.
//!
//! Root's webhooks are the operator's. Anybody else's would let a tenant send requests from the hub's place in the network,
//! so each host must be allowed by name at the hub's start; and what a name resolves to must not be this machine or
//! its link, unless the operator allowed the address itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use api::LogicalCluster;
use api::admission::WebhookClientConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

const HTTPS_PORT: u16 = 443;
/// The longest `caBundle`, in base64: all public authorities fit in.
const BUNDLE_BYTES_MAX: usize = 512 * 1024;

/// Where clouds answer their machines who they are, beside link-local addresses.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// The hosts that webhooks of logical clusters below root may be called at: `host` or `host:port`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<String>);

/// Where a webhook is.
#[derive(Debug)]
pub(super) struct Address {
    url: String,
    path: String,
    authority: HeaderValue,
    host: String,
    port: u16,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    reach: Reach,
}

/// What a URL says.
struct Place {
    authority: String,
    host: String,
    port: u16,
    path: String,
}

/// Which addresses may be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Any: the operator says so.
    Anywhere,
    /// Any but those of this machine and its link.
    Elsewhere,
}

// === impl AllowedHosts ===

impl AllowedHosts {
    /// Allows each of these.
    pub fn new(hosts: &[String]) -> Self {
        Self(hosts.iter().map(|host| host.to_lowercase()).collect())
    }

    fn allow(&self, host: &str, port: u16) -> bool {
        let host = host.to_lowercase();
        let with_port = format!("{host}:{port}");
        self.0
            .iter()
            .any(|allowed| *allowed == with_port || (port == HTTPS_PORT && *allowed == host))
    }
}

// === impl Address ===

impl Address {
    /// Reads the address of a webhook that a logical cluster has configured.
    ///
    /// # Errors
    /// Why it cannot or may not be called.
    pub(super) fn of(
        cluster: &LogicalCluster,
        config: &WebhookClientConfig,
        allowed: &AllowedHosts,
    ) -> Result<Self, String> {
        if let Some(service) = &config.service {
            return Err(format!(
                "service {:?} cannot be reached: a hub has no Service network, set clientConfig.url instead",
                format!("{}/{}", service.namespace, service.name)
            ));
        }
        let url = config.url.clone().unwrap_or_default();
        let place = Place::parse(&url)?;
        let (host, port) = (&place.host, place.port);
        let reach = if cluster.is_root() || host.parse::<IpAddr>().is_ok() {
            Reach::Anywhere
        } else {
            Reach::Elsewhere
        };
        if !cluster.is_root() && !allowed.allow(host, port) {
            return Err(format!(
                "webhooks of logical cluster {cluster} may not be called at {host}:{port}: the hub's operator has to allow \
                 the host (--allow-webhook-host)"
            ));
        }
        let tls = Arc::new(trust(&config.ca_bundle)?);
        Self::at(url, place, tls, reach)
    }

    /// Reads the address of a server that the operator has named, which may be anywhere.
    ///
    /// # Errors
    /// Why it makes no sense.
    pub(super) fn of_operator(url: &str, tls: Arc<ClientConfig>) -> Result<Self, String> {
        Self::at(url.to_owned(), Place::parse(url)?, tls, Reach::Anywhere)
    }

    fn at(url: String, place: Place, tls: Arc<ClientConfig>, reach: Reach) -> Result<Self, String> {
        let name = ServerName::try_from(place.host.clone()).map_err(|error| error.to_string())?;
        let authority = HeaderValue::from_str(&place.authority);
        Ok(Self {
            path: place.path,
            authority: authority.map_err(|error| error.to_string())?,
            tls,
            url,
            host: place.host,
            port: place.port,
            name,
            reach,
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    pub(super) fn name(&self) -> ServerName<'static> {
        self.name.clone()
    }

    pub(super) fn tls(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.tls)
    }

    /// Finds the addresses that may be connected. They are looked up here and connected as found: a name cannot be one thing
    /// while it is judged and another while it is connected.
    pub(super) async fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let found = found.map_err(|error| format!("lookup {}: {error}", self.host))?;
        let reachable: Vec<SocketAddr> = found
            .filter(|address| self.reach == Reach::Anywhere || is_elsewhere(address.ip()))
            .collect();
        if reachable.is_empty() {
            let host = &self.host;
            return Err(format!("{host} has no address that may be called"));
        }
        Ok(reachable)
    }
}

// === impl Place ===

impl Place {
    fn parse(url: &str) -> Result<Self, String> {
        let uri: Uri = url
            .parse()
            .map_err(|error| format!("url {url:?}: {error}"))?;
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let authority = uri.authority().map(http::uri::Authority::as_str);
        let authority = authority.unwrap_or_default();
        let is_plain = !authority.contains('@') && uri.query().is_none();
        if uri.scheme_str() != Some("https") || host.is_empty() || !is_plain {
            return Err(format!(
                "url {url:?} is not of the form https://host[/path]"
            ));
        }
        Ok(Self {
            authority: authority.to_owned(),
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(HTTPS_PORT),
            path: uri.path().to_owned(),
        })
    }
}

/// Whether an address is neither this machine's, nor its link's, nor everybody's.
fn is_elsewhere(address: IpAddr) -> bool {
    let address = plain(address);
    let is_of_link = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let is_metadata = METADATA.contains(&address);
    !(is_metadata
        || address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || is_of_link)
}

/// An address without what wraps one of IPv4 into IPv6: mapped, compatible, or behind NAT64 (RFC 6052).
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(wrapped) = address else {
        return address;
    };
    let [before @ .., high, low] = wrapped.segments();
    let is_compatible = before == [0; 6] && high != 0;
    if is_compatible || before == [0x64, 0xff9b, 0, 0, 0, 0] {
        let bits = (u32::from(high) << 16) | u32::from(low);
        return IpAddr::V4(Ipv4Addr::from_bits(bits));
    }
    address.to_canonical()
}

/// Trusts a bundle, and nobody else.
fn trust(bundle: &str) -> Result<ClientConfig, String> {
    if bundle.len() > BUNDLE_BYTES_MAX {
        return Err(format!("caBundle has more than {BUNDLE_BYTES_MAX} bytes"));
    }
    let pem = STANDARD
        .decode(bundle)
        .map_err(|error| format!("caBundle: {error}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| format!("caBundle: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("caBundle: {error}"))?;
    }
    if roots.is_empty() {
        return Err("clientConfig.caBundle has no certificate: a hub trusts none by itself".into());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_called_where_the_operator_allows_it_alone() {
        let allowed = AllowedHosts::new(&[
            "hooks.example.com".to_owned(),
            "Policy.example.com:8443".to_owned(),
            "10.0.0.7".to_owned(),
        ]);
        let authority = rcgen::generate_simple_self_signed(["x".to_owned()]);
        let pem = authority.expect("a certificate").cert.pem();
        let bundle = STANDARD.encode(pem);
        let (root, east) = (LogicalCluster::root(), "east".parse().expect("a name"));
        for (cluster, url, want) in [
            (&root, "https://127.0.0.1:9443/x", true),
            (&root, "https://169.254.169.254/latest", true),
            (&root, "http://hooks.example.com/", false),
            (&root, "https://user@hooks.example.com/", false),
            (&east, "https://hooks.example.com/validate", true),
            (&east, "https://HOOKS.example.com/validate", true),
            (&east, "https://hooks.example.com:8443/", false),
            (&east, "https://policy.example.com:8443/", true),
            (&east, "https://policy.example.com/", false),
            (&east, "https://hooks.example.com.evil.example/", false),
            (&east, "https://127.0.0.1:9443/x", false),
            (&east, "https://10.0.0.7/", true),
            (&east, "https://[::1]/", false),
        ] {
            let config = WebhookClientConfig {
                url: Some(url.to_owned()),
                ca_bundle: bundle.clone(),
                ..WebhookClientConfig::default()
            };
            let address = Address::of(cluster, &config, &allowed);
            assert_eq!(address.is_ok(), want, "{cluster} {url}: {address:?}");
        }
    }

    #[test]
    fn names_do_not_lead_back_to_this_machine() {
        for (address, want) in [
            ("192.0.2.1", true),
            ("10.1.2.3", true),
            ("127.0.0.1", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::127.0.0.1", false),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("64:ff9b::c000:201", true),
            ("fd00:ec2::254", false),
            ("100.100.100.200", false),
            ("fe80::1", false),
            ("224.0.0.1", false),
            ("2001:db8::1", true),
        ] {
            assert_eq!(
                is_elsewhere(address.parse().expect(address)),
                want,
                "{address}"
            );
        }
    }
}
