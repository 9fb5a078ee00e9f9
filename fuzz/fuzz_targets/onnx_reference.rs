//! Parses arbitrary keys and values, separated by zero bytes, as a tensor's `external_data`.
#![no_main]

use std::path::Component;

use libfuzzer_sys::{Corpus, fuzz_target};
use proto_splitter_onnx::ExternalReference;

/// Adds references with every key, and with invalid values, to the corpus.
fn plant() {
    let Some(corpus) = proto_splitter_fuzz::corpus("onnx_reference") else {
        return;
    };
    for (name, text) in [
        ("range", "location\0a/./b.bin\0offset\x004096\0length\x0024"),
        (
            "checksum",
            "checksum\0da39a3ee\0location\0a/c/../b\0length\x000",
        ),
        ("keys", "prepacked_0\0x\0other\0y\0location\0a\0location\0b"),
        ("outside", "location\0a/../../b"),
        ("absolute", "location\0/a"),
        ("number", "location\0a\0offset\0-1"),
    ] {
        std::fs::write(corpus.join(name), text).expect("a seed");
    }
}

fuzz_target!(init: plant(), |data: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    let mut parts = text.split('\0');
    let pairs = std::iter::from_fn(|| Some((parts.next()?, parts.next()?)));
    let Ok(reference) = ExternalReference::parse(pairs) else {
        return Corpus::Keep;
    };
    let mut components = reference.location.components();
    assert!(components.clone().next().is_some());
    assert!(components.all(|part| matches!(part, Component::Normal(_))));
    assert!(i64::try_from(reference.offset).is_ok());
    assert!(
        reference
            .length
            .is_none_or(|length| length > 0 && i64::try_from(length).is_ok())
    );
    Corpus::Keep
});
