//! Writes, reads, checks and edits models of any size in the SameDiff format, a zip archive of
//! FlatBuffers.
//!
//! A model is a zip archive of *tags*. Each tag is one state of the model, such as a checkpoint. A
//! tag has a graph, the values of the graph's variables and constants (its *parameters*), and the
//! states of the updater that trains the graph. Each array is a separate file in the archive. Thus,
//! FlatBuffers' limit of 2 GiB applies only to single arrays, and several tags can share the file
//! of an array that didn't change.
//!
//! ```text
//! tags.txt                  one tag per line, oldest first
//! TAG/graph.fb              the graph
//! TAG/params.txt            variable or constant -> file
//! TAG/params/ID.fb          one array
//! TAG/trainingConfig.fb     the training configuration (optional)
//! TAG/updater.txt           variable -> files of its updater's states (optional)
//! TAG/updater/ID.fb         one array
//! ```
//!
//! [`Model`] reads a model. [`Draft`] describes a model to be written, made of new tags, or of tags
//! from existing models. Large content is neither decoded nor held in memory.
//!
//! All sizes and offsets are in bytes.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod array;
mod bridge;
mod budget;
mod data_type;
mod draft;
mod error;
mod fb;
mod format;
mod graph;
mod layout;
mod limits;
mod model;
mod tag;
mod text;
mod zip;

pub use array::{Array, ArrayByteOrder, ArrayElements, ArrayInfo, MAX_STRINGS_SIZE, Order};
pub use bridge::{import, import_with, left_out_of_classic, write_classic, write_safetensors};
pub use data_type::{Nd4jType, VarType};
pub use draft::{Draft, SameDiffWriteOptions, TagContent, WrittenSameDiff};
pub use error::{Error, ErrorKind, Result};
pub use format::{IMPORTED_TAG, SafetensorsFormat, SameDiffFormat};
pub use graph::{Arguments, Graph, Operation, SameDiffVariable};
pub use layout::Role;
pub use limits::{
    DEFAULT_MAX_ENTRIES, DEFAULT_MAX_GRAPH_SIZE, DEFAULT_MAX_INFLATED_SIZE, DEFAULT_MAX_LINE_SIZE,
    DEFAULT_MAX_LIST_MEMORY, DEFAULT_MAX_TEXT_SIZE, SameDiffLimits,
};
pub use model::{ArrayFile, Arrays, CheckOptions, Model, ModelOptions, Report, TagView};
pub use tag::{MAX_TAG_LEN, Tag};
pub use text::FileRef;
pub use zip::ZipCompression;
