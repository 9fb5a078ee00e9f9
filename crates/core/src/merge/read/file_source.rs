//! Sources for the files of a message.

use std::io::{self, IoSliceMut};
use std::ops::Range;

use record_file::ReadAt;

use crate::io::PooledFile;

/// The source for one file of a chunked message: the caller's source, or a file in a pool that
/// keeps few files open at a time.
#[derive(Debug)]
pub struct FileSource<S>(Inner<S>);

#[derive(Debug)]
enum Inner<S> {
    Given(S),
    Pooled(PooledFile),
}

impl<S> FileSource<S> {
    pub(in crate::merge) fn given(source: S) -> Self {
        FileSource(Inner::Given(source))
    }

    pub(in crate::merge) fn pooled(file: PooledFile) -> Self {
        FileSource(Inner::Pooled(file))
    }

    /// Returns the caller's source; `None` for a file in a pool, which may be closed between reads.
    /// The result is never `None` for the file that contains the trailer.
    pub fn get_ref(&self) -> Option<&S> {
        match &self.0 {
            Inner::Given(source) => Some(source),
            Inner::Pooled(_) => None,
        }
    }

    fn any(&self) -> &dyn ReadAt
    where
        S: ReadAt,
    {
        match &self.0 {
            Inner::Given(source) => source,
            Inner::Pooled(file) => file,
        }
    }
}

impl<S: ReadAt> ReadAt for FileSource<S> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.any().read_at(offset, buf)
    }

    fn size(&self) -> io::Result<u64> {
        self.any().size()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.any().read_exact_at(offset, buf)
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.any().read_vectored_at(offset, bufs)
    }

    fn is_vectored(&self) -> bool {
        self.any().is_vectored()
    }

    fn as_slice(&self) -> Option<&[u8]> {
        match &self.0 {
            Inner::Given(source) => source.as_slice(),
            Inner::Pooled(_) => None,
        }
    }

    fn prefetch(&self, ranges: &[Range<u64>]) {
        self.any().prefetch(ranges);
    }

    fn is_prefetched(&self) -> bool {
        self.any().is_prefetched()
    }
}
