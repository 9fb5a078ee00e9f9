//! What users rely on, through the public interface. One binary, so that it links once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

/// Messages side by side.
mod comparing;
/// Typed messages on several threads.
/// Chunked files that TensorFlow fingerprints in ways of its own.
mod fingerprint_shapes;
/// Fingerprints, compared with TensorFlow's.
mod fingerprints;
/// Files that come and go: models and message files made by TensorFlow.
mod fixtures;
/// Sources that are malformed, or change while they are read.
mod hostile_sources;
/// Files by other writers, merged.
mod merge_fixtures;
/// What holds of every split and merge, on messages made at random.
mod properties;
/// The same in files: several, and trailers in chunks, by every way and on any number of threads.
mod random_files;
/// What holds of them of types made at random, too.
mod random_schemas;
/// What is read, and how often.
mod reads;
/// Files made of others: other compression, other values.
mod rewriting;
mod rewriting_extended;
/// SavedModels as folders.
mod saved_model_dirs;
/// `SizeSplitter` beside the splitters that are made for a type.
mod size_splitter;
/// What can be split: bytes, files, typed and dynamic messages.
mod sources;
/// Splitters of one's own.
mod splitters;
/// Work that is cancelled or fails.
mod stopping;
/// Splits to pipes and connections.
mod streaming;
/// What TensorFlow's own tests of its splitters ask for.
mod tensorflow_interface;
mod tensorflow_split_tests;
/// Any number of threads, and every way to the same bytes.
mod threads;
/// Sizes by field path.
mod trees;
/// Where files are written, and where not.
mod writing;
