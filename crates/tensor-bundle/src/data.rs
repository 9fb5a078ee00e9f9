//! Reading the bytes of a tensor, which are stored contiguously or in slices.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use proto_splitter_core::checksum::CrcOfPieces;
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::index::{Slice, Span};
use crate::strings::ElementsCrc;

/// A random-access reader for a tensor's bytes, in the order of the tensor's elements.
///
/// The bytes can be read in pieces of any size and on any number of threads; the checksum is
/// computed at the same time. The read that completes the tensor verifies the checksum, and fails
/// with [`ErrorKind::ChecksumMismatch`] if the checksum is wrong. If some bytes are never read,
/// damage isn't detected. The checksum of strings and variants is verified only if their bytes are
/// read in order, from first to last.
#[derive(Clone, Debug)]
pub struct BundleReader {
    size: u64,
    data: Data,
}

#[derive(Clone, Debug)]
enum Data {
    Whole(Arc<CheckedSpan>),
    Sliced(Arc<Sliced>),
}

/// A tensor whose slices are stored separately.
#[derive(Debug)]
struct Sliced {
    shape: Vec<u64>,
    /// Size of an element, in bytes.
    width: u64,
    slices: Vec<(Slice, CheckedSpan)>,
}

impl BundleReader {
    pub(crate) fn whole(span: CheckedSpan) -> Self {
        BundleReader {
            size: span.span.size,
            data: Data::Whole(Arc::new(span)),
        }
    }

    pub(crate) fn sliced(
        shape: Vec<u64>,
        width: u64,
        size: u64,
        slices: Vec<(Slice, CheckedSpan)>,
    ) -> Self {
        let data = Data::Sliced(Arc::new(Sliced {
            shape,
            width,
            slices,
        }));
        BundleReader { size, data }
    }

    /// Returns the size of the tensor, in bytes.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Returns true if the tensor has no bytes.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }
}

impl ReadAt for BundleReader {
    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(at)).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        let buf = &mut buf[..len];
        if buf.is_empty() {
            return Ok(0);
        }
        match &self.data {
            Data::Whole(span) => span.read_at(at, buf),
            Data::Sliced(sliced) => {
                let (slice, within, run) = sliced.locate(at).ok_or_else(|| {
                    let message = format!("no slice of the tensor has its byte {at}");
                    io::Error::new(io::ErrorKind::InvalidData, message)
                })?;
                let len = len.min(usize::try_from(run).unwrap_or(usize::MAX));
                sliced.slices[slice].1.read_at(within, &mut buf[..len])
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}

/// A byte range of a data file. The range's checksum is verified once all bytes have been read.
#[derive(Debug)]
pub(crate) struct CheckedSpan {
    file: Arc<File>,
    path: PathBuf,
    /// Name of the tensor, for errors.
    tensor: String,
    span: Span,
    seen: Seen,
}

/// The bytes of a span that have been read so far, and their checksum.
#[derive(Debug)]
pub(crate) enum Seen {
    Numbers(CrcOfPieces),
    Elements(Mutex<InOrder>),
}

/// State of the checksum of strings or variants, whose bytes must be read in order.
#[derive(Debug)]
pub(crate) struct InOrder {
    first: ElementsCrc,
    now: ElementsCrc,
    read: u64,
}

impl Seen {
    /// Creates the state for an unread span of fixed-size elements.
    pub(crate) fn numbers(span: &Span) -> Seen {
        Seen::Numbers(CrcOfPieces::new(span.size))
    }

    /// Creates the state for an unread span of `count` strings or variants.
    pub(crate) fn elements(span: &Span, is_strings: bool, count: u64) -> Seen {
        let first = ElementsCrc::new(is_strings, count, span.offset, span.size);
        let now = first.clone();
        Seen::Elements(Mutex::new(InOrder {
            first,
            now,
            read: 0,
        }))
    }
}

impl CheckedSpan {
    /// Creates a reader for a span of the tensor named `tensor`.
    ///
    /// # Errors
    ///
    /// Fails if the span is empty and has a wrong checksum. The checksum of an empty span is
    /// verified at once, since no read would verify it.
    pub(crate) fn new(
        file: Arc<File>,
        path: PathBuf,
        tensor: &str,
        span: Span,
        seen: Seen,
    ) -> Result<CheckedSpan> {
        let checked = CheckedSpan {
            file,
            path,
            tensor: tensor.to_owned(),
            span,
            seen,
        };
        if span.size == 0 {
            let found = match &checked.seen {
                Seen::Numbers(_) => Ok(0),
                Seen::Elements(seen) => seen
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .now
                    .finish(),
            };
            found
                .and_then(|found| check_crc(&span, found))
                .map_err(|error| checked.named(error))?;
        }
        Ok(checked)
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = match self.file.read_at(self.span.offset + at, buf) {
            Ok(read) => read,
            // An interrupted read isn't a failure: the caller repeats it.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => return Err(self.named(error.into()).into()),
        };
        self.note(at, &buf[..read])
            .map_err(|error| self.named(error))?;
        Ok(read)
    }

    #[cold]
    fn named(&self, error: Error) -> Error {
        error.at_path(&self.tensor).in_file(&self.path)
    }

    /// Adds bytes that were read at the offset `at`. Once all bytes of the span have been read,
    /// verifies the checksum.
    fn note(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let found = match &self.seen {
            Seen::Numbers(sum) => sum.add(at, bytes),
            Seen::Elements(seen) => {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.add(at, bytes, self.span.size)?
            }
        };
        found.map_or(Ok(()), |found| check_crc(&self.span, found))
    }
}

impl InOrder {
    /// Adds bytes that were read at the offset `at`. Skips bytes that were added before. Ignores
    /// all bytes if there is a gap before them. If this completes the span of `size` bytes, returns
    /// the span's checksum.
    fn add(&mut self, at: u64, bytes: &[u8], size: u64) -> Result<Option<u32>> {
        if at == 0 {
            (self.now, self.read) = (self.first.clone(), 0);
        }
        let known = self.read.checked_sub(at).map(usize::try_from);
        let Some(next) = known.and_then(|known| bytes.get(known.ok()?..)) else {
            return Ok(None);
        };
        self.now.add(next)?;
        self.read += next.len() as u64;
        if self.read < size || next.is_empty() {
            return Ok(None);
        }
        self.now.finish().map(Some)
    }
}

/// Fails if `computed` differs from the stored checksum of the span.
pub(crate) fn check_crc(span: &Span, computed: u32) -> Result<()> {
    if computed == span.crc32c {
        return Ok(());
    }
    let message = format!(
        "the crc32c of {} bytes is 0x{computed:08x}, but 0x{:08x} is stored",
        span.size, span.crc32c
    );
    Err(Error::new(ErrorKind::ChecksumMismatch, message).at_offset(span.offset))
}

impl Sliced {
    /// Finds the byte at the offset `at` of the tensor. Returns the index of the slice that
    /// contains this byte, the byte's offset in the slice, and the number of bytes, starting with
    /// this one, that are contiguous in both the tensor and the slice.
    fn locate(&self, at: u64) -> Option<(usize, u64, u64)> {
        let (element, within) = (at / self.width, at % self.width);
        let mut index = vec![0; self.shape.len()];
        let mut rest = element;
        for (index, &dim) in index.iter_mut().zip(&self.shape).rev() {
            *index = rest % dim;
            rest /= dim;
        }
        let holds = |slice: &Slice| {
            let mut dims = slice.start.iter().zip(&slice.shape).zip(&index);
            dims.all(|((&start, &len), &at)| at >= start && at - start < len)
        };
        let found = self.slices.iter().position(|(slice, _)| holds(slice))?;
        let slice = &self.slices[found].0;
        let mut in_slice = 0;
        for ((&start, &len), &at) in slice.start.iter().zip(&slice.shape).zip(&index) {
            in_slice = in_slice * len + (at - start);
        }
        // The contiguous bytes extend to the end of the slice in the last dimension in which the
        // slice is smaller than the tensor. They include all of the dimensions after it.
        let mut run = 1;
        let mut done = 0;
        for (dim, &all) in self.shape.iter().enumerate().rev() {
            done += (index[dim] - slice.start[dim]) * run;
            run *= slice.shape[dim];
            if slice.shape[dim] != all {
                break;
            }
        }
        let left = (run - done) * self.width - within;
        Some((found, in_slice * self.width + within, left))
    }
}
