//! Certificates on both sides.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;

/// Writes an authority, and a server's and a client's certificate of it, into a folder.
fn write_certificates(folder: &Path) -> TlsFiles {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let files = TlsFiles {
        certificate_authority: Some(folder.join("ca.crt")),
        identity: Some((folder.join("client.crt"), folder.join("client.key"))),
    };
    fs::write(folder.join("ca.crt"), issuer.pem()).unwrap();
    for (name, names) in [("server", vec!["127.0.0.1".to_owned()]), ("client", vec![])] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        fs::write(folder.join(format!("{name}.crt")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_reached_with_certificates_and_not_without() {
    let mut files = TlsFiles::default();
    let started = Cluster::start_as("https", 1, |folder| {
        files = write_certificates(folder);
        let option = |name: &str, file: &str| format!("--{name}={}/{file}", folder.display());
        vec![
            option("cert-file", "server.crt"),
            option("key-file", "server.key"),
            option("trusted-ca-file", "ca.crt"),
            "--client-cert-auth".to_owned(),
        ]
    });
    let Some(cluster) = started else { return };
    let with = |tls: TlsFiles| Config {
        tls,
        open_timeout: Duration::from_secs(10),
        ..cluster.config()
    };
    let engine = open(with(files.clone()));
    engine.commit(put("/a", "1")).await.unwrap();
    assert_eq!(value(&engine, "/a").as_deref(), Some("1"));

    let elsewhere = tempfile::tempdir().unwrap();
    let strangers = write_certificates(elsewhere.path());
    for (name, tls) in [
        (
            "no certificate",
            TlsFiles {
                identity: None,
                ..files.clone()
            },
        ),
        (
            "another authority's etcd",
            TlsFiles {
                certificate_authority: strangers.certificate_authority.clone(),
                ..files.clone()
            },
        ),
        (
            "another authority's client",
            TlsFiles {
                identity: strangers.identity,
                ..files
            },
        ),
    ] {
        let config = Config {
            open_timeout: Duration::from_millis(500),
            ..with(tls)
        };
        let refused = Engine::open(config);
        assert!(
            matches!(refused, Err(OpenError::Engine { .. })),
            "{name}: {refused:?}"
        );
    }
}
