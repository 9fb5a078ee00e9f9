//! Checking all tensors of a bundle.

use proto_splitter_core::Result;
use proto_splitter_core::checksum::combine;
use proto_splitter_core::spans::crc_of_range;

use crate::bundle::Bundle;
use crate::data::{BundleReader, check_crc};
use crate::index::{Span, Tensor, TensorLocation};
use crate::options::BundleOptions;
use crate::work;

/// The result of checking a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifiedBundle {
    /// Number of tensors.
    pub tensors: u64,
    /// Total size of the tensors, in bytes.
    pub bytes: u64,
}

/// A part of a tensor that one thread checks.
struct Job<'a> {
    tensor: &'a Tensor,
    span: &'a Span,
    piece: Piece<'a>,
}

/// The part of a span that one thread checks.
enum Piece<'a> {
    /// A range of a span of numbers: its offset and its length.
    Numbers(u64, u64),
    /// A whole span of strings or variants, which must be read in order, and its shape.
    Elements(&'a [u64]),
}

impl Bundle {
    /// Reads all tensors, and verifies their checksums.
    ///
    /// # Errors
    ///
    /// The first error, with the tensor's name.
    /// [`ErrorKind::ChecksumMismatch`](proto_splitter_core::ErrorKind::ChecksumMismatch) if bytes
    /// are damaged;
    /// [`ErrorKind::InvalidMessage`](proto_splitter_core::ErrorKind::InvalidMessage) if a data file
    /// is too short, or strings aren't stored correctly;
    /// [`ErrorKind::Io`](proto_splitter_core::ErrorKind::Io) if a data file can't be read.
    pub fn verify(&self, options: &BundleOptions) -> Result<VerifiedBundle> {
        let sizes = self.tensors().iter().map(Tensor::size);
        let bytes = sizes.fold(0, u64::saturating_add);
        let meter = options.progress.meter(bytes);
        // A span may have a size that no file has. It must not be divided into pieces.
        for tensor in self.tensors() {
            for span in tensor.spans() {
                let checked = self.checked(span);
                checked.map_err(|error| error.at_path(tensor.name()))?;
            }
        }
        let jobs: Vec<Job<'_>> = self.tensors().iter().flat_map(jobs).collect();
        let read = |len| meter.advance(len);
        let made = work::map(options.thread_count(), jobs.len(), |at, buffer| {
            let job = &jobs[at];
            let span = job.span;
            let mut check = || match job.piece {
                Piece::Numbers(start, len) => {
                    let file = self.checked(span)?;
                    let start = span.offset + start;
                    let crc = crc_of_range(&*file, start..start + len, buffer, read)?;
                    Ok(Some((len, crc)))
                }
                // The reader verifies the checksum of the strings itself.
                Piece::Elements(shape) => {
                    let reader = BundleReader::whole(self.span_reader(job.tensor, span, shape)?);
                    crc_of_range(&reader, 0..span.size, buffer, read).map(|_| None)
                }
            };
            check().map_err(|error| error.at_path(job.tensor.name()))
        })?;
        let summed = jobs.iter().zip(made);
        let mut sums = summed
            .filter_map(|(job, made)| Some((job, made?)))
            .peekable();
        while let Some((Job { tensor, span, .. }, (_, mut crc))) = sums.next() {
            // Combines the checksums of this span's pieces, which are consecutive.
            while let Some((_, (len, more))) =
                sums.next_if(|(next, _)| std::ptr::eq(next.span, *span))
            {
                crc = combine(crc, more, len);
            }
            check_crc(span, crc).map_err(|error| {
                let path = self.data_path(span.shard);
                error.at_path(tensor.name()).in_file(&path)
            })?;
        }
        Ok(VerifiedBundle {
            tensors: self.tensors().len() as u64,
            bytes,
        })
    }
}

fn jobs(tensor: &Tensor) -> Vec<Job<'_>> {
    let job = |span, piece| Job {
        tensor,
        span,
        piece,
    };
    if crate::dtype::element_size(tensor.dtype()).is_none() {
        return match tensor.location() {
            TensorLocation::Whole(span) => vec![job(span, Piece::Elements(tensor.shape()))],
            TensorLocation::Slices(slices) => slices
                .iter()
                .map(|slice| job(&slice.span, Piece::Elements(&slice.shape)))
                .collect(),
        };
    }
    let pieces = tensor.spans().flat_map(|span| {
        // An empty span has no pieces, but its checksum is compared, too.
        let none = (span.size == 0).then_some((0, 0));
        work::pieces(span.size)
            .chain(none)
            .map(move |(start, len)| job(span, Piece::Numbers(start, len)))
    });
    pieces.collect()
}
