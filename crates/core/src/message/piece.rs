//! A message in one piece.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use record_file::ReadAt;

use super::message_reader::MessageReader;
use super::stored::StoredMessage;
use crate::io::{AtomicFile, GATHER, Summed, open_file};
use crate::merge::{MergePlan, Merged, ReadOptions};
use crate::path::FieldPath;
use crate::spans::copy_range;
use crate::view::MessageView;
use crate::view::size_tree::with_largest;
use crate::wire::{SourceInput, WireCursor};
use crate::{Error, Result};

/// A message in one piece: a file, an object in a store, or bytes that come from several files.
pub(crate) struct Piece {
    bytes: Arc<dyn ReadAt>,
    size: u64,
    /// True if all bytes come from one file or object.
    is_single: bool,
    /// Path and handle of the file that contains all bytes; `None` if there is no such file.
    file: Option<(PathBuf, Arc<File>)>,
}

impl Piece {
    /// Opens the message in a file.
    pub(crate) fn open(path: &Path) -> Result<Piece> {
        let file = Arc::new(open_file(path)?);
        let bytes = Arc::clone(&file) as Arc<dyn ReadAt>;
        let piece = Piece::of_object(bytes, Some((path.to_owned(), file)));
        piece.map_err(|error| error.in_file(path))
    }

    /// Creates a message from the bytes of one file or object. `file` is the file, if there is one.
    pub(crate) fn of_object(
        bytes: Arc<dyn ReadAt>,
        file: Option<(PathBuf, Arc<File>)>,
    ) -> Result<Piece> {
        Ok(Piece {
            file,
            is_single: true,
            ..Piece::composed(bytes)?
        })
    }

    /// Creates a message from bytes that may come from several files.
    pub(crate) fn composed(bytes: Arc<dyn ReadAt>) -> Result<Piece> {
        let size = bytes.size()?;
        Ok(Piece {
            bytes,
            size,
            is_single: false,
            file: None,
        })
    }

    fn in_file(&self, error: Error) -> Error {
        match &self.file {
            Some((path, _)) => error.in_file(path),
            None => error,
        }
    }

    fn copy(&self, sink: &mut dyn Write, options: &ReadOptions) -> Result<Merged> {
        let meter = options.progress.meter(self.size);
        let _span = tracing::debug_span!("copy", bytes = self.size).entered();
        let gathered = BufWriter::with_capacity(GATHER, sink);
        let mut sink = Summed::new(meter.written_to(gathered));
        let copied = copy_range(&*self.bytes, 0..self.size, &mut sink);
        copied.map_err(|error| self.in_file(error))?;
        sink.flush()?;
        meter.check()?;
        Ok(Merged {
            input: self.paths().first().cloned().unwrap_or_default(),
            chunked: false,
            size: self.size,
            crc32c: sink.crc32c(),
            byte_exact: None,
            message_type: None,
        })
    }
}

impl StoredMessage for Piece {
    fn plain(&self) -> Option<(&Arc<dyn ReadAt>, u64)> {
        Some((&self.bytes, self.size))
    }

    fn file(&self) -> Option<(&Path, &File)> {
        let (path, file) = self.file.as_ref()?;
        Some((path, file))
    }

    fn is_single(&self) -> bool {
        self.is_single
    }

    fn paths(&self) -> &[PathBuf] {
        let path = self.file.as_ref().map(|(path, _)| path);
        path.map(std::slice::from_ref).unwrap_or_default()
    }

    fn known_size(&self) -> Option<u64> {
        Some(self.size)
    }

    fn reader(&self, _: &ReadOptions) -> Result<MessageReader> {
        Ok(self.planned(None))
    }

    fn planned(&self, _: Option<&MergePlan>) -> MessageReader {
        MessageReader::new(Arc::clone(&self.bytes), self.size)
    }

    fn view(&self, options: ReadOptions) -> Result<MessageView<'_>> {
        MessageView::of_plain(&self.bytes, options)
    }

    /// Checks the top-level fields, but not their content, which would require the type.
    fn check(&self) -> Result<()> {
        let check = || -> Result<()> {
            let mut cursor = WireCursor::new(SourceInput::new(&self.bytes, self.size));
            while cursor.next()?.is_some() {}
            Ok(())
        };
        check().map_err(|error| self.in_file(error))
    }

    fn bytes(&self, options: &ReadOptions) -> Result<Bytes> {
        let (view, root) = (self.view(options.clone())?, FieldPath::root());
        let bytes = view.get(&root);
        bytes.map_err(|error| with_largest(error, &view, &root))
    }

    fn write_to(&self, mut sink: &mut dyn Write, options: &ReadOptions) -> Result<u64> {
        let view = self.view(options.clone())?;
        view.get_to(&FieldPath::root(), &mut sink)
    }

    fn merge_to(&self, sink: &mut dyn Write, options: &ReadOptions) -> Result<Merged> {
        self.check()?;
        self.copy(sink, options)
    }

    fn merge_to_file(&self, out: AtomicFile, options: &ReadOptions) -> Result<Merged> {
        self.check()?;
        out.check_space(self.size)?;
        out.write(|sink| self.copy(sink, options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_broken_message_is_refused_before_anything_is_written() {
        // The declared length of the name is 4 bytes, but only one byte follows.
        let piece = Piece::composed(Arc::new(b"\x0a\x04n".to_vec())).unwrap();
        let mut sink = Vec::new();
        let error = piece.merge_to(&mut sink, &ReadOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessage);
        assert!(sink.is_empty());
    }

    #[test]
    fn a_sound_message_is_copied_and_summed() {
        let bytes = b"\x0a\x04name";
        let piece = Piece::composed(Arc::new(bytes.to_vec())).unwrap();
        let mut sink = Vec::new();
        let merged = piece.merge_to(&mut sink, &ReadOptions::new()).unwrap();
        assert_eq!((merged.size, merged.crc32c), (6, crc32c::crc32c(bytes)));
        assert_eq!(sink, bytes);
    }
}
