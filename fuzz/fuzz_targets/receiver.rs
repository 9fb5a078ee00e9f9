#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: proto_splitter_fuzz::plant("receiver"),
    |data: &[u8]| proto_splitter_fuzz::target("receiver")(data)
);
