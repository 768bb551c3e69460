//! The command lines of `wheelhouse store`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::args::HubFlags;

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Write the state of a running hub's store, at one revision, into a file.
    Backup(Backup),
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
    /// Go on with F.part, where an earlier call was interrupted.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Seal Secrets in the file with the first key of this one.
    #[arg(long, value_name = "F")]
    pub(crate) encryption_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
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
