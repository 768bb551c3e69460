//! Until when a request must be answered.
//!
//! Source: `apiserver/pkg/endpoints/filters/request_deadline.go`.

use std::time::Duration;

use api::{query::Query, status::Status};
use http::request::Parts;
use tokio::time::Instant;

use crate::{refusal::Refusal, request::RequestInfo};

/// How long a request may take that is not long-running, unless it asks for less.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// The deadline of a request: 60 s, or less if `timeout` says so. Watches read that parameter no further than here.
///
/// # Errors
/// 400 for a `timeout` that is no duration.
pub(super) fn of(parts: &Parts, info: &RequestInfo, started: Instant) -> Result<Instant, Refusal> {
    let most = started + REQUEST_TIMEOUT;
    let Some(query) = parts.uri.query().filter(|query| query.contains("timeout=")) else {
        return Ok(most);
    };
    if info.is_long_running() {
        return Ok(most);
    }
    let query = Query::parse(query);
    let Some(text) = query.first("timeout").filter(|text| !text.is_empty()) else {
        return Ok(most);
    };
    let asked = parse_duration(text).ok_or_else(|| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL: {text:?}"
        ))
    })?;
    if asked.is_zero() {
        return Ok(most);
    }
    Ok(started + asked.min(REQUEST_TIMEOUT))
}

/// Parses a duration as Go writes it, `1m30s` or `1.5h`; `None` for what is none, or negative.
fn parse_duration(text: &str) -> Option<Duration> {
    let nanos = dialect::Duration::parse(text)?.nanos();
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, want_ms) in [
            ("32s", Some(32_000)),
            ("1m30s", Some(90_000)),
            ("1.5h", Some(5_400_000)),
            ("250ms", Some(250)),
            ("0", Some(0)),
            ("", None),
            ("10", None),
            ("-5s", None),
            ("s", None),
            ("5x", None),
            ("1e3s", None),
        ] {
            let got = parse_duration(text).map(|duration| duration.as_millis());
            assert_eq!(got, want_ms, "{text}");
        }
    }
}
