//! What a process tells of itself: its log, and its traces.

use std::{fmt, io::IsTerminal as _, path::PathBuf, sync::Arc};

use anyhow::{Result, bail};
use clap::Args;
use tracing_subscriber::{EnvFilter, filter::LevelFilter, reload};

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
    filter: Arc<dyn apiserver::LogFilter>,
}

/// The filter, with the layer whose filter it is.
struct Filter<S>(reload::Handle<EnvFilter, S>);

/// Starts logging to standard error, at `level` unless the environment names another, and the export of spans, if it is asked for.
///
/// # Errors
/// Where spans cannot be exported, and where the environment names no levels.
pub(crate) fn start(level: &str, traces: Option<(&Traces, &'static str)>) -> Result<Log> {
    let file = traces
        .and_then(|(traces, service)| Some((traces.tracing_config_file.as_deref()?, service)));
    let Some((file, service)) = file else {
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter(level)?)
            .with_ansi(has_colours())
            .with_writer(std::io::stderr)
            .with_target(false)
            .with_filter_reloading();
        let filter = Arc::new(Filter(log.reload_handle()));
        log.init();
        return Ok(Log {
            export: None,
            filter,
        });
    };
    let (export, filter) = traced::start(level, file, service)?;
    Ok(Log {
        export: Some(export),
        filter,
    })
}

#[cfg(feature = "otlp")]
mod traced {
    use std::{path::Path, sync::Arc};

    use anyhow::{Context as _, Result};
    use telemetry::export::{self, Configuration};
    use tracing_subscriber::{
        Layer as _, filter::FilterExt as _, layer::SubscriberExt as _, reload,
        util::SubscriberInitExt as _,
    };

    use super::Filter;

    /// The export of spans.
    pub(super) struct Export(export::Export);

    impl Export {
        pub(super) async fn end(self) {
            // It waits for a thread of its own, which sends by this runtime.
            drop(tokio::task::spawn_blocking(|| self.0.end()).await);
        }
    }

    pub(super) fn start(
        level: &str,
        file: &Path,
        service: &'static str,
    ) -> Result<(Export, Arc<dyn apiserver::LogFilter>)> {
        let context = || format!("--tracing-config-file {}", file.display());
        let text = std::fs::read_to_string(file).with_context(context)?;
        let configuration = Configuration::parse(&text).with_context(context)?;
        let (spans, export) = export::start(&configuration, service).with_context(context)?;
        let (filter, handle) = reload::Layer::new(super::filter(level)?);
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(super::has_colours())
            .with_writer(std::io::stderr)
            .with_target(false)
            .with_filter(filter.and(export::lines()));
        tracing_subscriber::registry()
            .with(spans)
            .with(lines)
            .init();
        let endpoint = configuration.endpoint();
        tracing::info!(endpoint, "exporting spans");
        Ok((Export(export), Arc::new(Filter(handle))))
    }
}

#[cfg(not(feature = "otlp"))]
mod traced {
    use std::{path::Path, sync::Arc};

    use anyhow::{Result, bail};

    /// There is none.
    pub(super) enum Export {}

    impl Export {
        pub(super) fn end(self) -> std::future::Ready<()> {
            match self {}
        }
    }

    pub(super) fn start(
        _level: &str,
        _file: &Path,
        _service: &'static str,
    ) -> Result<(Export, Arc<dyn apiserver::LogFilter>)> {
        bail!("--tracing-config-file: this binary was built without the feature otlp")
    }
}

/// The variable that says what is logged.
const VARIABLE: &str = "WHEELHOUSE_LOG";

/// Reads what is logged from the environment, or takes `level`.
///
/// # Errors
/// Where the environment says something else than levels: a typing error would log nothing at all.
fn filter(level: &str) -> Result<EnvFilter> {
    match std::env::var(VARIABLE) {
        Ok(text) if !text.trim().is_empty() => match parse(&text) {
            Ok(filter) => Ok(filter),
            Err(wrong) => bail!(
                "{VARIABLE}: {wrong}; it is a level such as debug, or info,wheelhouse_syncer=debug"
            ),
        },
        _ => Ok(EnvFilter::new(level)),
    }
}

/// Reads levels, and levels of targets.
fn parse(filter: &str) -> Result<EnvFilter, String> {
    // A word that is no level would be taken for a target, of which nothing here has the name.
    for directive in filter.split(',').map(str::trim) {
        let is_level = !directive.is_empty() && directive.parse::<LevelFilter>().is_ok();
        if !is_level && !directive.contains('=') {
            return Err(format!("{directive:?} is neither a level nor TARGET=LEVEL"));
        }
    }
    let parsed = EnvFilter::builder().parse(filter);
    parsed.map_err(|error| error.to_string())
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
    /// Returns the filter, which may be changed at any time.
    pub(crate) fn filter(&self) -> Arc<dyn apiserver::LogFilter> {
        Arc::clone(&self.filter)
    }

    /// Sends the spans that are left, for some seconds at most.
    pub(crate) async fn end(self) {
        if let Some(export) = self.export {
            export.end().await;
        }
    }
}

// === impl Filter ===

impl<S> fmt::Debug for Filter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").finish_non_exhaustive()
    }
}

impl<S: 'static> apiserver::LogFilter for Filter<S> {
    fn get(&self) -> String {
        self.0.with_current(ToString::to_string).unwrap_or_default()
    }

    fn set(&self, filter: &str) -> Result<(), String> {
        let parsed = parse(filter)?;
        self.0.reload(parsed).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_in_a_filter_is_refused() {
        for good in ["debug", "info,wheelhouse_syncer=debug", "off"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["debgu", "info,syncer", "a=loud", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
