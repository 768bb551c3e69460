//! `src/etcd/wire/generated.rs` is what `proto/etcd.proto` says.
//!
//! It is committed because the compiler of protobuf takes longer to build than the rest of the store. To make it anew after a change
//! of the .proto: `WHEELHOUSE_BLESS=1 cargo test -p wheelhouse-storage --test etcd_messages`.

use std::{error::Error, fs};

const PROTO: &str = "proto/etcd.proto";
const GENERATED: &str = "src/etcd/wire/generated.rs";
const HEAD: &str =
    "//! Generated from `proto/etcd.proto` by `tests/etcd_messages.rs`: not to be edited.\n\n";

#[test]
fn the_messages_are_those_of_the_proto() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut config = prost_build::Config::new();
    // Values are shared with the buffer that they came in.
    config.bytes(["."]).out_dir(folder.path());
    config.compile_fds(protox::compile([PROTO], ["proto"])?)?;
    let made = HEAD.to_owned() + &fs::read_to_string(folder.path().join("etcd.rs"))?;
    if std::env::var_os("WHEELHOUSE_BLESS").is_some() {
        fs::write(GENERATED, made)?;
    } else if made != fs::read_to_string(GENERATED)? {
        return Err(
            format!("{GENERATED} is not what {PROTO} says: see the head of this test").into(),
        );
    }
    Ok(())
}
