//! Splits protobuf messages over 2 GiB into one seekable, checksummed file and merges them back.
//!
//! # Overview
//!
//! A [`ComposableSplitter`](split::ComposableSplitter) decides what of a message becomes a chunk of its own: [`SavedModelSplitter`],
//! [`GraphDefSplitter`], [`SizeSplitter`](split::SizeSplitter) for any type, or one of yours. Its `write` puts the chunks into `PREFIX.cpb`, a
//! Riegeli record file; [`Merger`](merge::Merger) puts them together again. Neither builds a message object, holds the message, or
//! needs more memory for a larger one.
//!
//! `docs/your-own-splitter.md` leads from a message that is too big to a splitter of your own, `docs/size-splitter.md` says when
//! `SizeSplitter` is enough.
#![forbid(unsafe_code)]

pub use proto_splitter_core::{
    Error, ErrorKind, Result, atomic, compare, container, decode, lazy, merge, path, progress,
    rewrite, schema, split, tree, wire,
};
pub use proto_splitter_graph_def::{GRAPH_DEF, GraphDefSplitter};
pub use proto_splitter_saved_model::{
    ModelForm, SAVED_MODEL, SaveOptions, SavedModelDir, SavedModelSplitter, TargetForm, directory,
    fingerprint,
};
pub use record_file;

/// What the parts of the messages that are known are called, for a [`tree`] of sizes.
pub fn member_names() -> Vec<tree::NameRule> {
    [
        &proto_splitter_graph_def::NAMES[..],
        &proto_splitter_saved_model::NAMES[..],
    ]
    .concat()
}

/// The typed messages: `tensorflow.proto_splitter`, `tensorflow.GraphDef`, `tensorflow.SavedModel`, and all they reach.
pub mod proto {
    pub use proto_splitter_core::proto as proto_splitter;
    pub use proto_splitter_graph_def::proto as graph_def;
    pub use proto_splitter_saved_model::proto as saved_model;
}

/// How to write a splitter, from the message to the file.
#[cfg(doctest)]
#[doc = include_str!("../../docs/your-own-splitter.md")]
pub struct YourOwnSplitterDoctests;

/// When none is needed.
#[cfg(doctest)]
#[doc = include_str!("../../docs/size-splitter.md")]
pub struct SizeSplitterDoctests;

/// The README's examples are tests, too.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct ReadmeDoctests;
