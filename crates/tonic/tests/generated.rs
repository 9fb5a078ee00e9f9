//! A test that the stored code of the example's service matches `shelf.proto`.

#![allow(clippy::unwrap_used, missing_docs, reason = "code of tests")]

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_reflect::prost_types::FileDescriptorSet;

const TRANSFER: &str = ".proto_splitter.transfer";

/// Compares the stored files with newly generated ones. If `UPDATE_GENERATED=1` is set, replaces
/// the stored files instead.
#[test]
fn the_code_of_the_service_is_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shelf");
    let includes = [folder.clone(), folder.join("../../../../proto")];
    let files: FileDescriptorSet = protox::compile(["shelf.proto"], includes).unwrap();
    let without_comments = FileDescriptorSet {
        file: files
            .file
            .iter()
            .cloned()
            .map(|mut file| {
                file.source_code_info = None;
                file
            })
            .collect(),
    };
    let made = tempfile::tempdir().unwrap();
    let mut config = tonic_prost_build::Config::new();
    config.bytes(["."]);
    config.extern_path(TRANSFER, "::proto_splitter_tonic::proto");
    let reflect = "#[derive(::prost_reflect::ReflectMessage)]";
    config.type_attribute(".shelf.Trace", reflect);
    config.type_attribute(
        ".shelf.Trace",
        "#[prost_reflect(message_name = \"shelf.Trace\", file_descriptor_set_bytes = \"DESCRIPTORS\")]",
    );
    tonic_prost_build::configure()
        .build_transport(true)
        .out_dir(made.path())
        .compile_fds_with_config(files, config)
        .unwrap();
    let code = fs::read(made.path().join("shelf.rs")).unwrap();
    check(folder.join("shelf.rs"), code);
    check(folder.join("shelf.binpb"), without_comments.encode_to_vec());
}

fn check(path: PathBuf, made: Vec<u8>) {
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let found = fs::read(&path).unwrap_or_default();
    assert!(found == made, "{} is stale", path.display());
}
