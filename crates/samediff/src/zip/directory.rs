//! The central directory of an archive, which lists the entries and their locations.
//!
//! The crate `zip` isn't used to read the directory, since it silently keeps only the last of
//! several entries with the same name. Everything that reads an archive uses this directory, so
//! that there is only one interpretation of the archive.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};

use record_file::ReadAt;

use super::names::check_name;
use super::section::Section;
use crate::{Error, ErrorKind, Result};

const END_LEN: usize = 22;
const LOCATOR_LEN: usize = 20;
const END64_LEN: usize = 56;
const RECORD_LEN: usize = 46;
/// Size of a local header, in bytes, without the name and extra fields that follow it.
pub(super) const LOCAL_LEN: usize = 30;
const MAX_COMMENT_LEN: usize = u16::MAX as usize;

const END_MAGIC: u32 = 0x0605_4b50;
const LOCATOR_MAGIC: u32 = 0x0706_4b50;
const END64_MAGIC: u32 = 0x0606_4b50;
const RECORD_MAGIC: u32 = 0x0201_4b50;

const ZIP64_EXTRA: u16 = 1;
const FLAG_ENCRYPTED: u16 = 1;
const FLAG_STRONG_ENCRYPTION: u16 = 1 << 6;
const FLAG_UTF8: u16 = 1 << 11;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// Maximum ratio of uncompressed to deflated bytes. Two bits can encode 258 bytes, which is 1032
/// times as much.
const DEFLATE_MAX_RATIO: u64 = 1032;

/// Index of an entry in a [`Directory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EntryIndex(usize);

/// The compression method of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Stored,
    Deflated,
}

/// An entry in the central directory.
///
/// ```text
/// 0  u32 0x02014b50    16 u32 crc-32              30 u16 length of the extra fields
/// 4  u16 made by       20 u32 stored length       32 u16 length of the comment
/// 6  u16 needs         24 u32 length              34 u16 disk, 36 u16, 38 u32 attributes
/// 8  u16 flags         28 u16 length of the name  42 u32 offset of the local header
/// 10 u16 method, 12 u32 time                      46 name, extra fields, comment
/// ```
///
/// A length or offset of 0xffffffff means that the value is in the extra field 1 (zip64).
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) name: Box<str>,
    pub(crate) method: Method,
    pub(crate) crc: u32,
    /// Size in the archive, in bytes; for a deflated entry, this is the compressed size.
    pub(crate) stored_len: u64,
    /// Uncompressed size, in bytes.
    pub(crate) len: u64,
    /// Offset of the entry's local header in the archive.
    pub(crate) header: u64,
    /// Upper bound for the end of the entry: the start of the next entry or of the directory.
    pub(crate) limit: u64,
}

impl Record {
    /// Returns true if the entry is a folder.
    pub(crate) fn is_folder(&self) -> bool {
        self.name.ends_with('/')
    }
}

/// The central directory: all entries of an archive, in the order of their records.
#[derive(Debug)]
pub(crate) struct Directory {
    records: Vec<Record>,
    by_name: HashMap<Box<str>, EntryIndex>,
}

/// The end record of an archive: the location of the directory, its size, and its number of
/// entries.
struct End {
    entries: u64,
    start: u64,
    len: u64,
    /// Offset of the end record in the archive. The directory must end at this offset.
    at: u64,
}

impl Directory {
    /// Reads the directory. First reads the end of the archive, and then the records, as a stream.
    pub(crate) fn read(source: &dyn ReadAt, max_entries: u64) -> Result<Directory> {
        let end = End::read(source)?;
        if end.start.checked_add(end.len) != Some(end.at) {
            let message = format!(
                "the directory of {} bytes doesn't end at the end record, 0x{:x}",
                end.len, end.at
            );
            return Err(damaged(message).at_offset(end.start));
        }
        // The number of entries must be plausible for the size of the directory.
        if end.entries > end.len / RECORD_LEN as u64 {
            let message = format!(
                "{} entries are claimed by a directory of {} bytes",
                end.entries, end.len
            );
            return Err(damaged(message).at_offset(end.start));
        }
        if end.entries > max_entries {
            let message = format!(
                "the archive has {} entries; the limit is {max_entries}",
                end.entries
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let mut records = Vec::new();
        let mut bytes = BufReader::with_capacity(1 << 18, Section::of(source, end.start, end.len));
        let mut at = end.start;
        for _ in 0..end.entries {
            let (record, len) = read_record(&mut bytes).map_err(|error| error.at_offset(at))?;
            at += len;
            records.push(record);
        }
        if !bytes.fill_buf()?.is_empty() {
            let message = format!("more bytes follow the {} entries", end.entries);
            return Err(damaged(message).at_offset(at));
        }
        place(&mut records, end.start)?;
        let by_name = index(&records)?;
        Ok(Directory { records, by_name })
    }

    pub(crate) fn find(&self, name: &str) -> Option<EntryIndex> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn record(&self, index: EntryIndex) -> &Record {
        &self.records[index.0]
    }

    /// Returns all entries except folders.
    pub(crate) fn files(&self) -> impl Iterator<Item = (EntryIndex, &Record)> {
        let all = self.records.iter().enumerate();
        all.map(|(index, record)| (EntryIndex(index), record))
            .filter(|(_, record)| !record.is_folder())
    }

    pub(crate) fn first(&self) -> Option<&Record> {
        self.records.first()
    }
}

impl End {
    /// Finds the archive's end record and, if there is one, the zip64 end record that precedes it.
    /// Only a comment may follow the end record.
    fn read(source: &dyn ReadAt) -> Result<End> {
        let size = source.size()?;
        let longest = (END_LEN + MAX_COMMENT_LEN + LOCATOR_LEN) as u64;
        let tail_len = size.min(longest);
        let tail_start = size - tail_len;
        let mut tail = vec![0; usize::try_from(tail_len).unwrap_or(0)];
        source.read_exact_at(tail_start, &mut tail)?;

        let ends_here = |&at: &usize| {
            let bytes = &tail[at..];
            u32_at(bytes, 0) == Some(END_MAGIC)
                && u16_at(bytes, 20).map(usize::from) == bytes.len().checked_sub(END_LEN)
        };
        let at = (0..=tail.len().saturating_sub(END_LEN))
            .rev()
            .find(ends_here)
            .ok_or_else(|| {
                let message = "not a zip archive: it has no end of a central directory";
                Error::new(ErrorKind::NotAnArchive, message)
            })?;
        let end = &tail[at..];
        let end_at = tail_start + at as u64;
        if u32_at(end, 4) != Some(0) || u16_at(end, 8) != u16_at(end, 10) {
            return Err(damaged("the archive is split over several disks").at_offset(end_at));
        }
        let (Some(entries), Some(len), Some(start)) =
            (u16_at(end, 10), u32_at(end, 12), u32_at(end, 16))
        else {
            return Err(damaged("the end record is truncated").at_offset(end_at));
        };
        let locator = at
            .checked_sub(LOCATOR_LEN)
            .map(|locator| &tail[locator..at])
            .filter(|locator| u32_at(locator, 0) == Some(LOCATOR_MAGIC));
        match locator {
            Some(locator) => End::read64(source, locator, end_at - LOCATOR_LEN as u64),
            None => Ok(End {
                entries: entries.into(),
                start: start.into(),
                len: len.into(),
                at: end_at,
            }),
        }
    }

    fn read64(source: &dyn ReadAt, locator: &[u8], locator_at: u64) -> Result<End> {
        let at = u64_at(locator, 8).unwrap_or(u64::MAX);
        let mut end = [0; END64_LEN];
        let fits = at.checked_add(END64_LEN as u64) == Some(locator_at);
        if !fits {
            return Err(damaged("the zip64 end is not right before its locator").at_offset(at));
        }
        source.read_exact_at(at, &mut end)?;
        let one_disk = u32_at(&end, 16) == Some(0) && u32_at(&end, 20) == Some(0);
        let (Some(END64_MAGIC), true, Some(entries), Some(len), Some(start)) = (
            u32_at(&end, 0),
            one_disk,
            u64_at(&end, 32),
            u64_at(&end, 40),
            u64_at(&end, 48),
        ) else {
            return Err(damaged(
                "the zip64 end is damaged, or the archive is split over several disks",
            )
            .at_offset(at));
        };
        Ok(End {
            entries,
            start,
            len,
            at,
        })
    }
}

/// Reads a record of the directory, and returns it with its size in bytes.
fn read_record(bytes: &mut impl Read) -> Result<(Record, u64)> {
    let mut fixed = [0; RECORD_LEN];
    fill(bytes, &mut fixed)?;
    let u16_at = |at| u16_at(&fixed, at).unwrap_or_default();
    let u32_at = |at| u32_at(&fixed, at).unwrap_or_default();
    if u32_at(0) != RECORD_MAGIC {
        return Err(damaged("no entry of the directory begins here"));
    }
    // The name, the extra fields and the comment have at most 64 KiB each.
    let mut name = vec![0; u16_at(28).into()];
    let mut extra = vec![0; u16_at(30).into()];
    let mut comment = vec![0; u16_at(32).into()];
    fill(bytes, &mut name)?;
    fill(bytes, &mut extra)?;
    fill(bytes, &mut comment)?;
    let len = RECORD_LEN + name.len() + extra.len() + comment.len();
    let name = decode_name(name, u16_at(8) & FLAG_UTF8 != 0)?;
    let record = || -> Result<Record> {
        check_name(&name)?;
        if u16_at(8) & (FLAG_ENCRYPTED | FLAG_STRONG_ENCRYPTION) != 0 {
            return Err(Error::new(
                ErrorKind::UnsupportedEntry,
                "the entry is encrypted",
            ));
        }
        let method = match u16_at(10) {
            STORED => Method::Stored,
            DEFLATED => Method::Deflated,
            other => {
                let message = format!("compression method {other} is neither stored nor deflate");
                return Err(Error::new(ErrorKind::UnsupportedEntry, message));
            }
        };
        let mut wide = Wide::new(&extra);
        let len = wide.or(u32_at(24))?;
        let stored_len = wide.or(u32_at(20))?;
        let header = wide.or(u32_at(42))?;
        check_lengths(method, stored_len, len)?;
        Ok(Record {
            name: name.clone(),
            method,
            crc: u32_at(16),
            stored_len,
            len,
            header,
            limit: 0,
        })
    };
    let record = record().map_err(|error| error.in_entry(&name))?;
    Ok((record, len as u64))
}

fn decode_name(name: Vec<u8>, is_utf8: bool) -> Result<Box<str>> {
    if !is_utf8 && !name.is_ascii() {
        let message = format!(
            "the entry's name {:?} is in an unknown encoding",
            name.escape_ascii().to_string()
        );
        return Err(Error::new(ErrorKind::UnsafeName, message));
    }
    let name = String::from_utf8(name);
    let name =
        name.map_err(|_| Error::new(ErrorKind::UnsafeName, "an entry's name is not utf-8"))?;
    Ok(name.into())
}

/// Fails if the stored and the uncompressed length of an entry contradict each other.
fn check_lengths(method: Method, stored_len: u64, len: u64) -> Result<()> {
    let possible = match method {
        Method::Stored => len == stored_len,
        Method::Deflated => len <= stored_len.saturating_mul(DEFLATE_MAX_RATIO),
    };
    if possible {
        return Ok(());
    }
    let message = format!("{stored_len} stored bytes can't expand to {len} bytes");
    Err(damaged(message))
}

/// The 64-bit values in the zip64 extra field of a record, in order. The field only has values that
/// don't fit into the record's 32-bit fields.
struct Wide<'a> {
    values: &'a [u8],
}

impl<'a> Wide<'a> {
    fn new(mut extra: &'a [u8]) -> Wide<'a> {
        while let (Some(kind), Some(len)) = (u16_at(extra, 0), u16_at(extra, 2)) {
            let Some((field, rest)) = extra[4..].split_at_checked(len.into()) else {
                break;
            };
            if kind == ZIP64_EXTRA {
                return Wide { values: field };
            }
            extra = rest;
        }
        Wide { values: &[] }
    }

    fn or(&mut self, narrow: u32) -> Result<u64> {
        if narrow != u32::MAX {
            return Ok(narrow.into());
        }
        match u64_at(self.values, 0) {
            Some(value) => {
                self.values = &self.values[8..];
                Ok(value)
            }
            None => Err(damaged("a 64-bit length or offset is missing")),
        }
    }
}

/// Sets [`Record::limit`], the upper bound for the end of each entry. Fails if two entries overlap.
fn place(records: &mut [Record], directory: u64) -> Result<()> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_unstable_by_key(|&index| std::cmp::Reverse(records[index].header));
    let mut limit = directory;
    let mut next: Option<usize> = None;
    for index in order {
        let record = &records[index];
        let end = record
            .stored_len
            .checked_add((LOCAL_LEN + record.name.len()) as u64)
            .and_then(|len| len.checked_add(record.header));
        if end.is_none_or(|end| end > limit) {
            let message = match next {
                Some(next) => format!("the entry overlaps the entry {:?}", records[next].name),
                None => "the entry overlaps the archive's directory".to_owned(),
            };
            let error = Error::new(ErrorKind::OverlappingEntries, message);
            return Err(error.in_entry(&record.name).at_offset(record.header));
        }
        records[index].limit = limit;
        limit = records[index].header;
        next = Some(index);
    }
    Ok(())
}

fn index(records: &[Record]) -> Result<HashMap<Box<str>, EntryIndex>> {
    let mut by_name = HashMap::with_capacity(records.len());
    for (index, record) in records.iter().enumerate() {
        if by_name
            .insert(record.name.clone(), EntryIndex(index))
            .is_some()
        {
            let message = "two entries of the archive have this name";
            return Err(Error::new(ErrorKind::DuplicateEntry, message).in_entry(&record.name));
        }
    }
    Ok(by_name)
}

fn fill(bytes: &mut impl Read, buf: &mut [u8]) -> Result<()> {
    bytes.read_exact(buf).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => damaged("the directory ends within an entry"),
        _ => error.into(),
    })
}

pub(super) fn damaged(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::DamagedArchive, message)
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_le_bytes(*bytes))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}
