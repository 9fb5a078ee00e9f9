#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: proto_splitter_fuzz::plant("path"),
    |data: &[u8]| proto_splitter_fuzz::target("path")(data)
);
