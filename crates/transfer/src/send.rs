//! Sending a message as frames.

use std::fmt::{self, Write as _};

use bytes::Bytes;
use highway::{HighwayHash, HighwayHasher, Key};
use prost::Message;
use proto_splitter_core::progress::{Meter, Progress};
use proto_splitter_core::split::{
    ChunkPiece, ChunkPieces, ComposableSplitter, Profile, SplitExt, SplitInput, SplitOptions,
    SplitPlan,
};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::checks::MAX_PIECE_SIZE;
use crate::proto::{Begin, Data, End, Frame, ResumeToken};
use crate::{
    DEFAULT_MAX_CHUNK_SIZE, DEFAULT_MAX_FRAME_SIZE, LEAST_MAX_FRAME_SIZE, MAX_SESSION_SIZE, VERSION,
};

/// Maximum overhead of a piece in a frame, in bytes: the tags and numbers in its `Data` message,
/// and the tag and length before this message.
const DATA_OVERHEAD: usize = 64;

/// Options for sending a message.
#[derive(Clone, Debug)]
pub struct SendOptions {
    split: SplitOptions,
    max_frame_size: Option<usize>,
    compression_level: Option<i32>,
    session: Bytes,
    progress: Progress,
}

impl Default for SendOptions {
    fn default() -> Self {
        SendOptions::new()
    }
}

impl SendOptions {
    /// Creates the default options; each setter documents its default.
    #[must_use]
    pub fn new() -> Self {
        SendOptions {
            split: SplitOptions::new()
                .profile(Profile::Extended)
                .max_chunk_size(DEFAULT_MAX_CHUNK_SIZE),
            max_frame_size: None,
            compression_level: None,
            session: Bytes::new(),
            progress: Progress::none(),
        }
    }

    proto_splitter_core::options! {
        /// Sets the options for splitting the message into chunks. Default: the extended profile,
        /// and chunks of at most [`DEFAULT_MAX_CHUNK_SIZE`].
        ref split, get_split: SplitOptions;

        /// Sets the level of zstd compression for the pieces of chunks. Pieces that hardly shrink
        /// are sent uncompressed. Default: `None`, which disables compression.
        const compression_level, get_compression_level: Option<i32>;

        /// Sets the listener for progress, which can also cancel the transfer. Default: none.
        ref progress, get_progress: Progress;
    }

    /// Sets the maximum size of a frame, in bytes. It must be at least [`LEAST_MAX_FRAME_SIZE`].
    /// Default: [`DEFAULT_MAX_FRAME_SIZE`].
    #[must_use]
    pub const fn max_frame_size(mut self, size: usize) -> Self {
        self.max_frame_size = Some(size);
        self
    }

    /// Sets the maximum size of a frame, in bytes, unless it was set before. Use this to set a
    /// default for a transport whose fastest frame size isn't [`DEFAULT_MAX_FRAME_SIZE`].
    #[must_use]
    pub const fn max_frame_size_if_unset(mut self, size: usize) -> Self {
        if self.max_frame_size.is_none() {
            self.max_frame_size = Some(size);
        }
        self
    }

    /// Sets the session name under which a receiver keeps the received chunks, so that the transfer
    /// can be resumed. The name must have at most [`MAX_SESSION_SIZE`] bytes, and should be hard
    /// for others to guess. Default: empty. Without a name, the transfer can only be resumed if the
    /// receiver identifies it in another way.
    #[must_use]
    pub fn session(mut self, name: impl Into<Bytes>) -> Self {
        self.session = name.into();
        self
    }

    /// Returns the session name under which a receiver keeps the received chunks.
    pub const fn get_session(&self) -> &Bytes {
        &self.session
    }

    /// Returns the maximum size of a frame, in bytes.
    pub const fn get_max_frame_size(&self) -> usize {
        match self.max_frame_size {
            Some(size) => size,
            None => DEFAULT_MAX_FRAME_SIZE,
        }
    }

    fn check(&self) -> Result<()> {
        let invalid = |message: String| Err(Error::new(ErrorKind::InvalidConfig, message));
        let size = self.get_max_frame_size();
        if size < LEAST_MAX_FRAME_SIZE {
            return invalid(format!(
                "a maximum frame size of {size} bytes is too small: at least {LEAST_MAX_FRAME_SIZE} are needed"
            ));
        }
        if self.compression_level.is_some() && !cfg!(feature = "zstd") {
            return invalid("this build has no zstd to compress frames with".to_owned());
        }
        let session = self.session.len();
        if session > MAX_SESSION_SIZE {
            return invalid(format!(
                "the name of a session has {session} bytes: at most {MAX_SESSION_SIZE} are allowed"
            ));
        }
        Ok(())
    }
}

/// An iterator over the frames of a message, which are made on demand.
///
/// A frame has at most [`SendOptions::max_frame_size`] bytes. Chunks aren't held in memory, so
/// memory use doesn't depend on the size of the message.
///
/// ```
/// use prost_reflect::prost_types::FileDescriptorProto;
/// use proto_splitter_core::split::SizeSplitter;
/// use proto_splitter_transfer::{Frames, ReceiveOptions, Receiver, SendOptions};
///
/// let file = FileDescriptorProto { name: Some("a.proto".into()), ..Default::default() };
/// let frames = Frames::new(&SizeSplitter, &file, &SendOptions::new())?;
///
/// let mut receiver = Receiver::in_memory(&ReceiveOptions::new());
/// receiver.receive(frames)?;
/// assert_eq!(receiver.into_message::<FileDescriptorProto>()?, file);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Frames {
    state: State,
    options: SendOptions,
    meter: Meter,
    /// Index of the first chunk to send. Earlier chunks are only read for their checksums.
    first_chunk: u64,
    /// Number of bytes of the chunks that the receiver has or that were put into frames.
    done: u64,
    /// Total size of all chunks, in bytes.
    chunk_bytes: u64,
    /// A piece that was too large for the previous frame.
    pending: Option<Data>,
    /// crc32c of the concatenated checksums of the chunks read so far.
    sums: u32,
    /// True if the next pieces of the current chunk should be compressed.
    compresses: bool,
}

#[derive(Debug)]
enum State {
    Begin(Box<ChunkPieces>, Begin, Bytes),
    Trailer(Box<ChunkPieces>, Bytes),
    Chunks(Box<ChunkPieces>),
    Done,
}

impl Frames {
    /// Splits a message, and returns its frames.
    ///
    /// # Errors
    ///
    /// The errors of [`SplitExt::plan`]; [`ErrorKind::InvalidConfig`] if an option has an invalid
    /// value.
    pub fn new<S: ComposableSplitter + ?Sized>(
        splitter: &S,
        source: impl Into<SplitInput>,
        options: &SendOptions,
    ) -> Result<Frames> {
        Frames::resume(splitter, source, &ResumeToken::default(), options)
    }

    /// Splits a message, and returns only the frames that a receiver still needs. `token` contains
    /// the number of chunks that the receiver has. If the token belongs to another message, or to a
    /// message that was split differently, returns all frames.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new).
    pub fn resume<S: ComposableSplitter + ?Sized>(
        splitter: &S,
        source: impl Into<SplitInput>,
        token: &ResumeToken,
        options: &SendOptions,
    ) -> Result<Frames> {
        options.check()?;
        let pieces = splitter.pieces(source, &options.split)?;
        let plan = pieces.plan();
        let identity = identity(plan);
        let chunk_count = plan.chunks().len() as u64;
        let first_chunk = if token.identity == identity {
            token.chunks.min(chunk_count)
        } else {
            0
        };
        let sizes = || plan.chunks().iter().map(|chunk| chunk.size());
        let chunk_bytes = sizes().fold(0, u64::saturating_add);
        let kept = usize::try_from(first_chunk).unwrap_or(usize::MAX);
        let done = sizes().take(kept).fold(0, u64::saturating_add);
        let trailer: Bytes = pieces.draft_trailer().encode_to_vec().into();
        let begin = Begin {
            version: VERSION,
            message_type: plan.descriptor().full_name().to_owned(),
            message_size: plan.source_size(),
            chunk_count,
            chunk_bytes,
            identity,
            first_chunk,
            trailer_size: trailer.len() as u64,
            trailer_crc32c: crc32c::crc32c(&trailer),
            session: options.session.clone(),
        };
        Ok(Frames {
            state: State::Begin(Box::new(pieces), begin, trailer),
            meter: options.progress.meter(chunk_bytes),
            options: options.clone(),
            first_chunk,
            done,
            chunk_bytes,
            pending: None,
            sums: 0,
            compresses: false,
        })
    }

    /// Returns the announcement of the message, which the first frame contains; `None` once the
    /// iterator has returned the first frame.
    pub fn begin(&self) -> Option<&Begin> {
        match &self.state {
            State::Begin(_, begin, _) => Some(begin),
            _ => None,
        }
    }

    /// Returns the number of bytes of the chunks that the receiver has according to its token or
    /// that were in the frames so far, and the total size of all chunks, in bytes. The first number
    /// reaches the total even if the transfer is resumed.
    ///
    /// In contrast, the [progress](SendOptions::progress) of a resumed transfer counts the bytes
    /// that are read, which include those of the chunks that the receiver has.
    pub const fn bytes(&self) -> (u64, u64) {
        (self.done, self.chunk_bytes)
    }

    fn next_frame(&mut self) -> Result<Option<Frame>> {
        let mut frame = Frame::default();
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Begin(pieces, begin, trailer) => {
                    frame.begin = Some(begin);
                    self.state = State::Trailer(pieces, trailer);
                }
                State::Trailer(pieces, mut trailer) => {
                    let len = trailer.len().min(self.room(&frame));
                    frame.trailer = trailer.split_to(len);
                    if !trailer.is_empty() {
                        self.state = State::Trailer(pieces, trailer);
                        return Ok(Some(frame));
                    }
                    self.state = State::Chunks(pieces);
                }
                State::Chunks(mut pieces) => {
                    let room = self.room(&frame);
                    let Some(data) = self.next_data(&mut pieces, room)? else {
                        frame.end = Some(End {
                            chunks_crc32c: self.sums,
                            source_crc32c: pieces.finish()?.source_crc32c,
                        });
                        return Ok(Some(frame));
                    };
                    self.state = State::Chunks(pieces);
                    if data.content.len() > room {
                        self.pending = Some(data);
                        return Ok(Some(frame));
                    }
                    let size = data.zstd_size.unwrap_or(data.content.len() as u64);
                    self.done = self.done.saturating_add(size);
                    frame.data.push(data);
                    if self.room(&frame) == 0 {
                        return Ok(Some(frame));
                    }
                }
                State::Done => return Ok(None),
            }
        }
    }

    /// Returns the number of bytes of a chunk that still fit into a frame.
    fn room(&self, frame: &Frame) -> usize {
        let used = frame.encoded_len() + 2 * DATA_OVERHEAD;
        self.options.get_max_frame_size().saturating_sub(used)
    }

    /// Returns the pending piece or, if there is none, the next piece of at most `room` bytes that
    /// the receiver lacks. Returns `None` at the end of the message.
    fn next_data(&mut self, pieces: &mut ChunkPieces, room: usize) -> Result<Option<Data>> {
        if let Some(data) = self.pending.take() {
            return Ok(Some(data));
        }
        // Receivers limit the size of a piece that they decompress.
        let most = match self.options.compression_level {
            Some(_) => MAX_PIECE_SIZE,
            None => usize::MAX,
        };
        loop {
            // If little room is left, makes a piece for the next frame instead, since a tiny piece
            // has more overhead than content.
            let len = if room < LEAST_MAX_FRAME_SIZE / 4 {
                self.options.get_max_frame_size() - 4 * DATA_OVERHEAD
            } else {
                room
            };
            let Some(piece) = pieces.next_piece(len.min(most))? else {
                return Ok(None);
            };
            self.meter.advance(piece.bytes.len() as u64)?;
            if let Some(crc32c) = piece.crc32c {
                self.sums = crc32c::crc32c_append(self.sums, &crc32c.to_le_bytes());
            }
            if piece.chunk.to_usize() as u64 >= self.first_chunk {
                return self.data(piece).map(Some);
            }
        }
    }

    fn data(&mut self, piece: ChunkPiece) -> Result<Data> {
        let mut data = Data {
            chunk: piece.chunk.to_usize() as u64,
            offset: piece.offset,
            content: piece.bytes,
            zstd_size: None,
            crc32c: piece.crc32c,
        };
        if let Some(level) = self.options.compression_level
            && (piece.offset == 0 || self.compresses)
        {
            let size = data.content.len() as u64;
            let compressed = compress(&data.content, level)?;
            // If a piece hardly shrinks, sends the rest of its chunk uncompressed. The chunk
            // probably consists of weights, which hardly ever shrink.
            self.compresses = (compressed.len() as u64) < size - size / 8;
            if self.compresses {
                data.content = compressed.into();
                data.zstd_size = Some(size);
            }
        }
        Ok(data)
    }
}

impl Iterator for Frames {
    type Item = Result<Frame>;

    fn next(&mut self) -> Option<Result<Frame>> {
        let next = self.next_frame();
        if next.is_err() {
            self.state = State::Done;
        }
        next.transpose()
    }
}

#[cfg(feature = "zstd")]
fn compress(content: &[u8], level: i32) -> Result<Vec<u8>> {
    Ok(zstd::bulk::compress(content, level)?)
}

#[cfg(not(feature = "zstd"))]
fn compress(content: &[u8], _level: i32) -> Result<Vec<u8>> {
    // This function isn't called in this build, in which `SendOptions::check` refuses compression.
    Ok(content.to_vec())
}

/// Returns the identity of a plan, which is a hash of the message's type and size, and of the kind,
/// size and path of each chunk. The content of the chunks isn't known yet; the checksums in the
/// last frame cover it.
fn identity(plan: &SplitPlan) -> Bytes {
    struct Hashed(HighwayHasher);
    impl fmt::Write for Hashed {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.append(text.as_bytes());
            Ok(())
        }
    }
    let mut hashed = Hashed(HighwayHasher::new(Key([0x7472_616e_7366_6572, 1, 0, 0])));
    let (name, size) = (plan.descriptor().full_name(), plan.source_size());
    // Writing to a hasher can't fail.
    let _ = write!(hashed, "{name} {size} {:?}\n{plan}", plan.profile());
    let [low, high] = hashed.0.finalize128();
    [low.to_le_bytes(), high.to_le_bytes()].concat().into()
}
