//! `wheelhouse completion`: scripts with which shells complete the command line.

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::{args::Arguments, output};

/// Prints the script of a shell.
pub(crate) fn run(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "wheelhouse", &mut script);
    output::whole(String::from_utf8(script)?.trim_end())
}
