//! Readers that verify the checksum of an archive entry while they read its bytes.
//!
//! If the checksum is wrong, the read that would complete an entry fails, so no caller can read all
//! bytes of a damaged entry. This applies to a stream of the entry ([`Checked`]), a stream of a
//! part of it ([`Within`]), and random access in any order ([`Positions`]). [`EntrySum`] verifies
//! the checksum of an entry that is inflated while its stored bytes are copied.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use crc32fast::Hasher;
use record_file::ReadAt;

use super::section::Section;
use crate::{Error, ErrorKind, Result};

/// The expected length and checksum of an entry, and the checksum of the bytes added so far.
#[derive(Clone)]
pub(crate) struct EntrySum {
    left: u64,
    expected: u32,
    crc: Hasher,
    entry: Box<str>,
    /// Name of the archive's file; `None` if the archive isn't a file.
    file: Option<Arc<str>>,
}

impl EntrySum {
    pub(super) fn new(entry: &str, len: u64, crc: u32, file: Option<&Arc<str>>) -> EntrySum {
        EntrySum {
            left: len,
            expected: crc,
            crc: Hasher::new(),
            entry: entry.into(),
            file: file.map(Arc::clone),
        }
    }

    /// Adds the next bytes of the entry to the checksum.
    pub(super) fn see(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(self.too_long());
        };
        self.left = left;
        self.crc.update(bytes);
        Ok(())
    }

    /// Fails unless all bytes of the entry were added, and their checksum is the expected one.
    pub(super) fn finish(&self) -> Result<()> {
        if self.left > 0 {
            let message = format!("the entry ends {} bytes early", self.left);
            return Err(self.fault(ErrorKind::DamagedArchive, message));
        }
        self.compare(self.crc.clone())
    }

    fn compare(&self, crc: Hasher) -> Result<()> {
        let (found, expected) = (crc.finalize(), self.expected);
        if found == expected {
            return Ok(());
        }
        let message = format!("the crc-32 is {found:08x}, but {expected:08x} was expected");
        Err(self.fault(ErrorKind::ChecksumMismatch, message))
    }

    fn too_long(&self) -> Error {
        let message = "the entry has more bytes than the directory says";
        self.fault(ErrorKind::DamagedArchive, message)
    }

    /// Returns the error for a deflated entry whose bytes can't be inflated.
    pub(super) fn undecodable(&self) -> Error {
        let message = "the stored data is damaged or truncated";
        self.fault(ErrorKind::DamagedArchive, message)
    }

    #[cold]
    fn fault(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        let error = Error::new(kind, message).in_entry(&self.entry);
        match &self.file {
            Some(file) => error.in_file(file),
            None => error,
        }
    }
}

/// A stream of all bytes of an entry. If the number of bytes or their checksum differs from that in
/// the directory, reading the last byte fails.
pub(crate) struct Checked<R> {
    inner: R,
    sum: EntrySum,
    is_over: bool,
}

impl<R: Read> Checked<R> {
    pub(super) fn new(inner: R, sum: EntrySum) -> Checked<R> {
        Checked {
            inner,
            sum,
            is_over: false,
        }
    }

    /// Restricts the stream to the `len` bytes at `offset`. The bytes outside of this range are
    /// also read, for the checksum.
    pub(crate) fn within(mut self, offset: u64, len: u64) -> Result<Within<R>> {
        io::copy(&mut (&mut self).take(offset), &mut io::sink())?;
        Ok(Within {
            stream: self,
            left: len,
        })
    }

    /// Verifies the checksum at the end of the stream. First tries to read one more byte. This
    /// detects a wrong length, and makes a decoder process the end of its input.
    fn end(&mut self) -> io::Result<()> {
        if self.read_inner(&mut [0])? != 0 {
            return Err(self.sum.too_long().into());
        }
        self.sum.finish()?;
        self.is_over = true;
        Ok(())
    }

    /// Reads bytes without verifying their checksum. Converts the various errors that decoders
    /// return for damaged input to one kind.
    fn read_inner(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};

        self.inner.read(buf).map_err(|error| {
            let is_own = error.get_ref().is_some_and(|own| own.is::<Error>());
            let is_damage = matches!(error.kind(), InvalidInput | InvalidData | UnexpectedEof);
            if is_damage && !is_own {
                self.sum.undecodable().into()
            } else {
                error
            }
        })
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.is_over || buf.is_empty() {
            return Ok(0);
        }
        let wanted = usize::try_from(self.sum.left)
            .unwrap_or(usize::MAX)
            .min(buf.len());
        if wanted == 0 {
            self.end()?;
            return Ok(0);
        }
        let read = self.read_inner(&mut buf[..wanted])?;
        if read == 0 {
            self.sum.finish()?;
        }
        self.sum.see(&buf[..read])?;
        if self.sum.left == 0 {
            self.end()?;
        }
        Ok(read)
    }
}

/// A stream of a range of an entry. Before it returns the last byte, it reads the bytes after the
/// range, for the checksum.
pub(crate) struct Within<R> {
    stream: Checked<R>,
    left: u64,
}

impl<R: Read> Read for Within<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = (&mut self.stream).take(self.left).read(buf)?;
        self.left -= read as u64;
        if self.left == 0 {
            io::copy(&mut self.stream, &mut io::sink())?;
        }
        Ok(read)
    }
}

/// The bytes of a stored entry, for random access. Once every byte has been read, in any order, the
/// checksum is verified. If it is wrong, the read that completes the entry fails.
pub(crate) struct Positions {
    section: Section,
    sum: EntrySum,
    seen: Mutex<Seen>,
}

/// The ranges of an entry that have been read.
#[derive(Default)]
struct Seen {
    /// Contiguous ranges of bytes that were read. The key is a range's start, and the value is the
    /// range's end and checksum.
    stretches: BTreeMap<u64, (u64, Hasher)>,
    /// Total length of the ranges, in bytes.
    len: u64,
}

impl Positions {
    pub(super) fn new(section: Section, sum: EntrySum) -> Positions {
        Positions {
            section,
            sum,
            seen: Mutex::default(),
        }
    }

    /// Reads all bytes outside of the range of `len` bytes at `offset`. Afterwards, reading the
    /// range completes the entry, and verifies its checksum.
    pub(crate) fn read_around(&self, offset: u64, len: u64) -> Result<()> {
        let end = self.section.len;
        for (mut at, until) in [(0, offset), (offset.saturating_add(len), end)] {
            let mut buf = [0; 4 << 10];
            while at < until {
                let left = usize::try_from(until - at).unwrap_or(usize::MAX);
                let part = left.min(buf.len());
                self.read_exact_at(at, &mut buf[..part])?;
                at += part as u64;
            }
        }
        Ok(())
    }

    /// Records bytes that were read at `at`. If they complete the entry, verifies its checksum.
    fn see(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen.len;
        seen.add(at, bytes);
        if seen.len == before || seen.len < self.section.len {
            return Ok(());
        }
        let mut whole = Hasher::new();
        let stretches = seen.stretches.values();
        stretches.for_each(|(_, crc)| whole.combine(crc));
        self.sum.compare(whole)
    }
}

impl Seen {
    /// Records the bytes at `at`, except for those that are already recorded.
    fn add(&mut self, mut at: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let next = self.stretches.range(at + 1..).next();
            let next = next.map_or(u64::MAX, |(&start, _)| start);
            let before = self.stretches.range_mut(..=at).next_back();
            let before = before.map(|(_, stretch)| stretch);
            let known = before.as_ref().map_or(0, |before| before.0);
            let until = if known > at { known } else { next };
            let len = usize::try_from(until - at)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            let (part, rest) = bytes.split_at(len);
            let end = at + len as u64;
            match before {
                _ if known > at => {}
                Some((until, crc)) if known == at => {
                    crc.update(part);
                    *until = end;
                }
                _ => {
                    let mut crc = Hasher::new();
                    crc.update(part);
                    self.stretches.insert(at, (end, crc));
                }
            }
            if known <= at {
                self.len += len as u64;
            }
            (at, bytes) = (end, rest);
        }
    }
}

impl ReadAt for Positions {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.section.read_at(offset, buf)?;
        self.see(offset, &buf[..read])?;
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.section.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(bytes: &[u8], crc: u32) -> Positions {
        let source: Arc<dyn ReadAt> = Arc::new(bytes.to_vec());
        let section = Section::new(source, 0, bytes.len() as u64);
        Positions::new(section, EntrySum::new("e", bytes.len() as u64, crc, None))
    }

    #[test]
    fn the_read_that_completes_an_entry_in_any_order_compares_its_checksum() {
        let bytes: Vec<u8> = (0..200).collect();
        let good = crc32fast::hash(&bytes);
        let orders: [&[(u64, usize)]; 5] = [
            &[(0, 200)],
            &[(150, 50), (0, 100), (100, 50)],
            // Reads two columns of a matrix alternately, so that each range of bytes grows.
            &[(0, 20), (100, 20), (20, 80), (120, 80)],
            // Some bytes are read twice.
            &[(50, 100), (0, 60), (40, 160)],
            &[(10, 10), (30, 10), (0, 200)],
        ];
        for order in orders {
            let (last, first) = order.split_last().unwrap();
            for crc in [good, good ^ 1] {
                let positions = positions(&bytes, crc);
                let read = |&(at, len): &(u64, usize)| {
                    let mut buf = vec![0; len];
                    positions.read_exact_at(at, &mut buf).map(|()| buf)
                };
                assert!(first.iter().all(|place| read(place).is_ok()), "{order:?}");
                assert_eq!(read(last).is_ok(), crc == good, "{order:?}");
            }
        }
    }

    #[test]
    fn a_stream_fails_in_place_of_its_last_byte() {
        let bytes = [1, 2, 3, 4, 5];
        let sum = |crc| EntrySum::new("e", 5, crc, None);
        let good = crc32fast::hash(&bytes);
        for crc in [good, good ^ 1] {
            let mut buf = [0; 5];
            let mut whole = Checked::new(&bytes[..], sum(crc));
            assert!(whole.read_exact(&mut buf[..4]).is_ok());
            assert_eq!(whole.read_exact(&mut buf[4..]).is_ok(), crc == good);
            let mut part = Checked::new(&bytes[..], sum(crc)).within(1, 2).unwrap();
            assert!(part.read_exact(&mut buf[..1]).is_ok());
            assert_eq!(part.read_exact(&mut buf[1..2]).is_ok(), crc == good);
        }
        // The length in the directory is wrong.
        for len in [4, 6] {
            let sum = EntrySum::new("e", len, good, None);
            let error = io::read_to_string(Checked::new(&bytes[..], sum)).unwrap_err();
            assert_eq!(Error::from(error).kind(), ErrorKind::DamagedArchive);
        }
    }
}
