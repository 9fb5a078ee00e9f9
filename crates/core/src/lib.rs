//! Splitting and merging protobuf messages of any size at the level of bytes.
//!
//! A message on the wire is a run of tagged values, with every length in front of what it measures, and merging two messages is
//! concatenating their bytes. So splitting is cutting spans out of the source ([`split`]), merging is splicing them back ([`merge`]), and
//! neither builds a message object. [`container`] is the file in between.
//!
//! ```
//! use proto_splitter_core::merge::Merger;
//! use proto_splitter_core::split::{ComposableSplitter, SizeSplitter, SplitOptions};
//! use prost_reflect::prost_types::FileDescriptorProto;
//!
//! let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
//! let folder = tempfile::tempdir()?;
//! let prefix = folder.path().join("file");
//!
//! let options = SplitOptions::new().max_chunk_size(1000)?;
//! let written = SizeSplitter.write_with(&file, &prefix, &options)?;
//! assert_eq!(written.path, folder.path().join("file.cpb"));
//!
//! let merged: FileDescriptorProto = Merger::read(&prefix)?;
//! assert_eq!(merged, file);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Overview
//!
//! A [`Source`](split::Source) is a message to be split. A [`ComposableSplitter`](split::ComposableSplitter) plans which spans of it
//! leave, as a [`SplitPlan`](split::SplitPlan), and writes them: [`SizeSplitter`](split::SizeSplitter) goes by sizes alone, and an
//! implementation of one's own cuts what it names. A [`Merger`](merge::Merger) puts a file together again. A
//! [`MessageView`](lazy::MessageView) reads single values of a message of any size, [`tree`] says what in it is so big, [`compare`] where
//! two differ, and [`rewrite`] changes a file without merging it. Long work reports to a [`Progress`](progress::Progress), by which it
//! can be stopped.
//!
//! # Words
//!
//! - A *chunk* is a part of a message that is stored by itself: the fields of a message (kind MESSAGE), or the bytes of a bytes or string
//!   value (kind BYTES). Chunk 0, the *base*, is what is left of the whole.
//! - A *placeholder* is what a cut leaves where the value stood: its tag, with nothing in it. A file that says it has them has *our marker*,
//!   and is merged without its type being known; files of TensorFlow's splitters have none.
//! - A *slice* is a chunk with the tail of a repeated field.
//! - The *trailer* is the last record of a file, a `ChunkMetadata`: which chunk belongs where.
//! - A *[path](path::FieldPath)* names a place in a message, and a *prefix* a file without its `.cpb` or `.pb`.
//! - A *[profile](split::Profile)* says who is to read a file: TensorFlow too, or readers such as this one alone.
//!
//! Sizes, offsets and positions are in bytes.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod atomic;
pub mod compare;
pub mod container;
mod crc;
pub mod decode;
mod error;
pub mod lazy;
pub mod merge;
pub mod path;
mod positioned;
pub mod progress;
pub mod proto;
pub mod rewrite;
pub mod schema;
pub mod split;
mod threads;
pub mod tree;
pub mod wire;

pub use error::{Error, ErrorKind, Result};
