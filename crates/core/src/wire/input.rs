//! Inputs for a cursor: memory, a source with positioned reads, or a stream.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

use record_file::ReadAt;

use crate::{Error, ErrorKind, Result};

/// A source of bytes that a [`WireCursor`](super::WireCursor) reads by position: a slice, a file,
/// or a stream.
pub trait Input {
    /// Returns the size of the input in bytes.
    fn size(&self) -> u64;

    /// Returns the bytes from `position` on: at least `want` bytes, or all bytes up to the end of
    /// the input if there are fewer.
    ///
    /// # Errors
    ///
    /// If reading fails, or the input ends before its [`size`](Input::size); for a stream, also if
    /// `position` is before the most recently fetched bytes.
    fn fetch(&mut self, position: u64, want: usize) -> Result<&[u8]>;
}

impl<I: Input + ?Sized> Input for &mut I {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn fetch(&mut self, position: u64, want: usize) -> Result<&[u8]> {
        (**self).fetch(position, want)
    }
}

impl Input for &[u8] {
    #[inline]
    fn size(&self) -> u64 {
        self.len() as u64
    }

    #[inline]
    fn fetch(&mut self, position: u64, _want: usize) -> Result<&[u8]> {
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        Ok(self.get(position..).unwrap_or_default())
    }
}

/// Returns the index of `position` in a window that begins at position `start`; `None` if the
/// window doesn't contain `want` bytes from `position` on.
#[inline]
pub(crate) fn at_hand(window: &[u8], start: u64, position: u64, want: usize) -> Option<usize> {
    let skip = usize::try_from(position.checked_sub(start)?).ok()?;
    (window.len().checked_sub(skip)? >= want).then_some(skip)
}

/// Returns the bytes at `range` of an input; `None` unless a window that begins at position `start`
/// contains the entire range.
#[inline]
pub(crate) fn part_at_hand<'w>(
    window: &'w [u8],
    start: u64,
    range: &Range<u64>,
) -> Option<&'w [u8]> {
    let skip = usize::try_from(range.start.checked_sub(start)?).ok()?;
    let len = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
    window.get(skip..)?.get(..len)
}

const FIRST_WINDOW: usize = 4 << 10;

/// Maximum size of a window, in bytes: small enough to stay in a core's cache from the read until
/// the cursor has parsed it.
const LARGEST_WINDOW: usize = 256 << 10;

/// An input that reads a random-access source through a window. The window is small after a skip,
/// and grows during sequential reading.
#[derive(Debug)]
pub struct SourceInput<'a, S: ?Sized> {
    source: &'a S,
    /// The entire source, if it is in memory.
    slice: Option<&'a [u8]>,
    size: u64,
    window: Vec<u8>,
    start: u64,
    next_len: usize,
    /// True if the source returned fewer bytes than requested when the window was last filled.
    is_short: bool,
}

impl<'a, S: ReadAt + ?Sized> SourceInput<'a, S> {
    /// Creates an input over the first `size` bytes of `source`.
    pub fn new(source: &'a S, size: u64) -> Self {
        let end = usize::try_from(size).unwrap_or(usize::MAX);
        SourceInput {
            source,
            slice: source
                .as_slice()
                .map(|slice| &slice[..end.min(slice.len())]),
            size,
            window: Vec::new(),
            start: 0,
            next_len: FIRST_WINDOW,
            is_short: false,
        }
    }
}

impl<S: ReadAt + ?Sized> Input for SourceInput<'_, S> {
    fn size(&self) -> u64 {
        self.size
    }

    #[inline]
    fn fetch(&mut self, position: u64, want: usize) -> Result<&[u8]> {
        let left = self.size.saturating_sub(position);
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(want);
        if let Some(slice) = self.slice {
            let position = usize::try_from(position).unwrap_or(usize::MAX);
            return slice.get(position..).ok_or_else(|| shrunk(self.size));
        }
        let skip = match at_hand(&self.window, self.start, position, want) {
            Some(skip) => skip,
            None => {
                self.refill(position, want)?;
                0
            }
        };
        Ok(&self.window[skip..])
    }
}

impl<'a, S: ReadAt + ?Sized> SourceInput<'a, S> {
    /// Returns the bytes at `range`; `None` if they would have to be read from the source.
    #[inline]
    pub(crate) fn part_at_hand(&self, range: &Range<u64>) -> Option<&[u8]> {
        match self.slice {
            Some(slice) => part_at_hand(slice, 0, range),
            None => part_at_hand(&self.window, self.start, range),
        }
    }

    /// Returns the bytes at the start of `range` that are already in memory; empty if there are
    /// none. Reads nothing from the source, but copies bytes from the window.
    pub(crate) fn ahead(&self, range: Range<u64>) -> Cow<'a, [u8]> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let up_to = |bytes: &'a [u8]| &bytes[..len.min(bytes.len())];
        if let Some(slice) = self.slice {
            let start = usize::try_from(range.start).unwrap_or(usize::MAX);
            return Cow::Borrowed(slice.get(start..).map(up_to).unwrap_or_default());
        }
        let skip = at_hand(&self.window, self.start, range.start, 0);
        let rest = skip.and_then(|skip| self.window.get(skip..));
        let rest = rest.unwrap_or_default();
        Cow::Owned(rest[..len.min(rest.len())].to_vec())
    }

    #[cold]
    fn refill(&mut self, position: u64, want: usize) -> Result<()> {
        // The last field in a window often ends a little after the window, so the next field is
        // still in sequence.
        let reach = self.window.len() + self.window.len() / 4;
        let in_sequence = (self.start..=self.start + reach as u64).contains(&position);
        // If the source has many short runs, a large window would have to be zeroed for each of
        // them.
        self.next_len = if in_sequence && !self.is_short {
            (self.next_len * 2).min(LARGEST_WINDOW)
        } else {
            FIRST_WINDOW
        };
        let left = usize::try_from(self.size - position.min(self.size)).unwrap_or(usize::MAX);
        let len = self.next_len.max(want).min(left);
        self.window.resize(len, 0);
        self.start = position;
        let filled = self.fill(position, want.min(left));
        self.window.truncate(*filled.as_ref().unwrap_or(&0));
        self.is_short = self.window.len() < len;
        filled.map(drop)
    }

    /// Reads at least `want` bytes, with several calls if necessary: a source may return fewer
    /// bytes than requested if it stores the remaining bytes elsewhere.
    fn fill(&mut self, position: u64, want: usize) -> Result<usize> {
        let mut filled = 0;
        while filled < want {
            let at = position + filled as u64;
            match self.source.read_at(at, &mut self.window[filled..]) {
                Ok(0) => return Err(shrunk(self.size).at_offset(position)),
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }
}

#[cold]
fn shrunk(size: u64) -> Error {
    Error::new(
        ErrorKind::SourceChanged,
        format!("the source ended early: it had {size} bytes when it was opened"),
    )
}

/// An input that reads a stream of known length. It can only move forward, and keeps one window of
/// bytes in memory.
#[derive(Debug)]
pub struct StreamInput<R> {
    stream: R,
    size: u64,
    window: Vec<u8>,
    /// Position of the window's first byte.
    start: u64,
    next_len: usize,
}

const LARGEST_STREAM_WINDOW: usize = 64 << 10;

impl<R: Read> StreamInput<R> {
    /// Creates an input over `stream`, which has `size` bytes.
    pub fn new(stream: R, size: u64) -> Self {
        StreamInput {
            stream,
            size,
            window: Vec::new(),
            start: 0,
            // The first window is small, since often only the first field of a stream is needed,
            // and the bytes after it may have to be decompressed.
            next_len: FIRST_WINDOW,
        }
    }

    /// Reads the stream to its end, so that its final checks run.
    ///
    /// # Errors
    ///
    /// If reading fails, or the stream's length differs from the size passed to [`new`](Self::new).
    pub fn finish(mut self) -> Result<()> {
        let end = self.start + self.window.len() as u64;
        let left = self.size - end.min(self.size);
        let read = std::io::copy(&mut self.stream.by_ref().take(left), &mut std::io::sink())?;
        if read != left || self.stream.read(&mut [0])? != 0 {
            return Err(Error::new(
                ErrorKind::InvalidTrailer,
                format!(
                    "the chunk does not have the {} bytes that it should",
                    self.size
                ),
            ));
        }
        Ok(())
    }
}

impl<R: Read> Input for StreamInput<R> {
    fn size(&self) -> u64 {
        self.size
    }

    fn fetch(&mut self, position: u64, want: usize) -> Result<&[u8]> {
        let left = self.size.saturating_sub(position);
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(want);
        let skip = position.checked_sub(self.start).ok_or_else(|| {
            Error::new(ErrorKind::InvalidTrailer, "the walk went back in a stream")
        })?;
        if let Some(skip) = at_hand(&self.window, self.start, position, want) {
            return Ok(&self.window[skip..]);
        }
        let have = self.window.len() as u64;
        let kept = usize::try_from(skip)
            .ok()
            .and_then(|s| self.window.get(s..))
            .map_or(0, <[u8]>::len);
        let drop = self.window.len() - kept;
        self.window.drain(..drop);
        if skip > have {
            let gap = skip - have;
            let skipped = std::io::copy(&mut self.stream.by_ref().take(gap), &mut std::io::sink())?;
            if skipped != gap {
                return Err(ended_early(self.size));
            }
        }
        self.start = position;
        let target = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(self.next_len.max(want));
        self.next_len = (self.next_len * 2).min(LARGEST_STREAM_WINDOW);
        let more = (target - kept) as u64;
        let read = self
            .stream
            .by_ref()
            .take(more)
            .read_to_end(&mut self.window)?;
        if (read as u64) < more {
            return Err(ended_early(self.size));
        }
        Ok(&self.window)
    }
}

#[cold]
fn ended_early(size: u64) -> Error {
    Error::new(
        ErrorKind::InvalidTrailer,
        format!("the chunk ends before the {size} bytes that it should have"),
    )
}
