//! Splitting and merging protobuf messages of any size, directly on their bytes.
//!
//! A serialized message is a sequence of fields. The length of a string, bytes value or nested
//! message precedes its content, and concatenating the bytes of two messages merges the messages.
//! So splitting copies byte ranges of the message into chunks ([`split`]), merging joins the chunks
//! again ([`merge`]), and neither decodes the message into objects. [`container`] is the file
//! format that stores the chunks.
//!
//! ```
//! use proto_splitter_core::merge::Merger;
//! use proto_splitter_core::split::{SplitExt, SizeSplitter, SplitOptions};
//! use prost_reflect::prost_types::FileDescriptorProto;
//!
//! let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
//! let folder = tempfile::tempdir()?;
//! let prefix = folder.path().join("file");
//!
//! let options = SplitOptions::new().max_chunk_size(1000);
//! let written = SizeSplitter.write_with(&file, &prefix, &options)?;
//! assert_eq!(written.path, folder.path().join("file.cpb"));
//!
//! let merged: FileDescriptorProto = Merger::new().read(&prefix)?;
//! assert_eq!(merged, file);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Overview
//!
//! A [`Source`](split::Source) is a message to split. A
//! [`ComposableSplitter`](split::ComposableSplitter) decides which byte ranges of the message
//! become chunks: [`SizeSplitter`](split::SizeSplitter) decides by sizes alone, and your own
//! implementation can choose other fields to cut. The result is a [`SplitPlan`](split::SplitPlan),
//! from which the chunks are written. A [`Merger`](merge::Merger) reassembles a message from a
//! file. A [`MessageView`](view::MessageView) reads single values from a message of any size,
//! [`size_tree`](view::size_tree) measures the fields that take up space in it, [`compare`] finds
//! where two messages differ, and [`edit`] changes a file without merging it. Long operations
//! report to a [`Progress`](progress::Progress), which can also cancel them.
//!
//! The terms used throughout, from *chunk* to *profile*, are explained in the documentation of the
//! crate `proto-splitter`, which re-exports this crate and the built-in splitters.
//!
//! Sizes, offsets and positions are in bytes.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

/// CRC-32C checksums for the format crates: computed from bytes, or combined from the checksums of
/// consecutive pieces.
#[doc(hidden)]
pub mod checksum {
    pub use crc32c::crc32c;

    pub use crate::io::{CrcOfPieces, combine};
}
/// Internals for the crate `proto-splitter-parts`, which distributes splitting and merging over
/// several hosts, and for `proto-splitter-sequences` and `proto-splitter-tensor-bundle`.
#[doc(hidden)]
pub mod part_work {
    pub use crate::container::{check_hashing, describe_type, schema_in};
    pub use crate::io::synced::remove_file;
    pub use crate::io::temporary::{hold_shared, remove_abandoned};
    pub use crate::io::{FilePool, Summed, folder, open_file, written_through};
    pub use crate::merge::{
        PartVerification, RecordStore, check_size, chunk_leaves, compared, no_way_to_others,
        open_path_as, open_sources, open_sources_with, verify_part, verify_parts_together,
        with_plan, write, write_at,
    };
    pub use crate::split::{
        ChunkFile, Commit, DonePart, PartFile, Record, Removed, Sibling, crc32c_of_runs,
        draft_trailer, extended_trailer, most_of_trailer, most_stored, part_trailer, runs,
        stem_beside, write_base, write_main, write_part,
    };
}
pub mod compare;
pub mod container;
pub mod edit;
mod error;
mod features;
pub mod formats;
mod io;
pub mod merge;
mod message;
pub mod path;
pub mod progress;
pub mod proto;
pub mod schema;
pub mod spans;
pub mod split;
pub mod tensor;
pub mod view;
pub mod wire;

pub use error::{ChunkIndex, Error, ErrorKind, MessageOffset, Result};
#[doc(hidden)]
pub use io::atomic_file as atomic;
#[doc(hidden)]
pub use io::threads;
pub use merge::ReadOptions;
/// Internals for the format crates that hash messages in canonical form.
#[doc(hidden)]
pub use message::canonical;
pub use message::{ChunkedFile, MergedMessage, MessageReader};
/// The macro with which all crates define the setters and getters of their options.
#[doc(hidden)]
pub use record_file::options;
/// Re-exports of the crates whose types appear in this crate's signatures, in the versions used
/// here.
#[doc(no_inline)]
pub use {bytes, prost, prost_reflect};
