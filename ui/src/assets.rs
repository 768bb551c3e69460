//! The files of the pages: in the binary, compressed once, with a tag by which a browser keeps them.

use std::{io::Write as _, sync::OnceLock};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use sha2::{Digest as _, Sha256};

/// What the pages may load and run: files of this host. No script or style in the text of a page or of an element, no frame around it, and no
/// text becomes markup but the templates of the one library that makes elements (Trusted Types).
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     trusted-types lit-html; require-trusted-types-for 'script'";

/// What every file is sent with. Browsers ask each time whether a file has changed, so that a newer hub never runs with older pages.
const HEADERS: [(header::HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::CACHE_CONTROL, "no-cache"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        header::HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (header::VARY, "Accept-Encoding"),
];

/// A file of the pages.
#[derive(Debug)]
pub struct Asset {
    name: &'static str,
    text: &'static str,
    packed: OnceLock<Packed>,
}

/// What is computed of a file once.
#[derive(Debug)]
struct Packed {
    gzip: Bytes,
    tag: HeaderValue,
}

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        [$(Asset {
            name: $name,
            text: include_str!(concat!("../web/", $name)),
            packed: OnceLock::new(),
        }),*]
    };
}

/// All files. A test compares them with the folder.
static ASSETS: [Asset; 19] = assets![
    "index.html",
    "app.css",
    "app.js",
    "api.js",
    "definitions.js",
    "fleet.js",
    "graph.js",
    "icon.svg",
    "instance.js",
    "instances.js",
    "kinds.js",
    "matrix.js",
    "parts.js",
    "preview.js",
    "session.js",
    "sign-in.js",
    "spoke.js",
    "vendor/lit-html.LICENSE",
    "vendor/lit-html.js",
];

/// Returns the file of a path below `/ui/`.
pub fn find(path: &str) -> Option<&'static Asset> {
    let name = if path.is_empty() { "index.html" } else { path };
    ASSETS.iter().find(|asset| asset.name == name)
}

// === impl Asset ===

impl Asset {
    /// Answers a GET or HEAD whose headers these are.
    pub fn answer(&'static self, headers: &HeaderMap, takes_gzip: bool) -> Response<Bytes> {
        let packed = self.packed.get_or_init(|| Packed::of(self.text));
        let is_known = headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|tag| tag.trim().trim_start_matches("W/").as_bytes() == packed.tag.as_bytes());
        let mut response = Response::new(Bytes::new());
        for (name, value) in HEADERS {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        let headers = response.headers_mut();
        headers.insert(header::ETAG, packed.tag.clone());
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        let media_type = HeaderValue::from_static(media_type(self.name));
        headers.insert(header::CONTENT_TYPE, media_type);
        if takes_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            *response.body_mut() = packed.gzip.clone();
        } else {
            *response.body_mut() = Bytes::from_static(self.text.as_bytes());
        }
        response
    }
}

impl PartialEq for Asset {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Asset {}

// === impl Packed ===

impl Packed {
    fn of(text: &str) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let gzip = encoder
            .write_all(text.as_bytes())
            .and_then(|()| encoder.finish())
            .expect("writing to memory cannot fail");
        let hash = Sha256::digest(text.as_bytes());
        let digits: String = hash
            .iter()
            .take(16)
            .copied()
            .flat_map(hexadecimal)
            .collect();
        let tag = format!("\"{digits}\"");
        Self {
            gzip: gzip.into(),
            tag: HeaderValue::try_from(tag).expect("hexadecimal digits in quotes"),
        }
    }
}

fn hexadecimal(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 15].map(|half| char::from_digit(half.into(), 16).unwrap_or_default())
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests;
