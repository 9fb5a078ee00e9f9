//! Splitting `tensorflow.SavedModel` messages of any size, and reading and writing whole SavedModel
//! directories.
//!
//! [`SavedModelSplitter`] splits a model; it implements
//! [`ComposableSplitter`](proto_splitter_core::split::ComposableSplitter).
//! [`Merger`](proto_splitter_core::merge::Merger) merges a chunked model, as it merges any other
//! message. [`proto`] has the typed messages and their descriptors, including those of graphs.
//! [`SavedModelDir`] reads a directory lazily, and converts its model to another form.
//! [`fingerprint`] computes the `fingerprint.pb` that TensorFlow would write.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod directory;
mod farmhash;
pub mod fingerprint;
mod format;
mod hashed;
mod names;
mod properties;
pub mod proto;
mod splitter;

pub use directory::{ModelForm, SaveOptions, SavedModelDir, TargetForm};
pub use format::SavedModelFormat;
pub use names::NAMES;
pub use splitter::{SAVED_MODEL, SavedModelSplitter};
