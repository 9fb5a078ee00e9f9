//! The compressors for streams.
use super::step::{Each, STEP};
use super::{brotli, snappy, zstd};
use crate::block_pool::{BlockPool, PieceQueue};
use crate::error::Result;

/// A compressor for one stream.
pub(super) enum Compressor {
    Zstd(zstd::Encoder),
    Brotli(brotli::Encoder),
    Snappy(Box<snappy::Encoder>),
}

impl Compressor {
    /// Compresses `input`, appending to `out`; `end` means that no input follows.
    ///
    /// The output doesn't depend on the room in `out`. How the input is divided matters only to
    /// snappy, which compresses each call's input independently, and to brotli's levels 0 and 1.
    pub(super) fn run(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        end: bool,
        each: &mut Each<'_>,
    ) -> Result<()> {
        match self {
            Compressor::Zstd(encoder) => encoder.run(input, out, end, each),
            Compressor::Brotli(encoder) => run_brotli(encoder, input, out, end, each),
            Compressor::Snappy(encoder) => {
                out.extend_from_slice(encoder.compress(input)?);
                each(out)
            }
        }
    }

    /// Compresses like [`run`](Self::run), but appends to pieces.
    pub(super) fn run_to_pieces(
        &mut self,
        mut input: &[u8],
        out: &mut PieceQueue,
        blocks: &mut BlockPool,
        end: bool,
    ) -> Result<()> {
        loop {
            let (written, done) = match self {
                Compressor::Zstd(encoder) => encoder.step(&mut input, out.room(1, blocks), end)?,
                Compressor::Brotli(encoder) => {
                    encoder.step(&mut input, out.room(1, blocks), end)?
                }
                Compressor::Snappy(encoder) => {
                    out.append(encoder.compress(input)?, blocks);
                    return Ok(());
                }
            };
            out.filled(written);
            if done {
                return Ok(());
            }
        }
    }
}

fn run_brotli(
    encoder: &mut brotli::Encoder,
    mut input: &[u8],
    out: &mut Vec<u8>,
    end: bool,
    each: &mut Each<'_>,
) -> Result<()> {
    loop {
        let start = out.len();
        out.resize(start + STEP, 0);
        let (written, done) = encoder.step(&mut input, &mut out[start..], end)?;
        out.truncate(start + written);
        each(out)?;
        if done {
            return Ok(());
        }
    }
}
