//! Generates Rust code from `proto/album.proto`, and keeps the descriptors.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // Compiles the schema in Rust, so that protoc isn't needed.
    let files = protox::compile(["album.proto"], ["proto"])?;
    std::fs::write(out.join("descriptors.binpb"), files.encode_to_vec())?;
    // Values of type Bytes go into chunks without being copied.
    prost_build::Config::new().bytes(["."]).compile_fds(files)?;
    Ok(())
}
