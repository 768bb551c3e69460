//! What a process tells of itself: its log, and its traces.

use std::{io::IsTerminal as _, path::PathBuf};

use anyhow::Result;
use clap::Args;
use tracing_subscriber::EnvFilter;

/// Where spans are sent, with the name of kube-apiserver's flag.
#[derive(Debug, Default, Args)]
pub(crate) struct Traces {
    /// A TracingConfiguration (apiserver.config.k8s.io/v1): where the collector is that spans are sent to, and how many of the
    /// traces are sampled that no client has decided about. Without it nothing is recorded.
    #[arg(long, value_name = "F")]
    pub(crate) tracing_config_file: Option<PathBuf>,
}

/// What goes on until the process ends.
#[must_use]
pub(crate) struct Log {
    export: Option<traced::Export>,
}

/// Starts logging to standard error, at `level` unless the environment names another, and the export of spans, if it is asked for.
///
/// # Errors
/// Where spans cannot be exported.
pub(crate) fn start(level: &str, traces: Option<(&Traces, &'static str)>) -> Result<Log> {
    let file = traces
        .and_then(|(traces, service)| Some((traces.tracing_config_file.as_deref()?, service)));
    let Some((file, service)) = file else {
        tracing_subscriber::fmt()
            .with_env_filter(filter(level))
            .with_ansi(has_colours())
            .with_writer(std::io::stderr)
            .with_target(false)
            .init();
        return Ok(Log { export: None });
    };
    let export = traced::start(level, file, service)?;
    Ok(Log {
        export: Some(export),
    })
}

#[cfg(feature = "otlp")]
mod traced {
    use std::path::Path;

    use anyhow::{Context as _, Result};
    use telemetry::export::{self, Configuration};
    use tracing_subscriber::{
        Layer as _, filter::FilterExt as _, layer::SubscriberExt as _, util::SubscriberInitExt as _,
    };

    /// The export of spans.
    pub(super) struct Export(export::Export);

    impl Export {
        pub(super) async fn end(self) {
            // It waits for a thread of its own, which sends by this runtime.
            drop(tokio::task::spawn_blocking(|| self.0.end()).await);
        }
    }

    pub(super) fn start(level: &str, file: &Path, service: &'static str) -> Result<Export> {
        let context = || format!("--tracing-config-file {}", file.display());
        let text = std::fs::read_to_string(file).with_context(context)?;
        let configuration = Configuration::parse(&text).with_context(context)?;
        let (spans, export) = export::start(&configuration, service).with_context(context)?;
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(super::has_colours())
            .with_writer(std::io::stderr)
            .with_target(false)
            .with_filter(super::filter(level).and(export::lines()));
        tracing_subscriber::registry()
            .with(spans)
            .with(lines)
            .init();
        let endpoint = configuration.endpoint();
        tracing::info!(endpoint, "exporting spans");
        Ok(Export(export))
    }
}

#[cfg(not(feature = "otlp"))]
mod traced {
    use std::path::Path;

    use anyhow::{Result, bail};

    /// There is none.
    pub(super) enum Export {}

    impl Export {
        pub(super) fn end(self) -> std::future::Ready<()> {
            match self {}
        }
    }

    pub(super) fn start(_level: &str, _file: &Path, _service: &'static str) -> Result<Export> {
        bail!("--tracing-config-file: this binary was built without the feature otlp")
    }
}

fn filter(level: &str) -> EnvFilter {
    EnvFilter::try_from_env("WHEELHOUSE_LOG").unwrap_or_else(|_| EnvFilter::new(level))
}

/// Returns whether log lines are coloured: only for a terminal, and not with a non-empty `NO_COLOR`.
///
/// Source: no-color.org.
fn has_colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && std::io::stderr().is_terminal()
}

// === impl Log ===

impl Log {
    /// Sends the spans that are left, for some seconds at most.
    pub(crate) async fn end(self) {
        if let Some(export) = self.export {
            export.end().await;
        }
    }
}
