//! The list of a message's spans: the source and range of each, without the sources themselves.

use std::ops::Range;

use crate::wire::encode_varint;
use crate::{Error, ErrorKind, Result};

/// The index of a source of spans: of a file in a [`Spans`](super::Spans), or of a chunk in a
/// [`MergePlan`](crate::merge::MergePlan).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(u32);

impl SourceId {
    /// The first source, index 0.
    pub const FIRST: SourceId = SourceId(0);

    /// Reserved number that marks literal bytes, which have no source.
    pub(super) const LITERAL: SourceId = SourceId(u32::MAX);

    /// Creates the identifier of the source with this index.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if `index` is 2<sup>32</sup> - 1 or more.
    pub fn new(index: usize) -> Result<SourceId> {
        let id = u32::try_from(index).ok().map(SourceId);
        id.filter(|id| *id != SourceId::LITERAL).ok_or_else(|| {
            let message = "the message consists of more than 4294967294 files";
            Error::new(ErrorKind::LimitExceeded, message)
        })
    }

    /// Returns the index of the source.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The origin of a span's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanSource<'a> {
    /// Literal bytes, which the list itself contains.
    Literal(&'a [u8]),
    /// Bytes of this source, from this offset on.
    Stored(SourceId, u64),
}

/// A contiguous range of a message, with the origin of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span<'a> {
    /// Offset of the span's first byte in the message.
    pub offset: u64,
    /// Number of bytes, at least 1.
    pub len: u64,
    /// The origin of the span's bytes.
    pub source: SpanSource<'a>,
}

impl<'a> Span<'a> {
    /// Returns the span's range in the message.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.offset..self.end()
    }

    /// Returns the end of the span in the message, as an offset.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// Returns the source and the span's range in the source; `None` for literal bytes.
    #[must_use]
    pub const fn stored(&self) -> Option<(SourceId, Range<u64>)> {
        match self.source {
            SpanSource::Stored(source, start) => Some((source, start..start + self.len)),
            SpanSource::Literal(_) => None,
        }
    }

    /// Returns the part of this span in `wanted`, a range of the message. The range must overlap
    /// the span.
    fn clip(&self, wanted: &Range<u64>) -> Span<'a> {
        let offset = self.offset.max(wanted.start);
        let len = self.end().min(wanted.end) - offset;
        let skip = offset - self.offset;
        let source = match self.source {
            SpanSource::Literal(bytes) => SpanSource::Literal(part(bytes, skip, len)),
            SpanSource::Stored(source, start) => SpanSource::Stored(source, start + skip),
        };
        Span {
            offset,
            len,
            source,
        }
    }
}

fn part(bytes: &[u8], start: u64, len: u64) -> &[u8] {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let range = index(start)..index(start.saturating_add(len));
    bytes.get(range).unwrap_or_default()
}

/// A span in compact form: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Offset of the piece's first byte in the message.
    pub(super) offset: u64,
    /// Offset of the piece's first byte in the source or, for literal bytes, in the list's
    /// literals.
    pub(super) at: u64,
    pub(super) source: SourceId,
}

/// The spans of a message, or of a part of one, in order and without gaps.
///
/// A list contains the bytes of literal spans. A span of a source is stored as a source number, an
/// offset and a length, without its bytes. Sources are files in [`Spans`](super::Spans), and chunks
/// in a [`MergePlan`](crate::merge::MergePlan). A span takes 24 bytes of memory.
///
/// ```
/// use proto_splitter_core::spans::{SourceId, SpanList, SpanSource};
///
/// let mut list = SpanList::new();
/// list.push_literal(b"ab");
/// list.push_span(SourceId::FIRST, 10..15);
/// list.push_span(SourceId::FIRST, 15..20);
/// assert_eq!((list.len(), list.span_count()), (12, 2));
///
/// let last = list.locate(4).ok_or("it has 12 bytes")?;
/// assert_eq!((last.source, last.len), (SpanSource::Stored(SourceId::FIRST, 12), 8));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanList {
    pub(super) pieces: Vec<Piece>,
    pub(super) literals: Vec<u8>,
    pub(super) len: u64,
}

impl SpanList {
    /// Returns an empty list.
    #[must_use]
    pub const fn new() -> Self {
        SpanList {
            pieces: Vec::new(),
            literals: Vec::new(),
            len: 0,
        }
    }

    /// Returns the size of the message in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the message has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of spans.
    #[must_use]
    pub const fn span_count(&self) -> usize {
        self.pieces.len()
    }

    /// Reserves space for `spans` more spans.
    pub(crate) fn reserve(&mut self, spans: usize) {
        self.pieces.reserve(spans);
    }

    /// Appends literal bytes, extending the last span if it is a literal.
    pub fn push_literal(&mut self, bytes: &[u8]) {
        let at = self.literals.len() as u64;
        self.literals.extend_from_slice(bytes);
        self.push(SourceId::LITERAL, at, bytes.len() as u64);
    }

    /// Appends a number as a varint, in literal bytes.
    pub fn push_varint(&mut self, value: u64) {
        let (bytes, len) = encode_varint(value);
        self.push_literal(&bytes[..len]);
    }

    /// Appends a range of a source, extending the last span if the range continues it.
    pub fn push_span(&mut self, source: SourceId, range: Range<u64>) {
        self.push(source, range.start, range.end.saturating_sub(range.start));
    }

    /// Appends all spans of another list. Each source must have the same number in both lists.
    pub fn append(&mut self, other: &SpanList) {
        for span in other.iter() {
            self.push_clipped(&span);
        }
    }

    /// Appends the spans in a range of another list's message. Each source must have the same
    /// number in both lists.
    pub fn append_range(&mut self, other: &SpanList, range: Range<u64>) {
        for span in other.parts(range) {
            self.push_clipped(&span);
        }
    }

    /// Appends the parts of another list's message at these ranges, in order.
    pub(crate) fn append_ranges(&mut self, other: &SpanList, ranges: &[Range<u64>]) {
        for range in ranges {
            self.append_range(other, range.clone());
        }
    }

    fn push_clipped(&mut self, span: &Span<'_>) {
        match span.source {
            SpanSource::Literal(bytes) => self.push_literal(bytes),
            SpanSource::Stored(source, start) => self.push(source, start, span.len),
        }
    }

    /// Appends a span, or extends the last one if the new span continues it.
    pub(super) fn push(&mut self, source: SourceId, at: u64, len: u64) {
        if len == 0 {
            return;
        }
        let goes_on = self.pieces.last().is_some_and(|last| {
            last.source == source && last.at.checked_add(self.len - last.offset) == Some(at)
        });
        if !goes_on {
            self.push_piece(source, at);
        }
        self.len = self.len.saturating_add(len);
    }

    /// Begins a span at the end of the message, without adding to the message's length.
    pub(super) fn push_piece(&mut self, source: SourceId, at: u64) {
        self.pieces.push(Piece {
            offset: self.len,
            at,
            source,
        });
    }

    /// Returns the span with this index; `None` if there is none.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Span<'_>> {
        let piece = self.pieces.get(index)?;
        let next = self.pieces.get(index.saturating_add(1));
        let end = next.map_or(self.len, |next| next.offset);
        let len = end - piece.offset;
        let source = match piece.source {
            SourceId::LITERAL => SpanSource::Literal(self.literal(piece.at, len)),
            source => SpanSource::Stored(source, piece.at),
        };
        Some(Span {
            offset: piece.offset,
            len,
            source,
        })
    }

    /// Returns the spans in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Span<'_>> + ExactSizeIterator {
        (0..self.pieces.len()).map(|index| self.at(index))
    }

    /// Returns `len` bytes at the offset `at` of the list's literal bytes.
    pub(super) fn literal(&self, at: u64, len: u64) -> &[u8] {
        part(&self.literals, at, len)
    }

    /// Returns the span at an index, which must exist.
    fn at(&self, index: usize) -> Span<'_> {
        self.get(index).unwrap_or(Span {
            offset: self.len,
            len: 0,
            source: SpanSource::Literal(&[]),
        })
    }

    /// Returns the index of the span that contains the byte at `offset`; `None` if `offset` isn't
    /// before the end of the message.
    pub(crate) fn index_of(&self, offset: u64) -> Option<usize> {
        if offset >= self.len {
            return None;
        }
        // The span would be here if all spans had the same length. The search widens from here on
        // both sides, since spans of similar lengths are common, such as those of many tensors.
        let count = self.pieces.len();
        let guess = u128::from(offset) * count as u128 / u128::from(self.len);
        let guess = usize::try_from(guess).ok()?;
        let is_behind = |at: &usize| self.pieces.get(*at).is_some_and(|at| at.offset > offset);
        let mut width = 1;
        let (mut low, mut high) = (guess, guess + 1);
        while is_behind(&low) {
            high = low;
            low = low.saturating_sub(width);
            width *= 2;
        }
        while high < count && !is_behind(&high) {
            low = high;
            high = high.saturating_add(width).min(count);
            width *= 2;
        }
        let among = self.pieces.get(low..high)?;
        let behind = among.partition_point(|piece| piece.offset <= offset);
        (low + behind).checked_sub(1)
    }

    /// Returns the span that contains the byte at `offset`, cut so that it begins with that byte;
    /// `None` if `offset` isn't before the end of the message.
    #[must_use]
    pub fn locate(&self, offset: u64) -> Option<Span<'_>> {
        let span = self.get(self.index_of(offset)?)?;
        Some(span.clip(&(offset..span.end())))
    }

    /// Returns the spans in a range of the message. The first and the last span are cut to the
    /// range.
    pub fn parts(&self, wanted: Range<u64>) -> impl Iterator<Item = Span<'_>> {
        let first = self.index_of(wanted.start);
        let first = first.filter(|_| wanted.start < wanted.end);
        (first.unwrap_or(self.pieces.len())..self.pieces.len())
            .map(|index| self.at(index))
            .take_while({
                let end = wanted.end;
                move |span| span.offset < end
            })
            .map(move |span| span.clip(&wanted))
    }

    /// Fills `buf` with the message's bytes from `offset` on, and returns the number of bytes
    /// filled. Only at the end of the message is this number smaller than the length of `buf`.
    /// `read` fills a buffer with the bytes at an offset in a source.
    ///
    /// # Errors
    ///
    /// Any error from `read`.
    pub fn read_at(
        &self,
        offset: u64,
        buf: &mut [u8],
        mut read: impl FnMut(SourceId, u64, &mut [u8]) -> Result<()>,
    ) -> Result<usize> {
        let end = offset.saturating_add(buf.len() as u64);
        let mut filled = 0;
        for span in self.parts(offset..end) {
            let len = usize::try_from(span.len).unwrap_or(usize::MAX);
            let Some(place) = buf.get_mut(filled..).and_then(|rest| rest.get_mut(..len)) else {
                break;
            };
            match span.source {
                SpanSource::Literal(bytes) => place.copy_from_slice(bytes),
                SpanSource::Stored(source, start) => read(source, start, place)?,
            }
            filled += len;
        }
        Ok(filled)
    }
}
