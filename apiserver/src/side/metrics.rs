//! Counts of requests, under kube-apiserver's names.
//!
//! Each label is one of a fixed set, so that counting is one atomic addition and the number of series is bounded. Fewer labels than
//! kube-apiserver's: no group, version or resource.

use std::{
    fmt::Write,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

use http::StatusCode;

use crate::{
    quota::Quotas,
    request::Verb,
    respond::{self, Response},
};

/// Codes that are counted each for itself; any other counts as the last one.
const CODES: [u16; 21] = [
    200, 201, 202, 304, 301, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 503,
    504, OTHER_CODE,
];

/// Stands for every code that is not counted for itself.
const OTHER_CODE: u16 = 0;

/// Verbs that are counted each for itself, with kube-apiserver's labels.
const VERBS: [(Verb, &str); 10] = [
    (Verb::Get, "GET"),
    (Verb::List, "LIST"),
    (Verb::Watch, "WATCH"),
    (Verb::Create, "POST"),
    (Verb::Update, "PUT"),
    (Verb::Patch, "PATCH"),
    (Verb::Delete, "DELETE"),
    (Verb::DeleteCollection, "DELETECOLLECTION"),
    (Verb::Proxy, "CONNECT"),
    (Verb::Other, "other"),
];

/// Upper bounds of the latency buckets, in microseconds: what is asked of the hub lies between 20 and 2,000.
const BUCKETS_US: [u64; 12] = [
    25, 50, 100, 250, 500, 1_000, 2_500, 10_000, 50_000, 250_000, 1_000_000, 10_000_000,
];

/// The counts of one process.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    verbs: [PerVerb; VERBS.len()],
    in_flight: AtomicI64,
    long_running: AtomicI64,
}

#[derive(Debug, Default)]
struct PerVerb {
    codes: [AtomicU64; CODES.len()],
    /// One more than bounds: what lies above all of them.
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    sum_us: AtomicU64,
}

/// Counts a request as running for as long as it lives.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    gauge: &'a AtomicI64,
}

// === impl Metrics ===

impl Metrics {
    /// Counts a request as running.
    pub(crate) fn running(&self, is_long_running: bool) -> Running<'_> {
        let gauge = if is_long_running {
            &self.long_running
        } else {
            &self.in_flight
        };
        gauge.fetch_add(1, Ordering::Relaxed);
        Running { gauge }
    }

    /// Counts an answer. The latency of a watch is the time to its first byte.
    pub(crate) fn count(&self, verb: Verb, code: u16, latency: Duration) {
        let verb = VERBS
            .iter()
            .position(|(known, _)| *known == verb)
            .unwrap_or(VERBS.len() - 1);
        let code = CODES
            .iter()
            .position(|known| *known == code)
            .unwrap_or(CODES.len() - 1);
        let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_US
            .iter()
            .position(|bound| latency_us <= *bound)
            .unwrap_or(BUCKETS_US.len());
        let counts = &self.verbs[verb];
        counts.codes[code].fetch_add(1, Ordering::Relaxed);
        counts.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        counts.sum_us.fetch_add(latency_us, Ordering::Relaxed);
    }

    /// `/metrics` in Prometheus' text form.
    pub(crate) fn serve(&self, quotas: &Quotas) -> Response {
        let mut text = String::from("# TYPE apiserver_request_total counter\n");
        for (counts, (_, verb)) in self.verbs.iter().zip(VERBS) {
            for (count, code) in counts.codes.iter().zip(CODES.map(code_label)) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    line(
                        &mut text,
                        format_args!(
                            "apiserver_request_total{{verb=\"{verb}\",code=\"{code}\",component=\"apiserver\"}} {count}"
                        ),
                    );
                }
            }
        }
        text.push_str("# TYPE apiserver_request_duration_seconds histogram\n");
        for (counts, (_, verb)) in self.verbs.iter().zip(VERBS) {
            counts.write_latency(&mut text, verb);
        }
        text.push_str("# TYPE apiserver_current_inflight_requests gauge\n");
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        line(
            &mut text,
            format_args!("apiserver_current_inflight_requests {in_flight}"),
        );
        text.push_str("# TYPE apiserver_longrunning_requests gauge\n");
        let long_running = self.long_running.load(Ordering::Relaxed);
        line(
            &mut text,
            format_args!("apiserver_longrunning_requests {long_running}"),
        );
        write_quotas(&mut text, quotas);
        let mut response = respond::text(StatusCode::OK, text);
        response.headers_mut().insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
        );
        response
    }
}

// === impl PerVerb ===

impl PerVerb {
    fn write_latency(&self, text: &mut String, verb: &str) {
        const NAME: &str = "apiserver_request_duration_seconds";
        let mut count = 0;
        let bounds = BUCKETS_US
            .iter()
            .map(|bound| seconds(*bound))
            .chain(["+Inf".to_owned()]);
        let lines: Vec<String> = self
            .buckets
            .iter()
            .zip(bounds)
            .map(|(bucket, bound)| {
                count += bucket.load(Ordering::Relaxed);
                format!("{NAME}_bucket{{verb=\"{verb}\",le=\"{bound}\"}} {count}")
            })
            .collect();
        if count == 0 {
            return;
        }
        for bucket in lines {
            line(text, format_args!("{bucket}"));
        }
        let sum = seconds(self.sum_us.load(Ordering::Relaxed));
        line(text, format_args!("{NAME}_sum{{verb=\"{verb}\"}} {sum}"));
        line(
            text,
            format_args!("{NAME}_count{{verb=\"{verb}\"}} {count}"),
        );
    }
}

/// What quotas have refused. No label names a user: the number of series must not depend on what clients do.
fn write_quotas(text: &mut String, quotas: &Quotas) {
    let (refused, users) = quotas.counts();
    text.push_str("# TYPE wheelhouse_quota_refused_total counter\n");
    for (kind, count) in refused {
        line(
            text,
            format_args!("wheelhouse_quota_refused_total{{kind=\"{kind}\"}} {count}"),
        );
    }
    text.push_str("# TYPE wheelhouse_quota_users gauge\n");
    line(text, format_args!("wheelhouse_quota_users {users}"));
}

fn code_label(code: u16) -> String {
    if code == OTHER_CODE {
        "other".to_owned()
    } else {
        code.to_string()
    }
}

/// Microseconds as a decimal number of seconds.
fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(text, "{line}");
}

// === impl Running ===

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.gauge.fetch_sub(1, Ordering::Relaxed);
    }
}
