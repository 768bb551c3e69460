//! Makes the messages of etcd's API from `proto/etcd.proto`, with a compiler that is a library.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const PROTO: &str = "proto/etcd.proto";
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    let mut config = prost_build::Config::new();
    // Values are shared with the buffer that they came in.
    config.bytes(["."]);
    config.compile_fds(descriptors)?;
    Ok(())
}
