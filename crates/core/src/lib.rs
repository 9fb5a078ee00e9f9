//! Splitting and merging protobuf messages of any size at the level of bytes.
//!
//! A message on the wire is a run of tagged values, with every length in front of what it measures,
//! and merging two messages is concatenating their bytes. So splitting is cutting spans out of the
//! source ([`split`]), merging is splicing them back ([`merge`]), and neither builds a message
//! object. [`container`] is the file in between.
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
//! let options = SplitOptions::new().max_chunk_size(1000);
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
//! A [`Source`](split::Source) is a message to be split. A
//! [`ComposableSplitter`](split::ComposableSplitter) plans which spans of it leave, as a
//! [`SplitPlan`](split::SplitPlan), and writes them: [`SizeSplitter`](split::SizeSplitter) goes by
//! sizes alone, and an implementation of one's own cuts what it names. A [`Merger`](merge::Merger)
//! puts a file together again. A [`MessageView`](lazy::MessageView) reads single values of a
//! message of any size, [`tree`] says what takes up space in it, [`compare`] where two differ, and
//! [`rewrite`] changes a file without merging it. Long work reports to a
//! [`Progress`](progress::Progress), by which it can be stopped.
//!
//! The words that are used throughout, from *chunk* to *profile*, are explained in the
//! documentation of the crate `proto-splitter`, which has all of this one and the splitters that
//! ship.
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
/// The crates whose types are in signatures of this one, in the versions that they are of.
#[doc(no_inline)]
pub use {bytes, prost, prost_reflect};
