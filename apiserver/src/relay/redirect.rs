//! Where an application behind a proxy may send its users: to another path of itself.
//!
//! kube-apiserver relays redirects of pods, services and nodes, and puts the path of the proxy before theirs, and every
//! other `Location` it relays as it is. A client of the hub would go there with its credential for the hub, to another
//! host (CVE-2022-3172) or to another path of the hub's, where the request is done in the user's name. So what remains
//! below the proxy's own path is relayed, with the path of the logical cluster before it, and anything else is refused.
//!
//! Source: `apimachinery/pkg/util/proxy/{transport,upgradeaware}.go`.

use http::{HeaderValue, header, response};

use crate::request::RequestInfo;

/// Returns where a redirect of a request for `path` leads, as the client is told; `None` for one that is not relayed, or for no redirect.
pub(super) fn location(
    path: &str,
    info: &RequestInfo,
    head: &response::Parts,
) -> Option<HeaderValue> {
    if !head.status.is_redirection() || info.subresource != "proxy" {
        return None;
    }
    let mut locations = head.headers.get_all(header::LOCATION).iter();
    let location = locations.next()?.to_str().ok()?;
    if locations.next().is_some() {
        return None;
    }
    let target = below_proxy(path, proxy_segments(info), location)?;
    HeaderValue::try_from(format!("{}{target}", info.prefix())).ok()
}

/// How many segments the path of the proxy has: `/api/v1/namespaces/<ns>/pods/<name>/proxy`, or `/api/v1/nodes/<name>/proxy`.
fn proxy_segments(info: &RequestInfo) -> usize {
    let group = usize::from(!info.group.is_empty());
    let namespace = if info.namespace.is_empty() { 0 } else { 2 };
    5 + group + namespace
}

/// Resolves `location` against the path of a request; `None` for what is not below its first `segments` segments.
fn below_proxy(path: &str, segments: usize, location: &str) -> Option<String> {
    // Browsers take `\` for `/`, and leave out control characters.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    if !location.bytes().all(is_plain) || location.starts_with("//") {
        return None;
    }
    let end = location.find(['?', '#']).unwrap_or(location.len());
    let (target, rest) = location.split_at(end);
    if target.split('/').next().is_some_and(|it| it.contains(':')) {
        // A scheme.
        return None;
    }
    let base: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let proxy = base.get(..segments)?;
    if proxy.last() != Some(&"proxy") || proxy.iter().any(|it| it.is_empty() || is_dots(it)) {
        return None;
    }
    let mut resolved: Vec<&str> = match target {
        "" => base.clone(),
        _ if target.starts_with('/') => Vec::new(),
        _ => base.get(..base.len().checked_sub(1)?)?.to_vec(),
    };
    let steps = target.strip_prefix('/').unwrap_or(target);
    if !target.is_empty() {
        resolved.extend(steps.split('/'));
    }
    // No path of an application needs them, and none of a client is taken that has them.
    if resolved.iter().any(|it| is_dots(it)) || resolved.get(..segments)? != proxy {
        return None;
    }
    Some(format!("/{}{rest}", resolved.join("/")))
}

/// Whether a segment is `.` or `..`, as they are or escaped.
fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    matches!(plain.as_str(), "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "/api/v1/namespaces/x/pods/y/proxy";

    #[test]
    fn an_application_sends_its_users_to_itself_alone() {
        let asked = format!("{POD}/a/b");
        for (location, want) in [
            // As kube-apiserver writes them.
            (&*format!("{POD}/c?d=/../e#f"), Some("/c?d=/../e#f")),
            (&*format!("{POD}/"), Some("/")),
            (POD, Some("")),
            ("c", Some("/a/c")),
            ("?c", Some("/a/b?c")),
            ("c/d:e", Some("/a/c/d:e")),
            // Other hosts.
            ("https://attacker/", None),
            ("http:c", None),
            ("//attacker/", None),
            ("/\\attacker", None),
            ("\\\\attacker", None),
            ("javascript:alert(1)", None),
            // Other paths of the hub's or of the spoke's.
            ("/", None),
            ("/api/v1/secrets", None),
            ("/clusters/west/api", None),
            (&*format!("{POD}x"), None),
            (&*format!("{POD}/../../z/proxy"), None),
            (&*format!("{POD}/%2e%2E/z"), None),
            ("../../../..", None),
            ("a b", None),
        ] {
            let got = below_proxy(&asked, 7, location);
            let want = want.map(|rest| format!("{POD}{rest}"));
            assert_eq!(got, want, "{location}");
        }
    }

    #[test]
    fn a_relative_location_does_not_leave_the_proxy() {
        // The last segment of the request is the proxy itself: what is relative to it is beside it.
        assert_eq!(below_proxy(POD, 7, "c"), None);
        let node = "/api/v1/nodes/n/proxy/";
        let got = below_proxy(node, 5, "metrics");
        assert_eq!(got.as_deref(), Some("/api/v1/nodes/n/proxy/metrics"));
    }
}
