//! `wheelhouse store restore`: a new data directory out of a backup.

use anyhow::{Context, Result};
use apiserver::offline;

use super::{args, keyring};
use crate::output;

/// Restores.
pub(super) fn run(arguments: &args::Restore) -> Result<()> {
    let restored = offline::restore(offline::Restore {
        from: &arguments.from,
        data_dir: &arguments.data_dir,
        keyring: keyring(arguments.encryption_key_file.as_deref())?,
        epoch: arguments.epoch,
    })
    .context("nothing was restored")?;
    let offline::Restored {
        header,
        count,
        revision,
    } = restored;
    output::line(&format!(
        "{}: {count} objects of revision {} (taken {}), now at {revision}",
        arguments.data_dir.display(),
        header.revision,
        header.taken_at,
    ))?;
    output::line(
        "once the hub runs, it deletes nothing in a spoke until: wheelhouse store confirm-restore",
    )
}
