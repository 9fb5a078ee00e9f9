//! Reads arbitrary bytes as streams of Paddle tensors, and checks the properties in
//! `crates/paddle/tests/it/target.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/paddle/tests/it/target.rs"]
mod target;

/// Adds Paddle's test streams to the corpus, each preceded by a byte for its layout and kind.
fn plant() {
    let Some(corpus) = proto_splitter_fuzz::corpus("paddle_stream") else {
        return;
    };
    let root = proto_splitter_fuzz::root();
    let files = root.join("../tests/data/paddle");
    for (how, file) in [
        (0, "vars_all_dtypes/lod2"),
        (0, "combined_all_dtypes/params"),
        (3, "selected_rows/sr"),
        (6, "vocab/params"),
    ] {
        let mut seed = vec![how];
        seed.extend(std::fs::read(files.join(file)).expect("a fixture"));
        std::fs::write(corpus.join(file.replace('/', "-")), seed).expect("a seed");
    }
}

fuzz_target!(
    init: plant(),
    |data: &[u8]| target::stream(data)
);
