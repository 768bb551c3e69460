//! S28: which versions of TLS are spoken, and with which cipher suites. No client that is made today sends the others, so that these
//! first messages are written by hand.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// The content types of records. Source: RFC 8446 section 5.1.
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const TLS_1_2: u16 = 0x0303;
/// `TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256`.
const GOOD: u16 = 0xc02b;

/// A first message of a client.
struct Hello {
    version: u16,
    suites: Vec<u16>,
    compression: u8,
    /// What the extension `supported_versions` lists; empty: no such extension.
    versions: Vec<u16>,
}

// === impl Hello ===

impl Hello {
    fn with(version: u16, suites: &[u16]) -> Self {
        Self {
            version,
            suites: suites.to_vec(),
            compression: 0,
            versions: Vec::new(),
        }
    }

    /// Source: RFC 5246 section 7.4.1.2.
    fn record(&self) -> Vec<u8> {
        let mut extensions = Vec::new();
        let mut extension = |kind: u16, data: Vec<u8>| {
            extensions.extend(kind.to_be_bytes());
            extensions.extend(counted16(&data));
        };
        extension(10, counted16(&pairs(&[0x001d, 0x0017]))); // supported_groups: x25519, secp256r1
        extension(11, vec![1, 0]); // ec_point_formats: uncompressed
        extension(13, counted16(&pairs(&[0x0403, 0x0804, 0x0401]))); // signature_algorithms
        if !self.versions.is_empty() {
            let listed = pairs(&self.versions);
            let count = u8::try_from(listed.len()).unwrap();
            extension(43, [vec![count], listed].concat());
        }
        let mut body = self.version.to_be_bytes().to_vec();
        body.extend([7; 32]); // random
        body.push(0); // no session
        body.extend(counted16(&pairs(&self.suites)));
        body.extend([1, self.compression]);
        body.extend(counted16(&extensions));
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let message = [&[1], &length[1..], &body].concat();
        [&[HANDSHAKE, 3, 1][..], &counted16(&message)].concat()
    }
}

fn pairs(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|it| it.to_be_bytes()).collect()
}

/// Bytes after their count.
fn counted16(bytes: &[u8]) -> Vec<u8> {
    let count = u16::try_from(bytes.len()).unwrap().to_be_bytes();
    [&count[..], bytes].concat()
}

/// Sends it, and returns the content type of the first record that comes back.
async fn answer_to(served: &Served, hello: &Hello) -> u8 {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(&hello.record()).await.unwrap();
    stream.read_u8().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn s28_old_versions_and_weak_cipher_suites_are_refused() {
    let served = Served::start().await;
    let control = answer_to(&served, &Hello::with(TLS_1_2, &[0x002f, GOOD])).await;
    assert_eq!(control, HANDSHAKE, "TLS 1.2 is spoken");
    for (what, version) in [
        ("SSL 3.0", 0x0300),
        ("TLS 1.0", 0x0301),
        ("TLS 1.1", 0x0302),
    ] {
        let answer = answer_to(&served, &Hello::with(version, &[GOOD])).await;
        assert_eq!(answer, ALERT, "{what}");
        let listed = Hello {
            versions: vec![version],
            ..Hello::with(TLS_1_2, &[GOOD])
        };
        assert_eq!(answer_to(&served, &listed).await, ALERT, "{what}, listed");
    }
    for (what, suite) in [
        ("NULL", 0x0000),
        ("RSA_WITH_NULL_SHA256", 0x003b),
        ("RSA_WITH_RC4_128_SHA", 0x0005),
        ("RSA_WITH_3DES_EDE_CBC_SHA", 0x000a),
        ("RSA_WITH_AES_128_CBC_SHA", 0x002f),
        ("RSA_WITH_AES_128_GCM_SHA256", 0x009c),
        ("DHE_RSA_WITH_AES_128_GCM_SHA256", 0x009e),
        ("DH_anon_WITH_AES_128_GCM_SHA256", 0x00a6),
        ("ECDHE_ECDSA_WITH_AES_128_CBC_SHA", 0xc009),
        ("ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", 0xc023),
        ("ECDHE_RSA_WITH_AES_128_CBC_SHA", 0xc013),
    ] {
        let answer = answer_to(&served, &Hello::with(TLS_1_2, &[suite])).await;
        assert_eq!(answer, ALERT, "{what}");
    }
    let compressed = Hello {
        compression: 1,
        ..Hello::with(TLS_1_2, &[GOOD])
    };
    assert_eq!(answer_to(&served, &compressed).await, ALERT, "compression");
    served.stop().await;
}
