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
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod atomic;
pub mod compare;
pub mod container;
mod crc;
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
