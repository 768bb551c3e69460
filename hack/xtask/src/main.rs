//! `cargo xtask`: the checks of the house that rustc and clippy do not make.
//!
//! `tidy` reads the tree that git would commit; it writes nothing. `cargo test` runs it too.

mod circles;
mod plans;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let command = std::env::args().nth(1);
    if command.as_deref() != Some("tidy") {
        say("usage: cargo run -p wheelhouse-xtask -- tidy");
        return ExitCode::from(2);
    }
    match tidy::check(&tidy::workspace()) {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in findings {
                say(&finding);
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            say(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) {
    use std::io::Write;
    // Nobody is left to tell when standard error is gone.
    drop(writeln!(std::io::stderr(), "{line}"));
}
