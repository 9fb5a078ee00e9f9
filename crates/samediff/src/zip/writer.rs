//! Writing a zip archive, one entry after another.

use std::cell::RefCell;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::rc::Rc;
use std::sync::Arc;

use flate2::write::DeflateDecoder;
use proto_splitter_core::atomic::FailsOnce;
use record_file::{PositionReader, ReadAt};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::checked::EntrySum;
use super::entry::Archive;
use super::names::check_name;
use super::{EntryIndex, directory::Method};
use crate::{Error, ErrorKind, Result};

/// Alignment of a stored entry's data: 64 bytes.
const ALIGNMENT: u16 = 64;

/// Number of bytes read and written at once: 1 MiB.
const STEP: usize = 1 << 20;

/// The compression of the entries in a written archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZipCompression {
    /// New entries are not compressed. Entries copied from another archive keep their compression.
    #[default]
    Keep,
    /// All entries are stored without compression, so they support random access.
    Stored,
    /// All entries are deflated. This takes long, and hardly shrinks floating-point numbers.
    Deflated,
}

/// An archive that is being written. The same entries always result in the same bytes.
pub(crate) struct ArchiveWriter<W: Write + Seek> {
    /// The underlying writer. Dropping it completes the archive, which writes to the sink even
    /// after an error. The sink must not fail again then.
    zip: ZipWriter<FailsOnce<BufWriter<W>>>,
    compression: ZipCompression,
    /// Archives from which deflated entries are copied, each also opened with the crate `zip`.
    sources: Vec<(Archive, ZipArchive<Tapped>)>,
    /// The observer of the entry that is being copied from one of the `sources`; `None` if no entry
    /// is being copied.
    tap: Rc<RefCell<Option<Tap>>>,
    buf: Vec<u8>,
}

impl<W: Write + Seek> ArchiveWriter<W> {
    pub(crate) fn new(file: W, compression: ZipCompression) -> Self {
        let file = FailsOnce::new(BufWriter::with_capacity(STEP, file));
        ArchiveWriter {
            zip: ZipWriter::new(file),
            compression,
            sources: Vec::new(),
            tap: Rc::default(),
            buf: vec![0; STEP],
        }
    }

    /// Writes an entry. Before each buffer of the content is written, calls `written` with the
    /// buffer.
    pub(crate) fn add(
        &mut self,
        name: &str,
        mut content: impl Read,
        mut written: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        check_name(name)?;
        let method = match self.compression {
            ZipCompression::Keep | ZipCompression::Stored => CompressionMethod::Stored,
            ZipCompression::Deflated => CompressionMethod::Deflated,
        };
        // Uses 64-bit lengths, since the length of `content` isn't known in advance. The default
        // time is the earliest possible, which keeps the output independent of the current time.
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .large_file(true)
            .with_alignment(ALIGNMENT);
        self.zip.start_file(name, options)?;
        loop {
            let len = match content.read(&mut self.buf) {
                Ok(0) => return Ok(()),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            written(&self.buf[..len])?;
            self.zip.write_all(&self.buf[..len])?;
        }
    }

    /// Returns true if an entry from another archive is deflated, and would stay deflated when
    /// copied.
    pub(crate) fn keeps_deflated(&self, archive: &Archive, index: EntryIndex) -> bool {
        let deflated = archive.record(index).method == Method::Deflated;
        deflated && self.compression != ZipCompression::Stored
    }

    /// Copies a deflated entry of another archive, under a new name. Also inflates its bytes, in
    /// order to verify the checksum and to call `seen` with them.
    pub(crate) fn copy_deflated(
        &mut self,
        name: &str,
        archive: &Archive,
        index: EntryIndex,
        seen: Option<Seen>,
    ) -> Result<()> {
        check_name(name)?;
        let known = self
            .sources
            .iter()
            .position(|(known, _)| Archive::same(known, archive));
        let at = match known {
            Some(at) => at,
            None => {
                let opened = ZipArchive::new(Tapped {
                    archive: PositionReader::new(Arc::clone(archive.source())),
                    tap: Rc::clone(&self.tap),
                })?;
                self.sources.push((archive.clone(), opened));
                self.sources.len() - 1
            }
        };
        let source = &mut self.sources[at].1;
        let own = &archive.record(index).name;
        let Some(at) = source.index_for_name(own) else {
            let message = "the entry is not found again";
            return Err(Error::new(ErrorKind::DamagedArchive, message).in_entry(own));
        };
        let file = source.by_index_raw(at)?;
        let section = archive.locate(index)?;
        let sink = Sink {
            sum: archive.sum(index),
            seen,
        };
        self.tap.replace(Some(Tap {
            next: section.start,
            end: section.start + section.len,
            inflated: DeflateDecoder::new(sink),
        }));
        let copied = self.zip.raw_copy_file_rename(file, name);
        let tap = self.tap.take();
        copied?;
        tap.map_or(Ok(()), Tap::finish)
    }

    /// Writes the archive's directory, and returns the size of the archive in bytes.
    pub(crate) fn finish(self) -> Result<u64> {
        let file = self.zip.finish()?.into_inner()?;
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(file.stream_position()?)
    }
}

/// A callback that receives the uncompressed bytes of an entry as they are written.
pub(crate) type Seen = Box<dyn FnMut(&[u8]) -> Result<()>>;

/// An observer that inflates the bytes of a deflated entry while they are copied.
struct Tap {
    /// Offset in the source archive of the next byte to inflate.
    next: u64,
    end: u64,
    inflated: DeflateDecoder<Sink>,
}

impl Tap {
    /// Inflates those of `bytes` that are part of the entry and haven't been inflated yet. `at` is
    /// the offset of `bytes` in the source archive.
    fn see(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let end = self.end.min(at + bytes.len() as u64);
        if at <= self.next && self.next < end {
            // Both offsets are at most the length of `bytes`.
            let part = usize::try_from(self.next - at).ok();
            let part = part.zip(usize::try_from(end - at).ok());
            let part = part.and_then(|(from, to)| bytes.get(from..to));
            let inflated = self.inflated.write_all(part.unwrap_or_default());
            inflated.map_err(|error| self.inflated.get_ref().explained(error))?;
            self.next = end;
        }
        Ok(())
    }

    /// Completes the inflation once all stored bytes have been copied, and verifies the checksum.
    fn finish(mut self) -> Result<()> {
        let inflated = self.inflated.try_finish();
        inflated.map_err(|error| self.inflated.get_ref().explained(error))?;
        // If the deflate stream is complete, it doesn't accept another byte.
        let more = self.inflated.write(&[0]);
        let sink = self.inflated.get_ref();
        if !matches!(more, Ok(0)) {
            return Err(sink.sum.undecodable());
        }
        sink.sum.finish()
    }
}

/// A writer that receives the inflated bytes of an entry.
struct Sink {
    sum: EntrySum,
    seen: Option<Seen>,
}

impl Sink {
    /// Converts the various errors that decoders return for damaged input to the error for an entry
    /// that can't be inflated.
    fn explained(&self, error: io::Error) -> io::Error {
        if error.get_ref().is_some_and(|own| own.is::<Error>()) {
            return error;
        }
        self.sum.undecodable().into()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sum.see(bytes)?;
        if let Some(seen) = &mut self.seen {
            seen(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A source archive as a reader with a position, which the crate `zip` requires.
struct Tapped {
    archive: PositionReader<Arc<dyn ReadAt>>,
    tap: Rc<RefCell<Option<Tap>>>,
}

impl Read for Tapped {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let at = self.archive.stream_position()?;
        let read = self.archive.read(buf)?;
        if let Some(tap) = &mut *self.tap.borrow_mut() {
            tap.see(at, &buf[..read])?;
        }
        Ok(read)
    }
}

impl Seek for Tapped {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.archive.seek(to)
    }
}
