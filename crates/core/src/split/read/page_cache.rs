//! A cache of the most recently read pages of a source.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use record_file::ReadAt;

/// Size of a page, in bytes.
const PAGE: usize = 4 << 10;

/// Number of pages to cache. A few suffice, since planning alternates between a few positions.
const PAGES: usize = 8;

/// A source with a page cache, so that many small reads of adjacent bytes become one read.
///
/// Reads of more than a page bypass the cache.
pub(in crate::split) struct PageCache<S> {
    inner: S,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    /// Pages with their numbers; the oldest page is replaced next.
    slots: Vec<(u64, Vec<u8>)>,
    oldest: usize,
}

impl<S: ReadAt> PageCache<S> {
    pub(in crate::split) fn new(inner: S) -> Self {
        PageCache {
            inner,
            pages: Mutex::default(),
        }
    }

    fn read_page(&self, page: u64, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        bytes.resize(PAGE, 0);
        let start = page * PAGE as u64;
        let mut filled = 0;
        while filled < PAGE {
            match self
                .inner
                .read_at(start + filled as u64, &mut bytes[filled..])?
            {
                0 => break,
                n => filled += n,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

impl<S: ReadAt> ReadAt for PageCache<S> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if buf.len() > PAGE {
            return self.inner.read_at(offset, buf);
        }
        let page = offset / PAGE as u64;
        let skip = usize::try_from(offset % PAGE as u64).unwrap_or(0);
        // If another thread panicked, the pages are still consistent.
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let pages = &mut *pages;
        let at = match pages.slots.iter().position(|(number, _)| *number == page) {
            Some(at) => at,
            None if pages.slots.len() < PAGES => {
                pages.slots.push((page, self.read_page(page, Vec::new())?));
                pages.slots.len() - 1
            }
            None => {
                let at = pages.oldest;
                pages.oldest = (at + 1) % PAGES;
                let bytes = std::mem::take(&mut pages.slots[at].1);
                pages.slots[at].0 = u64::MAX;
                pages.slots[at].1 = self.read_page(page, bytes)?;
                pages.slots[at].0 = page;
                at
            }
        };
        let bytes = pages.slots[at].1.get(skip..).unwrap_or_default();
        let n = bytes.len().min(buf.len());
        buf[..n].copy_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn as_slice(&self) -> Option<&[u8]> {
        self.inner.as_slice()
    }

    /// Announces to the source the pages that contain `ranges`, since small reads read whole pages.
    fn prefetch(&self, ranges: &[Range<u64>]) {
        let page = PAGE as u64;
        let paged = ranges.iter().map(|range| {
            let end = range.end.div_ceil(page).saturating_mul(page);
            range.start / page * page..end
        });
        self.inner.prefetch(&paged.collect::<Vec<_>>());
    }

    fn is_prefetched(&self) -> bool {
        self.inner.is_prefetched()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Counting(Vec<u8>, AtomicUsize);

    impl ReadAt for Counting {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.read_at(offset, buf)
        }

        fn size(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }
    }

    #[test]
    fn small_reads_near_each_other_are_one_and_all_give_the_same_bytes() {
        let bytes: Vec<u8> = (0..100_000u32)
            .map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1])
            .collect();
        let recent = PageCache::new(Counting(bytes.clone(), AtomicUsize::new(0)));
        let mut buf = [0; 100];
        for at in 0..30 {
            recent.read_exact_at(at * 10, &mut buf).unwrap();
        }
        assert_eq!(recent.inner.1.load(Ordering::Relaxed), 1);
        let mut at = 1u64;
        for len in (0..9000).step_by(37) {
            at = (at * 7919) % 90_000;
            let mut buf = vec![0; len];
            recent.read_exact_at(at, &mut buf).unwrap();
            let start = usize::try_from(at).unwrap();
            assert!(buf == bytes[start..start + len], "{len} bytes at {at}");
        }
        let error = recent.read_exact_at(99_990, &mut [0; 11]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
