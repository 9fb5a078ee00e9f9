//! Splits protobuf messages over 2 GiB into one seekable, checksummed file and merges them back.
//!
//! ```
//! use proto_splitter::merge::Merger;
//! use proto_splitter::split::{SplitExt, SplitOptions};
//! use proto_splitter::SavedModelSplitter;
//! use proto_splitter::proto::graph_def::{GraphDef, NodeDef};
//! use proto_splitter::proto::saved_model::{MetaGraphDef, SavedModel};
//!
//! // Two nodes with names of 3,000 bytes: a small stand-in for constants of 2 GiB.
//! let node = NodeDef { name: "n".repeat(3000), ..Default::default() };
//! let graph = GraphDef { node: vec![node.clone(), node], ..Default::default() };
//! let meta_graph = MetaGraphDef { graph_def: Some(graph), ..Default::default() };
//! let model = SavedModel { meta_graphs: vec![meta_graph], ..Default::default() };
//!
//! let folder = tempfile::tempdir()?;
//! let prefix = folder.path().join("saved_model");
//! let options = SplitOptions::new().max_chunk_size(4000);
//! let written = SavedModelSplitter.write_with(&model, &prefix, &options)?;
//! assert_eq!(written.path, folder.path().join("saved_model.cpb"));
//! assert!(written.chunks.iter().all(|chunk| chunk.size <= 4000));
//!
//! let merged: SavedModel = Merger::new().read(&prefix)?;
//! assert_eq!(merged, model);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Overview
//!
//! A [`ComposableSplitter`] decides what of a message becomes a chunk of
//! its own: [`SavedModelSplitter`], [`GraphDefSplitter`], [`SizeSplitter`] for
//! any type, or one of yours. Its `write` puts the chunks into `PREFIX.cpb`, a Riegeli record file;
//! [`Merger`] puts them together again. Neither builds a message object, holds the
//! message, or needs more memory for a larger one.
//!
//! The merger works by reflection: it walks messages by their descriptors, or by the placeholders
//! in them, and needs no generated code of the message's type.
//!
//! The pages of [`documentation`] begin at what you have: a [model](documentation::my_model_is_too_big)
//! or a [trace](documentation::my_trace_is_too_big) that is too big, [ONNX](documentation::onnx),
//! [Paddle](documentation::paddle) or [SameDiff](documentation::samediff) files, or a message
//! for which you write a [splitter of your own](documentation::your_own_splitter).
//!
//! # Words
//!
//! - A *chunk* is a part of a message that is stored by itself: the fields of a message (kind
//!   MESSAGE), or the bytes of a bytes or string value (kind BYTES). Chunk 0, the *base*, is what
//!   is left of the whole.
//! - A *placeholder* is what a cut leaves where the value stood: its tag, with nothing in it. A
//!   file that says it has them has *our marker*, and is merged without its type being known; files
//!   of TensorFlow's splitters have none.
//! - A *slice* is a chunk with the tail of a repeated field.
//! - The *trailer* is the last record of a file, a `ChunkMetadata`: which chunk belongs where.
//! - A *[path](path::FieldPath)* names a place in a message, and a *prefix* a file without its
//!   `.cpb` or `.pb`.
//! - A *[profile](split::Profile)* says who is to read a file: TensorFlow too, or readers such as
//!   this one alone.
//!
//! Sizes, offsets and positions are in bytes.
//!
//! # Crate features
//!
//! All are on by default but `columns`.
//!
//! - `tensorflow`: GraphDefs, SavedModels and checkpoints; `text-format` reads `saved_model.pbtxt`, too.
//! - `externalize`: SavedModels of any size in unmodified TensorFlow.
//! - `onnx`, `paddle`, `samediff`, `xla`: the models, modules and executables of these.
//! - `formats`: all of the above.
//! - `columns`: elements of messages as tables, in Parquet, Arrow and CSV.
//! - `parts`: work shared out to hosts that know nothing of one another.
//! - `brotli`, `snappy`, `zstd`: what chunks are compressed with; `codecs` is all three.
//! - `zero-copy`: typed messages are split without copying their values of type `Bytes`.
#![forbid(unsafe_code)]

/// Elements of messages as tables: Parquet, Arrow and CSV.
#[doc(inline)]
#[cfg(feature = "columns")]
pub use proto_splitter_columns as columns;
pub use proto_splitter_core::merge::Merger;
/// What the trailer of a `.cpb` file consists of, as [`container::Trailer`] shows it.
#[doc(inline)]
pub use proto_splitter_core::proto::{
    ChunkInfo, ChunkMetadata, ChunkedField, ChunkedMessage, FieldIndex, VersionDef,
};
pub use proto_splitter_core::split::{ComposableSplitter, SizeSplitter, SplitExt};
pub use proto_splitter_core::{
    ChunkIndex, ChunkedFile, Error, ErrorKind, MergedMessage, MessageOffset, ReadOptions, Result,
    atomic, compare, container, edit, merge, path, progress, schema, size_tree, spans, split,
    tensor, view, wire,
};
/// The crates whose types are in signatures of this one, in the versions that they are of.
#[doc(no_inline)]
pub use proto_splitter_core::{bytes, prost, prost_reflect};
/// Makes SavedModels of any size run in unmodified TensorFlow.
#[doc(inline)]
#[cfg(feature = "externalize")]
pub use proto_splitter_externalize as externalize;
#[cfg(feature = "tensorflow")]
pub use proto_splitter_graph_def::{GRAPH_DEF, GraphDefSplitter};
/// ONNX models of any size: one message wherever their tensors are, and external data both ways.
#[doc(inline)]
#[cfg(feature = "onnx")]
pub use proto_splitter_onnx as onnx;
/// Verifies, compares, describes and exports inputs of any format.
#[doc(inline)]
#[cfg(feature = "ops")]
pub use proto_splitter_ops as ops;
/// Paddle's models: programs, tensor streams and parameter files.
#[cfg(feature = "paddle")]
pub use proto_splitter_paddle as paddle;
/// Splits, merges and verifies by many hosts.
#[doc(inline)]
#[cfg(feature = "parts")]
pub use proto_splitter_parts as parts;
#[cfg(feature = "samediff")]
pub use proto_splitter_samediff as samediff;
#[cfg(feature = "tensorflow")]
pub use proto_splitter_saved_model::{
    ModelForm, SAVED_MODEL, SaveOptions, SavedModelDir, SavedModelSplitter, TargetForm, directory,
    fingerprint,
};
/// Reads and writes TensorFlow's checkpoints.
#[doc(inline)]
#[cfg(feature = "tensorflow")]
pub use proto_splitter_tensor_bundle as tensor_bundle;
/// XLA's split protos and profiles.
#[doc(inline)]
#[cfg(feature = "xla")]
pub use proto_splitter_xla as xla;
pub use record_file;

pub mod formats;

pub use formats::{OpenOptions, Opened};

/// Opens any input: a file in chunks or a plain message, a folder, or whatever else a
/// [format](formats::ALL) knows. A path without a file is the prefix of a `.cpb` or `.pb`. A
/// [`MessageView`](view::MessageView) of either form is had by [`view`](Opened::view).
///
/// ```
/// let folder = tempfile::tempdir()?;
/// # std::fs::write(folder.path().join("saved_model.pb"), b"\x08\x01\x12\x06\x0a\x04\x22\x02ab")?;
/// let model = proto_splitter::open(folder.path())?;
/// assert_eq!(model.get("meta_graphs[0].meta_info_def.tags[0]")?, "ab");
/// println!("{} tensors", model.tensors()?.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`Registry::open`](formats::Registry::open).
#[doc(alias = "MessageView::open")]
pub fn open(path: impl AsRef<std::path::Path>) -> Result<Opened> {
    open_with(path, &OpenOptions::new())
}

/// Opens any input with these options, as [`open`] does with the defaults.
///
/// # Errors
///
/// As [`Registry::open`](formats::Registry::open).
pub fn open_with(path: impl AsRef<std::path::Path>, options: &OpenOptions) -> Result<Opened> {
    formats::ALL.open(path, options)
}

/// What the parts of the messages that are known are called, for a [`size_tree`].
pub fn member_names() -> Vec<size_tree::NameRule> {
    formats::ALL.member_names()
}

/// The typed messages: `tensorflow.proto_splitter`, `tensorflow.GraphDef`, `tensorflow.SavedModel`,
/// `onnx.ModelProto`, and all they reach.
pub mod proto {
    pub use proto_splitter_core::proto as proto_splitter;
    #[cfg(feature = "tensorflow")]
    pub use proto_splitter_graph_def::proto as graph_def;
    #[cfg(feature = "onnx")]
    pub use proto_splitter_onnx::proto as onnx;
    #[cfg(feature = "tensorflow")]
    pub use proto_splitter_saved_model::proto as saved_model;
}

pub mod documentation;

/// The README's examples are tests, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeDoctests;
