//! Splitting `tensorflow.GraphDef` messages of any size, and Rust types for these messages.
//!
//! [`GraphDefSplitter`] splits a graph; it implements
//! [`ComposableSplitter`](proto_splitter_core::split::ComposableSplitter).
//! [`Merger`](proto_splitter_core::merge::Merger) merges a chunked graph, as it merges any other
//! message. [`proto`] has the typed messages and their descriptors.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod format;
mod names;
pub mod proto;
mod splitter;

pub use format::{GraphDefFormat, TENSOR};
pub use names::{NAMES, type_and_shape};
#[doc(hidden)]
pub use names::{shape_text, type_name};
pub use splitter::{GRAPH_DEF, GraphDefSplitter};
