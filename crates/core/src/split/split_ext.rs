//! Running a splitter: planning a split, and splitting in memory, to a file, or to a stream.

use std::io::Write;
use std::path::Path;

use super::options::SplitOptions;
use super::plan::planner;
use super::write::{file, in_memory, stream};
use crate::Result;
use crate::split::plan::split_plan::SplitPlan;
use crate::split::plan::splitter::ComposableSplitter;
use crate::split::split_input::SplitInput;
use crate::split::write::chunk_pieces::ChunkPieces;
use crate::split::write::in_memory::Split;
use crate::split::write::stream::WrittenStream;
use crate::split::write::written::Written;

/// Methods for running a splitter. Every [`ComposableSplitter`] has these methods, including a
/// `Box<dyn ComposableSplitter>`.
///
/// ```
/// use prost_reflect::prost_types::FileDescriptorProto;
/// use proto_splitter_core::split::{ComposableSplitter, SizeSplitter, SplitExt, SplitOptions};
///
/// let splitter: Box<dyn ComposableSplitter> = Box::new(SizeSplitter);
/// let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
/// let split = splitter.split_with(&file, &SplitOptions::new().max_chunk_size(1000))?;
/// assert_eq!(split.chunks.len(), 2);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
pub trait SplitExt: ComposableSplitter {
    /// Plans the chunks of the message, reading only tags and lengths.
    ///
    /// # Errors
    ///
    /// Any error from [`build_chunks`](ComposableSplitter::build_chunks);
    /// [`Uncuttable`](crate::ErrorKind::Uncuttable) if a MESSAGE chunk exceeds the maximum size,
    /// and no more can be cut; [`InvalidMessage`](crate::ErrorKind::InvalidMessage) if the source
    /// is malformed; [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if an option is out of
    /// range, or the source is a path and the splitter has no message type.
    fn plan(&self, source: impl Into<SplitInput>, options: &SplitOptions) -> Result<SplitPlan> {
        planner::plan(self, &source.into().open(self)?, options)
    }

    /// Splits the message in memory, with the default options.
    ///
    /// # Errors
    ///
    /// The same errors as [`plan`](Self::plan); [`Io`](crate::ErrorKind::Io) if reading fails.
    fn split(&self, source: impl Into<SplitInput>) -> Result<Split> {
        self.split_with(source, &SplitOptions::default())
    }

    /// Splits the message in memory.
    ///
    /// # Errors
    ///
    /// The same errors as [`plan`](Self::plan); [`Io`](crate::ErrorKind::Io) if reading fails.
    fn split_with(&self, source: impl Into<SplitInput>, options: &SplitOptions) -> Result<Split> {
        let source = source.into().open(self)?;
        let plan = planner::plan(self, &source, options)?;
        in_memory::split(&plan, &source, options)
    }

    /// Plans the split, and returns a reader of its chunks. It reads them on demand, in pieces, so
    /// that sending chunks takes little memory.
    ///
    /// # Errors
    ///
    /// The same errors as [`plan`](Self::plan).
    fn pieces(&self, source: impl Into<SplitInput>, options: &SplitOptions) -> Result<ChunkPieces> {
        let source = source.into().open(self)?;
        let plan = planner::plan(self, &source, options)?;
        Ok(ChunkPieces::new(plan, source))
    }

    /// Splits the message with the default options, and writes it to `PREFIX.cpb`, or to
    /// `PREFIX.pb` if nothing was cut.
    ///
    /// # Errors
    ///
    /// The same errors as [`write_with`](Self::write_with).
    fn write(&self, source: impl Into<SplitInput>, prefix: impl AsRef<Path>) -> Result<Written> {
        self.write_with(source, prefix, &SplitOptions::default())
    }

    /// Splits the message and writes it to `PREFIX.cpb`, or to `PREFIX.pb` if nothing was cut.
    ///
    /// The file appears complete or not at all. If the source itself is `PREFIX.pb` and nothing was
    /// cut, writes nothing, but removes an older `PREFIX.cpb`. The source is never removed. With
    /// the option [`always_chunked`](SplitOptions::always_chunked), the file is `PREFIX.cpb` even
    /// if nothing has to be cut, and an existing `PREFIX.pb` isn't removed.
    ///
    /// # Errors
    ///
    /// The same errors as [`plan`](Self::plan); [`AlreadyExists`](crate::ErrorKind::AlreadyExists)
    /// if `PREFIX.cpb` or `PREFIX.pb` exists and would be replaced, unless the file is the source
    /// or the options allow replacing files; [`NoFolder`](crate::ErrorKind::NoFolder) if the folder
    /// doesn't exist; [`SourceChanged`](crate::ErrorKind::SourceChanged) if the source's file has
    /// changed; [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if the trailer is larger than
    /// readers accept, or doesn't fit in a file; [`Io`](crate::ErrorKind::Io) if reading or writing
    /// fails; [`Cancelled`](crate::ErrorKind::Cancelled) if the operation was cancelled.
    fn write_with(
        &self,
        source: impl Into<SplitInput>,
        prefix: impl AsRef<Path>,
        options: &SplitOptions,
    ) -> Result<Written> {
        let source = source.into().open(self)?;
        let plan = planner::plan(self, &source, options)?;
        file::write(&plan, &source, prefix.as_ref(), options)
    }

    /// Splits the message with the default options, and writes it to a sequential sink, such as a
    /// pipe or a connection. If nothing was cut, the message is written unchanged.
    ///
    /// # Errors
    ///
    /// The same errors as [`write_to_with`](Self::write_to_with).
    fn write_to(
        &self,
        source: impl Into<SplitInput>,
        sink: &mut impl Write,
    ) -> Result<WrittenStream> {
        self.write_to_with(source, sink, &SplitOptions::default())
    }

    /// Splits the message and writes it to a sequential sink, such as a pipe or a connection. If
    /// nothing was cut, the message is written unchanged.
    ///
    /// Writes the same bytes as a split to a file. Reads large uncompressed chunks twice, since the
    /// hash of a chunk precedes the chunk. A chunk that is compressed before all earlier chunks are
    /// written is held in memory or, if there are many such chunks, in a temporary file. Temporary
    /// files need up to 512 MiB, or the size of the largest chunk if that is more. With more than
    /// one thread, an additional thread does the writing.
    ///
    /// # Errors
    ///
    /// The same errors as [`plan`](Self::plan); [`InvalidConfig`](crate::ErrorKind::InvalidConfig)
    /// if a maximum file size is set; [`SourceChanged`](crate::ErrorKind::SourceChanged) if the
    /// source's file has changed; [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if the trailer
    /// is larger than readers accept; [`Io`](crate::ErrorKind::Io) if reading or writing fails;
    /// [`Cancelled`](crate::ErrorKind::Cancelled) if the operation was cancelled. After an error,
    /// discard the bytes that `sink` received: readers refuse a chunked file without its end, but
    /// nothing marks the end of a message that was not cut.
    ///
    /// # Examples
    ///
    /// ```
    /// use prost_reflect::prost_types::FileDescriptorProto;
    /// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
    ///
    /// let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
    /// let options = SplitOptions::new().max_chunk_size(1000);
    /// let mut pipe = Vec::new();
    /// let written = SizeSplitter.write_to_with(&file, &mut pipe, &options)?;
    /// assert!(written.is_split);
    /// assert_eq!(written.output_size, pipe.len() as u64);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    fn write_to_with(
        &self,
        source: impl Into<SplitInput>,
        sink: &mut impl Write,
        options: &SplitOptions,
    ) -> Result<WrittenStream> {
        stream::check(options)?;
        let source = source.into().open(self)?;
        let plan = planner::plan(self, &source, options)?;
        stream::write(&plan, &source, sink, options)
    }
}

impl<T: ComposableSplitter + ?Sized> SplitExt for T {}
