//! The message that the files are made from, in chunks or in one piece.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use proto_splitter_core::atomic::writer_at;
use proto_splitter_core::merge::FilePlace;
use proto_splitter_core::progress::Meter;
use proto_splitter_core::spans::read_pieces;
use proto_splitter_core::{MergedMessage, MessageOffset, Result, threads};
use record_file::ReadAt;

use crate::stream::COPY_LEN;

/// Smallest range that is copied by other threads: 256 KiB.
pub(super) const LEAST_GAP: u64 = 256 << 10;

/// Size of the pieces that are copied at once, so that one large tensor keeps all threads busy: 32
/// MiB.
const PIECE_LEN: u64 = 32 << 20;

/// A message: small parts are parsed, and large ones copied.
pub(super) enum MessageSource<'a> {
    Chunked(&'a MergedMessage<Arc<dyn ReadAt>>),
    /// A message that is read by position, and its size in bytes.
    Positioned(&'a dyn ReadAt, u64),
}

/// A range of the message that is still to be copied to a file.
#[derive(Debug)]
pub(super) struct Gap {
    /// Range in the message.
    pub(super) range: Range<u64>,
    pub(super) file: Arc<File>,
    /// Offset of its first byte in the file.
    pub(super) offset: u64,
}

impl MessageSource<'_> {
    pub(super) fn size(&self) -> u64 {
        match self {
            MessageSource::Chunked(merged) => merged.total_size(),
            MessageSource::Positioned(_, size) => *size,
        }
    }

    /// Copies the ranges left out to their places, on threads.
    pub(super) fn copy(&self, gaps: &[Gap], meter: &Meter) -> Result<()> {
        match self {
            MessageSource::Chunked(merged) => {
                let mut places = Vec::with_capacity(gaps.len());
                for gap in gaps {
                    places.push(FilePlace {
                        range: MessageOffset::range(&gap.range),
                        file: &gap.file,
                        offset: gap.offset,
                    });
                }
                merged.copy_to_files(&places, None, meter)
            }
            MessageSource::Positioned(reader, _) => {
                let pieces: Vec<_> = gaps.iter().flat_map(pieces).collect();
                threads::map(threads::count(None), pieces.len(), |at| {
                    let (range, file, offset) = &pieces[at];
                    let mut sink = writer_at(file, *offset);
                    read_pieces(
                        *reader,
                        range.clone(),
                        &mut vec![0; COPY_LEN],
                        |_, bytes| {
                            sink.write_all(bytes)?;
                            meter.advance(bytes.len() as u64)
                        },
                    )
                })
                .map(drop)
            }
        }
    }
}

fn pieces(gap: &Gap) -> impl Iterator<Item = (Range<u64>, &File, u64)> {
    let range = gap.range.clone();
    let count = (range.end - range.start).div_ceil(PIECE_LEN);
    (0..count).map(move |index| {
        let skip = index * PIECE_LEN;
        let start = range.start + skip;
        let end = range.end.min(start + PIECE_LEN);
        (start..end, &*gap.file, gap.offset + skip)
    })
}
