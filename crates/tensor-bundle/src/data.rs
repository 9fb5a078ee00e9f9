//! A tensor's bytes, wherever they are.

use std::fs::File;
use std::io;
use std::sync::Arc;

use record_file::ReadAt;

use crate::entry::Slice;

/// The bytes of one tensor in the order of its elements, read by position.
#[derive(Clone, Debug)]
pub struct BundleReader {
    size: u64,
    data: Data,
}

#[derive(Clone, Debug)]
enum Data {
    Whole { file: Arc<File>, offset: u64 },
    Sliced(Arc<Sliced>),
}

/// A tensor whose slices are stored by themselves.
#[derive(Debug)]
struct Sliced {
    shape: Vec<u64>,
    /// Bytes of an element.
    width: u64,
    slices: Vec<(Slice, Arc<File>)>,
}

impl BundleReader {
    pub(crate) fn whole(file: Arc<File>, offset: u64, size: u64) -> Self {
        let data = Data::Whole { file, offset };
        BundleReader { size, data }
    }

    pub(crate) fn sliced(
        shape: Vec<u64>,
        width: u64,
        size: u64,
        slices: Vec<(Slice, Arc<File>)>,
    ) -> Self {
        let data = Data::Sliced(Arc::new(Sliced {
            shape,
            width,
            slices,
        }));
        BundleReader { size, data }
    }

    /// Bytes of the tensor.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Whether it has none.
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
            Data::Whole { file, offset } => file.as_ref().read_at(offset + at, buf),
            Data::Sliced(sliced) => {
                let (slice, within, run) = sliced.locate(at).ok_or_else(|| {
                    let message = format!("no slice of the tensor has its byte {at}");
                    io::Error::new(io::ErrorKind::InvalidData, message)
                })?;
                let len = len.min(usize::try_from(run).unwrap_or(usize::MAX));
                let (slice, file) = &sliced.slices[slice];
                file.as_ref()
                    .read_at(slice.span.offset + within, &mut buf[..len])
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}

impl Sliced {
    /// The slice that has the byte `at` of the tensor, where in it that is, and how many bytes
    /// follow one another in both from there on.
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
        // Up to the end of the last dimension that is cut, and of all behind it.
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
