//! The bytes of entries: by position where they are stored, as a stream in any case.

use std::io::{self, Read};
use std::sync::Arc;

use flate2::read::DeflateDecoder;
use record_file::ReadAt;

use super::directory::{Directory, EntryIndex, LOCAL_LEN, Method, Record, damaged, u16_at, u32_at};
use super::section::Section;
use super::spool::{Room, spool};
use crate::limits::SameDiffLimits;
use crate::{Error, ErrorKind, Result};

const LOCAL_MAGIC: u32 = 0x0403_4b50;

/// What is read at once around a local header: it and what an array's file begins with.
const HEAD_LEN: usize = 4 << 10;

/// How much of a deflated entry is inflated to look at its beginning: 64 KiB.
const PREFIX_LEN: u64 = 64 << 10;

/// An archive that is open for reading.
#[derive(Clone)]
pub(crate) struct Archive {
    source: Arc<dyn ReadAt>,
    directory: Arc<Directory>,
    room: Room,
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = self.directory.files().count();
        f.debug_struct("Archive")
            .field("entries", &entries)
            .finish()
    }
}

impl Archive {
    pub(crate) fn open(source: Arc<dyn ReadAt>, limits: &SameDiffLimits) -> Result<Archive> {
        let directory = Directory::read(&source, limits.get_max_entries())?;
        Ok(Archive {
            source,
            directory: Arc::new(directory),
            room: Room::new(limits.get_max_inflated_size()),
        })
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn source(&self) -> &Arc<dyn ReadAt> {
        &self.source
    }

    pub(crate) fn record(&self, index: EntryIndex) -> &Record {
        self.directory.record(index)
    }

    /// Whether two are the same open archive.
    pub(crate) fn same(a: &Archive, b: &Archive) -> bool {
        Arc::ptr_eq(&a.directory, &b.directory)
    }

    /// Finds where an entry's stored bytes are, by one read.
    pub(super) fn locate(&self, index: EntryIndex) -> Result<Section> {
        let record = self.record(index);
        self.locate_record(record)
            .map_err(|error| error.in_entry(&record.name))
    }

    /// Reads the local header, which says how far behind it the bytes begin:
    ///
    /// ```text
    /// 0 u32 0x04034b50   6 u16 flags    14 u32 crc-32       22 u32 length            28 u16 length of extra fields
    /// 4 u16 needs        8 u16 method   18 u32 stored length 26 u16 length of name   30 name, extra fields, bytes
    /// ```
    fn locate_record(&self, record: &Record) -> Result<Section> {
        let wrong = |message: &str| Err(damaged(message).at_offset(record.header));
        let mut head = vec![0; HEAD_LEN];
        let room = usize::try_from(record.limit - record.header).unwrap_or(usize::MAX);
        head.truncate(room);
        self.source.read_exact_at(record.header, &mut head)?;
        if u32_at(&head, 0) != Some(LOCAL_MAGIC) {
            return wrong("the directory leads to a place where no entry begins");
        }
        let method = match record.method {
            Method::Stored => 0,
            Method::Deflated => 8,
        };
        if u16_at(&head, 8) != Some(method) || u16_at(&head, 6).is_none_or(|flags| flags & 1 != 0) {
            return wrong("the entry and the directory differ in how it is stored");
        }
        let (Some(name_len), Some(extra_len)) = (u16_at(&head, 26), u16_at(&head, 28)) else {
            return wrong("the entry is cut");
        };
        let mut name = vec![0; name_len.into()];
        match head
            .get(LOCAL_LEN..)
            .and_then(|rest| rest.get(..name.len()))
        {
            Some(known) => name.copy_from_slice(known),
            None => {
                let at = record.header + LOCAL_LEN as u64;
                self.source.read_exact_at(at, &mut name)?;
            }
        }
        if name != record.name.as_bytes() {
            return wrong("the entry and the directory differ in its name");
        }
        let start = record.header + LOCAL_LEN as u64 + u64::from(name_len) + u64::from(extra_len);
        let fits = start.checked_add(record.stored_len);
        if fits.is_none_or(|end| end > record.limit) {
            let message = "the entry runs into what follows it";
            let error = Error::new(ErrorKind::OverlappingEntries, message);
            return Err(error.at_offset(record.header));
        }
        let before = usize::try_from(start - record.header).unwrap_or(usize::MAX);
        let mut section = Section::new(Arc::clone(&self.source), start, record.stored_len);
        section.head = head.split_off(before.min(head.len()));
        Ok(section)
    }

    /// The bytes of a stored entry by position; nothing of a deflated one.
    pub(crate) fn stored(&self, index: EntryIndex) -> Result<Option<Section>> {
        match self.record(index).method {
            Method::Stored => self.locate(index).map(Some),
            Method::Deflated => Ok(None),
        }
    }

    /// The bytes of any entry by position: of a deflated one, they are inflated first.
    pub(crate) fn positioned(&self, index: EntryIndex) -> Result<Arc<dyn ReadAt>> {
        if let Some(section) = self.stored(index)? {
            return Ok(Arc::new(section));
        }
        let record = self.record(index);
        spool(self.stream(index)?, record.len, &self.room)
            .map_err(|error| error.in_entry(&record.name))
    }

    /// The first bytes of an entry by position.
    pub(crate) fn prefix(&self, index: EntryIndex) -> Result<Vec<u8>> {
        let mut prefix = Vec::new();
        self.inflated(index)?
            .take(PREFIX_LEN)
            .read_to_end(&mut prefix)?;
        Ok(prefix)
    }

    /// The bytes of an entry as a stream, which fails at its end if the checksum differs.
    pub(crate) fn stream(&self, index: EntryIndex) -> Result<Checked<Box<dyn Read + Send>>> {
        let record = self.record(index);
        Ok(Checked {
            inner: self.inflated(index)?,
            left: record.len,
            expected: record.crc,
            crc: crc32fast::Hasher::new(),
            entry: record.name.clone(),
        })
    }

    fn inflated(&self, index: EntryIndex) -> Result<Box<dyn Read + Send>> {
        let section = self.locate(index)?;
        Ok(match self.record(index).method {
            Method::Stored => Box::new(section),
            Method::Deflated => Box::new(DeflateDecoder::new(section)),
        })
    }

    /// All bytes of an entry, if they are no more than a limit.
    pub(crate) fn read(&self, index: EntryIndex, limit: u64) -> Result<Vec<u8>> {
        let record = self.record(index);
        if record.len > limit {
            let message = format!("{} bytes, and the limit is {limit}", record.len);
            return Err(Error::new(ErrorKind::LimitExceeded, message).in_entry(&record.name));
        }
        let mut bytes = Vec::new();
        let read = self.stream(index)?.read_to_end(&mut bytes);
        read.map_err(|error| Error::from(error).in_entry(&record.name))?;
        Ok(bytes)
    }

    /// Reads an entry to its end, for its checksum; tells of every buffer.
    pub(crate) fn check(
        &self,
        index: EntryIndex,
        mut read: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut stream = self.stream(index)?;
        let mut buf = vec![0; 1 << 18];
        loop {
            match stream.read(&mut buf).map_err(Error::from)? {
                0 => return Ok(()),
                len => read(len as u64)?,
            }
        }
    }
}

/// A stream whose length and checksum must be the archive's.
pub(crate) struct Checked<R> {
    inner: R,
    left: u64,
    expected: u32,
    crc: crc32fast::Hasher,
    entry: Box<str>,
}

impl<R: Read> Checked<R> {
    fn fault(&self, kind: ErrorKind, message: impl Into<String>) -> io::Error {
        Error::new(kind, message).in_entry(&self.entry).into()
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buf.len());
        if wanted == 0 && !buf.is_empty() {
            // One byte more shows that the length was a lie, and has the decoder see its end.
            if self.inner.read(&mut [0]).unwrap_or(0) != 0 {
                let message = "the entry has more bytes than the directory says";
                return Err(self.fault(ErrorKind::DamagedArchive, message));
            }
            let crc = self.crc.clone().finalize();
            if crc != self.expected {
                let expected = self.expected;
                let message = format!("the crc-32 is {crc:08x}, and {expected:08x} was written");
                return Err(self.fault(ErrorKind::ChecksumMismatch, message));
            }
            return Ok(0);
        }
        let read = match self.inner.read(&mut buf[..wanted]) {
            Ok(read) => read,
            // Decoders tell bad input by any of these.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput
                        | io::ErrorKind::InvalidData
                        | io::ErrorKind::UnexpectedEof
                ) && !error.get_ref().is_some_and(|own| own.is::<Error>()) =>
            {
                return Err(self.fault(
                    ErrorKind::DamagedArchive,
                    "the stored data is damaged or cut",
                ));
            }
            Err(error) => return Err(error),
        };
        if read == 0 && wanted != 0 {
            let message = format!("the entry ends {} bytes early", self.left);
            return Err(self.fault(ErrorKind::DamagedArchive, message));
        }
        self.left -= read as u64;
        self.crc.update(&buf[..read]);
        Ok(read)
    }
}
