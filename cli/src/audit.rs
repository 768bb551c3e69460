//! The flags of the audit, with the names and the defaults of kube-apiserver's.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    time::Duration,
};

use apiserver::audit::{Batching, Config, LogConfig, LogMode, WebhookConfig};
use clap::{Args, ValueEnum};

/// What is recorded of requests, and where.
#[derive(Debug, Args)]
pub(crate) struct AuditFlags {
    /// The audit policy, as of kube-apiserver. Without it, changes, refusals, impersonations and streams are recorded, at level Metadata.
    #[arg(long = "audit-policy-file", value_name = "F")]
    policy_file: Option<PathBuf>,
    /// The file to which audit events are written, one per line; "-" is standard output, "" writes none. By default standard output,
    /// unless that is a terminal.
    #[arg(long = "audit-log-path", value_name = "F")]
    log_path: Option<String>,
    /// The form of the lines.
    #[arg(
        long = "audit-log-format",
        value_name = "FORMAT",
        default_value = "json"
    )]
    log_format: Format,
    /// Whether answers wait until their event is written, a second at most: blocking-changes (those of changes, refusals, streams, and
    /// reads of Secrets do), blocking (all do), blocking-strict (and requests of which no event can be written are refused), or batch
    /// (none do).
    #[arg(
        long = "audit-log-mode",
        value_name = "MODE",
        default_value = "blocking-changes"
    )]
    log_mode: Mode,
    /// Mebibytes of the file before another is begun; 0 sets no limit.
    #[arg(long = "audit-log-maxsize", value_name = "MIB", default_value_t = 100)]
    log_max_size: u32,
    /// Days that full files are kept; 0 sets no limit.
    #[arg(long = "audit-log-maxage", value_name = "DAYS", default_value_t = 366)]
    log_max_age: u32,
    /// How many full files are kept; 0 sets no limit.
    #[arg(long = "audit-log-maxbackup", value_name = "N", default_value_t = 100)]
    log_max_backups: u32,
    /// Compress full files with gzip.
    #[arg(long = "audit-log-compress")]
    log_compress: bool,
    /// A kubeconfig of the server to which audit events are sent.
    #[arg(long = "audit-webhook-config-file", value_name = "F")]
    webhook_config_file: Option<PathBuf>,
    /// Events that wait to be sent; further ones are lost, and counted.
    #[arg(long = "audit-webhook-batch-buffer-size", value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    webhook_buffer_size: u32,
    /// Events that are sent together.
    #[arg(long = "audit-webhook-batch-max-size", value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..))]
    webhook_batch_size: u32,
    /// How long an event waits for others.
    #[arg(long = "audit-webhook-batch-max-wait", value_name = "DURATION", default_value = "30s", value_parser = duration)]
    webhook_batch_wait: Duration,
    /// The pause after the first failure to send; there are five attempts.
    #[arg(long = "audit-webhook-initial-backoff", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    webhook_backoff: Duration,
}

/// The form of a line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    BlockingChanges,
    Blocking,
    BlockingStrict,
    Batch,
}

/// Whoever starts a hub in a terminal reads its log there, and the commands to try next.
fn default_path() -> String {
    let path = if io::stdout().is_terminal() { "" } else { "-" };
    path.to_owned()
}

// === impl AuditFlags ===

impl AuditFlags {
    /// What the hub is told.
    pub(crate) fn config(self) -> Config {
        let Format::Json = self.log_format;
        let path = self.log_path.unwrap_or_else(default_path);
        let log = (!path.is_empty()).then_some(LogConfig {
            path,
            mode: match self.log_mode {
                Mode::BlockingChanges => LogMode::BlockingChanges,
                Mode::Blocking => LogMode::Blocking,
                Mode::BlockingStrict => LogMode::BlockingStrict,
                Mode::Batch => LogMode::Batch,
            },
            max_size_mib: self.log_max_size,
            max_age_days: self.log_max_age,
            max_backups: self.log_max_backups as usize,
            compresses: self.log_compress,
        });
        let webhook = self.webhook_config_file.map(|kubeconfig| WebhookConfig {
            kubeconfig,
            batching: Batching {
                queue_count_max: self.webhook_buffer_size as usize,
                batch_count_max: self.webhook_batch_size as usize,
                wait_max: self.webhook_batch_wait,
                backoff: self.webhook_backoff,
            },
        });
        Config {
            policy_file: self.policy_file,
            log,
            webhook,
        }
    }
}

/// A duration as Go writes it: `30s`, `1m30s`.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed = dialect::Duration::parse(text);
    let nanos = parsed.and_then(|duration| u64::try_from(duration.nanos()).ok());
    let nanos = nanos.ok_or_else(|| format!("{text:?} is no duration: write 30s, or 1m30s"))?;
    Ok(Duration::from_nanos(nanos))
}
