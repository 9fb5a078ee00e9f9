//! Decompressing. Sizes are those the file claims: never more than that is put out, and less is an error.
use brotlic::decode::{BrotliDecoder, BrotliDecoderOptions, DecoderInfo};
use zstd::zstd_safe::{
    DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, find_frame_compressed_size,
};

use super::{Memory, TRUSTED_SIZE, bad_stream, zstd_name};
use crate::compression::CompressionKind;
use crate::error::{Error, ErrorKind, Result};
use crate::options::ReaderOptions;
use crate::varint;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GROWTH: usize = 1 << 20;
/// How far a buffer is filled ahead of what brotli puts there.
const BROTLI_STEP: usize = 256 << 10;
/// What a brotli stream may announce where its output is kept as a whole: its decoder's window grows with the output,
/// so it isn't what has to be limited.
const ANY_WINDOW: u32 = 30;

/// Decompressors that are kept from one stream to the next.
#[derive(Default)]
pub(crate) struct Decoders {
    zstd: Option<DCtx<'static>>,
    /// Memory of a chunk before, for what several streams of one decompress to.
    pub(crate) arena: Vec<u8>,
    pub(crate) memory: Memory,
    /// Memory for the sizes of a chunk's records.
    pub(crate) sizes: Vec<u8>,
}

impl std::fmt::Debug for Decoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoders")
    }
}

impl Decoders {
    /// Decompresses the whole of `stream`, without its size prefix, to exactly fill `out`.
    pub(crate) fn decompress_into(
        &mut self,
        kind: CompressionKind,
        stream: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        match kind {
            CompressionKind::None => {
                if stream.len() != out.len() {
                    return Err(size_differs(out.len() as u64));
                }
                out.copy_from_slice(stream);
                Ok(())
            }
            CompressionKind::Zstd => {
                check_single_frame(stream)?;
                let size = out.len() as u64;
                let written = self
                    .zstd()?
                    .decompress(out, stream)
                    .map_err(|code| bad_zstd(code, size))?;
                if written as u64 == size {
                    Ok(())
                } else {
                    Err(size_differs(size))
                }
            }
            CompressionKind::Snappy => {
                let size = out.len() as u64;
                if snappy_size(stream)? != size {
                    return Err(size_differs(size));
                }
                snap::raw::Decoder::new()
                    .decompress(stream, out)
                    .map_err(|error| bad_stream(error.to_string()))?;
                Ok(())
            }
            CompressionKind::Brotli => {
                let mut decoder = StreamDecoder::new(kind, ANY_WINDOW)?;
                let progress = decoder.run(stream, out)?;
                if progress.written < out.len() {
                    return Err(size_differs(out.len() as u64));
                }
                decoder.expect_end(&stream[progress.read..], out.len() as u64)
            }
        }
    }

    /// Decompresses the whole of `stream`, without its size prefix, which must come to `size` bytes.
    ///
    /// The caller has checked `size` against its limits; memory still grows only as data arrives.
    pub(crate) fn decompress(
        &mut self,
        kind: CompressionKind,
        stream: &[u8],
        size: u64,
        max_window_log: u32,
    ) -> Result<Vec<u8>> {
        self.decompress_to(Vec::new(), kind, stream, size, max_window_log)
    }

    /// As [`decompress`](Self::decompress), with memory that was used before, whatever is in it.
    pub(crate) fn decompress_to(
        &mut self,
        mut out: Vec<u8>,
        kind: CompressionKind,
        stream: &[u8],
        size: u64,
        max_window_log: u32,
    ) -> Result<Vec<u8>> {
        let len = usize::try_from(size).map_err(|_| too_large(size))?;
        let trusted = size <= TRUSTED_SIZE.max((stream.len() as u64).saturating_mul(64));
        match kind {
            CompressionKind::Zstd if trusted => {
                check_single_frame(stream)?;
                out.clear();
                out.try_reserve_exact(len).map_err(|_| too_large(size))?;
                // A Vec takes what comes up to its capacity, which may be more than was asked for.
                self.zstd()?
                    .decompress(&mut out, stream)
                    .map_err(|code| bad_zstd(code, size))?;
                if out.len() == len {
                    Ok(out)
                } else {
                    Err(size_differs(size))
                }
            }
            CompressionKind::Snappy if snappy_size(stream)? != size => Err(size_differs(size)),
            // Snappy can't expand more than 64-fold or so, thus `trusted` is always met by what is valid.
            CompressionKind::Snappy if !trusted => Err(bad_stream("snappy stream ends early")),
            CompressionKind::None | CompressionKind::Snappy => {
                resize(&mut out, len, size)?;
                self.decompress_into(kind, stream, &mut out)?;
                Ok(out)
            }
            CompressionKind::Zstd | CompressionKind::Brotli => {
                let most = match kind {
                    CompressionKind::Brotli => ANY_WINDOW,
                    _ => max_window_log,
                };
                let mut decoder = StreamDecoder::new(kind, most)?;
                let mut filled = 0;
                let mut rest = stream;
                while filled < len {
                    let grown = len.min((2 * filled).max(if trusted { len } else { GROWTH }));
                    resize(&mut out, grown, size)?;
                    let progress = decoder.run(rest, &mut out[filled..])?;
                    rest = &rest[progress.read..];
                    filled += progress.written;
                    if filled < grown {
                        return Err(size_differs(size));
                    }
                }
                decoder.expect_end(rest, size)?;
                out.truncate(len);
                Ok(out)
            }
        }
    }

    /// A decoder for a stream that begins with `start`; `None` if its window is too large, or as large as its content, so
    /// that it is better decoded as a whole.
    pub(crate) fn stream(
        &mut self,
        kind: CompressionKind,
        start: &[u8],
        options: &ReaderOptions,
    ) -> Result<Option<StreamDecoder>> {
        match kind {
            CompressionKind::Zstd => {
                let largest = 1 << options.max_window_log.min(63);
                if zstd_window(start).is_none_or(|window| window > largest) {
                    return Ok(None);
                }
                let context = self.zstd.take();
                StreamDecoder::with_zstd(context, options.max_window_log).map(Some)
            }
            _ => StreamDecoder::new(kind, ANY_WINDOW).map(Some),
        }
    }

    /// Keeps what can be used for another stream.
    pub(crate) fn give_back(&mut self, stream: StreamDecoder) {
        if let StreamDecoder::Zstd { context, .. } = stream {
            self.zstd = Some(context);
        }
    }

    fn zstd(&mut self) -> Result<&mut DCtx<'static>> {
        if self.zstd.is_none() {
            self.zstd = Some(DCtx::try_create().ok_or_else(no_memory)?);
        }
        self.zstd.as_mut().ok_or_else(no_memory)
    }
}

/// One compressed stream, decoded piece by piece.
pub(crate) enum StreamDecoder {
    Zstd {
        context: DCtx<'static>,
        ended: bool,
    },
    // The window is checked once two bytes are known.
    Brotli {
        decoder: BrotliDecoder,
        ended: bool,
        start: Vec<u8>,
        max_window_log: u32,
    },
}

/// How far one step of decoding came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) read: usize,
    pub(crate) written: usize,
}

impl StreamDecoder {
    /// A decoder for zstd or brotli that allows windows of up to 2^`max_window_log` bytes.
    pub(crate) fn new(kind: CompressionKind, max_window_log: u32) -> Result<Self> {
        match kind {
            CompressionKind::Zstd => Self::with_zstd(None, max_window_log),
            CompressionKind::Brotli => {
                let decoder = BrotliDecoderOptions::new()
                    .large_window_size(true)
                    .build()
                    .map_err(|_| Error::config("brotli: parameters refused"))?;
                Ok(StreamDecoder::Brotli {
                    decoder,
                    ended: false,
                    start: Vec::new(),
                    max_window_log,
                })
            }
            CompressionKind::None | CompressionKind::Snappy => Err(Error::config(format!(
                "{kind} can't be decompressed as a stream"
            ))),
        }
    }

    fn with_zstd(context: Option<DCtx<'static>>, max_window_log: u32) -> Result<Self> {
        let mut context = match context {
            Some(context) => context,
            None => DCtx::try_create().ok_or_else(no_memory)?,
        };
        context
            .reset(ResetDirective::SessionAndParameters)
            .and_then(|_| {
                context.set_parameter(DParameter::WindowLogMax(max_window_log.clamp(10, 31)))
            })
            .map_err(|code| Error::config(format!("zstd: {}", zstd_name(code))))?;
        Ok(StreamDecoder::Zstd {
            context,
            ended: false,
        })
    }

    /// Decodes all of `input`, appending to `out`, which must not get longer than `size`.
    pub(crate) fn run_to(&mut self, input: &[u8], out: &mut Vec<u8>, size: u64) -> Result<()> {
        let most = usize::try_from(size).map_err(|_| too_large(size))?;
        let mut read = 0;
        // As long as the room is used up, there may be more to come without input.
        let mut more = false;
        while read < input.len() || more {
            if self.ended() || out.len() == most {
                read += self.finish_step(&input[read..], size)?;
                if read < input.len() {
                    return Err(bad_stream("bytes after the compressed stream"));
                }
                break;
            }
            if out.len() == out.capacity() {
                // Memory grows as data arrives.
                let grown = out.len().max(GROWTH).min(most - out.len());
                out.try_reserve_exact(grown).map_err(|_| too_large(size))?;
            }
            let before = out.len();
            let room = (out.capacity() - before).min(most - before);
            let progress = match self {
                StreamDecoder::Zstd { context, ended } => {
                    let mut input = InBuffer::around(&input[read..]);
                    let mut output = OutBuffer::around_pos(out, before);
                    let hint = context
                        .decompress_stream(&mut output, &mut input)
                        .map_err(|code| bad_zstd(code, size))?;
                    *ended = hint == 0;
                    Progress {
                        read: input.pos(),
                        written: output.pos() - before,
                    }
                }
                StreamDecoder::Brotli { .. } => {
                    out.resize(before + room.min(BROTLI_STEP), 0);
                    let progress = self.step(&input[read..], &mut out[before..])?;
                    out.truncate(before + progress.written);
                    progress
                }
            };
            if out.len() > most {
                return Err(size_differs(size));
            }
            read += progress.read;
            more = progress.written > 0 && !self.ended();
            if progress.read == 0 && progress.written == 0 && read < input.len() {
                return Err(bad_stream("compressed stream doesn't go on"));
            }
        }
        Ok(())
    }

    /// Decodes until `input` is used up, `output` is full, or the stream ends.
    pub(crate) fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress> {
        let mut read = 0;
        let mut written = 0;
        while !self.ended() && written < output.len() {
            let step = self.step(&input[read..], &mut output[written..])?;
            read += step.read;
            written += step.written;
            if step.read == 0 && step.written == 0 {
                break;
            }
        }
        Ok(Progress { read, written })
    }

    pub(crate) fn ended(&self) -> bool {
        match self {
            StreamDecoder::Zstd { ended, .. } | StreamDecoder::Brotli { ended, .. } => *ended,
        }
    }

    /// Takes more input after all output has come, up to the end of the stream, and says how much.
    pub(crate) fn finish_step(&mut self, input: &[u8], size: u64) -> Result<usize> {
        let mut read = 0;
        while !self.ended() {
            let mut more = [0; 1];
            let step = self.step(&input[read..], &mut more)?;
            read += step.read;
            if step.written > 0 {
                return Err(size_differs(size));
            }
            if step.read == 0 && !self.ended() {
                break;
            }
        }
        Ok(read)
    }

    /// Checks that the stream ends where `rest` does, without more output.
    pub(crate) fn expect_end(&mut self, rest: &[u8], size: u64) -> Result<()> {
        let read = self.finish_step(rest, size)?;
        if !self.ended() {
            return Err(bad_stream("compressed stream ends early"));
        }
        if read < rest.len() {
            return Err(bad_stream("bytes after the compressed stream"));
        }
        Ok(())
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress> {
        match self {
            StreamDecoder::Zstd { context, ended } => {
                let mut input = InBuffer::around(input);
                let mut output = OutBuffer::around(output);
                let hint = context
                    .decompress_stream(&mut output, &mut input)
                    .map_err(|code| bad_zstd(code, 0))?;
                *ended = hint == 0;
                Ok(Progress {
                    read: input.pos(),
                    written: output.pos(),
                })
            }
            StreamDecoder::Brotli {
                decoder,
                ended,
                start,
                max_window_log,
            } => {
                if start.len() < 2 {
                    start.extend(input.iter().take(2 - start.len()));
                    check_brotli_window(start, *max_window_log)?;
                }
                let result = decoder
                    .decompress(input, output)
                    .map_err(|error| bad_stream(format!("brotli: {error}")))?;
                *ended = matches!(result.info, DecoderInfo::Finished);
                Ok(Progress {
                    read: result.bytes_read,
                    written: result.bytes_written,
                })
            }
        }
    }
}

impl std::fmt::Debug for StreamDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StreamDecoder")
    }
}

/// A chunk has one zstd frame per stream; zstd itself would go on with a second one.
fn check_single_frame(stream: &[u8]) -> Result<()> {
    if !stream.starts_with(&ZSTD_MAGIC) {
        return Err(bad_stream("not a zstd frame"));
    }
    match find_frame_compressed_size(stream) {
        Ok(size) if size == stream.len() => Ok(()),
        Ok(_) => Err(bad_stream("bytes after the zstd frame")),
        Err(code) => Err(bad_stream(format!("zstd: {}", zstd_name(code)))),
    }
}

/// Bytes of the window that a zstd frame announces; `None` if it is as large as the content, or can't be told.
fn zstd_window(start: &[u8]) -> Option<u64> {
    let [descriptor, window, ..] = *start.strip_prefix(&ZSTD_MAGIC)? else {
        return None;
    };
    if descriptor & 0x20 != 0 {
        return None;
    }
    let base = 1u64 << (10 + (window >> 3));
    Some(base + base / 8 * u64::from(window & 7))
}

/// A large window is announced by the first 14 bits of a brotli stream; smaller ones need no check.
fn check_brotli_window(start: &[u8], max_window_log: u32) -> Result<()> {
    if let [0x11, second, ..] = start {
        let window_log = u32::from(second & 0x3f);
        if window_log > max_window_log.max(24) {
            return Err(window_too_large());
        }
    }
    Ok(())
}

/// What is in memory that was used before is written over: only what is new needs to be filled.
fn resize(out: &mut Vec<u8>, len: usize, size: u64) -> Result<()> {
    out.try_reserve_exact(len.saturating_sub(out.len()))
        .map_err(|_| too_large(size))?;
    out.resize(len, 0);
    Ok(())
}

fn snappy_size(stream: &[u8]) -> Result<u64> {
    varint::take(&mut &stream[..]).ok_or_else(|| bad_stream("snappy stream without a size"))
}

fn bad_zstd(code: usize, size: u64) -> Error {
    let name = zstd_name(code);
    if name.contains("too much memory") {
        return window_too_large();
    }
    if name.contains("buffer is too small") {
        return size_differs(size);
    }
    bad_stream(format!("zstd: {name}"))
}

fn window_too_large() -> Error {
    Error::plain(
        ErrorKind::LimitExceeded,
        "compressed with a window larger than max_window_log allows",
    )
}

fn size_differs(size: u64) -> Error {
    bad_stream(format!(
        "compressed stream doesn't decode to the {size} bytes it claims"
    ))
}

fn too_large(size: u64) -> Error {
    Error::plain(
        ErrorKind::LimitExceeded,
        format!("{size} bytes don't fit in memory"),
    )
}

fn no_memory() -> Error {
    Error::plain(ErrorKind::LimitExceeded, "zstd: out of memory")
}
