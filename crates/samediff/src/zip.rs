//! Zip archives: their directory, their entries, and writing them.

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
