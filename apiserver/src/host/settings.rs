//! Which front proxies the host has, as it publishes it for its extension API servers: a ConfigMap, read again and again.
//!
//! # Invariants
//! - A host that does not answer, or has lost the ConfigMap, changes nothing. One that says that it has no front proxy is believed.
//!
//! Source: `apiserver/pkg/authentication/request/headerrequest/requestheader_controller.go`,
//! `kubernetes/pkg/controlplane/controller/clusterauthenticationtrust`.

use std::{sync::Arc, time::Duration};

use client::{Dynamic, Endpoint};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{authenticate::FrontProxy, request::HeaderNames};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// Between two readings.
const INTERVAL: Duration = Duration::from_secs(10);
/// The same as long as nothing was read.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);
/// How long an answer is waited for.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// Follows what the host publishes.
pub(crate) struct Settings {
    host: Dynamic,
    front_proxy: Arc<FrontProxy>,
    /// The hub's authority.
    own: String,
}

/// What the ConfigMap says.
#[derive(Debug, PartialEq, Eq)]
struct Published {
    bundle: String,
    allowed_names: Vec<String>,
    names: HeaderNames,
}

// === impl Settings ===

impl Settings {
    pub(crate) fn new(host: Dynamic, front_proxy: Arc<FrontProxy>, own: String) -> Self {
        Self {
            host: host.with_deadline(ASK_TIMEOUT),
            front_proxy,
            own,
        }
    }

    /// Reads the ConfigMap until the hub ends.
    pub(crate) async fn follow(self, shutdown: CancellationToken) {
        let (mut was_read, mut failed) = (false, String::new());
        loop {
            match self.read().await {
                Ok(()) => {
                    was_read = true;
                    failed.clear();
                }
                Err(error) if error != failed => {
                    tracing::warn!(
                        error,
                        "cannot read the host's front proxy settings; keeping the previous ones"
                    );
                    failed = error;
                }
                Err(_) => {}
            }
            let interval = if was_read { INTERVAL } else { FIRST_INTERVAL };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
            }
        }
    }

    async fn read(&self) -> Result<(), String> {
        let endpoint = Endpoint {
            scope: None,
            gvr: api::GroupVersionResource::new("", "v1", "configmaps"),
            namespace: Some(NAMESPACE.to_owned()),
        };
        let found = self.host.get(&endpoint, NAME).await;
        let found = found.map_err(|error| error.chain())?;
        let Some(published) = Published::read(&found["data"])? else {
            self.front_proxy.trust_nobody();
            return Ok(());
        };
        let Published {
            bundle,
            allowed_names,
            names,
        } = &published;
        let trusted = self
            .front_proxy
            .trust(bundle.as_bytes(), allowed_names, names, &self.own);
        trusted.map_err(|error| dialect::error_chain(&error))
    }
}

// === impl Published ===

impl Published {
    /// Reads the data of the ConfigMap; `None` where the host has no front proxy.
    fn read(data: &Value) -> Result<Option<Self>, String> {
        let bundle = data["requestheader-client-ca-file"]
            .as_str()
            .unwrap_or_default();
        if bundle.is_empty() {
            return Ok(None);
        }
        let list = |key: &str| -> Result<Vec<String>, String> {
            let Some(text) = data[key].as_str().filter(|text| !text.is_empty()) else {
                return Ok(Vec::new());
            };
            // What is not understood must not be taken for "any".
            let list: Option<Vec<String>> = serde_json::from_str(text)
                .map_err(|error| format!("{key} of the ConfigMap {NAMESPACE}/{NAME}: {error}"))?;
            Ok(list.unwrap_or_default())
        };
        let names = HeaderNames::parse(
            &list("requestheader-username-headers")?,
            &list("requestheader-uid-headers")?,
            &list("requestheader-group-headers")?,
            &list("requestheader-extra-headers-prefix")?,
        );
        Ok(Some(Self {
            bundle: bundle.to_owned(),
            allowed_names: list("requestheader-allowed-names")?,
            names: names.map_err(|error| error.to_string())?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_host_publishes_is_read_or_refused_as_a_whole() {
        let full = json!({
            "client-ca-file": "other",
            "requestheader-client-ca-file": "pem",
            "requestheader-allowed-names": "[\"front-proxy-client\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-uid-headers": "[]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
        });
        let read = Published::read(&full).unwrap().unwrap();
        let want = Published {
            bundle: "pem".to_owned(),
            allowed_names: vec!["front-proxy-client".to_owned()],
            names: HeaderNames::default(),
        };
        assert_eq!(read, want);
        for none in [json!(null), json!({}), json!({"client-ca-file": "other"})] {
            assert_eq!(Published::read(&none), Ok(None), "{none}");
        }
        for (key, bad) in [
            ("requestheader-allowed-names", "front-proxy-client"),
            ("requestheader-allowed-names", "{}"),
            ("requestheader-username-headers", "[\"Authorization\"]"),
            ("requestheader-group-headers", "[\"\"]"),
        ] {
            let mut data = full.clone();
            data[key] = json!(bad);
            assert!(Published::read(&data).is_err(), "{key}: {bad}");
        }
    }
}
