//! Splitting protobuf messages over 2 GiB into one seekable, checksummed file, and merging them
//! back.
//!
//! ```
//! use proto_splitter::merge::Merger;
//! use proto_splitter::split::{SplitExt, SplitOptions};
//! use proto_splitter::SavedModelSplitter;
//! use proto_splitter::proto::graph_def::{GraphDef, NodeDef};
//! use proto_splitter::proto::saved_model::{MetaGraphDef, SavedModel};
//!
//! // Two nodes with names of 3,000 bytes, in place of constants of 2 GiB.
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
//! A [`ComposableSplitter`] decides which parts of a message become separate chunks:
//! [`SavedModelSplitter`], [`GraphDefSplitter`], [`SizeSplitter`] for any type, or your own. Its
//! `write` method writes the chunks to `PREFIX.cpb`, a Riegeli record file. [`Merger`] combines
//! them again. Neither of them builds a message object or holds the message in memory, and larger
//! messages don't need more memory.
//!
//! The merger uses reflection: it finds the positions of chunks by the message's descriptor, or by
//! placeholders in the chunks, and needs no generated code for the message's type.
//!
//! The pages in [`documentation`] start from what you have: a
//! [model](documentation::my_model_is_too_big) or a [trace](documentation::my_trace_is_too_big)
//! that is too big, [ONNX](documentation::onnx), [Paddle](documentation::paddle) or
//! [SameDiff](documentation::samediff) files, or a message that needs your own
//! [splitter](documentation::your_own_splitter).
//!
//! # Terms
//!
//! - A *chunk* is a separately stored part of a message: some of its fields (kind MESSAGE), or the
//!   bytes of a bytes or string value (kind BYTES). Chunk 0, the *base*, is the remainder of the
//!   message.
//! - A *placeholder* marks the position of a value that was moved to a chunk: its tag, with an
//!   empty value. A file that declares its placeholders has *our marker*, and can be merged even if
//!   its type is unknown. Files written by TensorFlow's splitters have no placeholders.
//! - A *slice* is a chunk with consecutive elements of a repeated field.
//! - The *trailer* is the last record of a file, a `ChunkMetadata` that lists the position of each
//!   chunk.
//! - A *[path](path::FieldPath)* identifies a value in a message. A *prefix* is the path of a file
//!   without its extension `.cpb` or `.pb`.
//! - A *[profile](split::Profile)* determines which readers accept a file: TensorFlow and this
//!   library, or only this library and other readers of the extended format.
//!
//! Sizes, offsets and positions are in bytes.
//!
//! # Crate features
//!
//! All features are on by default, except `columns` and `serde`.
//!
//! - `tensorflow`: GraphDefs, SavedModels and checkpoints; `text-format` adds reading
//!   `saved_model.pbtxt`.
//! - `externalize`: converting SavedModels of any size to a form that unmodified TensorFlow loads.
//! - `onnx`, `paddle`, `samediff`, `xla`: the models, modules and executables of these projects.
//! - `perfetto`: Perfetto's traces.
//! - `sequences`: delimited files, and record files that contain messages.
//! - `formats`: all of the above.
//! - `ops`: the command's operations as functions: verifying, comparing, describing, editing;
//!   `export` adds writing tensors for other programs, and `serde` makes the reports serializable.
//! - `columns`: tables of message elements, in Parquet, Arrow and CSV.
//! - `parts`: dividing work among several independent hosts.
//! - `brotli`, `snappy`, `zstd`: compression of chunks; `codecs` enables all three.
//! - `merkle`: Merkle roots, with which a part of a file can be verified without reading the whole
//!   file.
//! - `zero-copy`: splitting typed messages without copying their values of type `Bytes`.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

/// Tables of a message's elements, in Parquet, Arrow and CSV.
#[doc(inline)]
#[cfg(feature = "columns")]
pub use proto_splitter_columns as columns;
pub use proto_splitter_core::merge::Merger;
/// The messages in the trailer of a `.cpb` file, which [`container::Trailer`] returns.
#[doc(inline)]
pub use proto_splitter_core::proto::{
    ChunkInfo, ChunkMetadata, ChunkedField, ChunkedMessage, FieldIndex, VersionDef,
};
pub use proto_splitter_core::split::{ComposableSplitter, SizeSplitter, SplitExt};
#[doc(inline)]
pub use proto_splitter_core::view::size_tree;
pub use proto_splitter_core::{
    ChunkIndex, ChunkedFile, Error, ErrorKind, MergedMessage, MessageOffset, MessageReader,
    ReadOptions, Result, atomic, compare, container, edit, merge, path, progress, schema, spans,
    split, tensor, threads, view, wire,
};
/// Dependencies whose types are part of this crate's API.
#[doc(no_inline)]
pub use proto_splitter_core::{bytes, prost, prost_reflect};
/// Converting SavedModels of any size to a form that unmodified TensorFlow loads, by moving large
/// constants to a checkpoint.
#[doc(inline)]
#[cfg(feature = "externalize")]
pub use proto_splitter_externalize as externalize;
#[cfg(feature = "tensorflow")]
pub use proto_splitter_graph_def::{GRAPH_DEF, GraphDefSplitter};
/// ONNX models of any size: reading a model and its external data as one message, and writing
/// models with or without external data.
#[doc(inline)]
#[cfg(feature = "onnx")]
pub use proto_splitter_onnx as onnx;
/// Operations on inputs of any format: verifying, comparing, describing, exporting, editing and
/// converting.
#[doc(inline)]
#[cfg(feature = "ops")]
pub use proto_splitter_ops as ops;
/// Paddle's models: programs, tensor streams and parameter files.
#[cfg(feature = "paddle")]
pub use proto_splitter_paddle as paddle;
/// Splitting, merging and verifying in parts, on many hosts.
#[doc(inline)]
#[cfg(feature = "parts")]
pub use proto_splitter_parts as parts;
/// The format and schema of Perfetto's traces.
#[doc(inline)]
#[cfg(feature = "perfetto")]
pub use proto_splitter_perfetto as perfetto;
/// SameDiff's models and safetensors files.
#[cfg(feature = "samediff")]
pub use proto_splitter_samediff as samediff;
#[cfg(feature = "tensorflow")]
pub use proto_splitter_saved_model::{
    ModelForm, SAVED_MODEL, SaveOptions, SavedModelDir, SavedModelSplitter, TargetForm, directory,
    fingerprint,
};
/// Delimited files and record files, whose messages are read as one message.
#[cfg(feature = "sequences")]
pub use proto_splitter_sequences as sequences;
/// Reading and writing TensorFlow checkpoints.
#[doc(inline)]
#[cfg(feature = "tensorflow")]
pub use proto_splitter_tensor_bundle as tensor_bundle;
/// XLA's split protos and profiles.
#[cfg(feature = "xla")]
pub use proto_splitter_xla as xla;
pub use record_file;

pub mod formats;

pub use formats::{OpenOptions, Opened};

/// Opens an input: a chunked file, a plain message, a folder, or a file in any other known
/// [format](formats::ALL). If there is no file at the path, the path is used as the prefix of a
/// `.cpb` or `.pb` file. Use [`view`](Opened::view) to get a [`MessageView`](view::MessageView).
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
/// The errors of [`Registry::open`](formats::Registry::open).
#[doc(alias = "MessageView::open")]
pub fn open(path: impl AsRef<std::path::Path>) -> Result<Opened> {
    open_with(path, &OpenOptions::new())
}

/// Opens an input like [`open`], but with options.
///
/// # Errors
///
/// The errors of [`Registry::open`](formats::Registry::open).
pub fn open_with(path: impl AsRef<std::path::Path>, options: &OpenOptions) -> Result<Opened> {
    formats::ALL.open(path, options)
}

/// Returns the rules by which the formats in [`formats::ALL`] name the parts of messages in a
/// [`size_tree`].
pub fn member_names() -> Vec<size_tree::NameRule> {
    formats::ALL.member_names()
}

/// Rust types for messages: `tensorflow.proto_splitter`, `tensorflow.GraphDef`,
/// `tensorflow.SavedModel`, `onnx.ModelProto`, and all types that they use.
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

/// Tests of the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeDoctests;
