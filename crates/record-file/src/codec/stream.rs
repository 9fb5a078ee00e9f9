//! Decompression of a stream piece by piece, with a limited window.
use super::step::{Progress, bad_stream, size_differs, window_too_large};
use super::{brotli, snappy, zstd};
use crate::compression::CompressionKind;
use crate::error::{Error, Result};

/// Minimum number of bytes by which an output buffer grows.
pub(super) const GROWTH: usize = 1 << 20;
/// Number of bytes of a buffer that are zeroed at a time, before data is decoded into them.
const FILL_STEP: usize = 256 << 10;

/// A decoder for one compressed stream, which accepts input piece by piece.
pub(crate) struct StreamDecoder {
    pub(super) codec: Codec,
    ended: bool,
}

pub(super) enum Codec {
    Zstd(zstd::Decoder),
    // The window is checked once the first two bytes of the stream have arrived.
    Brotli {
        decoder: brotli::Decoder,
        start: Vec<u8>,
        max_window_log: u32,
    },
    Snappy(snappy::Decoder),
}

impl StreamDecoder {
    /// Creates a decoder that allows windows of up to 2^`max_window_log` bytes, or 64 KiB for
    /// snappy.
    pub(crate) fn new(kind: CompressionKind, max_window_log: u32) -> Result<Self> {
        let codec = match kind {
            CompressionKind::Zstd => return Self::with_zstd(None, max_window_log),
            CompressionKind::Brotli => Codec::Brotli {
                decoder: brotli::Decoder::new()?,
                start: Vec::new(),
                max_window_log,
            },
            CompressionKind::Snappy => Codec::Snappy(snappy::Decoder::new()?),
            CompressionKind::None => {
                return Err(Error::config(format!(
                    "{kind} can't be decompressed as a stream"
                )));
            }
        };
        Ok(StreamDecoder {
            codec,
            ended: false,
        })
    }

    /// Creates a zstd decoder, reusing the context of an earlier stream.
    pub(super) fn with_zstd(before: Option<zstd::Decoder>, max_window_log: u32) -> Result<Self> {
        let mut decoder = match before {
            Some(decoder) => decoder,
            None => zstd::Decoder::new()?,
        };
        decoder.begin(max_window_log)?;
        Ok(StreamDecoder {
            codec: Codec::Zstd(decoder),
            ended: false,
        })
    }

    /// Decodes all of `input`, appending to `out`, which must not grow beyond `size`.
    pub(crate) fn run_to(&mut self, input: &[u8], out: &mut Vec<u8>, size: u64) -> Result<()> {
        let most = usize::try_from(size).map_err(|_| Error::no_room_for(size))?;
        let mut read = 0;
        // If the room in `out` is used up, more output may follow without more input.
        let mut more = false;
        while read < input.len() || more {
            if self.ended || out.len() == most {
                read += self.finish_step(&input[read..], size)?;
                if read < input.len() {
                    return Err(bad_stream("bytes after the compressed stream"));
                }
                break;
            }
            if out.len() == out.capacity() {
                // Memory is allocated only as data arrives, since `size` may be a false claim.
                let grown = out.len().max(GROWTH).min(most - out.len());
                out.try_reserve_exact(grown)
                    .map_err(|_| Error::no_room_for(size))?;
            }
            let before = out.len();
            let room = (out.capacity() - before).min(most - before);
            let progress = match &mut self.codec {
                Codec::Zstd(decoder) => {
                    let progress;
                    (progress, self.ended) = decoder.step_to(&input[read..], out, size)?;
                    progress
                }
                Codec::Brotli { .. } | Codec::Snappy(_) => {
                    out.resize(before + room.min(FILL_STEP), 0);
                    let progress = self.step(&input[read..], &mut out[before..])?;
                    out.truncate(before + progress.written);
                    progress
                }
            };
            if out.len() > most {
                return Err(size_differs(size));
            }
            read += progress.read;
            more = progress.written > 0 && !self.ended;
            if progress.read == 0 && progress.written == 0 && read < input.len() {
                return Err(bad_stream("compressed stream makes no progress"));
            }
        }
        Ok(())
    }

    /// Decodes until `input` is used up, `output` is full, or the stream ends.
    pub(crate) fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress> {
        let mut read = 0;
        let mut written = 0;
        while !self.ended && written < output.len() {
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
        self.ended
    }

    /// Consumes more input after all output was produced, up to the end of the stream, and returns
    /// the number of bytes consumed.
    pub(crate) fn finish_step(&mut self, input: &[u8], size: u64) -> Result<usize> {
        let mut read = 0;
        while !self.ended {
            let mut more = [0; 1];
            let step = self.step(&input[read..], &mut more)?;
            read += step.read;
            if step.written > 0 {
                return Err(size_differs(size));
            }
            if step.read == 0 && !self.ended {
                break;
            }
        }
        Ok(read)
    }

    /// Checks that `rest` completes the stream without producing more output.
    pub(crate) fn expect_end(&mut self, rest: &[u8], size: u64) -> Result<()> {
        let read = self.finish_step(rest, size)?;
        if !self.ended {
            return Err(bad_stream("compressed stream ends early"));
        }
        if read < rest.len() {
            return Err(bad_stream("bytes after the compressed stream"));
        }
        Ok(())
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress> {
        let progress;
        (progress, self.ended) = match &mut self.codec {
            Codec::Snappy(decoder) => decoder.step(input, output)?,
            Codec::Zstd(decoder) => decoder.step(input, output)?,
            Codec::Brotli {
                decoder,
                start,
                max_window_log,
            } => {
                if start.len() < 2 {
                    start.extend(input.iter().take(2 - start.len()));
                    check_brotli_window(start, *max_window_log)?;
                }
                decoder.step(input, output)?
            }
        };
        Ok(progress)
    }
}

impl std::fmt::Debug for StreamDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StreamDecoder")
    }
}

/// Checks the size of a brotli stream's window, if the first 14 bits of the stream announce a large
/// window. Other windows need no check.
fn check_brotli_window(start: &[u8], max_window_log: u32) -> Result<()> {
    if let [0x11, second, ..] = start {
        let window_log = u32::from(second & 0x3f);
        if window_log > max_window_log.max(24) {
            return Err(window_too_large());
        }
    }
    Ok(())
}
