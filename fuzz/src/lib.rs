//! The targets of `crates/record-file/tests/it/targets.rs` for libFuzzer, and what they begin with.
#![allow(dead_code, reason = "the tests of record-file use more of it")]

use std::path::{Path, PathBuf};

#[path = "../../crates/record-file/tests/it/support"]
mod support {
    pub(crate) mod frame;
}
#[path = "../../crates/record-file/tests/it/targets.rs"]
mod targets;

/// The target of this name.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn target(name: &str) -> fn(&[u8]) {
    let found = targets::TARGETS.iter().find(|target| target.0 == name);
    found.expect("a target of this name").1
}

/// Puts the seeds of a target into its corpus, where cargo-fuzz has it too.
///
/// # Panics
///
/// If they can't be read or written.
pub fn plant(name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus: PathBuf = root.join("corpus").join(name);
    std::fs::create_dir_all(&corpus).expect("a folder for the corpus");
    let files = root.join("../tests/data/riegeli");
    for (index, seed) in targets::seeds(name, &files).iter().enumerate() {
        std::fs::write(corpus.join(format!("seed-{index:03}")), seed).expect("a seed");
    }
}
