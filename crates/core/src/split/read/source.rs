//! The source of a split: a message in memory, in a file, or in another random-access source.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{MessageDescriptor, ReflectMessage};
use record_file::ReadAt;

use super::page_cache::PageCache;
use super::segmented_input::SegmentedInput;
use crate::io::{MadeFrom, Stamp, open_regular};
use crate::spans::Spans;
use crate::wire::SourceInput;
use crate::{Error, ErrorKind, Result};

/// A message to split: its bytes, in memory or in a file, and its type.
///
/// Bytes and files are split unchanged. Any typed or dynamic message converts to a source with
/// `From`: the source has exactly the bytes that the message's `encode` writes. Values of type
/// [`Bytes`] are shared instead of copied (with the feature `zero-copy`, which is on by default),
/// so that splitting a message with 10 GiB of tensors takes no additional memory.
///
/// A typed message has only the fields of its Rust type, since prost drops all other fields when
/// decoding. So reading a file into a typed message and splitting that message loses extensions,
/// and fields from newer schemas. To keep them, split the file itself ([`Source::open`]), or read
/// it into a [`DynamicMessage`](prost_reflect::DynamicMessage).
///
/// ```
/// use proto_splitter_core::split::Source;
///
/// let timestamp = prost_reflect::prost_types::Timestamp { seconds: 1, nanos: 2 };
/// let source = Source::from(&timestamp);
/// assert_eq!(source.size(), 4);
/// assert_eq!(source.descriptor().full_name(), "google.protobuf.Timestamp");
/// ```
#[derive(Clone)]
pub struct Source {
    data: Data,
    size: u64,
    descriptor: MessageDescriptor,
    file: Option<Arc<OpenFile>>,
    /// The spans of the message, if the source was created from a message of spans.
    spans: Option<Arc<Spans>>,
    /// Files that the source's reader reads from, for the permissions of output files.
    read_from: Vec<PathBuf>,
}

/// The bytes of the message to split.
#[derive(Clone)]
enum Data {
    /// Bytes in memory.
    Segmented(SegmentedInput),
    /// Bytes in a file, or in another random-access source.
    Reader(Arc<dyn ReadAt>),
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    path: PathBuf,
    stamp: Stamp,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("type", &self.descriptor.full_name())
            .field("size", &self.size)
            .field("path", &self.path())
            .finish()
    }
}

impl Source {
    /// Creates a source from a serialized message in memory.
    pub fn from_bytes(bytes: impl Into<Bytes>, descriptor: MessageDescriptor) -> Source {
        Source::from_pieces(vec![bytes.into()], descriptor)
    }

    /// Creates a source from a typed message whose type lacks a descriptor, such as one that prost
    /// generates. Values of type [`Bytes`] are shared, as with `From`.
    ///
    /// ```
    /// use proto_splitter_core::prost_reflect::{ReflectMessage, prost_types::Timestamp};
    /// use proto_splitter_core::split::Source;
    ///
    /// let timestamp = Timestamp { seconds: 1, nanos: 2 };
    /// let descriptor = timestamp.descriptor();
    /// assert_eq!(Source::from_message(&timestamp, descriptor).size(), 4);
    /// ```
    pub fn from_message(message: &impl Message, descriptor: MessageDescriptor) -> Source {
        #[cfg(feature = "zero-copy")]
        let pieces = proto_splitter_segments::encode(message);
        #[cfg(not(feature = "zero-copy"))]
        let pieces = vec![message.encode_to_vec().into()];
        Source::from_pieces(pieces, descriptor)
    }

    fn from_pieces(pieces: Vec<Bytes>, descriptor: MessageDescriptor) -> Source {
        let pieces = SegmentedInput::new(pieces);
        Source {
            size: pieces.len(),
            data: Data::Segmented(pieces),
            descriptor,
            file: None,
            spans: None,
            read_from: Vec::new(),
        }
    }

    /// Opens a serialized message in a file. The file is read in pieces, never as a whole.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be opened or is not a regular file.
    pub fn open(path: impl AsRef<Path>, descriptor: MessageDescriptor) -> Result<Source> {
        let path = path.as_ref();
        let opened = open_regular(path);
        let opened = opened.and_then(|file| Source::of_opened(file, path, descriptor));
        opened.map_err(|error| Error::from(error).in_file(path))
    }

    /// Creates a source from an open file that contains a serialized message. `path` is the file's
    /// path.
    pub(crate) fn of_opened(
        file: File,
        path: &Path,
        descriptor: MessageDescriptor,
    ) -> std::io::Result<Source> {
        let metadata = file.metadata()?;
        let data = Data::Reader(Arc::new(PageCache::new(file.try_clone()?)));
        let stamp = Stamp::of(&metadata);
        let file = OpenFile {
            file,
            path: path.to_owned(),
            stamp,
        };
        Ok(Source {
            data,
            size: metadata.len(),
            descriptor,
            file: Some(Arc::new(file)),
            spans: None,
            read_from: Vec::new(),
        })
    }

    /// Opens a serialized message of type `M` in a file. The file is read in pieces, never as a
    /// whole, and not decoded into an `M`.
    ///
    /// ```
    /// use prost_reflect::prost_types::Timestamp;
    /// use proto_splitter_core::split::Source;
    ///
    /// let file = tempfile::NamedTempFile::new()?;
    /// std::fs::write(file.path(), b"\x08\x01")?;
    /// let source = Source::open_as::<Timestamp>(file.path())?;
    /// assert_eq!(source.descriptor().full_name(), "google.protobuf.Timestamp");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The same errors as [`open`](Self::open).
    pub fn open_as<M: ReflectMessage + Default>(path: impl AsRef<Path>) -> Result<Source> {
        Source::open(path, M::default().descriptor())
    }

    /// Creates a source from a random-access reader, which contains a serialized message of `size`
    /// bytes.
    pub fn from_reader(data: Arc<dyn ReadAt>, size: u64, descriptor: MessageDescriptor) -> Source {
        Source {
            data: Data::Reader(Arc::new(PageCache::new(data))),
            size,
            descriptor,
            file: None,
            spans: None,
            read_from: Vec::new(),
        }
    }

    /// Sets the files that the source's reader reads from. A file that is written from the source
    /// gets no permissions that these files lack.
    #[must_use]
    pub fn read_from<P: Into<PathBuf>>(mut self, files: impl IntoIterator<Item = P>) -> Source {
        self.read_from.extend(files.into_iter().map(Into::into));
        self
    }

    /// Creates a source from a message composed of ranges of several files. As with a single file,
    /// reading fails if one of the files is modified.
    pub fn from_spans(spans: Arc<Spans>, descriptor: MessageDescriptor) -> Source {
        let size = spans.total_size();
        Source {
            spans: Some(Arc::clone(&spans)),
            ..Source::from_reader(spans, size, descriptor)
        }
    }

    /// Returns the size of the serialized message in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    pub(in crate::split) fn is_in_memory(&self) -> bool {
        matches!(self.data, Data::Segmented(_))
    }

    /// Returns the message's type.
    pub fn descriptor(&self) -> &MessageDescriptor {
        &self.descriptor
    }

    /// Returns the files that this source reads. An output file must not replace any of these
    /// files, and a new output file gets no permissions that these files lack.
    #[doc(hidden)]
    pub fn made_from(&self) -> MadeFrom {
        let spans = self.spans.iter().flat_map(|spans| spans.files());
        let others = self.read_from.iter().map(PathBuf::as_path);
        MadeFrom::files(self.path().into_iter().chain(spans).chain(others))
    }

    /// Returns the path of the file that contains the message; `None` if the message isn't in one
    /// file.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    pub(crate) fn data(&self) -> &(dyn ReadAt + 'static) {
        match &self.data {
            Data::Segmented(pieces) => pieces,
            Data::Reader(reader) => &**reader,
        }
    }

    /// Announces the ranges to be read next, in order, if the source's reader prefetches.
    pub(crate) fn tell(&self, ranges: impl IntoIterator<Item = Range<u64>>) {
        if self.data().is_prefetched() {
            let ranges: Vec<_> = ranges.into_iter().collect();
            self.data().prefetch(&ranges);
        }
    }

    pub(crate) fn input(&self) -> SourceInput<'_, dyn ReadAt> {
        SourceInput::new(self.data(), self.size)
    }

    /// Returns the bytes of `range` without copying; `None` unless they are contiguous in memory.
    pub(crate) fn shared(&self, range: &Range<u64>) -> Option<Bytes> {
        match &self.data {
            Data::Segmented(pieces) => pieces.shared(range),
            Data::Reader(_) => None,
        }
    }

    /// Fails if a file that the source reads has changed since it was opened.
    #[doc(hidden)]
    pub fn check_unchanged(&self) -> Result<()> {
        if let Some(spans) = &self.spans {
            return spans.check_unchanged();
        }
        let Some(open) = &self.file else {
            return Ok(());
        };
        let metadata = open.file.metadata()?;
        if Stamp::of(&metadata) != open.stamp {
            return Err(Error::new(
                ErrorKind::SourceChanged,
                format!(
                    "{} was changed while it was being read",
                    open.path.display()
                ),
            ));
        }
        Ok(())
    }
}

impl<M: Message + ReflectMessage> From<&M> for Source {
    fn from(message: &M) -> Source {
        Source::from_message(message, message.descriptor())
    }
}

impl From<&Source> for Source {
    fn from(source: &Source) -> Source {
        source.clone()
    }
}
