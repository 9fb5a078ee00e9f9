//! Reads arbitrary bytes as an edit and a message, which is in one piece, split, or split and damaged. Checks the properties in
//! `crates/core/tests/it/targets/edits.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: proto_splitter_fuzz::plant("edits"),
    |data: &[u8]| proto_splitter_fuzz::target("edits")(data)
);
