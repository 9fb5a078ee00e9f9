//! The compressors that support streams: zstd and brotli.
use super::step::{Each, STEP};
use super::{brotli, zstd};
use crate::compression::Compression;
use crate::error::{Error, Result};

/// A compressor for one stream.
pub(super) enum Compressor {
    Zstd(zstd::Encoder),
    Brotli(brotli::Encoder),
}

impl Compressor {
    /// Creates a compressor for a stream of `size` bytes, reusing the zstd context of an earlier
    /// stream. `compression` must be a codec that supports streams.
    pub(super) fn new(
        compression: &Compression,
        size: u64,
        before: Option<zstd::Encoder>,
    ) -> Result<Self> {
        match *compression {
            Compression::Zstd { level, window_log } => {
                zstd::Encoder::new(level, window_log, size, before).map(Compressor::Zstd)
            }
            Compression::Brotli { level, window_log } => {
                brotli::Encoder::new(level, window_log, size).map(Compressor::Brotli)
            }
            Compression::None | Compression::Snappy { .. } => Err(Error::config(format!(
                "{} can't compress a stream",
                compression.kind()
            ))),
        }
    }

    /// Compresses `input`, appending to `out`; `end` means that no input follows.
    ///
    /// The output depends neither on how the input is divided (except at brotli's levels 0 and 1)
    /// nor on the room in `out`.
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
        }
    }

    /// Compresses as much of `input` as `out` has room for. Returns the number of bytes written,
    /// and true if all of `input` is compressed. If `end` is set, no input follows, and true also
    /// means that the stream is complete.
    pub(super) fn step(
        &mut self,
        input: &mut &[u8],
        out: &mut [u8],
        end: bool,
    ) -> Result<(usize, bool)> {
        match self {
            Compressor::Zstd(encoder) => encoder.step(input, out, end),
            Compressor::Brotli(encoder) => encoder.step(input, out, end),
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
