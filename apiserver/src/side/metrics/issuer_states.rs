//! How issuers of tokens do, asked for at each scrape. Their URLs are the operator's.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
};

use crate::authenticate::Issuers;

/// Issuers of tokens, if the operator has named any.
#[derive(Debug)]
pub(super) struct States(Option<Arc<Issuers>>);

// === impl States ===

impl States {
    pub(super) const fn new(issuers: Option<Arc<Issuers>>) -> Self {
        Self(issuers)
    }
}

impl Collector for States {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "wheelhouse_authentication_issuer_ready",
            "Whether the keys of an issuer of tokens are known: 1 or 0.",
            None,
            MetricType::Gauge,
        )?;
        for state in self.0.iter().flat_map(|it| it.states()) {
            let labels = [("issuer", state.url.as_str())];
            let is_ready = i64::from(state.is_ready);
            family.encode_family(&labels)?.encode_gauge(&is_ready)?;
        }
        let mut family = encoder.encode_descriptor(
            "apiserver_authentication_config_controller_automatic_reloads",
            "Readings of a changed authentication configuration, by whether it could be used.",
            None,
            MetricType::Counter,
        )?;
        let reloads = self.0.iter().map(|it| it.reloads());
        let counts = reloads.flat_map(|it| [("success", &it.good), ("failure", &it.bad)]);
        for (status, count) in counts {
            let labels = [("status", status)];
            let mut encoder = family.encode_family(&labels)?;
            encoder.encode_counter::<NoLabelSet, _, u64>(&count.get(), None)?;
        }
        Ok(())
    }
}
