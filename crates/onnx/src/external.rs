//! Writing a model as a small `.onnx` file, with the data of its tensors in files next to it.
//!
//! ```text
//! model.onnx        nodes, small tensors, and for each large one: location, offset, length
//! model.onnx.data   | tensor | tensor |   (64 KiB aligned)   | large tensor | ...
//! model_ctx.bin     the content of a compiled node, if there is one (onnxruntime's `EPContext`)
//! ```
//!
//! The model may have any size, and any form that supports random access: a one-piece `.onnx`, the
//! message of an [`OnnxSource`], or a merged `.cpb`. An [`ExternalPlan`] reads only the model's
//! headers. The data is streamed while it is written.

mod contexts;
mod embedded;
mod leaving;
mod place;
mod plan;
mod safetensors;
mod same;
mod write;
mod written;

use std::num::NonZeroUsize;

use proto_splitter_core::progress::Progress;

#[cfg(doc)]
use crate::OnnxSource;
use crate::walk::DEFAULT_MAX_DEPTH;

pub use embedded::EmbeddedPlan;
pub(crate) use embedded::KEY as EMBEDDED_KEY;
pub(crate) use place::replace_by;
pub use plan::ExternalPlan;
pub(crate) use write::check_exists;
pub use write::{Form, write_one_piece};
pub use written::WrittenOnnx;

/// Default minimum size of tensors that are moved out of the model, in bytes. The Python package
/// `onnx` has the same default.
pub const DEFAULT_MIN_SIZE: u64 = 1024;

/// Smallest `min_size` that is allowed without [`force`](ExternalOptions::force), in bytes.
/// onnxruntime refuses models whose scalars and small shapes are external data.
pub const LEAST_MIN_SIZE: u64 = 64;

/// Size up to which an integer tensor with at most one dimension stays in the model, in bytes:
/// 64 KiB. Such a tensor may contain a shape, axes or indices, which shape inference has to read.
pub const MAX_SHAPE_CARRIER: u64 = 64 << 10;

/// Default alignment of large tensors in their file, in bytes: 64 KiB. Tensors with this alignment
/// can be memory-mapped on every system.
pub const DEFAULT_ALIGNMENT: u64 = 64 << 10;

/// Size above which tensors are aligned in their file, in bytes: 1 MiB.
pub const ALIGNED_ABOVE: u64 = 1 << 20;

/// Size of the largest model that every protobuf parser accepts, in bytes: 2^31 - 1.
pub const MAX_MODEL_SIZE: u64 = (1 << 31) - 1;

/// The format of the data files next to a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataFormat {
    /// Files that contain only the bytes of tensors, without a header: `model.onnx.data`.
    #[default]
    Raw,
    /// Safetensors files, in which a header precedes the tensors: one `model.safetensors`, or
    /// several called `model-00001-of-00003.safetensors` and so on, with an index
    /// `model.safetensors.index.json`. As the format requires, tensors follow one another without
    /// gaps, and equal tensors aren't deduplicated.
    Safetensors,
}

/// Options for writing a model with external data.
///
/// ```
/// use proto_splitter_onnx::external::ExternalOptions;
///
/// let options = ExternalOptions::new().max_file_size(Some(5 << 30)).force(true);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct ExternalOptions {
    min_size: u64,
    alignment: u64,
    max_file_size: Option<u64>,
    shard_size: Option<u64>,
    data_format: DataFormat,
    everywhere: bool,
    force: bool,
    threads: Option<NonZeroUsize>,
    progress: Progress,
    max_depth: u32,
}

impl Default for ExternalOptions {
    fn default() -> Self {
        ExternalOptions::new()
    }
}

impl ExternalOptions {
    /// Returns the default options. Each setter documents the default of its option.
    #[must_use]
    pub const fn new() -> Self {
        ExternalOptions {
            min_size: DEFAULT_MIN_SIZE,
            alignment: DEFAULT_ALIGNMENT,
            max_file_size: None,
            shard_size: None,
            data_format: DataFormat::Raw,
            everywhere: false,
            force: false,
            threads: None,
            progress: Progress::none(),
            max_depth: DEFAULT_MAX_DEPTH,
        }
    }

    proto_splitter_core::options! {
        /// Sets the minimum size of tensors that are moved out of the model, in bytes. Default:
        /// [`DEFAULT_MIN_SIZE`]. A size below [`LEAST_MIN_SIZE`] requires [`force`](Self::force).
        const min_size, get_min_size: u64;

        /// Sets the alignment of tensors larger than 1 MiB in their file, in bytes. With 1, there
        /// are no gaps between tensors. Default: [`DEFAULT_ALIGNMENT`].
        const alignment, get_alignment: u64;

        /// Limits the size of each data file, in bytes. If one file can't contain all tensors,
        /// there are several files, called `NAME-00001-of-00003.onnx.data` and so on. Default:
        /// `None`, no limit, and one file.
        const max_file_size, get_max_file_size: Option<u64>;

        /// Limits the total size of the tensors in each data file, in bytes. Unlike with
        /// [`max_file_size`](Self::max_file_size), a tensor above the limit is accepted and gets a
        /// separate file, as in onnx-ir. Default: `None`, no limit, and one file.
        const shard_size, get_shard_size: Option<u64>;

        /// Sets the format of the data files. Default: [`DataFormat::Raw`].
        const data_format, get_data_format: DataFormat;

        /// Sets whether tensors in all parts of the model are moved out. This includes sparse
        /// tensors, tensors in subgraphs and attribute defaults of functions, and tensors in
        /// training information. onnxruntime reads all of them, but `onnx.load` of onnx 1.23
        /// doesn't. Default: false.
        const everywhere, get_everywhere: bool;

        /// Sets whether to replace existing files, and whether to accept a
        /// [`min_size`](Self::min_size) so small that onnxruntime may refuse the model. Default:
        /// false.
        const force, get_force: bool;

        /// Sets the number of threads that copy data; `None` means one per core. Default: `None`.
        into threads, get_threads: Option<NonZeroUsize>;

        /// Sets the progress listener, which can also cancel writing. Default: none.
        ref progress, get_progress: Progress;

        /// Limits the nesting depth of messages in the model. Default: [`DEFAULT_MAX_DEPTH`].
        const max_depth, get_max_depth: u32;
    }
}
