//! The work of threads that merge: segments and their destinations, grouped by chunk.

use std::ops::Range;

use record_file::ReadAt;

/// Maximum total size of adjacent extents of a source that are read with one call: 1 MiB.
const MAX_EXTENT: u64 = 1 << 20;

/// A chunk, and the destination of each of its segments, in the order of its bytes.
pub(super) struct Job<P> {
    pub(super) chunk: usize,
    pub(super) bytes: u64,
    pub(super) pieces: Vec<Piece<P>>,
}

pub(super) struct Piece<P> {
    /// Index of the segment in the plan.
    pub(super) segment: usize,
    pub(super) range: Range<u64>,
    pub(super) place: P,
    /// True if the piece is read with one call, and any thread may read it.
    pub(super) is_extent: bool,
}

/// The segments to fill, grouped by chunk.
pub(super) struct Jobs<P> {
    pieces: Vec<(usize, Piece<P>)>,
}

impl<P> Jobs<P> {
    pub(super) fn new() -> Self {
        Jobs { pieces: Vec::new() }
    }

    pub(super) fn add(&mut self, chunk: usize, segment: usize, range: Range<u64>, place: P) {
        let piece = Piece {
            segment,
            range,
            place,
            is_extent: false,
        };
        self.pieces.push((chunk, piece));
    }

    /// Adds a range of a source, divided into the source's extents, so that each extent is read
    /// with one call, by any thread. Small adjacent extents form one piece. `place` is called with
    /// the size of each piece, in order, and returns the destination of the piece.
    pub(super) fn add_extents(
        &mut self,
        chunk: usize,
        source: &dyn ReadAt,
        segment: usize,
        range: Range<u64>,
        mut place: impl FnMut(u64) -> P,
    ) {
        let end_of = |start: u64| {
            let extent = source.extent(start).filter(|extent| extent.end > start);
            extent.map(|extent| extent.end.min(range.end))
        };
        let mut start = range.start;
        while start < range.end {
            let mut end = end_of(start);
            while let Some(so_far) = end
                && so_far < range.end
                && let Some(next) = end_of(so_far)
                && next - start <= MAX_EXTENT
            {
                end = Some(next);
            }
            let piece = Piece {
                segment,
                range: start..end.unwrap_or(range.end),
                place: place(end.unwrap_or(range.end) - start),
                is_extent: end.is_some(),
            };
            start = piece.range.end;
            self.pieces.push((chunk, piece));
        }
    }

    /// Returns the jobs by size, the largest last. Threads take jobs from the end, so that all
    /// finish at about the same time.
    pub(super) fn into_queue(self) -> Vec<Job<P>> {
        let mut pieces = self.pieces;
        pieces.sort_by_key(|(chunk, piece)| (*chunk, piece.range.start));
        let mut queue: Vec<Job<P>> = Vec::new();
        for (chunk, piece) in pieces {
            let bytes = piece.range.end - piece.range.start;
            let is_same = |job: &&mut Job<P>| job.chunk == chunk && !piece.is_extent;
            match queue.last_mut().filter(is_same) {
                Some(job) => {
                    job.bytes += bytes;
                    job.pieces.push(piece);
                }
                None => queue.push(Job {
                    chunk,
                    bytes,
                    pieces: vec![piece],
                }),
            }
        }
        queue.sort_by_key(|job| (job.bytes, std::cmp::Reverse(job.chunk)));
        queue
    }
}
