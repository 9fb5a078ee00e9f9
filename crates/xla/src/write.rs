//! Writing split protos. A message is divided into the same records as by XLA's own writers.

mod cut;
mod oversized;
mod record;

use std::io::{self, Read, Seek, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use prost_reflect::MessageDescriptor;
use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::progress::{Meter, Progress};
use proto_splitter_core::spans::SpanList;
use proto_splitter_core::{Error, ErrorKind, Result, threads};
use record_file::{Compression, PositionReader, ReadAt, RecordWriter, WriterOptions};

use crate::EXECUTABLE_AND_OPTIONS;
use crate::manifest::{Manifest, RecordKind};
use record::Record;
pub(crate) use record::{ListBytes, field};

/// Maximum size of a merge record, in bytes. It is the limit of the protobuf parser in XLA's
/// reader.
pub const MAX_MERGE_RECORD: u64 = i32::MAX as u64;

/// Maximum size of a record that is read into memory: 8 MiB. Larger records are streamed. Every
/// record gets a separate chunk, whatever its size.
const STREAM_FROM: u64 = 8 << 20;

/// The compression that XLA's writers use.
const SNAPPY: Compression = Compression::Snappy { level: 2 };

/// Maximum size of a record that snappy can compress, in bytes.
const MAX_SNAPPY: u64 = u32::MAX as u64 / 2;

/// Options for writing a split proto.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    compression: Option<Compression>,
    threads: Option<NonZeroUsize>,
    force: bool,
    progress: Progress,
}

impl WriteOptions {
    /// Returns the defaults; each setter documents its default.
    #[must_use]
    pub fn new() -> Self {
        WriteOptions::default()
    }

    proto_splitter_core::options! {
        /// Sets the compression of chunks. Default: `None`, that of XLA's writers, which don't
        /// compress an `xla.ExecutableAndOptionsProto`, and use snappy for other types.
        into compression, get_compression: Option<Compression>;

        /// Sets the number of threads that compress chunks. The output doesn't depend on this
        /// number. Default: `None`, the number of cores.
        into threads, get_threads: Option<NonZeroUsize>;

        /// Sets whether to replace an existing file. Default: false.
        const force, get_force: bool;

        /// Sets the progress listener, which can also cancel the operation. Default: none.
        ref progress, get_progress: Progress;
    }

    /// Returns the compression that is set explicitly, or by default the one that XLA's writers use
    /// for this message type.
    fn compression_of(&self, message_type: &str) -> Compression {
        let usual = match message_type {
            EXECUTABLE_AND_OPTIONS => Compression::None,
            _ => SNAPPY,
        };
        self.compression.unwrap_or(usual)
    }
}

/// A plan for a split proto, which divides a message into records.
///
/// An `xla.HloProto` is divided into one record with everything except the module's computations,
/// and one record for each computation. An `xla.gpu.GpuExecutableProto` is divided into its
/// assembly, its binary, its compiled graphs, one record for each constant, and the remaining
/// fields. An `xla.ExecutableAndOptionsProto` is divided into the executable and the remaining
/// fields. Any other message is divided into records of consecutive fields.
///
/// ```
/// use std::sync::Arc;
///
/// use proto_splitter_xla::{Draft, SplitProto, WriteOptions};
/// use record_file::ReadAt;
///
/// // A module that is called "m" and has two computations, "a" and "b".
/// let module = b"\x0a\x0d\x0a\x01m\x1a\x03\x0a\x01a\x1a\x03\x0a\x01b".to_vec();
/// let draft = Draft::new(Arc::new(module.clone()), "xla.HloProto")?;
/// assert_eq!(draft.manifest().records().len(), 3);
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("module.riegeli");
/// draft.write_file(&path, &Default::default(), &WriteOptions::new())?;
/// let split = SplitProto::open_file(&path, None)?;
/// let mut bytes = vec![0; split.total_size() as usize];
/// split.message().read_exact_at(0, &mut bytes)?;
/// assert_eq!(bytes, b"\x0a\x03\x0a\x01m\x0a\x05\x1a\x03\x0a\x01a\x0a\x05\x1a\x03\x0a\x01b");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Draft {
    /// The message to divide into records.
    message: Arc<dyn ReadAt>,
    manifest: Manifest,
    /// Contents of the records after the manifest, as spans of the message.
    records: Vec<SpanList>,
}

impl Draft {
    /// Plans the records for a message of this type. Reads the tags and lengths of fields, but not
    /// their values.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Uncuttable`], with a description of the record, if a record would have more
    /// than [`MAX_MERGE_RECORD`] bytes; [`ErrorKind::InvalidMessage`] if the message violates the
    /// wire format; [`ErrorKind::Io`] if the message can't be read.
    pub fn new(message: Arc<dyn ReadAt>, message_type: &str) -> Result<Draft> {
        let cut = cut::cut(&*message, message_type, None)?;
        Ok(Draft::of(message, message_type, cut))
    }

    /// Plans the records for a message that may have parts too large for XLA's reader. If a record
    /// would have more than [`MAX_MERGE_RECORD`] bytes, its large values are moved to separate
    /// records, which override values inside of the record. [`SplitProto`](crate::SplitProto)
    /// supports these overrides, but XLA's reader rejects them.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new). However, [`ErrorKind::Uncuttable`] only occurs if a record
    /// is still too large after all of its large values were moved.
    pub fn extended(message: Arc<dyn ReadAt>, descriptor: &MessageDescriptor) -> Result<Draft> {
        let message_type = descriptor.full_name();
        let cut = cut::cut(&*message, message_type, Some(descriptor))?;
        Ok(Draft::of(message, message_type, cut))
    }

    fn of(message: Arc<dyn ReadAt>, message_type: &str, cut: Vec<Record>) -> Draft {
        let (kinds, records): (Vec<RecordKind>, Vec<SpanList>) = cut
            .into_iter()
            .map(|record| (record.kind, record.spans))
            .unzip();
        Draft {
            message,
            manifest: Manifest::new(message_type, kinds),
            records,
        }
    }

    /// Returns true if XLA's reader accepts the planned file, that is, if each override is the
    /// value of a string or bytes field of the root message. All other overrides are an extension
    /// of the format.
    pub fn is_for_xla(&self) -> bool {
        self.manifest.records().iter().all(|kind| match kind {
            RecordKind::Override(path) => path.steps().len() == 1,
            RecordKind::OverrideMessage(_) => false,
            _ => true,
        })
    }

    /// Returns the manifest of the planned split proto.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Writes the split proto to a file, atomically. Returns the file's size in bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`]; [`ErrorKind::InvalidConfig`] if the target is the file from
    /// which the message is read, or the codec is disabled in this build; [`ErrorKind::Io`];
    /// [`ErrorKind::Cancelled`].
    pub fn write_file(
        &self,
        target: impl AsRef<Path>,
        made_from: &MadeFrom,
        options: &WriteOptions,
    ) -> Result<u64> {
        let file = AtomicFile::create(target, made_from, options.force)?;
        file.write(|mut sink| {
            self.write_to(&mut sink, options)?;
            Ok(sink.stream_position()?)
        })
    }

    pub(crate) fn write_to(
        &self,
        sink: &mut (impl Write + Seek),
        options: &WriteOptions,
    ) -> Result<()> {
        let compression = options.compression_of(self.manifest.message_type());
        let threads = u32::try_from(threads::count(options.threads).get()).unwrap_or(1);
        let settings = WriterOptions::new()
            .compression(compression)
            .threads(threads);
        let mut writer = RecordWriter::new(sink, settings)?;
        let total = self.records.iter().map(SpanList::len).sum();
        let meter = options.progress.meter(total);
        writer.write_record(&self.manifest.encode())?;
        let mut buffer = Vec::new();
        for record in &self.records {
            let len = record.len();
            let mut bytes = RecordBytes::new(&*self.message, record, &meter);
            if len > STREAM_FROM {
                let is_snappy = matches!(compression, Compression::Snappy { .. });
                let fits = !is_snappy || len <= MAX_SNAPPY;
                let compression = if fits { compression } else { Compression::None };
                writer.write_record_from(&mut bytes, len, compression)?;
                continue;
            }
            buffer.clear();
            bytes.read_to_end(&mut buffer)?;
            writer.write_record(&buffer)?;
        }
        writer.finish()?.flush()?;
        Ok(())
    }
}

/// A reader of the bytes of a planned record.
pub(crate) struct RecordBytes<'a> {
    bytes: PositionReader<ListBytes<'a>>,
    meter: &'a Meter,
}

impl<'a> RecordBytes<'a> {
    pub(crate) fn new(message: &'a dyn ReadAt, list: &'a SpanList, meter: &'a Meter) -> Self {
        let bytes = PositionReader::new(ListBytes { message, list });
        RecordBytes { bytes, meter }
    }
}

impl Read for RecordBytes<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.bytes.read(buf)?;
        self.meter.advance(len as u64)?;
        Ok(len)
    }
}

/// Returns the error for a record that is too large for XLA's reader. `what` describes the record.
#[cold]
fn uncuttable(what: &str, size: u64) -> Error {
    let message = format!(
        "{what} has {size} bytes, but XLA's reader accepts no record of more than {MAX_MERGE_RECORD}"
    );
    Error::new(ErrorKind::Uncuttable, message).refusing_size()
}
