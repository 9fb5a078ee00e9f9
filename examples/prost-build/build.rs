//! Generates Rust code from `proto/album.proto`, and stores the schema's descriptors.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // Compiles the schema with a compiler in Rust, so that protoc isn't needed.
    let files = protox::compile(["album.proto"], ["proto"])?;
    std::fs::write(out.join("descriptors.binpb"), files.encode_to_vec())?;
    // Uses the type `Bytes` for values, which a split doesn't copy.
    prost_build::Config::new().bytes(["."]).compile_fds(files)?;
    Ok(())
}
