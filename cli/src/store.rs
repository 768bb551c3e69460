//! `wheelhouse store`: the copy of the store that is not in the hub, and the way back from it.
//!
//! In reading order: [`args`], [`backup`], [`confirm`].

pub(crate) mod args;
mod backup;
mod confirm;

use std::path::Path;

use anyhow::{Context, Result};
use apiserver::offline::{self, Keyring};

/// Runs one of the commands.
pub(crate) async fn run(arguments: args::Store) -> Result<()> {
    match arguments {
        args::Store::Backup(backup) => backup::run(backup).await,
        args::Store::ConfirmRestore(confirm) => confirm::run(confirm).await,
        args::Store::FinishRestore(finish) => confirm::finish(finish).await,
    }
}

/// Reads the keys that a command was given.
fn keyring(file: Option<&Path>) -> Result<Option<Keyring>> {
    let Some(file) = file else { return Ok(None) };
    let keyring = offline::read_keyring(file);
    keyring
        .map(Some)
        .with_context(|| file.display().to_string())
}
