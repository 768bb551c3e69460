//! `wheelhouse store`: the copy of the store that is not in the hub, and the way back from it.
//!
//! In reading order: [`args`], [`backup`], [`restore`], [`confirm`], [`check`].

pub(crate) mod args;
mod backup;
mod check;
mod confirm;
mod restore;

use std::path::Path;

use anyhow::{Context, Result};
use apiserver::offline::{self, Keyring};

/// What was asked for cannot be done with what was named: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unusable(pub(crate) String);

/// Runs one of the commands.
pub(crate) async fn run(arguments: args::Store) -> Result<()> {
    match arguments {
        args::Store::Backup(backup) => backup::run(backup).await,
        args::Store::Restore(restore) => restore::run(&restore),
        args::Store::Check(check) => check::run(&check),
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
