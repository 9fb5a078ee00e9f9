//! Compressing what is given up piece by piece.
use super::encode::{Encoders, MAX_SNAPPY, StreamEncoder};
use crate::compression::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::pieces::{Blocks, Piece, Pieces};
use crate::varint;

/// What snappy compresses at once: its stream is a size, and then what becomes of each such part by
/// itself. Brotli gets as much at once, since its lowest levels look at nothing but what they get.
const FRAGMENT: usize = 64 << 10;

/// Compresses pieces, and gives up each as soon as the compressor has had it.
///
/// zstd is given pieces where they are. In one call for all, with a copy of them in a row, it takes
/// a third longer at level 3 and as long at level 1: it then looks for better ends of its blocks,
/// which saves less than half a per cent.
pub(crate) struct PieceEncoder<'a> {
    encoders: &'a mut Encoders,
    out: &'a mut Pieces,
    blocks: &'a mut Blocks,
    by: By,
}

enum By {
    /// The last piece waits, to be told that it is the last.
    Zstd(StreamEncoder, Option<Piece>),
    Brotli(StreamEncoder, Vec<u8>),
    Snappy(Vec<u8>),
    Nothing,
}

impl Encoders {
    /// As [`compress`](Self::compress), for `size` bytes that come piece by piece.
    pub(crate) fn compress_pieces<'a>(
        &'a mut self,
        compression: &Compression,
        size: u64,
        out: &'a mut Pieces,
        blocks: &'a mut Blocks,
    ) -> Result<PieceEncoder<'a>> {
        let by = match compression {
            Compression::None => By::Nothing,
            Compression::Snappy { .. } if size > MAX_SNAPPY => return Err(too_large(size)),
            Compression::Snappy { .. } => By::Snappy(self.take_fragment()),
            Compression::Brotli { .. } => {
                By::Brotli(self.stream(compression, size)?, self.take_fragment())
            }
            Compression::Zstd { .. } => By::Zstd(self.stream(compression, size)?, None),
        };
        let mut prefix = Vec::with_capacity(2 * varint::MAX_LEN);
        if !matches!(by, By::Nothing) {
            varint::push(&mut prefix, size);
        }
        if matches!(by, By::Snappy(_)) {
            // Its stream begins with the size, too.
            varint::push(&mut prefix, size);
        }
        out.append(&prefix, blocks);
        Ok(PieceEncoder {
            encoders: self,
            out,
            blocks,
            by,
        })
    }
}

impl PieceEncoder<'_> {
    /// Compresses a piece that follows those before.
    pub(crate) fn add(&mut self, piece: Piece) -> Result<()> {
        match &mut self.by {
            By::Nothing => self.out.push(piece),
            By::Zstd(stream, waiting) => {
                if let Some(piece) = waiting.replace(piece) {
                    run(stream, piece.as_slice(), self.out, self.blocks, false)?;
                    self.blocks.give(piece.into_block());
                }
            }
            By::Brotli(stream, fragment) => {
                fill(fragment, piece.as_slice(), |fragment| {
                    run(stream, fragment, self.out, self.blocks, false)
                })?;
                self.blocks.give(piece.into_block());
            }
            By::Snappy(fragment) => {
                fill(fragment, piece.as_slice(), |fragment| {
                    snappy(fragment, self.out, self.blocks)
                })?;
                self.blocks.give(piece.into_block());
            }
        }
        Ok(())
    }

    /// Ends the stream.
    pub(crate) fn finish(self) -> Result<()> {
        let PieceEncoder {
            encoders,
            out,
            blocks,
            by,
        } = self;
        match by {
            By::Nothing => {}
            By::Zstd(mut stream, last) => {
                let bytes = last.as_ref().map_or(&[][..], Piece::as_slice);
                run(&mut stream, bytes, out, blocks, true)?;
                if let Some(last) = last {
                    blocks.give(last.into_block());
                }
                encoders.keep(stream);
            }
            By::Brotli(mut stream, fragment) => {
                run(&mut stream, &fragment, out, blocks, true)?;
                encoders.keep_fragment(fragment);
            }
            By::Snappy(fragment) => {
                snappy(&fragment, out, blocks)?;
                encoders.keep_fragment(fragment);
            }
        }
        Ok(())
    }
}

/// Adds bytes to a fragment; one that is full is taken when more comes, so that something is left
/// for the end.
fn fill(
    fragment: &mut Vec<u8>,
    mut bytes: &[u8],
    mut full: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    while !bytes.is_empty() {
        if fragment.len() == FRAGMENT {
            full(fragment)?;
            fragment.clear();
        }
        let (now, later) = bytes.split_at(bytes.len().min(FRAGMENT - fragment.len()));
        fragment.extend_from_slice(now);
        bytes = later;
    }
    Ok(())
}

fn run(
    stream: &mut StreamEncoder,
    mut input: &[u8],
    out: &mut Pieces,
    blocks: &mut Blocks,
    end: bool,
) -> Result<()> {
    loop {
        let (written, done) = stream.step(&mut input, out.room(1, blocks), end)?;
        out.filled(written);
        if done {
            return Ok(());
        }
    }
}

fn snappy(fragment: &[u8], out: &mut Pieces, blocks: &mut Blocks) -> Result<()> {
    if fragment.is_empty() {
        return Ok(());
    }
    let stream = snap::raw::Encoder::new()
        .compress_vec(fragment)
        .map_err(|error| Error::plain(ErrorKind::LimitExceeded, error.to_string()))?;
    // Without the size of this fragment.
    let mut rest = &stream[..];
    varint::take(&mut rest);
    out.append(rest, blocks);
    Ok(())
}

/// What snappy can't compress at once.
pub(super) fn too_large(size: u64) -> Error {
    Error::plain(
        ErrorKind::LimitExceeded,
        format!("snappy compresses at most {MAX_SNAPPY} bytes at once, not {size}"),
    )
}
