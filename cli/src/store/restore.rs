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
        now: jiff::Timestamp::now(),
        spokes: if arguments.suspend_spokes {
            offline::Spokes::Suspended
        } else {
            offline::Spokes::Connected
        },
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
    let keys = arguments.data_dir.join(offline::KEYS_DIRECTORY);
    if !keys.exists() {
        output::note(&format!(
            "there is no {}: unless the lost hub's is put there before the start, its clients' kubeconfigs and tokens do not work",
            keys.display()
        ));
    }
    if arguments.suspend_spokes {
        output::line(
            "its spokes are suspended: each is connected once its spec.suspended is false",
        )?;
    }
    output::line(
        "once the hub runs, it deletes nothing in a spoke until: wheelhouse store confirm-restore",
    )
}
