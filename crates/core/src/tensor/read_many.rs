//! Reading many ranges at once, on several threads.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use record_file::ReadAt;

use super::reader::check_within;
use crate::io::threads;
use crate::merge::Buffer;
use crate::{Error, ErrorKind, Result};

/// Size of a load, in bytes: 8 MiB, a multiple of the size of a huge page. A thread reads one load
/// at a time.
const LOAD: u64 = 8 << 20;

/// Size of a huge page, in bytes.
const HUGE_PAGE: u64 = 2 << 20;

/// Alignment of each range in the shared allocation, in bytes.
const ALIGNMENT: u64 = 64;

/// Reads ranges of random-access sources into newly allocated memory, on `threads` threads; `None`
/// means one per core.
///
/// All ranges share one allocation, which is freed with the last of the returned values. A large
/// allocation uses huge pages if the system has them.
///
/// ```
/// use proto_splitter_core::tensor::read_many;
///
/// let file = b"....\x01\x02..\x03";
/// let read = read_many(&[(&file, 4..6), (&file, 8..9)], None)?;
/// assert_eq!(read, [&[1, 2][..], &[3]]);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if a range exceeds its source, which is checked before anything is
/// allocated; [`ErrorKind::LimitExceeded`] if there isn't enough memory; [`ErrorKind::Io`] and any
/// other error from reading a source.
pub fn read_many(
    ranges: &[(&dyn ReadAt, Range<u64>)],
    threads: Option<NonZeroUsize>,
) -> Result<Vec<Bytes>> {
    let too_large = || Error::new(ErrorKind::LimitExceeded, "the tensors don't fit in memory");
    let mut places = Vec::with_capacity(ranges.len());
    let mut end = 0u64;
    for (source, range) in ranges {
        check_within(*source, range)?;
        let start = end.checked_next_multiple_of(ALIGNMENT);
        let start = start.ok_or_else(too_large)?;
        let place = start.checked_add(range.end - range.start);
        end = place.ok_or_else(too_large)?;
        places.push(start..end);
    }
    let size = match end {
        0..HUGE_PAGE => Some(end),
        _ => end.checked_next_multiple_of(HUGE_PAGE),
    };
    let mut memory = Buffer::of(size.ok_or_else(too_large)?)?;
    let mut loads = ReadQueue::default();
    let (mut rest, mut position) = (memory.as_mut_slice(), 0);
    for ((source, range), place) in ranges.iter().zip(&places) {
        let (skip, size) = (index(place.start - position), place.end - place.start);
        let behind = rest.split_at_mut_checked(skip).ok_or_else(too_large)?.1;
        let split = behind.split_at_mut_checked(index(size));
        let (buffer, behind) = split.ok_or_else(too_large)?;
        loads.position = place.start;
        loads.add(*source, range.start, buffer);
        (rest, position) = (behind, place.end);
    }
    loads.read(threads)?;
    let all = Bytes::from(memory);
    let slice = |place: Range<u64>| all.slice(index(place.start)..index(place.end));
    Ok(places.into_iter().map(slice).collect())
}

/// Fills each buffer with the bytes from an offset in a random-access source, on `threads` threads;
/// `None` means one per core. Buffers that were used before are filled in at most half the time of
/// newly allocated memory, since their pages are already mapped.
///
/// ```
/// use proto_splitter_core::tensor::read_many_into;
/// use record_file::ReadAt;
///
/// let file: &dyn ReadAt = b"....\x01\x02..\x03";
/// let (mut first, mut second) = ([0; 2], [0; 1]);
/// read_many_into([(file, 4, &mut first[..]), (file, 8, &mut second[..])], None)?;
/// assert_eq!((first, second), ([1, 2], [3]));
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Io`] and any other error from reading a source. After an error, some buffers may
/// have been filled.
pub fn read_many_into<'a>(
    buffers: impl IntoIterator<Item = (&'a dyn ReadAt, u64, &'a mut [u8])>,
    threads: Option<NonZeroUsize>,
) -> Result<()> {
    let mut loads = ReadQueue::default();
    for (source, at, buffer) in buffers {
        loads.add(source, at, buffer);
    }
    loads.read(threads)
}

/// Converts an offset in allocated memory to an index.
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// A part of a buffer to fill, and the offset of its bytes in the source.
struct Part<'a> {
    source: &'a dyn ReadAt,
    at: u64,
    buffer: &'a mut [u8],
}

/// A queue of loads of up to [`LOAD`] bytes, which threads process one after the other. If all
/// buffers are in one allocation, no two loads share a huge page.
#[derive(Default)]
struct ReadQueue<'a> {
    all: Vec<Mutex<Vec<Part<'a>>>>,
    last: Vec<Part<'a>>,
    /// End of the last added buffer: its offset in the shared allocation or, for separate buffers,
    /// the total size of the buffers so far.
    position: u64,
    /// Index of the load that is being filled. A load begins every [`LOAD`] bytes.
    number: u64,
}

impl<'a> ReadQueue<'a> {
    fn add(&mut self, source: &'a dyn ReadAt, mut at: u64, mut buffer: &'a mut [u8]) {
        while !buffer.is_empty() {
            if self.position / LOAD != self.number {
                self.finish();
                self.number = self.position / LOAD;
            }
            let room = LOAD - self.position % LOAD;
            let len = index(room).min(buffer.len());
            let (first, rest) = buffer.split_at_mut(len);
            self.last.push(Part {
                source,
                at,
                buffer: first,
            });
            buffer = rest;
            at += len as u64;
            self.position += len as u64;
        }
    }

    fn finish(&mut self) {
        let last = std::mem::take(&mut self.last);
        if !last.is_empty() {
            self.all.push(Mutex::new(last));
        }
    }

    fn read(mut self, threads: Option<NonZeroUsize>) -> Result<()> {
        self.finish();
        let read = |load: usize| {
            let Some(load) = self.all.get(load) else {
                return Ok(());
            };
            let mut parts = load.lock().unwrap_or_else(PoisonError::into_inner);
            parts.iter_mut().try_for_each(|part| {
                let read = part.source.read_exact_at(part.at, part.buffer);
                read.map_err(|error| Error::from(error).at_offset(part.at))
            })
        };
        threads::map(threads::count(threads), self.all.len(), read).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `size` bytes whose values depend on their positions.
    fn file(size: usize) -> Vec<u8> {
        let number = |at: usize| at.wrapping_mul(0x9e37_79b9).to_le_bytes()[2];
        (0..size).map(number).collect()
    }

    #[test]
    fn ranges_of_any_size_come_in_their_order_whatever_the_threads() {
        let load = usize::try_from(LOAD).unwrap();
        let files = [file(3 * load + 1000), file(100)];
        let of = |file: usize, range: Range<usize>| (file, range);
        let tables = [
            vec![],
            vec![of(1, 5..5)],
            vec![of(1, 0..100), of(1, 7..8), of(1, 100..100), of(0, 3..70)],
            // Ranges that exceed a load, end at a load's boundary, or cross one.
            vec![of(0, 0..3 * load + 1000)],
            vec![of(0, 1..load), of(1, 0..1), of(0, load..2 * load + 1)],
            (0..200).map(|k| of(0, k..k + 60_000)).collect(),
        ];
        for wanted in tables {
            for threads in [None, NonZeroUsize::new(1), NonZeroUsize::new(3)] {
                let source = |of: usize| &files[of] as &dyn ReadAt;
                let range = |range: &Range<usize>| range.start as u64..range.end as u64;
                let ranges: Vec<_> = wanted
                    .iter()
                    .map(|(file, at)| (source(*file), range(at)))
                    .collect();
                let read = read_many(&ranges, threads).unwrap();
                let mut buffers: Vec<_> = wanted
                    .iter()
                    .map(|(_, range)| vec![0; range.len()])
                    .collect();
                let filled = wanted.iter().zip(&mut buffers);
                let filled = filled.map(|((file, range), buffer)| {
                    (source(*file), range.start as u64, &mut buffer[..])
                });
                read_many_into(filled, threads).unwrap();
                assert_eq!((read.len(), buffers.len()), (wanted.len(), wanted.len()));
                for (((file, range), read), filled) in wanted.iter().zip(read).zip(buffers) {
                    let expected = &files[*file][range.clone()];
                    assert!(read == expected && filled == expected, "{file} {range:?}");
                }
            }
        }
    }

    #[test]
    fn a_range_past_the_end_is_refused_before_anything_is_allocated() {
        let bytes = file(10);
        for range in [
            4..11,
            0..u64::MAX,
            u64::MAX - 1..u64::MAX,
            Range { start: 3, end: 2 },
        ] {
            let ranges: [(&dyn ReadAt, _); 2] = [(&bytes, 0..10), (&bytes, range)];
            let error = read_many(&ranges, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{error}");
        }
        let mut buffer = [0; 4];
        let error = read_many_into([(&bytes as _, 8, &mut buffer[..])], None).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Io, Some(8)));
    }

    /// A source that reports the maximum size, but fails on each read.
    struct LyingSource;

    impl ReadAt for LyingSource {
        fn read_at(&self, _: u64, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("nothing is there"))
        }

        fn size(&self) -> std::io::Result<u64> {
            Ok(u64::MAX)
        }
    }

    #[test]
    fn more_than_there_is_memory_for_is_an_error() {
        for sizes in [
            &[u64::MAX][..],
            &[u64::MAX - 1, 70],
            &[1 << 62],
            &[1 << 62; 4],
        ] {
            let ranges: Vec<(&dyn ReadAt, _)> = sizes
                .iter()
                .map(|size| (&LyingSource as _, 0..*size))
                .collect();
            let error = read_many(&ranges, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        }
    }
}
