//! Compressing.
use brotlic::encode::{BrotliEncoder, BrotliEncoderOptions, BrotliOperation};
use brotlic::{LargeWindowSize, Quality, WindowSize};
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective::{ZSTD_e_continue, ZSTD_e_end};
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective, compress_bound};

use super::pieces::too_large;
use super::zstd_name;
use crate::compression::{Compression, DEFAULT_BROTLI_WINDOW_LOG};
use crate::error::{Error, ErrorKind, Result};
use crate::varint;

/// The most that output grows by at once while a stream is compressed.
const STEP: usize = 128 << 10;
/// Snappy's own limit on a block.
pub(super) const MAX_SNAPPY: u64 = u32::MAX as u64;

/// Compressors that are kept from one chunk to the next.
#[derive(Default)]
pub(crate) struct Encoders {
    zstd: Option<CCtx<'static>>,
    joined: Vec<u8>,
}

impl Encoders {
    /// Appends what a chunk stores for the concatenation of `parts`: its size as a varint and the
    /// compressed stream, or just the bytes if nothing compresses them.
    pub(crate) fn compress(
        &mut self,
        compression: &Compression,
        parts: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let size: u64 = parts.iter().map(|part| part.len() as u64).sum();
        match compression {
            Compression::None => {
                parts.iter().for_each(|part| out.extend_from_slice(part));
                return Ok(());
            }
            Compression::Snappy { .. } => {
                varint::push(out, size);
                return self.snappy(parts, size, out);
            }
            Compression::Zstd { .. } => {
                varint::push(out, size);
                // With room for the worst case zstd compresses in one go, past its own buffers.
                if let Ok(size) = usize::try_from(size) {
                    let most = compress_bound(size);
                    if out.capacity() - out.len() < most {
                        // Not twice as much as before, which is for what grows; but with some room
                        // for a chunk that is a little larger.
                        out.reserve_exact(most.saturating_add(most / 64));
                    }
                }
            }
            Compression::Brotli { .. } => varint::push(out, size),
        }
        let mut stream = self.stream(compression, size)?;
        let (last, front) = parts
            .split_last()
            .map_or((&[][..], &[][..]), |(l, f)| (*l, f));
        let result = front
            .iter()
            .try_for_each(|part| stream.run(part, out, false))
            .and_then(|()| stream.run(last, out, true));
        self.keep(stream);
        result
    }

    /// A stream of `size` bytes; `compression` must have one.
    pub(super) fn stream(&mut self, compression: &Compression, size: u64) -> Result<StreamEncoder> {
        StreamEncoder::with_context(compression, size, self.zstd.take())
    }

    /// Keeps what can be used for another stream.
    pub(super) fn keep(&mut self, stream: StreamEncoder) {
        if let StreamEncoder::Zstd(context) = stream {
            self.zstd = Some(context);
        }
    }

    /// Empty memory for what is compressed at once.
    pub(super) fn take_fragment(&mut self) -> Vec<u8> {
        let mut fragment = std::mem::take(&mut self.joined);
        fragment.clear();
        fragment
    }

    pub(super) fn keep_fragment(&mut self, fragment: Vec<u8>) {
        self.joined = fragment;
    }

    fn snappy(&mut self, parts: &[&[u8]], size: u64, out: &mut Vec<u8>) -> Result<()> {
        if size > MAX_SNAPPY {
            return Err(too_large(size));
        }
        let input = match parts {
            [one] => one,
            _ => {
                self.joined.clear();
                parts
                    .iter()
                    .for_each(|part| self.joined.extend_from_slice(part));
                &self.joined[..]
            }
        };
        let start = out.len();
        out.resize(start + snap::raw::max_compress_len(input.len()), 0);
        let written = snap::raw::Encoder::new()
            .compress(input, &mut out[start..])
            .map_err(|error| Error::plain(ErrorKind::LimitExceeded, error.to_string()))?;
        out.truncate(start + written);
        Ok(())
    }
}

impl std::fmt::Debug for Encoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoders")
    }
}

/// One compressed stream, fed piece by piece.
pub(crate) enum StreamEncoder {
    Zstd(CCtx<'static>),
    Brotli(BrotliEncoder),
}

impl StreamEncoder {
    /// A stream of `size` bytes; `compression` must have one.
    pub(crate) fn new(compression: &Compression, size: u64) -> Result<Self> {
        Self::with_context(compression, size, None)
    }

    fn with_context(
        compression: &Compression,
        size: u64,
        context: Option<CCtx<'static>>,
    ) -> Result<Self> {
        match *compression {
            Compression::Zstd { level, window_log } => {
                let mut context = match context {
                    Some(context) => context,
                    None => CCtx::try_create().ok_or_else(|| zstd_failed("out of memory"))?,
                };
                let set = |context: &mut CCtx<'static>| {
                    context.reset(ResetDirective::SessionOnly)?;
                    context.set_parameter(CParameter::CompressionLevel(level))?;
                    context.set_parameter(CParameter::WindowLog(window_log.unwrap_or(0)))?;
                    // Readers can then decode in one go, without a window.
                    context.set_pledged_src_size(Some(size))
                };
                set(&mut context).map_err(|code| zstd_failed(zstd_name(code)))?;
                Ok(StreamEncoder::Zstd(context))
            }
            Compression::Brotli { level, window_log } => {
                Ok(StreamEncoder::Brotli(brotli(level, window_log, size)?))
            }
            Compression::None | Compression::Snappy { .. } => Err(Error::config(format!(
                "{} can't compress a stream",
                compression.kind()
            ))),
        }
    }

    /// Compresses `input`, appending to `out`; `end` says that nothing follows.
    pub(crate) fn run(&mut self, input: &[u8], out: &mut Vec<u8>, end: bool) -> Result<()> {
        match self {
            StreamEncoder::Zstd(context) => run_zstd(context, input, out, end),
            StreamEncoder::Brotli(encoder) => run_brotli(encoder, input, out, end),
        }
    }
}

impl StreamEncoder {
    /// Compresses what `out` has room for, and says how much was put there, and whether all of
    /// `input` was compressed: up to its end, if `end` says that nothing follows.
    pub(super) fn step(
        &mut self,
        input: &mut &[u8],
        out: &mut [u8],
        end: bool,
    ) -> Result<(usize, bool)> {
        match self {
            StreamEncoder::Zstd(context) => {
                let mut from = InBuffer::around(input);
                let mut to = OutBuffer::around(out);
                let left = context
                    .compress_stream2(
                        &mut to,
                        &mut from,
                        if end { ZSTD_e_end } else { ZSTD_e_continue },
                    )
                    .map_err(|code| zstd_failed(zstd_name(code)))?;
                *input = &input[from.pos()..];
                let done = if end { left == 0 } else { input.is_empty() };
                Ok((to.pos(), done))
            }
            StreamEncoder::Brotli(encoder) => {
                let operation = if end {
                    BrotliOperation::Finish
                } else {
                    BrotliOperation::Process
                };
                let result = encoder
                    .compress(input, out, operation)
                    .map_err(|_| brotli_failed("compressing failed"))?;
                *input = &input[result.bytes_read..];
                let done = if end {
                    encoder.is_finished()
                } else {
                    input.is_empty() && !encoder.has_output()
                };
                Ok((result.bytes_written, done))
            }
        }
    }
}

fn run_zstd(context: &mut CCtx<'_>, input: &[u8], out: &mut Vec<u8>, end: bool) -> Result<()> {
    let directive = if end { ZSTD_e_end } else { ZSTD_e_continue };
    let mut input = InBuffer::around(input);
    loop {
        if out.capacity() == out.len() {
            out.reserve(STEP);
        }
        let start = out.len();
        let mut output = OutBuffer::around_pos(out, start);
        let left = context
            .compress_stream2(&mut output, &mut input, directive)
            .map_err(|code| zstd_failed(zstd_name(code)))?;
        let done = if end {
            left == 0
        } else {
            input.pos() == input.src.len()
        };
        if done {
            return Ok(());
        }
    }
}

fn run_brotli(
    encoder: &mut BrotliEncoder,
    mut input: &[u8],
    out: &mut Vec<u8>,
    end: bool,
) -> Result<()> {
    let operation = if end {
        BrotliOperation::Finish
    } else {
        BrotliOperation::Process
    };
    loop {
        let start = out.len();
        out.resize(start + STEP, 0);
        let result = encoder
            .compress(input, &mut out[start..], operation)
            .map_err(|_| brotli_failed("compressing failed"))?;
        out.truncate(start + result.bytes_written);
        input = &input[result.bytes_read..];
        let done = if end {
            encoder.is_finished()
        } else {
            input.is_empty() && !encoder.has_output()
        };
        if done {
            return Ok(());
        }
    }
}

fn brotli(level: u32, window_log: Option<u32>, size: u64) -> Result<BrotliEncoder> {
    let window = u8::try_from(window_log.unwrap_or(DEFAULT_BROTLI_WINDOW_LOG)).unwrap_or(u8::MAX);
    let level = u8::try_from(level).unwrap_or(u8::MAX);
    let build = || {
        let mut options = BrotliEncoderOptions::new();
        options.quality(Quality::new(level)?);
        // Beyond the usual it is a stream of another kind, which is not for every decoder.
        match WindowSize::new(window) {
            Ok(usual) => options.window_size(usual),
            Err(_) => options.large_window_size(LargeWindowSize::new(window)?),
        };
        options.size_hint(u32::try_from(size).unwrap_or(u32::MAX));
        options.build()
    };
    build().map_err(|_| brotli_failed("parameters refused"))
}

fn zstd_failed(what: &str) -> Error {
    Error::plain(ErrorKind::InvalidConfig, format!("zstd: {what}"))
}

fn brotli_failed(what: &str) -> Error {
    Error::plain(ErrorKind::InvalidConfig, format!("brotli: {what}"))
}
