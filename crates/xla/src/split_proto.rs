//! Reading the records of a split proto as one message.

mod assemble;
mod findings;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost_reflect::MessageDescriptor;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_sequences::Records;
use record_file::{ReadAt, is_record_file};

use crate::manifest::{MAX_MANIFEST, Manifest, RecordKind};
use crate::schema;

pub use findings::Finding;

/// An open split proto, whose records form one message with random access to its bytes.
///
/// The message consists of the bytes of the records after the manifest, in order. Records of
/// unknown purpose are skipped. In the message, the value of an override is preceded by the tags
/// and lengths of the fields on the override's path. However, an override whose value is a message,
/// or whose path leads through an element or a map entry, replaces the earlier value in place. To
/// find this value, opening a split proto also reads the messages on the path. Without such
/// overrides, opening reads only the manifest and the headers of chunks. Parsing the message gives
/// the same result as XLA's reader.
///
/// ```
/// use std::sync::Arc;
///
/// use proto_splitter_xla::SplitProto;
/// use record_file::{ReadAt, RecordWriter};
///
/// // A module that is called "m", and then its id.
/// let mut writer = RecordWriter::with_defaults(Vec::new());
/// writer.write_record(b"\x0a\x0cxla.HloProto\x12\x02\x12\x00\x12\x02\x12\x00")?;
/// writer.write_record(b"\x0a\x03\x0a\x01m")?;
/// writer.write_record(b"\x0a\x02\x28\x07")?;
///
/// let split = SplitProto::open(Arc::new(writer.finish()?), None)?;
/// assert_eq!(split.manifest().message_type(), "xla.HloProto");
/// let mut bytes = vec![0; 9];
/// split.message().read_exact_at(0, &mut bytes)?;
/// assert_eq!(bytes, b"\x0a\x03\x0a\x01m\x0a\x02\x28\x07");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SplitProto {
    manifest: Manifest,
    records: Arc<Records>,
    message: Arc<dyn ReadAt>,
    size: u64,
    /// Path of the file; `None` if the split proto wasn't opened from a file.
    path: Option<PathBuf>,
}

impl std::fmt::Debug for SplitProto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SplitProto")
            .field("message_type", &self.manifest.message_type())
            .field("records", &self.manifest.records().len())
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl SplitProto {
    /// Opens a split proto. If `descriptor` is given, the message must have the type that it
    /// describes. Otherwise, the type that the manifest specifies is looked up among XLA's types.
    /// If this type isn't found, the message is read without a descriptor.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotChunked`] if the source isn't a split proto; [`ErrorKind::InvalidMessage`]
    /// if the type of the message isn't that of `descriptor`, or the manifest lists more records
    /// than there are; [`ErrorKind::InvalidPath`] if an override leads to a field that isn't a
    /// string or bytes; [`ErrorKind::UnsupportedVersion`] if an override is of an unknown kind;
    /// [`ErrorKind::LimitExceeded`] if more than 1024 passes over the message are needed to set
    /// values inside of it, because their paths overlap or lead to values that don't exist yet, or
    /// if too many bytes are read to find such values; [`ErrorKind::Record`] if the file is
    /// damaged; [`ErrorKind::Io`] if the source can't be read.
    pub fn open(
        source: Arc<dyn ReadAt>,
        descriptor: impl Into<Option<MessageDescriptor>>,
    ) -> Result<SplitProto> {
        let none = || {
            let message = "not a split proto: its first record is not a manifest";
            Error::new(ErrorKind::NotChunked, message)
        };
        SplitProto::recognize(source, descriptor)?.ok_or_else(none)
    }

    /// Opens the split proto in a file. The meaning of `descriptor` is the same as for
    /// [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open), with the file's path.
    pub fn open_file(
        path: impl AsRef<Path>,
        descriptor: impl Into<Option<MessageDescriptor>>,
    ) -> Result<SplitProto> {
        let path = path.as_ref();
        let file = std::fs::File::open(path).map_err(Error::from);
        let opened = file.and_then(|file| SplitProto::open(Arc::new(file), descriptor));
        let opened = opened.map_err(|error| error.in_file(path))?;
        Ok(opened.called(path))
    }

    /// Opens a source if it is a split proto. Returns `None` if it isn't.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open), except [`ErrorKind::NotChunked`].
    pub fn recognize(
        source: Arc<dyn ReadAt>,
        descriptor: impl Into<Option<MessageDescriptor>>,
    ) -> Result<Option<SplitProto>> {
        if !is_record_file(&source)? {
            return Ok(None);
        }
        let mut records = Records::new(source)?;
        let Some(first) = records.first(MAX_MANIFEST)? else {
            return Ok(None);
        };
        if !Manifest::is_one(&first) {
            return Ok(None);
        }
        let manifest = Manifest::parse(&first)?;
        let descriptor = descriptor.into();
        if let Some(asked) = &descriptor
            && asked.full_name() != manifest.message_type()
        {
            let message = format!(
                "record 0: the manifest says that the message is a {}, not a {}",
                manifest.message_type(),
                asked.full_name()
            );
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        }
        let entries = manifest.records().len() as u64;
        let found = records.find(entries.saturating_add(1))?;
        // As in XLA's reader, the last records in the manifest may be missing if their purpose is
        // unknown.
        let is_needed = |kind: &RecordKind| *kind != RecordKind::Unknown;
        let needed = manifest.records().iter().rposition(is_needed);
        let needed = needed.map_or(1, |last| last as u64 + 2);
        if found.records < needed {
            let message = format!(
                "the manifest names {entries} records, but record {} is not there: the file is truncated",
                found.records
            );
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        }
        records.set_opaque(opaque(&manifest));
        let records = Arc::new(records);
        let descriptor = descriptor.or_else(|| schema::message(manifest.message_type()));
        let message = assemble::message(&manifest, &records, descriptor.as_ref())?;
        Ok(Some(SplitProto {
            size: message.size()?,
            manifest,
            records,
            message,
            path: None,
        }))
    }

    /// Sets the path of the file that contains the split proto.
    pub(crate) fn called(mut self, path: &Path) -> SplitProto {
        self.path = Some(path.to_owned());
        self
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the message that the records form, for random access.
    pub fn message(&self) -> &Arc<dyn ReadAt> {
        &self.message
    }

    /// Returns the size of the message that the records form, in bytes.
    pub fn total_size(&self) -> u64 {
        self.size
    }
}

/// Returns the numbers, as ranges, of all records that aren't parsed as messages: the manifest,
/// overrides, and records that readers skip.
fn opaque(manifest: &Manifest) -> Vec<std::ops::Range<u64>> {
    let (mut ranges, mut start) = (Vec::new(), 0);
    let merges = manifest.records().iter().enumerate();
    for (at, _) in merges.filter(|(_, kind)| **kind == RecordKind::Merge) {
        let number = at as u64 + 1;
        if start < number {
            ranges.push(start..number);
        }
        start = number + 1;
    }
    ranges.push(start..u64::MAX);
    ranges
}

/// Returns true if a source is a record file that begins with a manifest.
pub(crate) fn is_split_proto(source: Arc<dyn ReadAt>) -> Result<bool> {
    if !is_record_file(&source)? {
        return Ok(false);
    }
    let first = Records::new(source)?.first(MAX_MANIFEST)?;
    Ok(first.is_some_and(|first| Manifest::is_one(&first)))
}

/// Returns the manifest of a split proto; `None` for any other source.
pub(crate) fn manifest_of(source: Arc<dyn ReadAt>) -> Result<Option<Manifest>> {
    if !is_record_file(&source)? {
        return Ok(None);
    }
    let first = Records::new(source)?.first(MAX_MANIFEST)?;
    let first = first.filter(|first| Manifest::is_one(first));
    first.map(|first| Manifest::parse(&first)).transpose()
}
