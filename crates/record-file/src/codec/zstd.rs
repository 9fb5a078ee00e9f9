//! zstd, through a binding to the C library.
mod frame;

use ::zstd::zstd_safe::zstd_sys::ZSTD_EndDirective::{self, ZSTD_e_continue, ZSTD_e_end};
use ::zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, WriteBuf,
    compress_bound, find_frame_compressed_size, get_error_name,
};

pub(super) use self::frame::{most_content, window};
use super::step::{Each, Progress, STEP, bad_stream, no_memory, size_differs, window_too_large};
use crate::error::{Error, ErrorKind, Result};

/// A compressor that is reused from one stream to the next.
pub(super) struct Encoder(CCtx<'static>);

impl Encoder {
    /// Creates a compressor for a stream of `size` bytes, reusing the context of an earlier stream.
    pub(super) fn new(
        level: i32,
        window_log: Option<u32>,
        size: u64,
        before: Option<Encoder>,
    ) -> Result<Encoder> {
        let mut context = match before {
            Some(Encoder(context)) => context,
            None => CCtx::try_create().ok_or_else(|| failed("out of memory"))?,
        };
        let set = |context: &mut CCtx<'static>| {
            context.reset(ResetDirective::SessionOnly)?;
            context.set_parameter(CParameter::CompressionLevel(level))?;
            context.set_parameter(CParameter::WindowLog(window_log.unwrap_or(0)))?;
            // With a known size, readers can decode in one call, without a window.
            context.set_pledged_src_size(Some(size))
        };
        set(&mut context).map_err(|code| failed(get_error_name(code)))?;
        Ok(Encoder(context))
    }

    /// Compresses `input`, appending to `out`; `end` means that no input follows.
    pub(super) fn run(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        end: bool,
        each: &mut Each<'_>,
    ) -> Result<()> {
        // Input and the end of the stream are passed in separate calls. If the whole stream and its
        // end were passed in a single call and `out` had room for the largest possible result, zstd
        // would compress the stream at once, beyond its own window. It would then find other
        // matches and block boundaries: in measurements, the output was between 1% smaller and 1%
        // larger, and took 0.95 to 1.3 times as long.
        if !input.is_empty() {
            self.run_as(input, out, ZSTD_e_continue, each)?;
        }
        if end {
            self.run_as(&[], out, ZSTD_e_end, each)?;
        }
        Ok(())
    }

    fn run_as(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        directive: ZSTD_EndDirective,
        each: &mut Each<'_>,
    ) -> Result<()> {
        // If `out` has room for a whole block, zstd writes to `out` without copying from its own
        // buffer.
        let most = compress_bound(input.len().min(STEP));
        if out.capacity() - out.len() < most {
            out.reserve(most);
        }
        let mut input = InBuffer::around(input);
        loop {
            if out.capacity() == out.len() {
                out.reserve(STEP);
            }
            let start = out.len();
            let mut output = OutBuffer::around_pos(out, start);
            let left = self
                .0
                .compress_stream2(&mut output, &mut input, directive)
                .map_err(|code| failed(get_error_name(code)))?;
            let done = match directive {
                ZSTD_e_end => left == 0,
                _ => input.pos() == input.src.len(),
            };
            each(out)?;
            if done {
                return Ok(());
            }
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
        let directive = if end { ZSTD_e_end } else { ZSTD_e_continue };
        let mut from = InBuffer::around(input);
        let mut to = OutBuffer::around(out);
        let left = self
            .0
            .compress_stream2(&mut to, &mut from, directive)
            .map_err(|code| failed(get_error_name(code)))?;
        *input = &input[from.pos()..];
        let done = if end { left == 0 } else { input.is_empty() };
        Ok((to.pos(), done))
    }
}

/// Returns the maximum compressed size of `size` bytes.
pub(super) fn most_compressed(size: usize) -> usize {
    compress_bound(size)
}

/// A decompressor that is reused from one stream to the next.
pub(crate) struct Decoder(DCtx<'static>);

impl Decoder {
    pub(super) fn new() -> Result<Decoder> {
        DCtx::try_create().map(Decoder).ok_or_else(no_memory)
    }

    /// Begins a stream, allowing windows of up to 2^`max_window_log` bytes.
    pub(super) fn begin(&mut self, max_window_log: u32) -> Result<()> {
        let log = DParameter::WindowLogMax(max_window_log.clamp(10, 31));
        self.0
            .reset(ResetDirective::SessionAndParameters)
            .and_then(|_| self.0.set_parameter(log))
            .map(|_| ())
            .map_err(|code| Error::config(format!("zstd: {}", get_error_name(code))))
    }

    /// Returns the memory that the decompressor holds, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.0.sizeof()
    }

    /// Decompresses a whole frame into a slice, or into an empty vector up to its capacity. Returns
    /// the number of bytes written; `size` bytes are expected.
    pub(super) fn decompress<B: WriteBuf + ?Sized>(
        &mut self,
        stream: &[u8],
        out: &mut B,
        size: u64,
    ) -> Result<usize> {
        self.0
            .decompress(out, stream)
            .map_err(|code| bad(code, size))
    }

    /// Decodes as much as `output` has room for. Returns the progress, and true if the stream has
    /// ended.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<(Progress, bool)> {
        let mut input = InBuffer::around(input);
        let mut output = OutBuffer::around(output);
        let hint = self
            .0
            .decompress_stream(&mut output, &mut input)
            .map_err(|code| bad(code, 0))?;
        let progress = Progress {
            read: input.pos(),
            written: output.pos(),
        };
        Ok((progress, hint == 0))
    }

    /// Appends decoded data to `out`, up to its capacity. Returns the progress, and true if the
    /// stream has ended. `size` bytes are expected in total.
    pub(super) fn step_to(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        size: u64,
    ) -> Result<(Progress, bool)> {
        let before = out.len();
        let mut input = InBuffer::around(input);
        let mut output = OutBuffer::around_pos(out, before);
        let hint = self
            .0
            .decompress_stream(&mut output, &mut input)
            .map_err(|code| bad(code, size))?;
        let progress = Progress {
            read: input.pos(),
            written: output.pos() - before,
        };
        Ok((progress, hint == 0))
    }
}

/// Checks that the stream is one frame. A chunk has one zstd frame per stream; zstd itself would
/// continue with a second frame.
pub(super) fn check_single(stream: &[u8]) -> Result<()> {
    if !stream.starts_with(&frame::MAGIC) {
        return Err(bad_stream("not a zstd frame"));
    }
    match find_frame_compressed_size(stream) {
        Ok(size) if size == stream.len() => Ok(()),
        Ok(_) => Err(bad_stream("bytes after the zstd frame")),
        Err(code) => Err(bad_stream(format!("zstd: {}", get_error_name(code)))),
    }
}

fn bad(code: usize, size: u64) -> Error {
    let name = get_error_name(code);
    if name.contains("too much memory") {
        return window_too_large();
    }
    if name.contains("buffer is too small") {
        return size_differs(size);
    }
    bad_stream(format!("zstd: {name}"))
}

fn failed(what: &str) -> Error {
    Error::plain(ErrorKind::InvalidConfig, format!("zstd: {what}"))
}
