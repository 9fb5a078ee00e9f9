//! Splits `tensorflow.SavedModel` messages of any size, describes their type, and keeps whole
//! SavedModel directories.
//!
//! [`SavedModelSplitter`] is used through
//! [`ComposableSplitter`](proto_splitter_core::split::ComposableSplitter); a chunked model is
//! merged by [`Merger`](proto_splitter_core::merge::Merger), as any message is. [`proto`] has the
//! typed messages and their descriptors, those of a graph included. [`SavedModelDir`] reads a
//! directory lazily and writes it in the other form; [`fingerprint`] computes what TensorFlow would
//! put into `fingerprint.pb`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod canonical;
pub mod directory;
mod farmhash;
pub mod fingerprint;
mod format;
mod names;
mod properties;
pub mod proto;
mod splitter;

pub use directory::{ModelForm, SaveOptions, SavedModelDir, TargetForm};
pub use format::SavedModelFormat;
pub use names::NAMES;
pub use splitter::{SAVED_MODEL, SavedModelSplitter};
