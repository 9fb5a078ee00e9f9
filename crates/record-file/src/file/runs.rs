//! Reading ahead when small reads follow each other.
use std::io::{self, IoSliceMut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::read_at::ReadAt;

/// Maximum number of bytes to read ahead at once: 64 KiB.
const MOST_AHEAD: u64 = 64 << 10;

/// Maximum size of a small read, in bytes: 16 KiB. Larger reads go to the source.
const MOST_SMALL: usize = 16 << 10;

/// Number of reads in a run before bytes are read ahead: those of a single record, which are reads
/// of its header, of the beginning of its data, and of the remaining data.
const READS_BEFORE: u32 = 3;

/// Number of runs to remember, so that a few threads can each have their own.
const RUNS: usize = 4;

/// Number of reads in a run whose ends are remembered. Pairs of records are read alternately, by
/// each of a few threads.
const ENDS: usize = 4;

/// Maximum number of buffers for bytes that were read ahead, in all files together: a message can be
/// in thousands of files. If there are more runs, the others aren't read ahead.
const MOST_BUFFERS: usize = 64;

/// Number of buffers in all files.
static BUFFERS: AtomicUsize = AtomicUsize::new(0);

/// Number of small reads after which a run that none of them continued has ended.
const RECENT: u64 = 4 * RUNS as u64;

/// The most recent runs of small reads, each of which begins where an earlier one ended, as when
/// small records are read one after another. Only runs are read ahead, and by as many bytes as they
/// have read; any other read requests only its own bytes. Bytes that were read ahead are
/// used only while the run goes on: whoever reads a file again reads it from the source.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: [Mutex<Run>; RUNS],
    /// Number of small reads so far.
    reads: AtomicU64,
}

/// Small reads that follow each other, and the bytes that were read ahead of them.
#[derive(Debug, Default)]
struct Run {
    /// Offsets at which reads ended that no later read has continued, in the order of the reads.
    ends: Vec<u64>,
    /// Number of reads since the run began, or since reading ahead failed.
    reads: u32,
    /// Number of bytes read.
    read: u64,
    /// Offset of `ahead` in the source.
    begin: u64,
    /// Bytes that were read ahead.
    ahead: Buffer,
    /// Number of the most recent read among all small reads.
    latest: u64,
}

/// A buffer that counts towards [`MOST_BUFFERS`] once it was filled.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    is_counted: bool,
}

impl Buffer {
    /// Replaces the content with `len` zeros. Returns false if there are too many buffers.
    fn clear_to(&mut self, len: usize) -> bool {
        if !self.is_counted {
            let more = |count| (count < MOST_BUFFERS).then_some(count + 1);
            self.is_counted = BUFFERS
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
                .is_ok();
        }
        self.bytes.clear();
        self.bytes.resize(if self.is_counted { len } else { 0 }, 0);
        self.is_counted
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.is_counted {
            BUFFERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Runs {
    /// Reads some bytes at `offset`, and fills `bufs` one after another. If this continues a run,
    /// up to `most` bytes are read from `source`.
    pub(crate) fn read_at(
        &self,
        source: &dyn ReadAt,
        offset: u64,
        most: usize,
        bufs: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        let wanted = bufs.iter().map(|buf| buf.len()).sum::<usize>();
        if !(1..=MOST_SMALL).contains(&wanted) {
            return read_some(source, offset, bufs);
        }
        let number = self.reads.fetch_add(1, Ordering::Relaxed);
        // Runs that other threads use at the moment are passed over.
        let free = || self.runs.iter().filter_map(|run| run.try_lock().ok());
        let known = free().find(|run| run.latest + RECENT > number && run.goes_on_at(offset));
        if let Some(mut run) = known {
            run.latest = number;
            return run.go_on(source, offset, most, bufs);
        }
        let got = read_some(source, offset, bufs)?;
        if let Some(mut oldest) = free().min_by_key(|run| run.latest) {
            *oldest = Run {
                latest: number,
                ..Run::default()
            };
            oldest.passed(offset, got);
        }
        Ok(got)
    }
}

impl Run {
    /// Returns true if a read at `offset` begins where another ended, or in the bytes that were read
    /// ahead.
    fn goes_on_at(&self, offset: u64) -> bool {
        self.ends.contains(&offset) || !self.at_hand(offset).is_empty()
    }

    /// Returns the bytes at and after `offset` that were read ahead.
    fn at_hand(&self, offset: u64) -> &[u8] {
        let at = offset.checked_sub(self.begin);
        let at = at.and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.ahead.bytes.get(at..))
            .unwrap_or_default()
    }

    fn go_on(
        &mut self,
        source: &dyn ReadAt,
        offset: u64,
        most: usize,
        bufs: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        if self.at_hand(offset).is_empty() {
            self.read_ahead(source, offset, most);
        }
        let mut rest = self.at_hand(offset);
        let before = rest.len();
        for buf in &mut *bufs {
            let (part, behind) = rest.split_at(rest.len().min(buf.len()));
            buf[..part.len()].copy_from_slice(part);
            rest = behind;
        }
        let mut got = before - rest.len();
        if got == 0 {
            got = read_some(source, offset, bufs)?;
        }
        self.passed(offset, got);
        Ok(got)
    }

    /// Reads ahead from `offset` on, unless the run is too short. A failure may concern only bytes
    /// after the requested ones, so the caller then reads those by themselves.
    fn read_ahead(&mut self, source: &dyn ReadAt, offset: u64, most: usize) {
        if self.reads < READS_BEFORE {
            return;
        }
        // At most 64 KiB, so the number fits in a `usize`.
        let len = self.read.min(MOST_AHEAD);
        let len = usize::try_from(len).map_or(most, |len| len.min(most));
        if !self.ahead.clear_to(len) {
            return;
        }
        self.begin = offset;
        let got = source.read_at(offset, &mut self.ahead.bytes).unwrap_or(0);
        self.ahead.bytes.truncate(got);
        if got == 0 {
            self.reads = 0;
        }
    }

    /// Notes a read of `got` bytes at `offset`.
    fn passed(&mut self, offset: u64, got: usize) {
        let end = offset + got as u64;
        match self.ends.iter_mut().find(|end| **end == offset) {
            Some(known) => *known = end,
            None => {
                if self.ends.len() == ENDS {
                    self.ends.remove(0);
                }
                self.ends.push(end);
            }
        }
        self.reads = self.reads.saturating_add(1);
        self.read = self.read.saturating_add(got as u64);
    }
}

/// Reads some bytes at `offset`, and fills `bufs` one after another.
pub(crate) fn read_some(
    source: &dyn ReadAt,
    offset: u64,
    bufs: &mut [IoSliceMut<'_>],
) -> io::Result<usize> {
    match bufs {
        [buf] => source.read_at(offset, buf),
        bufs => source.read_vectored_at(offset, bufs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that notes its reads, and whose bytes can't be read from `bad` on.
    struct Noted {
        bytes: Vec<u8>,
        bad: usize,
        reads: Mutex<Vec<(u64, usize)>>,
    }

    impl Noted {
        fn new(len: usize) -> Noted {
            let bytes = (0..=250).cycle().take(len);
            Noted {
                bytes: bytes.collect(),
                bad: len,
                reads: Mutex::default(),
            }
        }

        fn reads(&self) -> Vec<(u64, usize)> {
            std::mem::take(&mut self.reads.lock().unwrap())
        }
    }

    impl ReadAt for Noted {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            self.reads.lock().unwrap().push((offset, buf.len()));
            let got = self.bytes.read_at(offset, buf)?;
            if self.bad < self.bytes.len() && offset + got as u64 > self.bad as u64 {
                return Err(io::Error::other("a bad sector"));
            }
            Ok(got)
        }

        fn size(&self) -> io::Result<u64> {
            self.bytes.size()
        }
    }

    /// Reads `len` bytes with `runs`, and compares them with the bytes of the source.
    fn read(runs: &Runs, source: &Noted, offset: u64, len: usize) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        let mut filled = 0;
        let mut buf = vec![0; len.min(source.bytes.len() - at)];
        while filled < buf.len() {
            let rest = &mut [IoSliceMut::new(&mut buf[filled..])];
            filled += runs.read_at(source, offset + filled as u64, usize::MAX, rest)?;
        }
        assert!(buf == source.bytes[at..at + buf.len()], "{offset}");
        Ok(())
    }

    #[test]
    fn small_reads_that_follow_each_other_become_few_reads() {
        let (runs, source) = (Runs::default(), Noted::new(1 << 20));
        let mut at = 0;
        while at < source.bytes.len() {
            let len = [40, 64, 4000][at % 3];
            read(&runs, &source, at as u64, len).unwrap();
            at += len;
        }
        let reads = source.reads();
        assert!(reads.len() < 16 + 16, "{}", reads.len());
        assert!(reads.iter().all(|&(_, len)| len <= 64 << 10));
    }

    #[test]
    fn reads_elsewhere_request_only_their_own_bytes() {
        let (runs, source) = (Runs::default(), Noted::new(1 << 20));
        let wanted: Vec<(u64, usize)> = (0..100).map(|at| (at * 7919 % (1 << 20), 100)).collect();
        for &(offset, len) in &wanted {
            read(&runs, &source, offset, len).unwrap();
        }
        assert_eq!(source.reads(), wanted);
    }

    #[test]
    fn a_record_by_itself_is_read_without_what_follows() {
        let (runs, source) = (Runs::default(), Noted::new(1 << 20));
        let wanted = [(100, 40), (140, 64), (204, 5000)];
        for (offset, len) in wanted {
            read(&runs, &source, offset, len).unwrap();
        }
        assert_eq!(source.reads(), wanted);
    }

    #[test]
    fn bytes_before_a_bad_sector_are_read() {
        let (runs, mut source) = (Runs::default(), Noted::new(1 << 20));
        source.bad = 100_000;
        for at in (0..100_000).step_by(1000) {
            read(&runs, &source, at, 1000).unwrap();
        }
        assert!(read(&runs, &source, 100_000, 1000).is_err());
        let failed = source
            .reads()
            .iter()
            .filter(|&&(at, len)| at + len as u64 > 100_000)
            .count();
        assert!(failed < 20, "{failed}");
    }

    #[test]
    fn bytes_that_are_read_again_come_from_the_source() {
        let (runs, mut source) = (Runs::default(), Noted::new(1 << 16));
        for at in (0..20_000).step_by(100) {
            read(&runs, &source, at, 100).unwrap();
        }
        source.bytes.iter_mut().for_each(|byte| *byte ^= 1);
        for at in (0..20_000).step_by(100) {
            read(&runs, &source, at, 100).unwrap();
        }
    }

    #[test]
    fn records_that_are_read_in_turns_are_read_ahead_together() {
        let (runs, source) = (Runs::default(), Noted::new(1 << 20));
        let pairs = source.bytes.len() as u64 / 2000;
        for pair in 0..pairs {
            let (first, second) = (pair * 2000, pair * 2000 + 1000);
            for (offset, len) in [
                (first, 40),
                (second, 40),
                (first + 40, 960),
                (second + 40, 960),
            ] {
                read(&runs, &source, offset, len).unwrap();
            }
        }
        let reads = source.reads().len();
        assert!(reads < 100, "{reads}");
    }
}
