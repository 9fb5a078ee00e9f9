//! The trait of stored messages.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use record_file::ReadAt;

use super::chunked_file::ChunkedFile;
use super::message_reader::MessageReader;
use crate::Result;
use crate::io::AtomicFile;
use crate::merge::{MergePlan, Merged, ReadOptions};
use crate::view::MessageView;

/// A stored message, in the chunks of a file or in one piece.
///
/// Code that reads or writes messages uses this trait, so that it doesn't depend on how they are
/// stored.
pub(crate) trait StoredMessage: Send + Sync {
    /// Returns the chunked file that contains the message; `None` for a message in one piece.
    fn chunked(&self) -> Option<&Arc<ChunkedFile<Arc<dyn ReadAt>>>> {
        None
    }

    /// Returns the bytes of the message and its size; `None` for a message in chunks.
    fn plain(&self) -> Option<(&Arc<dyn ReadAt>, u64)> {
        None
    }

    /// Returns the file whose bytes are exactly the message, if there is such a file.
    fn file(&self) -> Option<(&Path, &File)> {
        None
    }

    /// Returns true if the message is one file or object, and not composed of several files.
    fn is_single(&self) -> bool {
        true
    }

    /// Returns the paths of the files that the message is read from, as far as they are known. The
    /// main file comes first.
    fn paths(&self) -> &[PathBuf];

    /// Returns the size of the message in bytes, if it is known without a merge.
    fn known_size(&self) -> Option<u64>;

    /// Returns a reader for random access to the message.
    fn reader(&self, options: &ReadOptions) -> Result<MessageReader>;

    /// Returns a reader for parts of the message. For a message in chunks, `plan` determines how
    /// the parts are merged; for a message in one piece, `plan` is ignored.
    fn planned(&self, plan: Option<&MergePlan>) -> MessageReader;

    /// Returns a view of the message.
    fn view(&self, options: ReadOptions) -> Result<MessageView<'_>>;

    /// Fails if the top-level fields of a message in one piece break the wire format. A message in
    /// chunks is checked by the merge.
    fn check(&self) -> Result<()>;

    /// Returns all bytes of the message.
    fn bytes(&self, options: &ReadOptions) -> Result<Bytes>;

    /// Writes the message to `sink`, and returns its size in bytes.
    fn write_to(&self, sink: &mut dyn Write, options: &ReadOptions) -> Result<u64>;

    /// Checks the message, writes it to `sink`, and returns a report.
    fn merge_to(&self, sink: &mut dyn Write, options: &ReadOptions) -> Result<Merged>;

    /// Checks the message, writes it to the file `out`, commits the file, and returns a report.
    fn merge_to_file(&self, out: AtomicFile, options: &ReadOptions) -> Result<Merged>;
}
