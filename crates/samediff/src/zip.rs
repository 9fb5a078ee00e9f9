//! Zip archives: reading an archive's directory and entries, and writing an archive.

mod checked;
mod directory;
mod entry;
mod names;
mod section;
mod spool;
mod writer;

pub(crate) use directory::EntryIndex;
pub(crate) use entry::{Archive, StoredEntry};
pub(crate) use section::Section;
pub use writer::ZipCompression;
pub(crate) use writer::{ArchiveWriter, Seen};
