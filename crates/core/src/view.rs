//! Reading parts of a message without reading all of it.
//!
//! A [`MessageView`] reads values from a message that stays in its source: in the chunks of a
//! [`ChunkedFile`](crate::ChunkedFile), or unsplit in any random-access source. Looking up the
//! value at a field path skips the values next to the path. In a chunked file, a lookup reads the
//! trailer, the chunks along the path, and the chunks of the value itself, and checks each of these
//! chunks as a merge does. If a field along the path is divided into slices, the lookup also reads
//! the beginning of the other slices.
//!
//! A path leads to one value: a message, with all occurrences that parsers merge into one; an
//! element of a repeated field; the value of a map entry; or any other value, whose last occurrence
//! is used. The result is the value's bytes without tag and length: the fields of a message, the
//! bytes of a string or bytes value, and the wire encoding of a number.
//!
//! ```
//! use proto_splitter_core::view::MessageView;
//! use proto_splitter_core::merge::ReadOptions;
//!
//! // Field 3 is a message, and its field 1 the string "testing".
//! let message = b"\x08\x96\x01\x1a\x09\x0a\x07testing".to_vec();
//! let view = MessageView::of_plain(&message, ReadOptions::new())?;
//! assert_eq!(view.get(&"3.1".parse()?)?, "testing");
//! assert_eq!(view.size(&"3.2".parse()?)?, None);
//! # Ok::<(), proto_splitter_core::Error>(())
//! ```

mod element_runs;
mod fields;
mod find;
mod from_scalar;
mod levels;
mod locate;
mod member_names;
mod packed;
mod pieces;
mod place;
mod portion;
mod rows;
mod run_size;
mod scalar_path;
mod select;
mod singular_field;
pub mod size_tree;

use std::io::Write;
use std::ops::Range;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use record_file::ReadAt;

use crate::container::Trailer;
use crate::error::undecodable;
use crate::features::decode_dynamic;
use crate::merge::{
    Buffer, ChunkStore, MergePlan, OnePiece, PlanReader, ReadOptions, RecordStore, WholeSum,
    gather, write_summed,
};
use crate::path::{FieldPath, TargetKind, check_field};
use crate::progress::Progress;
use crate::wire::{Field, Input, WireCursor};
use crate::{Error, ErrorKind, Result};

use locate::Found;
pub(crate) use packed::Packed;
pub(crate) use portion::Portion;

pub use fields::{FieldEntry, Fields, LARGEST_SMALL_VALUE};
pub use from_scalar::{FromScalar, ScalarValue};
pub(crate) use member_names::{
    Kindred, MAX_TEXT, Naming, PROBED_TEXT, is_text, name_field, name_of,
};
pub use member_names::{MemberFields, MemberName, NameRule};
pub use pieces::{Piece, PieceOptions, Pieces};
pub(crate) use place::{Place, enclosing, enclosing_range};
pub use run_size::RunSize;
pub use scalar_path::ScalarPath;
pub use select::Selected;
pub(crate) use singular_field::SingularField;

/// Maximum number of fields at the beginning of a message to check against the message's type. If
/// the message has another type, usually the very first field already has an unexpected wire type.
/// Checking many millions of fields would take seconds.
const CHECKED_FIELDS: usize = 1 << 10;

/// A view of a message, for reading some values without reading the whole message. Created by
/// [`ChunkedFile::view`](crate::ChunkedFile::view), [`MessageView::of_plain`] or
/// [`MessageView::of_reader`].
#[derive(Clone)]
pub struct MessageView<'a> {
    stored: Stored<'a>,
    options: ReadOptions,
}

/// The storage of a message: chunks with their trailer, or one random-access source.
#[derive(Clone, Copy)]
enum Stored<'a> {
    Chunks(&'a (dyn ChunkStore + 'a), &'a Trailer),
    Piece(OnePiece<'a>),
}

impl<'a> Stored<'a> {
    fn chunks(&self) -> &(dyn ChunkStore + 'a) {
        match self {
            Stored::Chunks(chunks, _) => *chunks,
            Stored::Piece(piece) => piece,
        }
    }

    fn trailer(&self) -> Option<&'a Trailer> {
        match self {
            Stored::Chunks(_, trailer) => Some(trailer),
            Stored::Piece(_) => None,
        }
    }

    /// Returns an input that reads the message: composed from chunks according to `plan` or, if the
    /// message isn't chunked, directly from its source.
    fn input(&self, plan: MergePlan) -> Result<PlanReader<'a, dyn ChunkStore + 'a>> {
        match *self {
            Stored::Chunks(chunks, _) => Ok(PlanReader::new(plan, chunks)),
            Stored::Piece(piece) => PlanReader::of_piece(piece),
        }
    }
}

impl std::fmt::Debug for MessageView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageView")
            .field("chunked", &self.stored.trailer().is_some())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The input that has a value, with a part of the message, and the value's ranges in this input.
pub(crate) type Value<'a> = (Portion<'a>, Vec<Range<u64>>);

impl<'a> MessageView<'a> {
    /// Creates a view of the message in `source`, which may be a single file or composed of several
    /// files.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the source's size is unavailable.
    pub fn of_reader(source: &'a dyn ReadAt, options: ReadOptions) -> Result<Self> {
        let size = source.size()?;
        let stored = Stored::Piece(OnePiece::new(source, size));
        Ok(MessageView { stored, options })
    }

    /// Creates a view of the message in `source`, like [`of_reader`](Self::of_reader), but for a
    /// source whose type is [`Sized`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the source's size is unavailable.
    pub fn of_plain<S: ReadAt>(source: &'a S, options: ReadOptions) -> Result<Self> {
        MessageView::of_reader(source, options)
    }

    /// Creates a view of the message in the chunks of `store`.
    pub(crate) fn of_chunks<S: ReadAt>(store: &'a RecordStore<S>, options: ReadOptions) -> Self {
        let stored = Stored::Chunks(store, store.trailer());
        MessageView { stored, options }
    }

    /// Returns the type of the message; `None` if it is unknown.
    pub fn descriptor(&self) -> Option<&MessageDescriptor> {
        self.options.descriptor.as_ref()
    }

    /// Fails if the wire type of a field at the beginning of the message contradicts the declared
    /// message type. Such a message has another type. Does nothing if no type is declared, or if
    /// the file itself names its message type, which takes precedence.
    ///
    /// ```
    /// use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
    /// use proto_splitter_core::view::MessageView;
    /// use proto_splitter_core::merge::ReadOptions;
    ///
    /// // Field 1 is a number here, and a string in a FileDescriptorProto.
    /// let descriptor = FileDescriptorProto::default().descriptor();
    /// let message = b"\x08\x96\x01".to_vec();
    /// let view = MessageView::of_plain(&message, ReadOptions::new().descriptor(descriptor))?;
    /// assert!(view.check_type().is_err());
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`], with the field's name and offset, if a wire type contradicts
    /// the declared type; the same kind if the checked fields break the wire format; damage in the
    /// chunk that is read.
    pub fn check_type(&self) -> Result<()> {
        self.check_fields(CHECKED_FIELDS)
    }

    /// Performs the check of [`check_type`](Self::check_type) on all top-level fields, for callers
    /// that read the entire message anyway.
    ///
    /// # Errors
    ///
    /// The errors of [`check_type`](Self::check_type).
    pub fn check_whole_type(&self) -> Result<()> {
        self.check_fields(usize::MAX)
    }

    fn check_fields(&self, most: usize) -> Result<()> {
        let Some(descriptor) = self.descriptor() else {
            return Ok(());
        };
        let base = match self.stored.trailer() {
            None => Some(0),
            Some(trailer) => {
                let message = trailer.metadata().message.as_ref();
                let base = message.and_then(|message| message.chunk_index);
                let base = base.and_then(|index| usize::try_from(index).ok());
                base.filter(|_| trailer.message_type().is_none())
            }
        };
        let Some(base) = base else {
            return Ok(());
        };
        let chunks = self.stored.chunks();
        let plan = MergePlan::of_chunk(base, chunks.size(base), chunks.len())?;
        let mut cursor = WireCursor::new(self.stored.input(plan)?);
        check_front(&mut cursor, descriptor, most)
            .map_err(|error| cursor.input_mut().damage_first(error))
    }

    /// Returns the size in bytes of the value at a path; `None` if there is no value.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get), except that a missing value is `None` instead of
    /// [`ErrorKind::InvalidPath`].
    pub fn size(&self, path: &FieldPath) -> Result<Option<u64>> {
        let Some((portion, Found { pieces, .. })) = self.find(path)? else {
            return Ok(None);
        };
        // The size comes from the trailer, so the value's chunks are only checked, not read.
        let chunks = portion.plan().clip(&pieces).chunks_in_order();
        self.stored.chunks().prepare_some(&chunks)?;
        Ok(Some(total(&pieces)))
    }

    /// Returns the value at a path.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if there is no value, or the path leads to a whole repeated field
    /// or map; [`ErrorKind::SchemaNeeded`] if the value can't be determined without the message's
    /// type; [`ErrorKind::LimitExceeded`] if the value doesn't fit in memory; damage in the chunks
    /// that are read, or in the bytes along the path.
    pub fn get(&self, path: &FieldPath) -> Result<Bytes> {
        let (portion, pieces) = self.find_some(path)?;
        let stored = self.stored.chunks().stored_len();
        let mut memory = Buffer::reserve(total(&pieces), stored, &self.options)?;
        let whole = self.whole_sum(path, &portion);
        match &mut memory {
            Buffer::Growing(out) => self.copy(&portion, &pieces, whole.as_ref(), out)?,
            Buffer::Small(out) => self.fill(&portion, &pieces, whole.as_ref(), out)?,
            Buffer::Huge(out) => self.fill(&portion, &pieces, whole.as_ref(), out)?,
        }
        Ok(memory.into())
    }

    /// Copies the value at a path to the beginning of `buffer` and returns the value's size in
    /// bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get); [`ErrorKind::InvalidConfig`] if the buffer is shorter than
    /// the value.
    pub fn get_into(&self, path: &FieldPath, buffer: &mut [u8]) -> Result<usize> {
        let (portion, pieces) = self.find_some(path)?;
        let (have, len) = (buffer.len(), total(&pieces));
        let front = usize::try_from(len)
            .ok()
            .and_then(|len| buffer.get_mut(..len));
        let Some(front) = front else {
            let message = format!("the buffer has {have} bytes, but the value has {len}");
            return Err(Error::new(ErrorKind::InvalidConfig, message).at_path(self.show(path)));
        };
        let len = front.len();
        let whole = self.whole_sum(path, &portion);
        self.fill(&portion, &pieces, whole.as_ref(), front)?;
        Ok(len)
    }

    /// Writes the value at a path to `sink`, and returns the number of bytes written. The value may
    /// have any size.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get), and [`ErrorKind::Io`] if writing fails. After an error,
    /// discard the bytes that `sink` received.
    pub fn get_to(&self, path: &FieldPath, sink: &mut impl Write) -> Result<u64> {
        let (portion, pieces) = self.find_some(path)?;
        let whole = self.whole_sum(path, &portion);
        self.copy(&portion, &pieces, whole.as_ref(), sink)?;
        Ok(total(&pieces))
    }

    /// Writes a range of the value at a path to `sink`. The range is relative to the start of the
    /// value.
    pub(crate) fn get_range_to(
        &self,
        path: &FieldPath,
        range: Range<u64>,
        sink: &mut dyn Write,
    ) -> Result<()> {
        let (portion, pieces) = self.find_some(path)?;
        let (mut before, mut wanted) = (0, Vec::new());
        for piece in pieces {
            let len = piece.end - piece.start;
            let start = range.start.clamp(before, before + len) - before;
            let end = range.end.clamp(before, before + len) - before;
            if start < end {
                wanted.push(piece.start + start..piece.start + end);
            }
            before += len;
        }
        let whole = self.whole_sum(path, &portion);
        self.copy(&portion, &wanted, whole.as_ref(), sink)
    }

    /// Decodes the message at a path as the generated type `M`.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get); [`ErrorKind::InvalidMessage`] if the bytes are not a
    /// message of that type.
    pub fn message<M: Message + Default>(&self, path: &FieldPath) -> Result<M> {
        M::decode(self.get(path)?).map_err(|error| undecodable(error).at_path(self.show(path)))
    }

    /// Decodes the message at a path as a [`DynamicMessage`] of the type that the path leads to.
    ///
    /// # Errors
    ///
    /// The errors of [`message`](Self::message); [`ErrorKind::SchemaNeeded`] if the type of the
    /// whole message is unknown; [`ErrorKind::InvalidPath`] if the path leads to a value that is
    /// not a message.
    pub fn message_dynamic(&self, path: &FieldPath) -> Result<DynamicMessage> {
        let Some(kind) = self.kind(path)? else {
            let message = "no type is known for the message";
            return Err(Error::new(ErrorKind::SchemaNeeded, message));
        };
        let descriptor = kind.message().ok_or_else(|| self.no_message(path))?;
        decode_dynamic(descriptor.clone(), self.get(path)?)
            .map_err(|error| undecodable(error).at_path(self.show(path)))
    }

    /// Returns an iterator over the fields of the message at a path, in wire order. The iterator
    /// doesn't read the values.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get).
    pub fn fields(&self, path: &FieldPath) -> Result<Fields<'a>> {
        let (portion, pieces) = self.find_some(path)?;
        let descriptor = match self.kind(path)? {
            None => None,
            Some(kind) => Some(
                kind.message()
                    .cloned()
                    .ok_or_else(|| self.no_message(path))?,
            ),
        };
        Ok(Fields::new(WireCursor::new(portion), pieces, descriptor))
    }

    /// Returns true if the message at a path consists of several occurrences of its field, which
    /// parsers merge into one message.
    ///
    /// ```
    /// # use proto_splitter_core::view::MessageView;
    /// # use proto_splitter_core::merge::ReadOptions;
    /// # use prost_reflect::prost_types::FileDescriptorProto;
    /// // The options of a file, field 8, with one of them, and once more with another.
    /// let file = b"\x42\x03\x0a\x01p\x42\x03\x42\x01o".to_vec();
    /// let options = ReadOptions::for_message::<FileDescriptorProto>();
    /// let view = MessageView::of_plain(&file, options)?;
    /// assert!(view.is_in_pieces(&"8".parse()?)?);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get).
    pub fn is_in_pieces(&self, path: &FieldPath) -> Result<bool> {
        Ok(self.find_some(path)?.1.len() > 1)
    }

    /// Returns an input for the entire message that reports no progress, for callers that report
    /// their own.
    pub(crate) fn unwatched(&self) -> Result<Portion<'a>> {
        let portion = self.find_some(&FieldPath::root())?.0;
        Ok(portion.unwatched())
    }

    /// Returns the maximum depth for functions that recurse once per nested message.
    pub(crate) fn walked_depth(&self) -> u32 {
        self.options.limits.walked_depth()
    }

    /// Returns the progress listener.
    pub(crate) fn progress(&self) -> &Progress {
        &self.options.progress
    }

    /// Returns the locations of the value at a path and of the field that contains the value, for
    /// replacing the value.
    pub(crate) fn place(&self, path: &FieldPath) -> Result<Place> {
        let (portion, Found { pieces, run, .. }) = self.locate_some(path)?;
        let invalid = |message| {
            let error = Error::new(ErrorKind::InvalidPath, message);
            Err(error.at_path(self.show(path)))
        };
        if run.is_some() {
            return invalid(
                "the number is packed with others in one field: use `edit`, or replace the enclosing message",
            );
        }
        if path.is_root() {
            return invalid("the path selects the whole message");
        }
        let [value] = pieces.as_slice() else {
            return invalid("the value is in several pieces");
        };
        let kind = self.kind(path)?;
        let mut cursor = WireCursor::new(portion);
        let chain = enclosing_range(&mut cursor, value);
        let mut portion = cursor.into_input();
        let Some(field) = chain.map_err(|error| portion.damage_first(error))?.pop() else {
            return invalid("there is no field at the path");
        };
        let plan = portion.plan_of_chunks().cloned();
        Ok(Place {
            value: value.clone(),
            field,
            kind,
            plan,
        })
    }

    /// Returns the range of the number at a path, and the packed field that contains it; `None` if
    /// the value at the path isn't in a packed field.
    pub(crate) fn packed_place(&self, path: &FieldPath) -> Result<Option<(Range<u64>, Field)>> {
        let found = self.locate_some(path)?.1;
        Ok(found.pieces.into_iter().next().zip(found.run))
    }

    /// Returns the checksum to verify while the value at a path is read; `None` unless the path is
    /// the root and the file has a checksum of the entire message.
    fn whole_sum(&self, path: &FieldPath, portion: &Portion<'_>) -> Option<WholeSum> {
        let trailer = self.stored.trailer().filter(|_| path.is_root())?;
        WholeSum::of(trailer, portion.plan().total_len())
    }

    /// Reads ranges of the message directly into `buffer`, which has their total length. Uses
    /// several threads if the ranges are in several chunks.
    fn fill(
        &self,
        portion: &Portion<'_>,
        pieces: &[Range<u64>],
        whole: Option<&WholeSum>,
        buffer: &mut [u8],
    ) -> Result<()> {
        let meter = self.options.progress.meter(total(pieces));
        let threads = self.options.thread_count();
        let mut rest = buffer;
        let places = pieces.iter().map(|piece| {
            let len = usize::try_from(piece.end - piece.start).unwrap_or(usize::MAX);
            let len = len.min(rest.len());
            let (place, behind) = std::mem::take(&mut rest).split_at_mut(len);
            rest = behind;
            (piece.clone(), place)
        });
        let places: Vec<_> = places.collect();
        gather(
            portion.plan(),
            self.stored.chunks(),
            whole,
            places,
            threads,
            &meter,
        )?;
        meter.check()
    }

    fn copy(
        &self,
        portion: &Portion<'_>,
        pieces: &[Range<u64>],
        whole: Option<&WholeSum>,
        sink: &mut dyn Write,
    ) -> Result<()> {
        let _span = tracing::debug_span!("copy", bytes = total(pieces)).entered();
        let meter = self.options.progress.meter(total(pieces));
        let plan = portion.plan().clip(pieces);
        let mut sink = meter.written_to(sink);
        write_summed(&plan, self.stored.chunks(), whole, &mut sink)?;
        meter.check()
    }

    pub(crate) fn show(&self, path: &FieldPath) -> String {
        path.display(self.descriptor())
    }

    /// Returns the kind of value at a path; `None` if the type of the entire message is unknown.
    pub(crate) fn kind(&self, path: &FieldPath) -> Result<Option<TargetKind>> {
        let root = self.descriptor();
        root.map(|root| Ok(path.resolve(root)?.kind)).transpose()
    }

    #[cold]
    fn no_message(&self, path: &FieldPath) -> Error {
        let message = "the path leads to a value that is not a message";
        Error::new(ErrorKind::InvalidPath, message).at_path(self.show(path))
    }
}

/// Fails if the wire type of one of the first `most` fields differs from the one that the message
/// type declares for the field.
fn check_front<I: Input>(
    cursor: &mut WireCursor<I>,
    descriptor: &MessageDescriptor,
    most: usize,
) -> Result<()> {
    let mut checked = None;
    for _ in 0..most {
        let Some(field) = cursor.next()? else {
            break;
        };
        let kind = Some((field.number, field.wire_type));
        if checked != kind {
            check_field(descriptor, &field)?;
            checked = kind;
        }
    }
    Ok(())
}

fn total(pieces: &[Range<u64>]) -> u64 {
    pieces.iter().map(|piece| piece.end - piece.start).sum()
}
