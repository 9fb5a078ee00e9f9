//! Tests of behavior that users rely on, through the public interface. All tests are in one
//! executable, so that only one has to be linked.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

/// Comparing messages.
mod comparing;
/// Memory needed for iterating over many elements.
mod element_memory;
/// Fingerprints of chunked files that TensorFlow treats specially.
mod fingerprint_shapes;
/// Fingerprints of models, compared with TensorFlow's.
mod fingerprints;
/// Paths and types of the test data: models and message files made by TensorFlow.
mod fixtures;
/// Sources that are malformed, or change while they are read.
mod hostile_sources;
/// Merging files that other writers made.
mod merge_fixtures;
/// Elements of repeated numeric fields, packed or not.
mod numbers;
/// Properties of every split and merge, tested with random messages.
mod properties;
/// Properties of the written files, tested with random messages: several files, trailers in chunks,
/// every way to merge, and any number of threads.
mod random_files;
/// Properties of every split and merge, tested with messages of random types.
mod random_schemas;
/// Number of bytes that are read from sources, and how often each byte is read.
mod reads;
/// Rewriting files with another compression or other values.
mod rewriting;
mod rewriting_extended;
/// SavedModel folders.
mod saved_model_dirs;
/// `SizeSplitter` compared with the splitters for specific types.
mod size_splitter;
/// Sources for splits: bytes, files, and typed and dynamic messages.
mod sources;
/// Custom splitters.
mod splitters;
/// Cancelled and failed work.
mod stopping;
/// Splits to sequential writers, such as pipes and connections.
mod streaming;
/// Behavior that TensorFlow's RFC requires, and ports of TensorFlow's own tests.
mod tensorflow_interface;
mod tensorflow_split_tests;
/// Identical results from any number of threads and all ways of splitting and merging.
mod threads;
/// Sizes of the parts of a message, by field path.
mod trees;
/// Files that a split or a merge writes.
mod writing;
