//! Writing an archive as a stream.

use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use record_file::ReadAt;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::entry::Archive;
use super::names::check_name;
use super::{EntryIndex, directory::Method};
use crate::{Error, ErrorKind, Result};

/// What the data of a stored entry begins at a multiple of: 64 bytes.
const ALIGNMENT: u16 = 64;

/// What is copied at once: 1 MiB.
const STEP: usize = 1 << 20;

/// How entries are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// New ones as they are, those of another archive as they are there.
    #[default]
    Keep,
    /// As they are: readable by position.
    Stored,
    /// Deflated, which takes long and makes floating-point numbers hardly smaller.
    Deflated,
}

/// An archive that is being written. The same entries give the same bytes.
pub(crate) struct ArchiveWriter<W: Write + Seek> {
    zip: ZipWriter<BufWriter<W>>,
    compression: Compression,
    /// Archives that deflated entries are copied from, as `zip` reads them.
    sources: Vec<(Archive, ZipArchive<Cursor>)>,
    buf: Vec<u8>,
}

impl<W: Write + Seek> ArchiveWriter<W> {
    pub(crate) fn new(file: W, compression: Compression) -> Self {
        ArchiveWriter {
            zip: ZipWriter::new(BufWriter::with_capacity(STEP, file)),
            compression,
            sources: Vec::new(),
            buf: vec![0; STEP],
        }
    }

    /// Writes an entry. Tells of every buffer.
    pub(crate) fn add(
        &mut self,
        name: &str,
        mut content: impl Read,
        mut written: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        check_name(name)?;
        let method = match self.compression {
            Compression::Keep | Compression::Stored => CompressionMethod::Stored,
            Compression::Deflated => CompressionMethod::Deflated,
        };
        // Lengths have 64 bits from the start, since a stream's isn't known; the time is the
        // earliest there is, so that nothing depends on when it was written.
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

    /// Writes an entry of another archive under this name, and checks it on the way unless it stays
    /// deflated. Tells of every buffer of what it stands for.
    pub(crate) fn copy(
        &mut self,
        name: &str,
        archive: &Archive,
        index: EntryIndex,
        written: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let deflated = archive.record(index).method == Method::Deflated;
        if deflated && self.compression != Compression::Stored {
            return self.copy_deflated(name, archive, index);
        }
        // Not copied by `zip`, which loses the alignment.
        self.add(name, archive.stream(index)?, written)
    }

    /// Whether a copy comes by as a stream of what it stands for.
    pub(crate) fn shows_copy(&self, archive: &Archive, index: EntryIndex) -> bool {
        let deflated = archive.record(index).method == Method::Deflated;
        !deflated || self.compression == Compression::Stored
    }

    fn copy_deflated(&mut self, name: &str, archive: &Archive, index: EntryIndex) -> Result<()> {
        check_name(name)?;
        let known = self
            .sources
            .iter()
            .position(|(known, _)| Archive::same(known, archive));
        let at = match known {
            Some(at) => at,
            None => {
                let opened = ZipArchive::new(Cursor::new(archive.source()))?;
                self.sources.push((archive.clone(), opened));
                self.sources.len() - 1
            }
        };
        let source = &mut self.sources[at].1;
        let own = &archive.record(index).name;
        let Some(index) = source.index_for_name(own) else {
            let message = "the entry is not found again";
            return Err(Error::new(ErrorKind::DamagedArchive, message).in_entry(own));
        };
        let file = source.by_index_raw(index)?;
        Ok(self.zip.raw_copy_file_rename(file, name)?)
    }

    /// Writes the directory, and says how many bytes there are now.
    pub(crate) fn finish(self) -> Result<u64> {
        let inner = self.zip.finish()?;
        let mut file = inner.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(file.stream_position()?)
    }
}

/// A source that is read in turn, for `zip`.
struct Cursor {
    source: Arc<dyn ReadAt>,
    at: u64,
}

impl Cursor {
    fn new(source: &Arc<dyn ReadAt>) -> Cursor {
        Cursor {
            source: Arc::clone(source),
            at: 0,
        }
    }
}

impl Read for Cursor {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read_at(self.at, buf)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.source.size()?.checked_add_signed(by),
        };
        self.at = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
