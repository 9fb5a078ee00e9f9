//! Running a splitter: to a plan, in memory, to a file, or to a stream.

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

/// Runs a splitter. Every [`ComposableSplitter`] has these methods, a `Box<dyn ComposableSplitter>`
/// as well.
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
    /// Decides what leaves the message, without reading more than tags and lengths.
    ///
    /// # Errors
    ///
    /// What [`build_chunks`](ComposableSplitter::build_chunks) reports;
    /// [`Uncuttable`](crate::ErrorKind::Uncuttable) if a MESSAGE chunk stays over the maximum;
    /// [`InvalidMessage`](crate::ErrorKind::InvalidMessage) if the source is malformed;
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if an option is out of its range, or a
    /// path is given and the splitter has no type of its own.
    fn plan(&self, source: impl Into<SplitInput>, options: &SplitOptions) -> Result<SplitPlan> {
        planner::plan(self, &source.into().open(self)?, options)
    }

    /// Splits the message in memory, with the default options.
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan); [`Io`](crate::ErrorKind::Io) if reading fails.
    fn split(&self, source: impl Into<SplitInput>) -> Result<Split> {
        self.split_with(source, &SplitOptions::default())
    }

    /// Splits the message in memory.
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan); [`Io`](crate::ErrorKind::Io) if reading fails.
    fn split_with(&self, source: impl Into<SplitInput>, options: &SplitOptions) -> Result<Split> {
        let source = source.into().open(self)?;
        let plan = planner::plan(self, &source, options)?;
        in_memory::split(&plan, &source, options)
    }

    /// Splits the message into pieces of its chunks, which are read as they are asked for: to send
    /// them somewhere, with little memory.
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan).
    fn pieces(&self, source: impl Into<SplitInput>, options: &SplitOptions) -> Result<ChunkPieces> {
        let source = source.into().open(self)?;
        let plan = planner::plan(self, &source, options)?;
        Ok(ChunkPieces::new(plan, source))
    }

    /// Splits the message to `PREFIX.cpb`, or writes it to `PREFIX.pb` if nothing was cut, with the
    /// default options.
    ///
    /// # Errors
    ///
    /// As [`write_with`](Self::write_with).
    fn write(&self, source: impl Into<SplitInput>, prefix: impl AsRef<Path>) -> Result<Written> {
        self.write_with(source, prefix, &SplitOptions::default())
    }

    /// Splits the message to `PREFIX.cpb`, or writes it to `PREFIX.pb` if nothing was cut.
    ///
    /// The file appears complete or not at all. If the source itself is `PREFIX.pb` and nothing was
    /// cut, nothing is written; it is never removed. Nor is any `PREFIX.pb` if the file is to be
    /// [in chunks always](SplitOptions::always_chunked).
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan); [`AlreadyExists`](crate::ErrorKind::AlreadyExists) if either file
    /// is there, is not the source, would be replaced, and that wasn't asked for;
    /// [`NoFolder`](crate::ErrorKind::NoFolder) if their folder isn't there;
    /// [`SourceChanged`](crate::ErrorKind::SourceChanged) if the source's file is no longer what it
    /// was; [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if the trailer is larger than
    /// readers or a file may have it; [`Io`](crate::ErrorKind::Io) if reading or writing fails;
    /// [`Cancelled`](crate::ErrorKind::Cancelled).
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

    /// Splits the message to what takes bytes in their order only, as a pipe or a connection, or
    /// writes it as it is if nothing was cut, with the default options.
    ///
    /// # Errors
    ///
    /// As [`write_to_with`](Self::write_to_with).
    fn write_to(
        &self,
        source: impl Into<SplitInput>,
        sink: &mut impl Write,
    ) -> Result<WrittenStream> {
        self.write_to_with(source, sink, &SplitOptions::default())
    }

    /// Splits the message to what takes bytes in their order only, as a pipe or a connection, or
    /// writes it as it is if nothing was cut.
    ///
    /// The bytes are those that a file would have. Large chunks that are stored as they are are read
    /// twice, since their hashes stand in front of them. What is compressed ahead of its turn
    /// waits: in temporary files, if it is much, for which there has to be room for 512 MiB or the
    /// largest chunk. On more than one thread, it is one more that writes.
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan); [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if there is to
    /// be a maximum file size; [`SourceChanged`](crate::ErrorKind::SourceChanged) if the source's
    /// file is no longer what it was; [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if the
    /// trailer is larger than readers may have it; [`Io`](crate::ErrorKind::Io) if reading or
    /// writing fails; [`Cancelled`](crate::ErrorKind::Cancelled). Then `sink` has had bytes that
    /// are not to be used. Readers refuse a file of chunks without its end; of a message that was
    /// not cut nothing marks the end.
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
