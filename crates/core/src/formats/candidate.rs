//! Inputs that formats examine and open.

use std::cell::OnceCell;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use prost_reflect::MessageDescriptor;
use record_file::{ReadAt, is_record_file};

use crate::container::{ChunkedFile, Limits, is_named_chunked};
use crate::io::open_file;
use crate::spans::{SourceId, SpansBuilder};
use crate::split::Source;
use crate::{Error, ErrorKind, Result};

/// Number of bytes that a format can inspect at each end of a file: 4 KiB.
const END_LEN: u64 = 4 << 10;

/// A format's confidence that an input is of this format. The variants are in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// The name matches, but other formats use such names, too.
    Possible,
    /// Only this format uses such a name, or the content looks like the format.
    Likely,
    /// The content proves the format, by a signature or by files that only this format has.
    Certain,
}

/// The kind of item at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CandidateKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// The path doesn't exist. It may be the common prefix of several file names.
    Prefix,
}

/// An input for formats to recognize and open: its path, the kind of item at the path and, for a
/// file, the bytes. A file is opened on the first read, and only once: all readers share the open
/// file.
///
/// ```
/// use proto_splitter_core::formats::{Candidate, CandidateKind};
///
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("Model.ONNX"), b"\x08\x07")?;
///
/// let path = folder.path().join("Model.ONNX");
/// let candidate = Candidate::new(&path)?;
/// assert_eq!(candidate.kind(), CandidateKind::File);
/// assert_eq!(candidate.extension().as_deref(), Some("onnx"));
/// assert_eq!(candidate.head(), b"\x08\x07");
///
/// assert!(Candidate::new(folder.path())?.has("Model.ONNX"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Candidate<'a> {
    path: &'a Path,
    kind: CandidateKind,
    size: u64,
    bytes: OnceCell<Bytes>,
    head: OnceCell<Vec<u8>>,
    tail: OnceCell<Vec<u8>>,
    /// Function that opens a file by its name in the trailer of a message in chunks.
    beside: Option<Beside<'a>>,
}

type Beside<'a> = Box<dyn Fn(&str) -> Result<Arc<dyn ReadAt>> + 'a>;

/// An open file, or another source that is read by position.
#[derive(Clone)]
enum Bytes {
    File(Arc<File>),
    Source(Arc<dyn ReadAt>),
}

impl Bytes {
    fn source(&self) -> Arc<dyn ReadAt> {
        match self {
            Bytes::File(file) => Arc::clone(file) as Arc<dyn ReadAt>,
            Bytes::Source(source) => Arc::clone(source),
        }
    }
}

impl fmt::Debug for Candidate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("path", &self.path)
            .field("kind", &self.kind)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl<'a> Candidate<'a> {
    /// Inspects the item at a path.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the path can't be inspected, or leads to neither
    /// a file nor a folder. A path that doesn't exist is a [`Prefix`](CandidateKind::Prefix).
    pub fn new(path: &'a Path) -> Result<Candidate<'a>> {
        let failed = |error: io::Error| Error::from(error).in_file(path);
        let (kind, size) = match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => (CandidateKind::File, metadata.len()),
            Ok(metadata) if metadata.is_dir() => (CandidateKind::Folder, 0),
            // Reading a pipe would wait for its other end.
            Ok(_) => return Err(failed(io::Error::other("neither a file nor a folder"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (CandidateKind::Prefix, 0),
            Err(error) => return Err(failed(error)),
        };
        Ok(Candidate::of(path, kind, size, OnceCell::new()))
    }

    fn of(path: &'a Path, kind: CandidateKind, size: u64, bytes: OnceCell<Bytes>) -> Self {
        Candidate {
            path,
            kind,
            size,
            bytes,
            head: OnceCell::new(),
            tail: OnceCell::new(),
            beside: None,
        }
    }

    /// Wraps an open regular file, which isn't opened again. `path` is its path.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the file's size is unavailable.
    pub fn of_file(path: &'a Path, file: File) -> Result<Candidate<'a>> {
        let metadata = file.metadata();
        let size = metadata.map_err(|error| Error::from(error).in_file(path))?;
        let bytes = OnceCell::from(Bytes::File(Arc::new(file)));
        Ok(Candidate::of(path, CandidateKind::File, size.len(), bytes))
    }

    /// Wraps a source that isn't a local file, such as an object in a store. All reads go through
    /// `source`.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use proto_splitter_core::formats::{Candidate, CandidateKind};
    ///
    /// let bytes = Arc::new(b"\x08\x07".to_vec());
    /// let candidate = Candidate::of_source("s3://bucket/model.onnx".as_ref(), bytes.clone())?;
    /// assert_eq!(candidate.kind(), CandidateKind::File);
    /// assert_eq!((candidate.file_name(), candidate.head()), ("model.onnx", &bytes[..]));
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the source's size is unavailable.
    pub fn of_source(path: &'a Path, source: Arc<dyn ReadAt>) -> Result<Candidate<'a>> {
        let size = source.size();
        let size = size.map_err(|error| Error::from(error).in_file(path))?;
        let bytes = OnceCell::from(Bytes::Source(source));
        Ok(Candidate::of(path, CandidateKind::File, size, bytes))
    }

    /// Sets the function that opens the other files of a message in chunks, given their names in
    /// the trailer. An input that [isn't a local file](Self::of_source) needs this function if its
    /// message is in several files.
    #[must_use]
    pub fn beside(mut self, open: impl Fn(&str) -> Result<Arc<dyn ReadAt>> + 'a) -> Self {
        self.beside = Some(Box::new(open));
        self
    }

    /// Returns the path, for formats that read only local files.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NeedsFile`](crate::ErrorKind::NeedsFile) if the input isn't a local file or
    /// folder. The caller can then copy the input and open the copy.
    pub fn local_path(&self) -> Result<&'a Path> {
        if self.is_local() {
            return Ok(self.path);
        }
        Err(self.needs_file())
    }

    /// Returns the error, of kind [`NeedsFile`](crate::ErrorKind::NeedsFile), for an input that
    /// should be a local file but isn't.
    #[cold]
    pub fn needs_file(&self) -> Error {
        let message = "this format can only be read from local files";
        Error::new(ErrorKind::NeedsFile, message).in_file(self.path)
    }

    /// Returns the whole file, which is a message of this type, as a source to split.
    ///
    /// # Errors
    ///
    /// The errors of [`source`](Self::source).
    pub fn message(&self, descriptor: MessageDescriptor) -> Result<Source> {
        match self.file()? {
            Some(file) => {
                let source = Source::of_opened(file, self.path, descriptor);
                source.map_err(|error| Error::from(error).in_file(self.path))
            }
            None => Ok(Source::from_reader(self.source()?, self.size, descriptor)),
        }
    }

    /// Returns true if the input is a local file or folder, and not, for example, an object in a
    /// store.
    pub fn is_local(&self) -> bool {
        !matches!(self.bytes.get(), Some(Bytes::Source(_)))
    }

    /// Returns the bytes of the file, for random access.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the input is not a file, or can't be opened.
    pub fn source(&self) -> Result<Arc<dyn ReadAt>> {
        Ok(self.bytes()?.source())
    }

    /// Returns another handle to the open file; `None` if the input isn't a local file. All handles
    /// share one file position.
    ///
    /// # Errors
    ///
    /// The errors of [`source`](Self::source).
    pub fn file(&self) -> Result<Option<File>> {
        match self.bytes()? {
            Bytes::File(file) => {
                let file = file.try_clone();
                file.map(Some)
                    .map_err(|error| Error::from(error).in_file(self.path))
            }
            Bytes::Source(_) => Ok(None),
        }
    }

    /// Adds the open file as a source to a message that is built from spans. Returns the source's
    /// ID.
    ///
    /// # Errors
    ///
    /// The errors of [`source`](Self::source), and [`ErrorKind::Io`](crate::ErrorKind::Io) if
    /// the input isn't a regular file.
    pub fn add_to(&self, spans: &mut SpansBuilder) -> Result<SourceId> {
        let Some(file) = self.file()? else {
            return spans.reader(self.path, self.source()?);
        };
        let (path, first) = (self.path.to_owned(), Mutex::new(Some(file)));
        spans.open_with(self.path, move || {
            let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Reopens the file if it was closed because too many files were open.
            first.map_or_else(|| File::open(&path), Ok)
        })
    }

    fn bytes(&self) -> Result<&Bytes> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes);
        }
        if self.kind == CandidateKind::Folder {
            let error = Error::from(io::Error::from(io::ErrorKind::IsADirectory));
            return Err(error.in_file(self.path));
        }
        let file = Arc::new(open_file(self.path)?);
        Ok(self.bytes.get_or_init(|| Bytes::File(file)))
    }

    /// Returns true if the file's name or beginning indicates a message in chunks. Such a file may
    /// still belong to a format whose files are record files: see
    /// [`Registry::is_chunked`](super::Registry::is_chunked).
    ///
    /// # Errors
    ///
    /// The errors of [`source`](Self::source), and any error from reading the file.
    pub fn is_chunked(&self) -> Result<bool> {
        if self.kind != CandidateKind::File {
            return Ok(false);
        }
        if is_named_chunked(self.path) {
            return Ok(true);
        }
        let is_chunked = self.read_head().and_then(|head| Ok(is_record_file(head)?));
        is_chunked.map_err(|error| error.in_file(self.path))
    }

    /// Opens the file as a message in chunks.
    pub(super) fn chunked(&self, limits: &Limits) -> Result<ChunkedFile<Arc<dyn ReadAt>>> {
        let source = self.source()?;
        match &self.beside {
            _ if self.is_local() => ChunkedFile::of_opened(self.path, source, limits),
            Some(open) => ChunkedFile::from_sources(source, limits, |file| open(&file.path)),
            None => ChunkedFile::from_source(source, limits),
        }
    }

    /// Returns the path as given.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Returns the kind of item at the path.
    pub fn kind(&self) -> CandidateKind {
        self.kind
    }

    /// Returns the size of the file in bytes; 0 if the input is not a file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the name of the file or folder without its parent folder; empty if the path has no
    /// name.
    pub fn file_name(&self) -> &'a str {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.unwrap_or_default()
    }

    /// Returns the part of the name after the last dot, in lower case; `None` if the name has no
    /// extension.
    pub fn extension(&self) -> Option<String> {
        let extension = self.path.extension()?.to_str()?;
        Some(extension.to_ascii_lowercase())
    }

    /// Returns true if the input is a folder that contains a file with this name.
    pub fn has(&self, name: &str) -> bool {
        self.kind == CandidateKind::Folder && self.path.join(name).is_file()
    }

    /// Returns the path followed by `ending`, if a file with that path exists.
    pub fn continued(&self, ending: &str) -> Option<PathBuf> {
        let mut path = self.path.as_os_str().to_owned();
        path.push(ending);
        let path = PathBuf::from(path);
        path.is_file().then_some(path)
    }

    /// Returns the first bytes of the file, at most 4 KiB. Empty if the input is not a file, or
    /// can't be read.
    pub fn head(&self) -> &[u8] {
        self.read_head().map_or(&[], Vec::as_slice)
    }

    fn read_head(&self) -> Result<&Vec<u8>> {
        self.end(&self.head, 0)
    }

    /// Returns the last bytes of the file, at most 4 KiB. Empty if the input is not a file, or
    /// can't be read.
    pub fn tail(&self) -> &[u8] {
        let tail = self.end(&self.tail, self.size.saturating_sub(END_LEN));
        tail.map_or(&[], Vec::as_slice)
    }

    fn end<'c>(&self, cell: &'c OnceCell<Vec<u8>>, offset: u64) -> Result<&'c Vec<u8>> {
        if let Some(bytes) = cell.get() {
            return Ok(bytes);
        }
        let mut bytes = Vec::new();
        if self.kind == CandidateKind::File {
            // The length is at most END_LEN, so it fits.
            let len = usize::try_from(self.size.min(END_LEN)).unwrap_or_default();
            bytes.resize(len, 0);
            self.source()?.read_exact_at(offset, &mut bytes)?;
        }
        Ok(cell.get_or_init(|| bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_file_are_seen_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        let bytes: Vec<u8> = (0..=250).cycle().take(10_000).collect();
        fs::write(&path, &bytes).unwrap();
        let candidate = Candidate::new(&path).unwrap();
        assert_eq!(candidate.head(), &bytes[..4096]);
        assert_eq!(candidate.tail(), &bytes[10_000 - 4096..]);
        assert_eq!(candidate.extension(), None);
    }

    #[test]
    fn a_prefix_leads_to_the_files_that_begin_with_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ckpt.v1.index"), b"").unwrap();
        let path = folder.path().join("ckpt.v1");
        let candidate = Candidate::new(&path).unwrap();
        assert_eq!(candidate.kind(), CandidateKind::Prefix);
        assert_eq!(
            candidate.continued(".index"),
            Some(folder.path().join("ckpt.v1.index"))
        );
        assert_eq!(candidate.continued(".data"), None);
        assert_eq!(candidate.head(), b"");
    }
}
