//! Reading parts of a message without reading all of it.
//!
//! A [`MessageView`] is a message that stays where it is: in the chunks of a [`ChunkedFile`](crate::ChunkedFile), or in
//! one piece in any source of bytes. Following a path hops over what lies beside it. Of a chunked
//! file the trailer, the chunks on the way and those at the path and below it are read, each
//! checked as in a merge; of other slices of a field on the way the beginning is.
//!
//! A path leads to one value: a message, in all its pieces; an element; the value of a map entry;
//! or a value that is not a message, where the last counts. What is given are its bytes, without
//! its tag and length: the fields of a message, a string's or bytes' own, and for a number what is
//! on the wire.
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
mod levels;
mod locate;
mod pieces;
mod place;
mod portion;
mod select;

use std::fs::File;
use std::io::Write;
use std::ops::Range;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use record_file::ReadAt;

use crate::error::undecodable;
use crate::merge::{Memory, PlanInput, ReadOptions, RecordStore, fill, plan, plan_part};
use crate::path::{FieldPath, TargetKind, check_field};
use crate::progress::Progress;
use crate::wire::{SourceInput, WireCursor};
use crate::{Error, ErrorKind, Result};

use crate::merge::ChunkStore;
use crate::merge::MergePlan;
use crate::merge::write;
use crate::wire::Input;
use element_runs::{ElementRun, element_runs};
use locate::Found;
pub(crate) use portion::Portion;
use portion::PortionBytes;

pub use fields::{FieldEntry, Fields, LARGEST_SMALL_VALUE};
pub use pieces::{Piece, PieceOptions, Pieces};
pub(crate) use place::{Place, enclosing, enclosing_range};
pub use select::Selected;

/// How much of a message in one piece is copied at a time.
const COPY_LEN: usize = 256 << 10;

/// How many fields at the front of a message tell whether it is of a type. Those of another type
/// differ from the first on, as a rule; hopping over many millions would take seconds.
const CHECKED_FIELDS: usize = 1 << 10;

/// A message that is read in parts; from [`ChunkedFile::view`](crate::ChunkedFile::view), [`MessageView::of_plain`] or
/// [`MessageView::of_reader`]. `S` is what a file in chunks is read from.
#[derive(Debug)]
pub struct MessageView<'a, S = File> {
    source: Source<'a, S>,
    options: ReadOptions,
}

enum Source<'a, S> {
    Chunked(&'a RecordStore<S>),
    Plain(&'a dyn ReadAt, u64),
}

impl<S> Clone for MessageView<'_, S> {
    fn clone(&self) -> Self {
        MessageView {
            source: self.source,
            options: self.options.clone(),
        }
    }
}

impl<S> Clone for Source<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Source<'_, S> {}

impl<S> std::fmt::Debug for Source<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Chunked(_) => f.write_str("Chunked"),
            Source::Plain(_, size) => f.debug_tuple("Plain").field(size).finish(),
        }
    }
}

/// What a path needs of the message, and the pieces of its value there.
pub(crate) type Value<'a, S> = (Portion<'a, S>, Vec<Range<u64>>);

/// The same, with how the value is written.
type Located<'a, S> = (Portion<'a, S>, Found);

impl<'a> MessageView<'a, File> {
    /// The message that is all of `source`, whatever that is: a file, or a message that several
    /// files make together.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if its size can't be told.
    pub fn of_reader(source: &'a dyn ReadAt, options: ReadOptions) -> Result<Self> {
        let size = source.size()?;
        Ok(MessageView {
            source: Source::Plain(source, size),
            options,
        })
    }
}

impl<'a, S: ReadAt> MessageView<'a, S> {
    /// The message that is all of `source`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if its size can't be told.
    pub fn of_plain(source: &'a S, options: ReadOptions) -> Result<Self> {
        let size = source.size()?;
        Ok(MessageView {
            source: Source::Plain(source, size),
            options,
        })
    }

    /// The message in the chunks of a file.
    pub(crate) fn of_chunks(store: &'a RecordStore<S>, options: ReadOptions) -> Self {
        let source = Source::Chunked(store);
        MessageView { source, options }
    }

    /// The type of the message, if it was said.
    pub fn descriptor(&self) -> Option<&MessageDescriptor> {
        self.options.descriptor.as_ref()
    }

    /// Fails if the message is evidently of another type than was said: a field at its front is
    /// written otherwise than the type writes it. Without a type there is nothing to check, and of
    /// a file that names its type itself the name is what counts.
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
    /// [`ErrorKind::InvalidMessage`] with the field's name and offset, or if the front breaks the
    /// wire format; what is wrong with the chunk that is read.
    pub fn check_type(&self) -> Result<()> {
        self.check_fields(CHECKED_FIELDS)
    }

    /// As [`check_type`](Self::check_type), with all fields of the message itself: for who goes
    /// through all of it anyway.
    ///
    /// # Errors
    ///
    /// As `check_type`.
    pub fn check_whole_type(&self) -> Result<()> {
        self.check_fields(usize::MAX)
    }

    fn check_fields(&self, most: usize) -> Result<()> {
        let Some(descriptor) = self.descriptor() else {
            return Ok(());
        };
        match &self.source {
            Source::Plain(source, size) => check_front(
                &mut WireCursor::new(SourceInput::new(*source, *size)),
                descriptor,
                most,
            ),
            Source::Chunked(file) => {
                let trailer = file.trailer();
                let message = trailer.metadata().message.as_ref();
                let base = message.and_then(|message| message.chunk_index);
                let base = base.and_then(|index| usize::try_from(index).ok());
                let Some(base) = base.filter(|_| trailer.message_type().is_none()) else {
                    return Ok(());
                };
                let plan = MergePlan::of_chunk(base, file.size(base), file.len());
                let mut cursor = WireCursor::new(PlanInput::new(plan, *file));
                check_front(&mut cursor, descriptor, most)
                    .map_err(|error| cursor.input_mut().damage_first(error))
            }
        }
    }

    /// How many bytes the value at a path has; `None` if there is none.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), but for [`ErrorKind::InvalidPath`] where nothing is there: that is
    /// `None`.
    pub fn size(&self, path: &FieldPath) -> Result<Option<u64>> {
        let Some((portion, Found { pieces, .. })) = self.find(path)? else {
            return Ok(None);
        };
        // The sizes are the trailer's, and nobody reads the chunks.
        if let (Source::Chunked(file), Some(plan)) = (&self.source, portion.plan()) {
            file.check_some(&plan.clip(&pieces).chunks_in_order())?;
        }
        Ok(Some(total(&pieces)))
    }

    /// The value at a path.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if nothing is there, or the path means a whole repeated field or
    /// map; [`ErrorKind::SchemaNeeded`] if only the message's type could tell what the value
    /// is; [`ErrorKind::LimitExceeded`] if it doesn't fit in memory; what is wrong with the
    /// chunks that are read, or with the bytes on the way.
    pub fn get(&self, path: &FieldPath) -> Result<Bytes> {
        let (portion, pieces) = self.find_some(path)?;
        let stored = match &self.source {
            Source::Chunked(file) => file.stored_len(),
            Source::Plain(_, size) => *size,
        };
        let mut memory = Memory::reserve(total(&pieces), stored, &self.options)?;
        match &mut memory {
            Memory::Growing(out) => self.copy(&portion, &pieces, out)?,
            Memory::Small(out) => self.fill(&portion, &pieces, out)?,
            Memory::Huge(out) => self.fill(&portion, &pieces, out)?,
        }
        Ok(memory.into())
    }

    /// Copies the value at a path to the front of `buffer`, and says how many bytes it has.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get); [`ErrorKind::InvalidConfig`] if the buffer is shorter than the value.
    pub fn get_into(&self, path: &FieldPath, buffer: &mut [u8]) -> Result<usize> {
        let (portion, pieces) = self.find_some(path)?;
        let (have, len) = (buffer.len(), total(&pieces));
        let front = usize::try_from(len)
            .ok()
            .and_then(|len| buffer.get_mut(..len));
        let Some(front) = front else {
            let message = format!("a buffer of {have} bytes for a value of {len}");
            return Err(Error::new(ErrorKind::InvalidConfig, message).at_path(self.show(path)));
        };
        let len = front.len();
        self.fill(&portion, &pieces, front)?;
        Ok(len)
    }

    /// Writes the value at a path, of any size, to `sink`, and says how many bytes it has.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`ErrorKind::Io`] if writing fails. Then `sink` has had bytes
    /// that are not to be used.
    pub fn get_to(&self, path: &FieldPath, sink: &mut impl Write) -> Result<u64> {
        let (portion, pieces) = self.find_some(path)?;
        self.copy(&portion, &pieces, sink)?;
        Ok(total(&pieces))
    }

    /// Writes some bytes of the value at a path, as they are counted in it.
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
        self.copy(&portion, &wanted, sink)
    }

    /// The message at a path, of a type known to the program.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get); [`ErrorKind::InvalidMessage`] if the bytes are not a message of that
    /// type.
    pub fn message<M: Message + Default>(&self, path: &FieldPath) -> Result<M> {
        M::decode(self.get(path)?).map_err(|error| undecodable(error).at_path(self.show(path)))
    }

    /// The message at a path, of the type that the path leads to.
    ///
    /// # Errors
    ///
    /// As [`message`](Self::message); [`ErrorKind::SchemaNeeded`] if the type of the whole is not
    /// known; [`ErrorKind::InvalidPath`] if the path leads to a value that is not a message.
    pub fn message_dynamic(&self, path: &FieldPath) -> Result<DynamicMessage> {
        let Some(kind) = self.kind(path)? else {
            let message = "no type is known for the message";
            return Err(Error::new(ErrorKind::SchemaNeeded, message));
        };
        let descriptor = kind.message().ok_or_else(|| self.no_message(path))?;
        DynamicMessage::decode(descriptor.clone(), self.get(path)?)
            .map_err(|error| undecodable(error).at_path(self.show(path)))
    }

    /// The fields of the message at a path, one after the other as they stand there. No value is
    /// read.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn fields(&self, path: &FieldPath) -> Result<Fields<'a, S>> {
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

    /// The whole message, for callers that report progress themselves.
    pub(crate) fn unwatched(&self) -> Result<Portion<'a, S>> {
        let portion = self.find_some(&FieldPath::root())?.0;
        Ok(portion.unwatched())
    }

    /// Depth limit for walks that recurse once per nested message.
    pub(crate) fn walked_depth(&self) -> u32 {
        self.options.limits.walked_depth()
    }

    /// Who is told how far it is.
    pub(crate) fn progress(&self) -> &Progress {
        &self.options.progress
    }

    /// Where one value stands, to be replaced.
    pub(crate) fn place(&self, path: &FieldPath) -> Result<Place> {
        let (portion, pieces) = self.find_some(path)?;
        let invalid = |message| {
            let error = Error::new(ErrorKind::InvalidPath, message);
            Err(error.at_path(self.show(path)))
        };
        if path.is_root() {
            return invalid("the path is that of the whole message");
        }
        let [value] = pieces.as_slice() else {
            return invalid("the value stands in several pieces");
        };
        let kind = self.kind(path)?;
        let mut cursor = WireCursor::new(portion);
        let chain = enclosing_range(&mut cursor, value);
        let mut portion = cursor.into_input();
        let Some(field) = chain.map_err(|error| portion.damage_first(error))?.pop() else {
            return invalid("no field is there");
        };
        let plan = portion.plan().cloned();
        Ok(Place {
            value: value.clone(),
            field,
            kind,
            plan,
        })
    }

    pub(crate) fn find_some(&self, path: &FieldPath) -> Result<Value<'a, S>> {
        if let Some((portion, found)) = self.find(path)? {
            return Ok((portion, found.pieces));
        }
        let mut message = "the message has no such value".to_owned();
        if let Some(why) = self.missing(path)? {
            message = format!("{message}: {why}");
        }
        Err(Error::new(ErrorKind::InvalidPath, message).at_path(self.show(path)))
    }

    fn find(&self, path: &FieldPath) -> Result<Option<Located<'a, S>>> {
        let _span = tracing::debug_span!("find", path = %self.show(path)).entered();
        locate::check(path, self.descriptor())?;
        match self.source {
            Source::Chunked(file) => self.find_in_chunks(file, path),
            Source::Plain(source, size) => {
                let input = SourceInput::new(source, size);
                self.find_in(PortionBytes::Plain(input), Vec::new(), path)
            }
        }
    }

    /// In a file with placeholders, the chunks on the way to a value say all of it. In others a chunk
    /// beside the way may make room for elements before its own, or set another member of a oneof:
    /// then only the plan of the whole merge tells whether the value is there.
    fn find_in_chunks(
        &self,
        file: &'a RecordStore<S>,
        path: &FieldPath,
    ) -> Result<Option<Located<'a, S>>> {
        let trailer = file.trailer();
        let locate = |plan| {
            let runs = element_runs(&plan, trailer);
            let input = PlanInput::new(plan, file);
            self.find_in(PortionBytes::Chunked(Box::new(input)), runs, path)
        };
        let found = plan_part(trailer, file, path, &self.options).and_then(locate);
        if trailer.is_marked() {
            return found;
        }
        let may_have_ended = |root| trailer.chunk_tree().may_end(path, root);
        if let Ok(Some(_)) = &found
            && !self.descriptor().is_some_and(may_have_ended)
        {
            return found;
        }
        match plan(trailer, file, &self.options) {
            Ok(plan) => locate(plan),
            // What stands in the way of the merge needn't be on the way to the value.
            Err(_) => found,
        }
    }

    fn find_in(
        &self,
        bytes: PortionBytes<'a, S>,
        runs: Vec<ElementRun>,
        path: &FieldPath,
    ) -> Result<Option<Located<'a, S>>> {
        let portion = Portion::new(bytes, &self.options.progress).with_runs(runs);
        let mut cursor = WireCursor::new(portion);
        let found = locate::locate(&mut cursor, path, self.descriptor());
        let mut portion = cursor.into_input();
        let found = found.map_err(|error| portion.damage_first(error.at_path(self.show(path))))?;
        match (found, portion.bytes_mut()) {
            (Some(found), _) => Ok(Some((portion, found))),
            // A chunk that doesn't have it was checked by nobody who reads it.
            (None, PortionBytes::Chunked(input)) => input.check().map(|()| None),
            (None, PortionBytes::Plain(_)) => Ok(None),
        }
    }

    /// Reads the pieces straight into a buffer of their length, on several threads where they lie
    /// in several chunks.
    fn fill(
        &self,
        portion: &Portion<'_, S>,
        pieces: &[Range<u64>],
        buffer: &mut [u8],
    ) -> Result<()> {
        let meter = self.options.progress.meter(total(pieces));
        match (&self.source, portion.plan()) {
            (Source::Chunked(file), Some(plan)) => {
                let threads = self.options.thread_count();
                fill(&plan.clip(pieces), *file, buffer, threads, &meter)?;
            }
            (Source::Plain(source, _), _) => {
                let mut rest = buffer;
                for piece in pieces {
                    let len = usize::try_from(piece.end - piece.start).unwrap_or(usize::MAX);
                    let (place, behind) = rest.split_at_mut(len.min(rest.len()));
                    let mut at = piece.start;
                    for step in place.chunks_mut(COPY_LEN) {
                        source.read_exact_at(at, step)?;
                        meter.advance(step.len() as u64)?;
                        at += step.len() as u64;
                    }
                    rest = behind;
                }
            }
            // A portion is made of its source.
            (Source::Chunked(_), None) => {}
        }
        meter.check()
    }

    fn copy(
        &self,
        portion: &Portion<'_, S>,
        pieces: &[Range<u64>],
        sink: &mut dyn Write,
    ) -> Result<()> {
        let _span = tracing::debug_span!("copy", bytes = total(pieces)).entered();
        let meter = self.options.progress.meter(total(pieces));
        let mut sink = meter.written_to(sink);
        match (&self.source, portion.plan()) {
            (Source::Chunked(file), Some(plan)) => write(&plan.clip(pieces), *file, &mut sink)?,
            (Source::Plain(source, _), _) => copy_plain(*source, pieces, &mut sink)?,
            // A portion is made of its source.
            (Source::Chunked(_), None) => {}
        }
        meter.check()
    }

    pub(crate) fn show(&self, path: &FieldPath) -> String {
        path.display(self.descriptor())
    }

    /// What a path leads to, if the type of the whole is known.
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

/// Fails if one of the first fields, up to `most`, is written otherwise than the type writes it.
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

fn copy_plain(source: &dyn ReadAt, pieces: &[Range<u64>], sink: &mut dyn Write) -> Result<()> {
    let mut buffer = Vec::new();
    for piece in pieces {
        let mut at = piece.start;
        while at < piece.end {
            let left = usize::try_from(piece.end - at).unwrap_or(usize::MAX);
            buffer.resize(left.min(COPY_LEN), 0);
            source.read_exact_at(at, &mut buffer)?;
            sink.write_all(&buffer)?;
            at += buffer.len() as u64;
        }
    }
    Ok(())
}
