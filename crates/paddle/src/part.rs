//! The files of a model, for random access. Only a few files are open at a time. The files must not
//! change after the model has been opened.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::Result;
use proto_splitter_core::spans::{Spans, SpansBuilder};
use record_file::ReadAt;

/// A file of a model, for random access.
#[derive(Clone, Debug)]
pub(crate) struct FilePart {
    files: Arc<Spans>,
    path: PathBuf,
    range: Range<u64>,
}

impl FilePart {
    /// Opens several files. They are checked for changes together.
    pub(crate) fn open_all(paths: impl IntoIterator<Item = PathBuf>) -> Result<Vec<FilePart>> {
        let mut builder = SpansBuilder::new();
        let mut places = Vec::new();
        for path in paths {
            let file = builder.open(&path)?;
            let start = builder.size();
            let size = builder.file_size(file)?;
            builder.span(file, 0..size)?;
            places.push((path, start..start + size));
        }
        let files = Arc::new(builder.finish()?);
        let part = |(path, range)| FilePart {
            files: Arc::clone(&files),
            path,
            range,
        };
        Ok(places.into_iter().map(part).collect())
    }

    /// Opens one file.
    pub(crate) fn open(path: &Path) -> Result<FilePart> {
        let mut builder = SpansBuilder::new();
        let file = builder.open(path)?;
        let size = builder.file_size(file)?;
        builder.span(file, 0..size)?;
        Ok(FilePart {
            files: Arc::new(builder.finish()?),
            path: path.to_owned(),
            range: 0..size,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the file, in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Fails if this file, or any file that was opened together with it, has changed since then.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        self.files.check_unchanged()
    }
}

impl ReadAt for FilePart {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.len().saturating_sub(offset);
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        self.files
            .read_at(self.range.start.saturating_add(offset), &mut buf[..most])
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len())
    }
}
