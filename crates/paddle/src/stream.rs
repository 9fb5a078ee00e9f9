//! Tensor streams, the form in which Paddle stores tensors in files. There are three layouts of
//! streams.
//!
//! A [`Stream`] has the locations of a tensor's parts, which are found by reading only the header.
//! Its method [`read_data`](Stream::read_data) reads the data into a buffer. [`write_stream`]
//! writes a stream, with the data from a reader.
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
#[doc(inline)]
pub use layout::{Layout, StreamKind};
pub(crate) use pieces::{Piece, pieces};
pub use spec::TensorSpec;
pub use vocabulary::write_vocabulary;
pub use write::write_stream;

use crate::proto::framework::var_type::Type;

/// A stream in a file: its type, its dims, and the locations of its parts.
///
/// Offsets are in bytes from the start of the file or other source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    kind: StreamKind,
    layout: Layout,
    dtype: Option<Type>,
    dims: Vec<u64>,
    range: Range<u64>,
    parts: StreamParts,
}

/// The parts of a stream, with their byte ranges. A stream has the same parts in every layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamParts {
    /// Range of the serialized `TensorDesc`; empty for a vocabulary.
    pub(crate) desc: Range<u64>,
    /// Number and offset of the `TensorDesc`'s first field that a model's message can't represent;
    /// `None` if there is no such field.
    pub(crate) misfit: Option<(u32, u64)>,
    /// Byte range of each LoD level's 64-bit offsets.
    pub(crate) lod: Vec<Range<u64>>,
    /// Byte range of the 64-bit row numbers of SelectedRows; empty for other kinds.
    pub(crate) rows: Range<u64>,
    /// Number of rows in the matrix from which SelectedRows were taken; 0 for other kinds.
    pub(crate) height: i64,
    /// Byte range of the elements; for a vocabulary, that of the whole stream.
    pub(crate) data: Range<u64>,
}

/// Returns the length of a range.
pub(crate) fn len(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

impl Stream {
    /// Returns the kind of value that the stream contains.
    #[must_use]
    pub fn kind(&self) -> StreamKind {
        self.kind
    }

    /// Returns the layout of the stream.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the type of the elements; `None` for a vocabulary, which has no elements.
    #[must_use]
    pub fn dtype(&self) -> Option<Type> {
        self.dtype
    }

    /// Returns the sizes of the dimensions, outermost first. Empty for a scalar and for a
    /// vocabulary.
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// Returns the byte range of the whole stream. In the sized layout, the range includes the size
    /// field at the start of the stream.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns the byte range of the elements, which are row-major and little-endian, without
    /// padding. For a vocabulary, returns the range of the whole stream.
    #[must_use]
    pub fn data(&self) -> Range<u64> {
        self.parts.data.clone()
    }

    /// Returns the number of LoD levels; 0 for kinds without LoD.
    #[must_use]
    pub fn lod_levels(&self) -> usize {
        self.parts.lod.len()
    }

    /// Returns the number of rows in the matrix from which SelectedRows were taken; 0 for other
    /// kinds.
    #[must_use]
    pub fn height(&self) -> i64 {
        self.parts.height
    }

    pub(crate) fn parts(&self) -> &StreamParts {
        &self.parts
    }
}
