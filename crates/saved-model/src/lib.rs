//! Splits `tensorflow.SavedModel` messages of any size, and describes their type.
//!
//! [`SavedModelSplitter`] is used through [`ComposableSplitter`](proto_splitter_core::split::ComposableSplitter); a chunked model is merged by
//! [`Merger`](proto_splitter_core::merge::Merger), as any message is. [`proto`] has the typed messages and their
//! descriptors, those of a graph included.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod canonical;
pub mod directory;
pub mod fingerprint;
mod merged;
pub mod proto;
mod splitter;

pub use directory::{ModelForm, SaveOptions, SavedModelDir, TargetForm};
pub use splitter::{SAVED_MODEL, SavedModelSplitter};
