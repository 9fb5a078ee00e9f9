//! Iterating over the elements of a repeated field without storing them.

use std::borrow::Cow;
use std::ops::Range;

use super::occurrences::Occurrences;
use super::{Like, Pieces, SourceView};
use crate::Result;
use crate::path::{FieldPath, FieldRef, Step};
use crate::wire::{Field, FieldNumber, WireType, alike};

/// An element of a repeated field: its location and its index.
///
/// This type consists of a few numbers, so that a splitter can inspect hundreds of millions of
/// elements. [`get`](Self::get) and [`view`](Self::view) give access to an element's content.
///
/// ```
/// use proto_splitter_core::Result;
/// use proto_splitter_core::split::{ComposableSplitter, SplitContext, SplitExt, SplitOptions};
/// # use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
///
/// /// A chunk for every type whose description is long.
/// struct Long;
///
/// impl ComposableSplitter for Long {
///     fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
///         for element in cx.message().repeated("message_type")? {
///             let element = element?;
///             if element.size() > 100 {
///                 cx.cut(&element.view())?;
///             }
///         }
///         Ok(())
///     }
/// }
///
/// # let of_length = |len| DescriptorProto { name: Some("T".repeat(len)), ..Default::default() };
/// # let file = FileDescriptorProto {
/// #     message_type: vec![of_length(1), of_length(200)],
/// #     ..Default::default()
/// # };
/// let plan = Long.plan(&file, &SplitOptions::new())?;
/// assert_eq!(plan.to_string(), "0 MESSAGE 7 B\n1 MESSAGE 203 B message_type[1]\n");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    message: &'a SourceView<'a>,
    index: u64,
    /// Start of the element's tag in the source.
    start: u64,
    /// Range of the element's value in the source.
    value: (u64, u64),
    /// Start of the run of contiguous elements that ends with this element.
    run: u64,
    /// Index of the message's piece that contains the element.
    piece: usize,
    number: FieldNumber,
    wire_type: WireType,
    like: Like,
    /// Size in bytes of the element's tag and, for a group, of its end tag.
    tags: (u8, u8),
}

impl<'a> Element<'a> {
    /// Returns the element's index among the elements of its field.
    #[inline]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Returns the size of the value in the source, in bytes, without tag and length. Reads
    /// nothing.
    #[inline]
    pub fn size(&self) -> u64 {
        self.value.1 - self.value.0
    }

    /// Returns the message that contains the element.
    pub fn message(&self) -> &'a SourceView<'a> {
        self.message
    }

    /// Returns the element as a [`SourceView`], which has more methods.
    pub fn view(&self) -> SourceView<'a> {
        let step = Step::index(self.number.0, self.index);
        let pieces = Pieces::One(self.piece, self.field());
        self.message.child(step, pieces, self.like, true)
    }

    /// Returns the path from the root of the message being split.
    pub fn path(&self) -> FieldPath {
        self.view().path()
    }

    /// Reads and returns the bytes of the value.
    ///
    /// # Errors
    ///
    /// The same errors as [`SourceView::read`].
    pub fn read(&self) -> Result<Vec<u8>> {
        self.view().read()
    }

    /// Returns the element's singular message, bytes or string field `name`; `None` if it is
    /// absent.
    ///
    /// # Errors
    ///
    /// The same errors as [`SourceView::get`].
    pub fn get(&self, name: &str) -> Result<Option<SourceView<'a>>> {
        self.view().get_below(*self, name)
    }

    pub(in crate::split) fn field(&self) -> Field {
        let (value, (tag, end_tag)) = (self.value.0..self.value.1, self.tags);
        Field {
            number: self.number,
            wire_type: self.wire_type,
            start: self.start,
            tag_end: self.start + u64::from(tag),
            end: value.end + u64::from(end_tag),
            value,
        }
    }

    /// Returns the start of the run of contiguous elements that ends with this element.
    pub(in crate::split) fn run(&self) -> u64 {
        self.run
    }
}

/// An iterator over the elements of a repeated field, from [`SourceView::repeated`]. It ends after
/// an error.
pub struct Elements<'a> {
    /// Buffered bytes of the message, starting at `base`.
    block: Cow<'a, [u8]>,
    /// Offset of the buffered bytes in the source.
    base: u64,
    /// Current position in `block`.
    at: usize,
    /// Tag of the elements in `block`; `None` unless it is the one-byte tag of a length-delimited
    /// field.
    tag: Option<u8>,
    /// Last element that was found outside `block`. The elements in `block` differ from this
    /// element only in their positions.
    last: Element<'a>,
    /// Index of the next element in the field.
    index: u64,
    /// Finder of elements outside `block`. It is boxed, so that no pointer refers to the fields
    /// that change with every element. Those fields can then stay in registers.
    beyond: Box<Occurrences<'a>>,
}

impl std::fmt::Debug for Elements<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elements")
            .field("number", &self.last.number)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl<'a> Elements<'a> {
    pub(in crate::split) fn new(message: &'a SourceView<'a>, field: &FieldRef, like: Like) -> Self {
        let beyond = Box::new(Occurrences::new(message, field));
        let last = Element {
            message,
            index: 0,
            start: 0,
            value: (0, 0),
            run: 0,
            piece: 0,
            number: FieldNumber(field.number()),
            wire_type: WireType::Len,
            like,
            tags: (1, 0),
        };
        Elements {
            block: Cow::Borrowed(&[]),
            base: 0,
            at: 0,
            tag: beyond.tag(),
            last,
            index: 0,
            beyond,
        }
    }
}

/// The result of a search outside the current block: the element found, the position after that
/// element, and a new block that begins at this position. The new block is `None` if the position
/// is in the current block.
struct Found<'a> {
    element: Option<Result<Element<'a>>>,
    next: u64,
    block: Option<Cow<'a, [u8]>>,
}

/// Finds the next element after a position. The element must be in the same field as `last`.
#[cold]
#[inline(never)]
fn find<'a>(
    beyond: &mut Occurrences<'a>,
    last: &Element<'a>,
    index: u64,
    position: u64,
    block: Range<u64>,
) -> Found<'a> {
    beyond.go_on_at(position);
    let found = beyond.next();
    if found.is_err() {
        beyond.end();
    }
    let next = beyond.position();
    let is_in_block = found.is_ok() && block.contains(&next);
    let short = |len: u64| u8::try_from(len).unwrap_or(u8::MAX);
    let element = |(piece, field): (usize, Field)| Element {
        index,
        start: field.start,
        value: (field.value.start, field.value.end),
        run: if field.start == position && piece == last.piece {
            last.run
        } else {
            field.start
        },
        piece,
        wire_type: field.wire_type,
        tags: (
            short(field.tag_end - field.start),
            short(field.end - field.value.end),
        ),
        ..*last
    };
    Found {
        element: found.map(|found| found.map(element)).transpose(),
        next,
        block: (!is_in_block).then(|| beyond.ahead()),
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>>;

    #[inline(always)]
    fn next(&mut self) -> Option<Result<Element<'a>>> {
        let start = self.base + self.at as u64;
        let here = self.block.get(self.at..).zip(self.tag);
        if let Some((head, len)) = here.and_then(|(rest, tag)| alike(rest, tag)) {
            let value = start + head as u64;
            let element = Element {
                index: self.index,
                start,
                value: (value, value + len as u64),
                wire_type: WireType::Len,
                tags: (1, 0),
                ..self.last
            };
            self.at += head + len;
            self.index += 1;
            return Some(Ok(element));
        }
        let block = self.base..self.base + self.block.len() as u64;
        let found = find(&mut self.beyond, &self.last, self.index, start, block);
        match found.block {
            Some(block) => (self.block, self.base, self.at) = (block, found.next, 0),
            // The bytes after the element are in the current block.
            None => self.at = usize::try_from(found.next - self.base).unwrap_or(usize::MAX),
        }
        if let Some(Ok(element)) = &found.element {
            (self.last, self.index) = (*element, self.index + 1);
        }
        found.element
    }
}

impl std::iter::FusedIterator for Elements<'_> {}
