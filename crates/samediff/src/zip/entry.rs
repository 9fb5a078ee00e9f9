//! Reading the bytes of archive entries. Stored entries support random access, whereas deflated
//! entries are read as a stream.

use std::io::{self, Read};
use std::sync::Arc;

use flate2::read::DeflateDecoder;
use record_file::ReadAt;

use super::checked::{Checked, EntrySum, Positions};
use super::directory::{Directory, EntryIndex, LOCAL_LEN, Method, Record, damaged, u16_at, u32_at};
use super::section::Section;
use super::spool::{Room, spool};
use crate::limits::SameDiffLimits;
use crate::{Error, ErrorKind, Result};

const LOCAL_MAGIC: u32 = 0x0403_4b50;

/// Flag of entries that are encrypted.
const ENCRYPTED: u16 = 1;

/// Flag of entries whose checksum and lengths are stored after their data.
const SUMMED_BEHIND: u16 = 1 << 3;

/// Value of a 32-bit length if the real length is in an extra field.
const IN_EXTRA_FIELD: u64 = u32::MAX as u64;

/// Number of bytes to read at the offset of a local header: 4 KiB. They usually also include the
/// beginning of the entry's data, such as the beginning of an array's file.
const HEAD_LEN: usize = 4 << 10;

/// Number of bytes to inflate from a deflated entry in order to read the header of an array: 64
/// KiB.
const PREFIX_LEN: u64 = 64 << 10;

/// An archive opened for reading.
#[derive(Clone)]
pub(crate) struct Archive {
    source: Arc<dyn ReadAt>,
    directory: Arc<Directory>,
    room: Room,
    /// Name of the archive's file, for error messages.
    file: Option<Arc<str>>,
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
            file: None,
        })
    }

    /// Sets the name of the archive's file, which error messages include.
    pub(crate) fn name_file(&mut self, file: String) {
        self.file = Some(file.into());
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

    /// Returns true if `a` and `b` are the same open archive.
    pub(crate) fn same(a: &Archive, b: &Archive) -> bool {
        Arc::ptr_eq(&a.directory, &b.directory)
    }

    /// Returns the location of an entry's stored bytes. A single read of the archive suffices,
    /// unless the entry's name is long.
    pub(super) fn locate(&self, index: EntryIndex) -> Result<Section> {
        self.locate_record(self.record(index))
            .map_err(|error| self.named(error, index))
    }

    /// Fails unless the entry has the same name in its local header as in the directory.
    pub(crate) fn check_name(&self, index: EntryIndex) -> Result<()> {
        self.locate(index).map(drop)
    }

    /// Adds the name of an entry and the name of the archive's file to an error.
    pub(crate) fn named(&self, error: Error, index: EntryIndex) -> Error {
        let error = error.in_entry(&self.record(index).name);
        match &self.file {
            Some(file) => error.in_file(file),
            None => error,
        }
    }

    /// Reads an entry's local header, and returns the location of the entry's stored bytes:
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
            return wrong("the directory points to a place where no entry begins");
        }
        let method = match record.method {
            Method::Stored => 0,
            Method::Deflated => 8,
        };
        let flags = u16_at(&head, 6).unwrap_or(ENCRYPTED);
        if u16_at(&head, 8) != Some(method) || flags & ENCRYPTED != 0 {
            return wrong("the entry and the directory differ in the storage method");
        }
        if flags & SUMMED_BEHIND == 0 {
            if u32_at(&head, 14) != Some(record.crc) {
                return wrong("the entry and the directory differ in the crc-32");
            }
            for (at, len) in [(18, record.stored_len), (22, record.len)] {
                let said = u32_at(&head, at).map(u64::from);
                if said != Some(len) && said != Some(IN_EXTRA_FIELD) {
                    return wrong("the entry and the directory differ in the length");
                }
            }
        }
        let (Some(name_len), Some(extra_len)) = (u16_at(&head, 26), u16_at(&head, 28)) else {
            return wrong("the entry is truncated");
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
            return wrong("the entry and the directory differ in the name");
        }
        let start = record.header + LOCAL_LEN as u64 + u64::from(name_len) + u64::from(extra_len);
        let fits = start.checked_add(record.stored_len);
        if fits.is_none_or(|end| end > record.limit) {
            let message = "the entry runs into the bytes that follow it";
            let error = Error::new(ErrorKind::OverlappingEntries, message);
            return Err(error.at_offset(record.header));
        }
        let before = usize::try_from(start - record.header).unwrap_or(usize::MAX);
        let mut section = Section::new(Arc::clone(&self.source), start, record.stored_len);
        section.head = head.split_off(before.min(head.len()));
        Ok(section)
    }

    /// Returns an entry for random access if it is stored; `None` if it is deflated.
    pub(crate) fn stored(&self, index: EntryIndex) -> Result<Option<StoredEntry>> {
        match self.record(index).method {
            Method::Stored => Ok(Some(StoredEntry {
                section: self.locate(index)?,
                sum: self.sum(index),
            })),
            Method::Deflated => Ok(None),
        }
    }

    /// Returns the uncompressed bytes of a stored or deflated entry, for random access. First reads
    /// the whole entry, in order to verify its checksum.
    pub(crate) fn positioned(&self, index: EntryIndex) -> Result<Arc<dyn ReadAt>> {
        if let Some(entry) = self.stored(index)? {
            io::copy(&mut entry.stream(), &mut io::sink())?;
            return Ok(Arc::new(entry.section));
        }
        spool(self.stream(index)?, self.record(index).len, &self.room)
            .map_err(|error| self.named(error, index))
    }

    /// Returns up to [`PREFIX_LEN`] uncompressed bytes from the beginning of an entry.
    pub(crate) fn prefix(&self, index: EntryIndex) -> Result<Vec<u8>> {
        let mut prefix = Vec::new();
        self.stream(index)?
            .take(PREFIX_LEN)
            .read_to_end(&mut prefix)?;
        Ok(prefix)
    }

    /// Returns a stream of an entry's uncompressed bytes. If the checksum is wrong, the stream
    /// fails.
    pub(crate) fn stream(&self, index: EntryIndex) -> Result<Checked<Box<dyn Read + Send>>> {
        Ok(Checked::new(self.inflated(index)?, self.sum(index)))
    }

    /// Returns the expected length and checksum of an entry.
    pub(super) fn sum(&self, index: EntryIndex) -> EntrySum {
        let record = self.record(index);
        EntrySum::new(&record.name, record.len, record.crc, self.file.as_ref())
    }

    fn inflated(&self, index: EntryIndex) -> Result<Box<dyn Read + Send>> {
        let section = self.locate(index)?;
        Ok(match self.record(index).method {
            Method::Stored => Box::new(section),
            Method::Deflated => Box::new(DeflateDecoder::new(section)),
        })
    }

    /// Reads all uncompressed bytes of an entry. Fails if there are more than `limit` bytes.
    pub(crate) fn read(&self, index: EntryIndex, limit: u64) -> Result<Vec<u8>> {
        let record = self.record(index);
        if record.len > limit {
            let message = format!("the entry has {} bytes; the limit is {limit}", record.len);
            return Err(self.named(Error::new(ErrorKind::LimitExceeded, message), index));
        }
        let mut bytes = Vec::new();
        let read = self.stream(index)?.read_to_end(&mut bytes);
        read.map_err(|error| self.named(error.into(), index))?;
        Ok(bytes)
    }

    /// Reads an entry to its end, which verifies its checksum. After reading each buffer, calls
    /// `read` with the number of bytes in the buffer.
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

/// An uncompressed entry, which supports random access.
#[derive(Clone)]
pub(crate) struct StoredEntry {
    section: Section,
    sum: EntrySum,
}

impl StoredEntry {
    /// Frees the memory of the bytes that were read together with the local header.
    pub(crate) fn drop_head(&mut self) {
        self.section.head = Vec::new();
    }

    /// Returns a stream of the entry's bytes. If the checksum is wrong, the stream fails.
    pub(crate) fn stream(&self) -> Checked<Box<dyn Read + Send>> {
        Checked::new(Box::new(self.section.clone()), self.sum.clone())
    }

    /// Returns the entry's bytes, for random access. Once every byte has been read, the checksum is
    /// verified.
    pub(crate) fn positions(&self) -> Positions {
        Positions::new(self.section.clone(), self.sum.clone())
    }
}

/// Reads bytes without verifying the checksum, for parsing the beginning of an entry.
impl ReadAt for StoredEntry {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.section.read_at(offset, buf)
    }

    fn size(&self) -> io::Result<u64> {
        self.section.size()
    }
}
