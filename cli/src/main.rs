//! The `wheelhouse` binary: the hub, and the command line that talks to one.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong use. Results go to standard output, everything else to
//! standard error.

mod args;
mod audit;
mod completion;
mod connect;
mod dev;
mod fleet;
mod kro;
mod kubeconfig;
mod log;
mod output;
mod process;
mod rgd;
mod serve;
mod spoke;
mod store;
mod syncer_alone;
mod syncer_credential;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // clap itself ends wrong use with 2, and --help with 0.
    let arguments = Arguments::parse();
    let outcome = process::run(async {
        let command = arguments.command;
        let log = log::start(command.log_level(), command.traces())?;
        let outcome = match command {
            Command::Serve(serve) => serve::run(serve, log.filter()).await,
            Command::Syncer(syncer) => syncer_alone::run(syncer).await,
            Command::Dev(dev) => dev::run(dev, log.filter()).await,
            Command::Spoke(spoke) => spoke::run(spoke).await,
            Command::Fleet(fleet) => fleet::run(fleet).await,
            Command::Kubeconfig(kubeconfig) => kubeconfig::run(kubeconfig).await,
            Command::Rgd(command) => rgd::run(&command).await,
            Command::Store(store) => store::run(store).await,
            Command::Completion { shell } => completion::run(shell),
        };
        log.end().await;
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<rgd::preview::Differs>() => ExitCode::FAILURE,
        Err(error) => {
            output::complain(&error);
            if error.is::<rgd::preview::NotPreviewed>() {
                return ExitCode::from(2);
            }
            let unusable = error.downcast_ref::<store::Unusable>();
            unusable.map_or(ExitCode::FAILURE, |_| ExitCode::from(2))
        }
    }
}
