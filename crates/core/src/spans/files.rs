//! The files and readers that a message of spans refers to. Files are opened when they are read,
//! only a few at a time, and must not change.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use record_file::ReadAt;

use super::SourceId;
use crate::io::{FilePool, Stamp};
use crate::{Error, ErrorKind, Result};

/// A function that opens the same file each time it is called.
pub(super) type Opener = Box<dyn Fn() -> io::Result<File> + Send + Sync>;

/// A source of spans: a file or a reader, with its name and size.
pub(super) struct Origin {
    name: PathBuf,
    size: u64,
    bytes: Bytes,
}

enum Bytes {
    /// A file that is opened when needed, and its state when it was added.
    File { open: Opener, stamp: Stamp },
    /// Any other random-access source, which must not change.
    Reader(Arc<dyn ReadAt>),
}

impl Origin {
    /// Creates a source for a regular file. Opens the file once to record its size and stamp.
    pub(super) fn file(name: PathBuf, open: Opener) -> Result<(Origin, Arc<File>)> {
        let opened = || -> io::Result<(File, std::fs::Metadata)> {
            let file = open()?;
            let metadata = file.metadata()?;
            if metadata.is_file() {
                Ok((file, metadata))
            } else {
                Err(io::Error::other("not a regular file"))
            }
        };
        let (file, metadata) = opened().map_err(|error| Error::from(error).in_file(&name))?;
        let stamp = Stamp::of(&metadata);
        let origin = Origin {
            name,
            size: metadata.len(),
            bytes: Bytes::File { open, stamp },
        };
        Ok((origin, Arc::new(file)))
    }

    pub(super) fn reader(name: PathBuf, reader: Arc<dyn ReadAt>) -> Result<Origin> {
        let size = reader
            .size()
            .map_err(|error| Error::from(error).in_file(&name))?;
        Ok(Origin {
            name,
            size,
            bytes: Bytes::Reader(reader),
        })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    #[cold]
    fn changed(&self) -> Error {
        let message = format!(
            "{} was changed while it was being read",
            self.name.display()
        );
        Error::new(ErrorKind::SourceChanged, message)
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin")
            .field("name", &self.name)
            .field("size", &self.size)
            .finish()
    }
}

/// All sources of spans in a message.
#[derive(Debug)]
pub(super) struct Files {
    origins: Vec<Origin>,
    open: FilePool,
}

impl Files {
    pub(super) fn new(most_open: usize) -> Files {
        Files {
            origins: Vec::new(),
            open: FilePool::new(most_open),
        }
    }

    pub(super) fn set_most_open(&mut self, most_open: usize) {
        self.open = FilePool::new(most_open);
    }

    /// Adds a source. Keeps `file` open if it is given.
    pub(super) fn add(&mut self, origin: Origin, file: Option<Arc<File>>) -> Result<SourceId> {
        let id = SourceId::new(self.origins.len())?;
        self.origins.push(origin);
        if let Some(file) = file {
            self.open.keep(id.index(), file);
        }
        Ok(id)
    }

    pub(super) fn get(&self, id: SourceId) -> Result<&Origin> {
        self.origins.get(id.index()).ok_or_else(|| {
            let message = "the file belongs to another message";
            Error::new(ErrorKind::InvalidConfig, message)
        })
    }

    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.origins.iter().map(|origin| origin.name.as_path())
    }

    pub(super) fn name(&self, id: SourceId) -> &Path {
        let origin = self.origins.get(id.index());
        origin.map_or(Path::new(""), |origin| &origin.name)
    }

    /// Returns the range of a file around `at` that is best read with one call.
    pub(super) fn extent(&self, id: SourceId, at: u64) -> Option<Range<u64>> {
        match &self.get(id).ok()?.bytes {
            Bytes::Reader(reader) => reader.extent(at),
            Bytes::File { .. } => None,
        }
    }

    /// Fills `buf` with the bytes at offset `at` in a file.
    pub(super) fn read(&self, id: SourceId, at: u64, buf: &mut [u8]) -> Result<()> {
        let origin = self.get(id)?;
        let named = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => origin.changed(),
            _ => Error::from(error).in_file(&origin.name),
        };
        match &origin.bytes {
            Bytes::Reader(reader) => reader.read_exact_at(at, buf).map_err(named),
            Bytes::File { open, stamp } => {
                let file = self.opened(id, origin, open, stamp)?;
                file.read_exact_at(at, buf).map_err(named)?;
                // Checked after the read, so that bytes of a changed file are never returned.
                check(&file, origin, stamp)
            }
        }
    }

    /// Returns a reader for a file.
    pub(super) fn handle(&self, id: SourceId) -> Result<Arc<dyn ReadAt>> {
        let origin = self.get(id)?;
        match &origin.bytes {
            Bytes::Reader(reader) => Ok(Arc::clone(reader)),
            Bytes::File { open, stamp } => Ok(self.opened(id, origin, open, stamp)?),
        }
    }

    pub(super) fn check_unchanged(&self) -> Result<()> {
        for (index, origin) in self.origins.iter().enumerate() {
            if let Bytes::File { open, stamp } = &origin.bytes {
                let file = self.opened(SourceId::new(index)?, origin, open, stamp)?;
                check(&file, origin, stamp)?;
            }
        }
        Ok(())
    }

    /// Returns the open file, opening it if necessary. Doesn't hold the lock while opening the
    /// file.
    fn opened(
        &self,
        id: SourceId,
        origin: &Origin,
        open: &Opener,
        stamp: &Stamp,
    ) -> Result<Arc<File>> {
        if let Some(file) = self.open.find(id.index()) {
            return Ok(file);
        }
        let file = open().map_err(|error| Error::from(error).in_file(&origin.name))?;
        check(&file, origin, stamp)?;
        let file = Arc::new(file);
        self.open.keep(id.index(), Arc::clone(&file));
        Ok(file)
    }

    #[cfg(test)]
    pub(super) fn open_count(&self) -> usize {
        self.open.open_count()
    }
}

/// A reader for one of the files, by offsets in that file.
pub(super) struct FileReader<'a> {
    files: &'a Files,
    file: SourceId,
}

impl<'a> FileReader<'a> {
    pub(super) fn new(files: &'a Files, file: SourceId) -> Self {
        FileReader { files, file }
    }
}

impl ReadAt for FileReader<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.size()?.saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        self.files.read(self.file, offset, &mut buf[..len])?;
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.files.get(self.file)?.size())
    }
}

fn check(file: &File, origin: &Origin, stamp: &Stamp) -> Result<()> {
    let metadata = file
        .metadata()
        .map_err(|error| Error::from(error).in_file(&origin.name))?;
    if Stamp::of(&metadata) == *stamp {
        Ok(())
    } else {
        Err(origin.changed())
    }
}
