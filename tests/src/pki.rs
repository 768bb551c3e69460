//! A certificate authority for one test cluster.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// A certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS#8.
    pub key: String,
}

/// Signs the certificates of one cluster.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes a new authority.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate().expect("a key can be made");
        Self {
            issuer: CertifiedIssuer::self_signed(params, key).expect("the CA can be signed"),
        }
    }

    /// Returns the authority's own certificate.
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// Signs a serving certificate for loopback.
    pub fn serving(&self) -> Pair {
        let names = [
            "localhost",
            "127.0.0.1",
            "kubernetes.default.svc",
            "10.0.0.1",
        ];
        let mut params = CertificateParams::new(names.map(String::from)).expect("valid names");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    /// Signs a client certificate: the name of a user, and a group.
    pub fn client(&self, user: &str, group: Option<&str>) -> Pair {
        self.sign(&Self::client_params(user, group))
    }

    /// Signs a client certificate that has run out.
    pub fn expired_client(&self, user: &str) -> Pair {
        let mut params = Self::client_params(user, None);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        self.sign(&params)
    }

    fn client_params(user: &str, group: Option<&str>) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params
    }

    fn sign(&self, params: &CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("the CA can sign");
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// Makes a key for ServiceAccount tokens: the public part and the private part, both PEM.
pub fn account_key() -> (String, String) {
    let key = KeyPair::generate().expect("a key can be made");
    (key.public_key_pem(), key.serialize_pem())
}

/// Writes a kubeconfig with one context, named like the cluster.
pub fn kubeconfig(name: &str, server: &str, authority: &str, client: &Pair) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let user = serde_json::json!({
        "client-certificate-data": STANDARD.encode(&client.certificate),
        "client-key-data": STANDARD.encode(&client.key),
    });
    kubeconfig_of(name, server, authority, &user)
}

/// The same with a bearer token.
pub fn token_kubeconfig(name: &str, server: &str, authority: &str, token: &str) -> String {
    kubeconfig_of(
        name,
        server,
        authority,
        &serde_json::json!({ "token": token }),
    )
}

fn kubeconfig_of(name: &str, server: &str, authority: &str, user: &serde_json::Value) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let value = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {
            "server": server,
            "certificate-authority-data": STANDARD.encode(authority),
        }}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    });
    value.to_string()
}
