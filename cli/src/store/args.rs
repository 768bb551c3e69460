//! The command lines of `wheelhouse store`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::connect::HubFlags;

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Write the state of a hub's store, at one revision, into a file.
    Backup(Backup),
    /// Make the data directory of a new hub out of a backup.
    Restore(Restore),
    /// Prove a store's directory with a second reader. Exit code 1: something is wrong; 2: it cannot be checked.
    Check(Check),
    /// Let a restored hub delete in spokes again.
    ConfirmRestore(ConfirmRestore),
    /// End the state after a restore, once every spoke is confirmed.
    FinishRestore(FinishRestore),
}

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The file. It appears when it is whole; until then there is F.part.
    #[arg(long, value_name = "F")]
    pub(crate) out: PathBuf,
    /// The data directory of a hub that does not run, in place of a running hub.
    #[arg(long, value_name = "D")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Seal Secrets in the file with the first key of this one.
    #[arg(long, value_name = "F")]
    pub(crate) encryption_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The backup.
    #[arg(long, value_name = "F")]
    pub(crate) from: PathBuf,
    /// The data directory of the new hub. It has no store yet.
    #[arg(long, value_name = "D")]
    pub(crate) data_dir: PathBuf,
    /// The keys that the backup's Secrets are sealed with; the first one seals them in the new store.
    #[arg(long, value_name = "F")]
    pub(crate) encryption_key_file: Option<PathBuf>,
    /// Set `spec.suspended` of every Spoke: the new hub connects to none before that is false again.
    #[arg(long)]
    pub(crate) suspend_spokes: bool,
    /// The epoch of the new store's revisions: greater than the backup's. By default the one after it.
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The data directory of a hub that does not run.
    #[arg(long, value_name = "D")]
    pub(crate) data_dir: PathBuf,
    /// The keys that Secrets are sealed with.
    #[arg(long, value_name = "F")]
    pub(crate) encryption_key_file: Option<PathBuf>,
    /// How to print.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: ReportFormat,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct ConfirmRestore {
    /// Names of spokes.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) spokes: Vec<String>,
    /// All spokes that there are now.
    #[arg(long)]
    pub(crate) all: bool,
    /// What becomes of instances that only the spoke knows: they were made after the backup.
    #[arg(long, value_name = "WHAT")]
    pub(crate) unknown: Unknown,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

#[derive(Debug, Args)]
pub(crate) struct FinishRestore {
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

/// What becomes of an instance that the restored hub does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unknown {
    /// The hub takes it up from its mirror in the spoke.
    Keep,
    /// Its mirror and its children are deleted in the spoke.
    Delete,
}

// === impl Unknown ===

impl Unknown {
    /// The word in the annotation.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Delete => "delete",
        }
    }
}
