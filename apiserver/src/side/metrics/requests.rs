//! Counts of requests, under kube-apiserver's names.
//!
//! Source: `apiserver/pkg/endpoints/metrics/metrics.go`.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
};

use crate::{
    registry,
    request::{LongRunning, RequestInfo, Verb},
};

/// Codes that are counted each for itself; any other counts as the last one.
const CODES: [u16; 23] = [
    101, 200, 201, 202, 304, 301, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500,
    503, 504, 507, OTHER_CODE,
];

/// Stands for every code that is not counted for itself.
const OTHER_CODE: u16 = 0;

/// Verbs, with kube-apiserver's labels, in the order of [`verb_index`].
const VERBS: [&str; 10] = [
    "GET",
    "LIST",
    "WATCH",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "DELETECOLLECTION",
    "CONNECT",
    "other",
];

/// Upper bounds of the latency buckets, in microseconds: what is asked of the hub lies between 20 and 2,000.
const BUCKETS_US: [u64; 12] = [
    25, 50, 100, 250, 500, 1_000, 2_500, 10_000, 50_000, 250_000, 1_000_000, 10_000_000,
];

/// Stands for every resource that is not built in.
const OTHER_RESOURCE: &str = "other";

/// The counts of one process.
#[derive(Debug)]
pub(crate) struct Requests {
    /// Built-in resources as (resource, group), sorted; the first one stands for requests without one.
    resources: Box<[(String, String)]>,
    /// By resource; one more than resources, for all others.
    counts: Box<[PerResource]>,
    latencies: [Latency; VERBS.len()],
    /// Requests in flight that change nothing, and those that may.
    in_flight: [AtomicI64; 2],
    long_running: [Arc<AtomicI64>; VERBS.len()],
}

/// Answers by verb and code.
#[derive(Debug, Default)]
struct PerResource([[AtomicU64; CODES.len()]; VERBS.len()]);

#[derive(Debug, Default)]
struct Latency {
    /// One more than bounds: what lies above all of them.
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    sum_us: AtomicU64,
}

/// Counts a request as in flight for as long as it lives.
#[derive(Debug)]
pub(crate) struct InFlight<'a> {
    gauge: &'a AtomicI64,
}

// === impl Requests ===

impl Requests {
    pub(super) fn new() -> Self {
        let resources: BTreeSet<(String, String)> = registry::built_in_names()
            .map(|name| (name.resource, name.group))
            .chain([Default::default()])
            .collect();
        let counts = (0..=resources.len()).map(|_| PerResource::default());
        Self {
            counts: counts.collect(),
            resources: resources.into_iter().collect(),
            latencies: Default::default(),
            in_flight: Default::default(),
            long_running: Default::default(),
        }
    }

    /// Counts a request as in flight.
    pub(crate) fn in_flight(&self, verb: Verb) -> InFlight<'_> {
        let gauge = &self.in_flight[usize::from(!verb.is_read_only())];
        gauge.fetch_add(1, Ordering::Relaxed);
        InFlight { gauge }
    }

    /// Counts a request that goes on.
    pub(crate) fn long_running(&self, verb: Verb) -> LongRunning {
        LongRunning::new(&self.long_running[verb_index(verb)])
    }

    /// Counts an answer, of a request whose path says something or not. The latency of a watch is the time to its first
    /// byte.
    pub(crate) fn count(&self, info: Option<&RequestInfo>, code: u16, latency: Duration) {
        let verb = verb_index(info.map_or(Verb::Other, |info| info.verb));
        let code = CODES
            .iter()
            .position(|known| *known == code)
            .unwrap_or(CODES.len() - 1);
        let (resource, group) = info.map_or(("", ""), |info| {
            (info.resource.as_str(), info.group.as_str())
        });
        let resource = self
            .resources
            .binary_search_by(|known| (known.0.as_str(), known.1.as_str()).cmp(&(resource, group)))
            .unwrap_or(self.resources.len());
        self.counts[resource].0[verb][code].fetch_add(1, Ordering::Relaxed);
        self.latencies[verb].observe(latency);
    }

    fn encode_counts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut encoder = encoder.encode_descriptor(
            "apiserver_request",
            "Requests answered, by verb, built-in resource and HTTP code.",
            None,
            MetricType::Counter,
        )?;
        let other = (OTHER_RESOURCE.to_owned(), String::new());
        let resources = self.resources.iter().chain([&other]);
        for ((resource, group), counts) in resources.zip(&self.counts) {
            for (verb, codes) in VERBS.iter().zip(&counts.0) {
                for (code, count) in CODES.map(code_label).iter().zip(codes) {
                    let count = count.load(Ordering::Relaxed);
                    if count > 0 {
                        let labels = [
                            ("verb", *verb),
                            ("group", group),
                            ("resource", resource),
                            ("code", code),
                            ("component", "apiserver"),
                        ];
                        encoder
                            .encode_family(&labels)?
                            .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn encode_latencies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut encoder = encoder.encode_descriptor(
            "apiserver_request_duration_seconds",
            "How long requests took to be answered; watches until their first byte.",
            None,
            MetricType::Histogram,
        )?;
        for (verb, latency) in VERBS.iter().zip(&self.latencies) {
            let (sum, count, buckets) = latency.read();
            if count > 0 {
                encoder
                    .encode_family(&[("verb", *verb), ("component", "apiserver")])?
                    .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
            }
        }
        Ok(())
    }

    fn encode_running(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut in_flight = encoder.encode_descriptor(
            "apiserver_current_inflight_requests",
            "Requests that are being answered, without watches and streams.",
            None,
            MetricType::Gauge,
        )?;
        for (kind, gauge) in ["readOnly", "mutating"].iter().zip(&self.in_flight) {
            in_flight
                .encode_family(&[("request_kind", *kind)])?
                .encode_gauge(&gauge.load(Ordering::Relaxed))?;
        }
        let mut long_running = encoder.encode_descriptor(
            "apiserver_longrunning_requests",
            "Watches and streams that are open, by verb.",
            None,
            MetricType::Gauge,
        )?;
        for (verb, gauge) in VERBS.iter().zip(&self.long_running) {
            long_running
                .encode_family(&[("verb", *verb)])?
                .encode_gauge(&gauge.load(Ordering::Relaxed))?;
        }
        Ok(())
    }
}

impl Collector for Requests {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_counts(&mut encoder)?;
        self.encode_latencies(&mut encoder)?;
        self.encode_running(&mut encoder)
    }
}

// === impl Latency ===

impl Latency {
    fn observe(&self, latency: Duration) {
        let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_US
            .iter()
            .position(|bound| latency_us <= *bound)
            .unwrap_or(BUCKETS_US.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(latency_us, Ordering::Relaxed);
    }

    /// The sum in seconds, the count, and each bucket's bound and count.
    fn read(&self) -> (f64, u64, Vec<(f64, u64)>) {
        let bounds = BUCKETS_US.iter().map(|bound| seconds(*bound));
        let counts = self.buckets.iter().map(|it| it.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.chain([f64::INFINITY]).zip(counts).collect();
        // Summed here, not counted apart: it must be what the buckets say.
        let count = buckets.iter().map(|(_, count)| count).sum();
        (seconds(self.sum_us.load(Ordering::Relaxed)), count, buckets)
    }
}

// === impl InFlight ===

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.gauge.fetch_sub(1, Ordering::Relaxed);
    }
}

const fn verb_index(verb: Verb) -> usize {
    match verb {
        Verb::Get => 0,
        Verb::List => 1,
        Verb::Watch => 2,
        Verb::Create => 3,
        Verb::Update => 4,
        Verb::Patch => 5,
        Verb::Delete => 6,
        Verb::DeleteCollection => 7,
        Verb::Proxy => 8,
        Verb::Post | Verb::Put | Verb::Head | Verb::Options | Verb::Other => 9,
    }
}

fn code_label(code: u16) -> String {
    if code == OTHER_CODE {
        "other".to_owned()
    } else {
        code.to_string()
    }
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}
