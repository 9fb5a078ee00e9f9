//! The content of `external_data`, from arbitrary keys and values, separated by zero bytes.
#![no_main]

use std::path::Component;

use libfuzzer_sys::{Corpus, fuzz_target};
use proto_splitter_onnx::ExternalReference;

fuzz_target!(|data: &[u8]| -> Corpus {
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
