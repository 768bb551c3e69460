//! Feeds libFuzzer's inputs to the target that `WHEELHOUSE_FUZZ_TARGET` names.
//!
//! With `--seeds DIRECTORY` it writes the seeds of the target there instead, one file each, and a dictionary beside
//! them; with `--list` it names the targets. `hack/fuzz` calls it in these ways.

#![no_main]

use std::sync::OnceLock;

use targets::Target;

static TARGET: OnceLock<&'static Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(init: start(), |data: &[u8]| {
    if let Some(target) = TARGET.get() {
        (target.run)(data);
    }
});

fn start() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for target in targets::TARGETS {
            println!("{}", target.name);
        }
        std::process::exit(0);
    }
    let name = std::env::var("WHEELHOUSE_FUZZ_TARGET").unwrap_or_default();
    let Some(target) = targets::TARGETS.iter().find(|target| target.name == name) else {
        eprintln!("there is no target {name:?}");
        std::process::exit(2);
    };
    if let Some(at) = arguments.iter().position(|argument| argument == "--seeds") {
        let directory = arguments
            .get(at + 1)
            .map(std::path::PathBuf::from)
            .unwrap_or_default();
        targets::seeds::write(target, &directory).expect("the seeds can be written");
        std::process::exit(0);
    }
    assert!(TARGET.set(target).is_ok(), "started once");
}
