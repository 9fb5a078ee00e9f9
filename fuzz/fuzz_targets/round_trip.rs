#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: proto_splitter_fuzz::plant("round_trip"),
    |data: &[u8]| proto_splitter_fuzz::target("round_trip")(data)
);
