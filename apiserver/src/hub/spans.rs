//! The span of a request: what its log lines and its trace say of it.
//!
//! Source: `apiserver/pkg/endpoints/filters/traces.go`.

use http::{Method, request::Parts};
use telemetry::Trust;
use tracing::{Span, field};

use super::Head;
use crate::{authenticate::Authenticated, request::RequestInfo};

/// Who may look into everything that is measured. Source: `apiserver/pkg/authentication/user/user.go`.
const SYSTEM_MONITORING: &str = "system:monitoring";

/// Makes a span of what begins as given, and goes on with what a request asks for. Texts are quoted and escaped: nobody writes
/// another field with a name.
macro_rules! request_span {
    ([$($begin:tt)*], $audit_id:expr, $user:expr, $info:ident) => {
        tracing::debug_span!(
            $($begin)*
            audit_id = $audit_id.to_str().unwrap_or_default(),
            user = $user,
            cluster = %$info.cluster,
            verb = $info.verb.as_str(),
            group = $info.group,
            version = $info.version,
            resource = $info.resource,
            subresource = $info.subresource,
            namespace = $info.namespace,
            name = $info.name,
        )
    };
}

/// Makes the span of a request for the log. Its user is recorded once it is known.
pub(super) fn of_request(info: &RequestInfo, head: &Head) -> Span {
    request_span!(["request",], head.audit_id, field::Empty, info)
}

/// Makes the span of a request that is sampled, for its trace. Only who sends a request decides about that.
pub(super) fn traced(request: &Authenticated<Parts>) -> Span {
    let (parts, info, context) = (request.request(), request.info(), request.context());
    let user = &context.user;
    let may_monitor = user.known_only_in().is_none() && user.in_group(SYSTEM_MONITORING);
    let is_trusted = context.origin.is_controller() || user.is_master_of_hub() || may_monitor;
    let trust = if is_trusted { Trust::Full } else { Trust::None };
    let place = telemetry::sample_request(&parts.headers, trust);
    place.map_or_else(Span::none, |place| {
        place.take(request_span!(
            [
                target: concat!(module_path!(), "::traced"),
                "request",
                otel.kind = "server",
                otel.name = name_of(&parts.method, info),
                otel.status_code = field::Empty,
                http.request.method = parts.method.as_str(),
                http.response.status_code = field::Empty,
            ],
            context.audit_id,
            user.username,
            info
        ))
    })
}

/// Tells the trace of a request how that is answered.
pub(super) fn answered(code: u16) {
    if !telemetry::is_traced() {
        return;
    }
    let span = Span::current();
    span.record("http.response.status_code", code);
    if code >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

/// What a request is called among others of its kind, without names: `GET /apis/apps/v1/namespaces/{:namespace}/deployments`.
fn name_of(method: &Method, info: &RequestInfo) -> String {
    if info.resource.is_empty() {
        return method.as_str().to_owned();
    }
    let mut name = format!("{method} ");
    if info.group.is_empty() {
        name.push_str("/api");
    } else {
        name.push_str("/apis/");
        name.push_str(&info.group);
    }
    let mut add = |part: &str| {
        if !part.is_empty() {
            name.push('/');
            name.push_str(part);
        }
    };
    add(&info.version);
    if !info.namespace.is_empty() {
        add("namespaces/{:namespace}");
    }
    add(&info.resource);
    if !info.name.is_empty() {
        add("{:name}");
    }
    add(&info.subresource);
    name
}

#[cfg(test)]
mod tests {
    use http::Uri;

    use super::*;
    use crate::route::route;

    #[test]
    fn requests_of_one_kind_have_one_name() {
        for (path, name) in [
            (
                "/clusters/east/api/v1/namespaces/a/pods/b/log",
                "GET /api/v1/namespaces/{:namespace}/pods/{:name}/log",
            ),
            (
                "/apis/kro.run/v1alpha1/webapps?watch=true",
                "GET /apis/kro.run/v1alpha1/webapps",
            ),
            ("/clusters/east/version", "GET"),
        ] {
            let info = route(&Method::GET, &Uri::from_static(path)).expect(path);
            assert_eq!(name_of(&Method::GET, &info), name);
        }
    }
}
