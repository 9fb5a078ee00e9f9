//! Tensor streams: how a tensor of Paddle lies in a file, in three layouts.
//!
//! A [`Stream`] says where the parts of one lie, and is read from its header alone. The data is then
//! read [to the caller's buffer](Stream::read_data), and [`write_stream`] writes one from a reader.
//!
//! ```
//! use proto_splitter_paddle::proto::framework::var_type::Type;
//! use proto_splitter_paddle::stream::{Layout, Stream, StreamKind, TensorSpec, write_stream};
//!
//! let spec = TensorSpec::dense(Type::Fp32, [2, 3]);
//! let data = [0u8; 24];
//! let mut file = Vec::new();
//! write_stream(&mut file, &spec, Layout::Paddle, &mut &data[..])?;
//! assert_eq!(file.len(), 50);
//!
//! let stream = Stream::read(&file, 0, StreamKind::Dense, Layout::Paddle)?;
//! assert_eq!((stream.dtype(), stream.dims()), (Some(Type::Fp32), &[2, 3][..]));
//! assert_eq!(stream.data(), 26..50);
//! # Ok::<(), proto_splitter_core::Error>(())
//! ```

mod desc;
mod header;
mod layout;
mod pieces;
mod read;
mod spec;
mod vocabulary;
mod write;

use std::ops::Range;

pub(crate) use desc::{DATA_FIELD, read_desc};
pub use header::{MAX_DESC_SIZE, MAX_LOD_LEVELS};
pub use layout::{Layout, StreamKind};
pub(crate) use pieces::{Piece, pieces};
pub use spec::TensorSpec;
pub use vocabulary::write_vocabulary;
pub(crate) use write::COPY_LEN;
pub use write::write_stream;

use crate::proto::framework::var_type::Type;

/// Where the parts of one stream lie in what it was read from.
///
/// Offsets are in bytes from the start of the file, or of whatever else it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    kind: StreamKind,
    layout: Layout,
    dtype: Option<Type>,
    dims: Vec<u64>,
    range: Range<u64>,
    parts: StreamParts,
}

/// The parts of a stream that are the same in every layout, wherever they lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamParts {
    /// The serialized `TensorDesc`; empty for a vocabulary.
    pub(crate) desc: Range<u64>,
    /// The first field of it that has no place in the message of a model, and where it begins.
    pub(crate) misfit: Option<(u32, u64)>,
    /// The offsets of each level, as 64-bit numbers.
    pub(crate) lod: Vec<Range<u64>>,
    /// The row numbers of SelectedRows, as 64-bit numbers.
    pub(crate) rows: Range<u64>,
    /// The number of rows the whole of SelectedRows has.
    pub(crate) height: i64,
    /// The elements; for a vocabulary all of the stream.
    pub(crate) data: Range<u64>,
}

/// Bytes in a range.
pub(crate) fn len(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

impl Stream {
    /// Returns what the stream holds.
    #[must_use]
    pub fn kind(&self) -> StreamKind {
        self.kind
    }

    /// Returns how the stream is laid out.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns what the elements are; `None` for a vocabulary.
    #[must_use]
    pub fn dtype(&self) -> Option<Type> {
        self.dtype
    }

    /// The sizes of the tensor, outermost first; none for a scalar, and for a vocabulary.
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// Returns where all of the stream lies, with what stands before it in the sized layout.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns where the elements lie: row-major and little-endian, without padding. For a vocabulary, all
    /// of it.
    #[must_use]
    pub fn data(&self) -> Range<u64> {
        self.parts.data.clone()
    }

    /// Returns how many levels of LoD there are.
    #[must_use]
    pub fn lod_levels(&self) -> usize {
        self.parts.lod.len()
    }

    /// Returns how many rows the matrix has in which SelectedRows are some rows; 0 for other kinds.
    #[must_use]
    pub fn height(&self) -> i64 {
        self.parts.height
    }

    pub(crate) fn parts(&self) -> &StreamParts {
        &self.parts
    }
}
