//! Reading the header of a stream, without its data.

use std::ops::Range;

use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use super::desc::{Desc, read_desc};
use super::{Layout, Stream, StreamKind, StreamParts, len, vocabulary};
use crate::dtype::data_size;

/// Maximum number of LoD levels in a stream. Each level is a level of nested sequences.
pub const MAX_LOD_LEVELS: u64 = 64;

/// Maximum size of a serialized `TensorDesc`: 4 KiB. Paddle's tensors have at most nine dims.
pub const MAX_DESC_SIZE: u64 = 4 << 10;

/// Number of bytes in the first read from a stream. They contain the whole header of most tensors,
/// which have no LoD and a `TensorDesc` of up to 12 bytes. A larger header needs another read.
const WINDOW: usize = 32;

/// Number of bytes in the first read from a stream in the sized layout. They include the stream's
/// size.
const SIZED_WINDOW: usize = 8 + WINDOW;

impl Stream {
    /// Reads the header of the stream at the offset `at`. The stream must end within `source`.
    /// Reads at most a few dozen bytes, unless the stream has LoD levels or is a vocabulary.
    ///
    /// # Errors
    ///
    /// Each error names the offset. [`ErrorKind::UnsupportedVersion`] if a version in the stream
    /// isn't 0; [`ErrorKind::LimitExceeded`] if there are more than [`MAX_LOD_LEVELS`] levels, or
    /// the `TensorDesc` is larger than [`MAX_DESC_SIZE`]; [`ErrorKind::InvalidMessage`] for any
    /// other error in the stream; [`ErrorKind::InvalidConfig`] if the layout doesn't support this
    /// kind; [`ErrorKind::Io`].
    pub fn read(source: &dyn ReadAt, at: u64, kind: StreamKind, layout: Layout) -> Result<Stream> {
        let end = source.size()?;
        Stream::read_within(source, at..end, kind, layout)
    }

    /// Reads the header of the stream at the start of `within`, as [`read`](Self::read) does. The
    /// stream must not extend past the end of this range.
    pub(crate) fn read_within(
        source: &dyn ReadAt,
        within: Range<u64>,
        kind: StreamKind,
        layout: Layout,
    ) -> Result<Stream> {
        let start = within.start;
        let mut header = Header::new(source, within, layout);
        match (layout, kind) {
            (Layout::Paddle, _) => paddle(header, kind),
            (Layout::ModelFormat, StreamKind::Dense) => model_format(header),
            (Layout::ModelFormat, _) => Err(layout.no_place(kind)),
            (Layout::Sized, _) => {
                let size = header.u64("the size of the stream")?;
                if size == 0 {
                    let message = "the stream has no size, as after an interrupted append; truncate the \
                                   file here to keep all before it";
                    return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(start));
                }
                let inner = header.skip(size, "the stream")?;
                let mut stream = paddle(header.within(inner.clone()), kind)?;
                if stream.range.end != inner.end {
                    let message = format!(
                        "the size before the stream is {size} bytes, but the stream has {}",
                        len(&stream.range)
                    );
                    return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(start));
                }
                stream.range.start = start;
                stream.layout = Layout::Sized;
                Ok(stream)
            }
        }
    }
}

/// Reads the header of a stream in [`Layout::Paddle`].
fn paddle(mut header: Header<'_>, kind: StreamKind) -> Result<Stream> {
    let start = header.position;
    if kind == StreamKind::Vocabulary {
        let end = vocabulary::walk(header.source, start..header.end)?;
        return Ok(Stream {
            kind,
            layout: Layout::Paddle,
            dtype: None,
            dims: Vec::new(),
            range: start..end,
            parts: StreamParts {
                data: start..end,
                ..StreamParts::default()
            },
        });
    }
    header.version("the version of the stream")?;
    let mut parts = StreamParts::default();
    let mut rows = None;
    if kind == StreamKind::SelectedRows {
        let count = header.u64("the number of rows")?;
        let bytes = count
            .checked_mul(8)
            .ok_or_else(|| header.invalid(format!("{count} rows")))?;
        parts.rows = header.skip(bytes, "the row numbers")?;
        parts.height = header.u64("the height")?.cast_signed();
        rows = Some(count);
    } else {
        parts.lod = header.lod()?;
    }
    header.version("the version of the tensor")?;
    let desc = header.desc(&mut parts, "i32")?;
    let at = header.position;
    if let Some(rows) = rows
        && desc.dims.first() != Some(&rows)
    {
        let message = format!("{rows} row numbers for a tensor of dims {:?}", desc.dims);
        return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at));
    }
    header.data(&mut parts, &desc)?;
    Ok(stream(
        kind,
        Layout::Paddle,
        desc,
        start..header.position,
        parts,
    ))
}

/// Reads the header of a stream in [`Layout::ModelFormat`].
fn model_format(mut header: Header<'_>) -> Result<Stream> {
    let start = header.position;
    header.version("the version of the stream")?;
    let mut parts = StreamParts::default();
    let desc = header.desc(&mut parts, "u32")?;
    header.data(&mut parts, &desc)?;
    parts.lod = header.lod()?;
    let range = start..header.position;
    Ok(stream(
        StreamKind::Dense,
        Layout::ModelFormat,
        desc,
        range,
        parts,
    ))
}

fn stream(
    kind: StreamKind,
    layout: Layout,
    desc: Desc,
    range: Range<u64>,
    parts: StreamParts,
) -> Stream {
    Stream {
        kind,
        layout,
        dtype: Some(desc.dtype),
        dims: desc.dims,
        range,
        parts,
    }
}

/// A reader for the header of a stream. The stream must not extend beyond `end`.
struct Header<'a> {
    source: &'a dyn ReadAt,
    position: u64,
    end: u64,
    /// Bytes that were read from the beginning of the stream.
    window: [u8; SIZED_WINDOW],
    window_at: Range<u64>,
    /// Number of bytes to read into the window. If the stream is shorter, only its bytes are read.
    window_len: usize,
}

impl<'a> Header<'a> {
    fn new(source: &'a dyn ReadAt, within: Range<u64>, layout: Layout) -> Self {
        Header {
            source,
            position: within.start,
            end: within.end,
            window: [0; SIZED_WINDOW],
            window_at: within.start..within.start,
            window_len: match layout {
                Layout::Sized => SIZED_WINDOW,
                Layout::Paddle | Layout::ModelFormat => WINDOW,
            },
        }
    }

    /// Restricts the reader to `part`, and moves it to the start of this range.
    fn within(mut self, part: Range<u64>) -> Self {
        self.position = part.start;
        self.end = part.end;
        self
    }

    fn invalid(&self, message: String) -> Error {
        Error::new(ErrorKind::InvalidMessage, message).at_offset(self.position)
    }

    /// Skips `bytes` bytes, and returns their range. `what` describes them in an error message.
    fn skip(&mut self, bytes: u64, what: &str) -> Result<Range<u64>> {
        let left = self.end.saturating_sub(self.position);
        if bytes > left {
            let message = match bytes {
                0..=16 => format!("{what} is truncated: {left} of {bytes} bytes are left"),
                _ => format!("{what} has {bytes} bytes, but only {left} are left"),
            };
            return Err(self.invalid(message));
        }
        let start = self.position;
        self.position += bytes;
        Ok(start..self.position)
    }

    fn fill(&mut self, range: Range<u64>, bytes: &mut [u8]) -> Result<()> {
        if self.window_at.is_empty() {
            let left = usize::try_from(len(&(range.start..self.end))).unwrap_or(usize::MAX);
            let most = left.min(self.window_len);
            self.source
                .read_exact_at(range.start, &mut self.window[..most])?;
            self.window_at = range.start..range.start + most as u64;
        }
        let from = range.start.checked_sub(self.window_at.start);
        let at_hand = from
            .and_then(|from| usize::try_from(from).ok())
            .filter(|_| range.end <= self.window_at.end)
            .and_then(|from| self.window.get(from..from + bytes.len()));
        match at_hand {
            Some(found) => bytes.copy_from_slice(found),
            None => self.source.read_exact_at(range.start, bytes)?,
        }
        Ok(())
    }

    fn u64(&mut self, what: &str) -> Result<u64> {
        let range = self.skip(8, what)?;
        let mut bytes = [0; 8];
        self.fill(range, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        let range = self.skip(4, what)?;
        let mut bytes = [0; 4];
        self.fill(range, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn version(&mut self, what: &str) -> Result<()> {
        let at = self.position;
        match self.u32(what)? {
            0 => Ok(()),
            version => {
                let message = format!("{what} is {version}, but only 0 is supported");
                Err(Error::new(ErrorKind::UnsupportedVersion, message).at_offset(at))
            }
        }
    }

    /// Reads the number of LoD levels, and returns the byte range of each level's offsets.
    fn lod(&mut self) -> Result<Vec<Range<u64>>> {
        let at = self.position;
        let levels = self.u64("the number of LoD levels")?;
        if levels > MAX_LOD_LEVELS {
            let message = format!("{levels} LoD levels, over the limit of {MAX_LOD_LEVELS}");
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(at));
        }
        let mut lod = Vec::new();
        for level in 0..levels {
            let at = self.position;
            let bytes = self.u64(&format!("the size of LoD level {level}"))?;
            if !bytes.is_multiple_of(8) {
                let message =
                    format!("LoD level {level} has {bytes} bytes, which isn't a multiple of 8");
                return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at));
            }
            lod.push(self.skip(bytes, &format!("LoD level {level}"))?);
        }
        Ok(lod)
    }

    fn desc(&mut self, parts: &mut StreamParts, size_type: &str) -> Result<Desc> {
        const WHAT: &str = "the tensor's description";
        let at = self.position;
        let size = self.u32("the size of the tensor's description")?;
        if size_type == "i32" && size.cast_signed() < 0 {
            let message = format!("{WHAT} has a negative size: {}", size.cast_signed());
            return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at));
        }
        parts.desc = self.skip(size.into(), WHAT)?;
        if u64::from(size) > MAX_DESC_SIZE {
            let message = format!("{WHAT} has {size} bytes, over the limit of {MAX_DESC_SIZE}");
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(at));
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
        self.fill(parts.desc.clone(), &mut bytes)?;
        let desc = read_desc(&bytes).map_err(|error| {
            let at = parts.desc.start + error.offset().unwrap_or_default();
            Error::new(error.kind(), message_of(&error)).at_offset(at)
        })?;
        let misfit = desc.misfit;
        parts.misfit = misfit.map(|(number, at)| (number, parts.desc.start + at));
        Ok(desc)
    }

    fn data(&mut self, parts: &mut StreamParts, desc: &Desc) -> Result<()> {
        let size = data_size(&desc.dims, desc.element).ok_or_else(|| {
            let message = format!(
                "a tensor of dims {:?} has more bytes than can be counted",
                desc.dims
            );
            Error::new(ErrorKind::InvalidMessage, message).at_offset(parts.desc.start)
        })?;
        parts.data = self.skip(size, "the data")?;
        Ok(())
    }
}

/// Returns the message of an error in a tensor's description, without the offset. The offset is
/// relative to the start of the description.
fn message_of(error: &Error) -> String {
    let line = error.to_string();
    match error.offset() {
        Some(offset) => line
            .strip_suffix(&format!(" at 0x{offset:x}"))
            .map(str::to_owned)
            .unwrap_or(line),
        None => line,
    }
}
