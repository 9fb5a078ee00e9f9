use std::fs::{self, File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{MessageDescriptor, ReflectMessage};
use record_file::ReadAt;

use super::recent::Recent;
use crate::wire::SourceInput;
use crate::{Error, ErrorKind, Result};

/// A message to be split: its bytes, in memory or in a file, and its type.
///
/// Any typed or dynamic message becomes one by `From`; it is encoded once. Bytes and files are split as they are.
///
/// ```
/// use proto_splitter_core::split::Source;
///
///
/// let timestamp = prost_reflect::prost_types::Timestamp { seconds: 1, nanos: 2 };
/// let source = Source::from(&timestamp);
/// assert_eq!(source.size(), 4);
/// assert_eq!(source.descriptor().full_name(), "google.protobuf.Timestamp");
/// ```
#[derive(Clone)]
pub struct Source {
    data: Arc<dyn ReadAt>,
    size: u64,
    descriptor: MessageDescriptor,
    file: Option<Arc<OpenFile>>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    path: PathBuf,
    stamp: Stamp,
}

/// What changes when a file does.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    /// When its bytes or its attributes last changed, which programs can't set.
    #[cfg(unix)]
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        Stamp {
            len: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
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
    /// A serialized message in memory.
    pub fn from_bytes(bytes: impl Into<Bytes>, descriptor: MessageDescriptor) -> Source {
        let bytes = bytes.into();
        Source {
            size: bytes.len() as u64,
            data: Arc::new(bytes),
            descriptor,
            file: None,
        }
    }

    /// A serialized message in a file. It is read in pieces, never as a whole.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the file can't be opened or is no regular file.
    pub fn open(path: impl AsRef<Path>, descriptor: MessageDescriptor) -> Result<Source> {
        let path = path.as_ref();
        let open = || -> std::io::Result<Source> {
            // Before it is opened: opening a pipe waits for its other end.
            if !fs::metadata(path)?.is_file() {
                return Err(std::io::Error::other("not a regular file"));
            }
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            let data = Arc::new(Recent::new(file.try_clone()?));
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
            })
        };
        open().map_err(|error| Error::from(error).context(path.display()))
    }

    /// A serialized message that can be read by position, of `size` bytes.
    pub fn from_reader(data: Arc<dyn ReadAt>, size: u64, descriptor: MessageDescriptor) -> Source {
        Source {
            data: Arc::new(Recent::new(data)),
            size,
            descriptor,
            file: None,
        }
    }

    /// Bytes of the serialized message.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The message's type.
    pub fn descriptor(&self) -> &MessageDescriptor {
        &self.descriptor
    }

    /// The file the message is in, if it is in one.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    pub(crate) fn data(&self) -> &dyn ReadAt {
        &*self.data
    }

    pub(crate) fn input(&self) -> SourceInput<'_, dyn ReadAt> {
        SourceInput::new(&*self.data, self.size)
    }

    /// Fails if the file behind the source is no longer what it was when it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
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
        Source::from_bytes(message.encode_to_vec(), message.descriptor())
    }
}

impl From<&Source> for Source {
    fn from(source: &Source) -> Source {
        source.clone()
    }
}
