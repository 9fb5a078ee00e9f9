//! Tests of behavior that users rely on, through the public interface. All tests are in one binary,
//! so that only one has to be linked.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

/// Comparing messages.
mod comparing;
/// Memory for iterating over many elements.
mod element_memory;
/// Chunked files that TensorFlow fingerprints specially.
mod fingerprint_shapes;
/// Fingerprints, compared with TensorFlow's.
mod fingerprints;
/// Fixtures: models and message files made by TensorFlow.
mod fixtures;
/// Sources that are malformed, or change while they are read.
mod hostile_sources;
/// Merging files from other writers.
mod merge_fixtures;
/// Elements of repeated numbers, packed or not.
mod numbers;
/// Properties of every split and merge, on random messages.
mod properties;
/// Properties of files with random messages: with several files, trailers in chunks, every way of
/// merging, and any number of threads.
mod random_files;
/// Properties of messages with random types.
mod random_schemas;
/// The bytes read from sources, and how often they are read.
mod reads;
/// Rewriting files with a different compression or different values.
mod rewriting;
mod rewriting_extended;
/// SavedModels as folders.
mod saved_model_dirs;
/// `SizeSplitter` compared with the splitters for specific types.
mod size_splitter;
/// Sources of a split, which are bytes, files, and typed and dynamic messages.
mod sources;
/// Custom splitters.
mod splitters;
/// Work that is cancelled or fails.
mod stopping;
/// Splits to pipes and connections.
mod streaming;
/// Behavior that TensorFlow's RFC requires, and ports of TensorFlow's own tests.
mod tensorflow_interface;
mod tensorflow_split_tests;
/// Identical bytes from any number of threads and all ways of splitting and merging.
mod threads;
/// Sizes by field path.
mod trees;
/// The locations of written files.
mod writing;
