//! Messages in object stores: S3, Google Cloud Storage, Azure and any HTTP server that supports
//! ranges. Based on the crate [`object_store`].
//!
//! An [`ObjectLocation`] is a URL and its store. An [`ObjectReader`] reads an object by position,
//! like a file. It prefetches with several requests at once, and fails if the object is replaced
//! while it is read. An [`ObjectWriter`] writes the output of a split or merge to an object. A
//! [`Folder`] copies whole folders.
//!
//! The other crates of the library are synchronous and don't depend on stores. This crate runs all
//! requests on its own threads.
//!
//! ```
//! use std::io::Write;
//!
//! use proto_splitter_object_store::{ObjectLocation, ObjectReader, ObjectWriter, ObjectReadOptions, ObjectWriteOptions};
//! use record_file::ReadAt;
//!
//! let location = ObjectLocation::parse("memory:///greetings/first")?;
//! let mut writer = ObjectWriter::create(&location, &ObjectWriteOptions::new())?;
//! writer.write_all(b"hello")?;
//! writer.finish()?;
//!
//! let reader = ObjectReader::open(&location, &ObjectReadOptions::new())?;
//! let mut bytes = [0; 3];
//! reader.read_exact_at(2, &mut bytes)?;
//! assert_eq!(&bytes, b"llo");
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod chunked;
mod connector;
mod failure;
mod folder;
mod location;
mod multipart;
mod options;
mod parts;
mod reader;
mod redact;
mod runtime;
mod store;
mod trouble;
mod upload;
mod writer;

pub use chunked::{beside, open_chunked};
pub use folder::{Folder, Item};
pub use location::{ObjectLocation, SCHEMES};
pub use object_store;
pub use options::{
    DEFAULT_AT_ONCE, DEFAULT_CACHE_SIZE, DEFAULT_COALESCE, DEFAULT_HEAD_SIZE, DEFAULT_PART_SIZE,
    DEFAULT_REQUEST_SIZE, DEFAULT_RETRY_TIMEOUT, DEFAULT_TAIL_SIZE, ObjectReadOptions,
    ObjectWriteOptions, RETRY_TIMEOUT_VARIABLE, StoreOptions,
};
pub use parts::ObjectParts;
pub use reader::{ObjectReader, Traffic};
pub use redact::redact;
pub use writer::ObjectWriter;
