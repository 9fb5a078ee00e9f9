//! A stored message in the chunks of a file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use record_file::ReadAt;

use super::chunked_file::ChunkedFile;
use super::merged_message::MergedMessage;
use super::message_reader::MessageReader;
use super::stored::StoredMessage;
use crate::io::AtomicFile;
use crate::merge::{MergePlan, Merged, ReadOptions, merge_to_file};
use crate::view::MessageView;
use crate::{Error, ErrorKind, Result};

impl StoredMessage for Arc<ChunkedFile<Arc<dyn ReadAt>>> {
    fn chunked(&self) -> Option<&Arc<ChunkedFile<Arc<dyn ReadAt>>>> {
        Some(self)
    }

    fn paths(&self) -> &[PathBuf] {
        ChunkedFile::paths(self)
    }

    fn known_size(&self) -> Option<u64> {
        self.trailer().metadata().source_size
    }

    fn reader(&self, options: &ReadOptions) -> Result<MessageReader> {
        MergedMessage::with_options(Arc::clone(self), options).map(MessageReader::from)
    }

    fn planned(&self, plan: Option<&MergePlan>) -> MessageReader {
        let plan = plan.cloned().unwrap_or_default();
        MergedMessage::planned(Arc::clone(self), plan).into()
    }

    fn view(&self, options: ReadOptions) -> Result<MessageView<'_>> {
        Ok(ChunkedFile::view(self, options))
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn bytes(&self, options: &ReadOptions) -> Result<Bytes> {
        let bytes = self.merge_to_bytes(options);
        bytes.map_err(|error| in_main_file(self, error))
    }

    fn write_to(&self, sink: &mut dyn Write, options: &ReadOptions) -> Result<u64> {
        Ok(StoredMessage::merge_to(self, sink, options)?.size)
    }

    fn merge_to(&self, mut sink: &mut dyn Write, options: &ReadOptions) -> Result<Merged> {
        finished(self, ChunkedFile::merge_to(self, &mut sink, options))
    }

    fn merge_to_file(&self, out: AtomicFile, options: &ReadOptions) -> Result<Merged> {
        finished(self, merge_to_file(self.store(), out, options))
    }
}

/// Adds the path of the main file to a report or an error.
fn finished(file: &ChunkedFile<Arc<dyn ReadAt>>, merged: Result<Merged>) -> Result<Merged> {
    let merged = merged.map_err(|error| in_main_file(file, error))?;
    let input = file.paths().first().cloned().unwrap_or_default();
    Ok(Merged { input, ..merged })
}

fn in_main_file(file: &ChunkedFile<Arc<dyn ReadAt>>, error: Error) -> Error {
    match file.paths().first() {
        Some(path) => at_file(error, path),
        None => error,
    }
}

/// Adds the path of a chunked file to an error that is about the file rather than the message in
/// it.
pub(super) fn at_file(error: Error, path: &Path) -> Error {
    match error.kind() {
        ErrorKind::NotChunked
        | ErrorKind::Record
        | ErrorKind::Io
        | ErrorKind::UnsupportedVersion => error.in_file(path),
        _ => error,
    }
}
