//! Writing a model as a pair: a small `.onnx`, and the data of its tensors in files beside it.
//!
//! ```text
//! model.onnx        nodes, small tensors, and for each large one: location, offset, length
//! model.onnx.data   | tensor | tensor |   (64 KiB aligned)   | large tensor | ...
//! model_ctx.bin     the content of a compiled node, if there is one (onnxruntime's `EPContext`)
//! ```
//!
//! The model may be of any size and in any form that is read by position: a one-piece `.onnx`, the
//! message that an [`OnnxSource`] is, or a merged `.cpb`. It is planned by its headers
//! ([`ExternalPlan`]), and its data is streamed.

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
pub use plan::ExternalPlan;
pub(crate) use safetensors::{LEN_LEN as HEADER_LEN_LEN, MAX_HEADER_LEN};
pub use write::{Form, write_one_piece};
pub use written::WrittenOnnx;

/// The smallest tensor that leaves the model, in bytes, unless options say otherwise: what `onnx`
/// has.
pub const DEFAULT_MIN_SIZE: u64 = 1024;

/// The least that the smallest tensor to leave may be without force. onnxruntime refuses models
/// whose scalars and small shapes are outside.
pub const LEAST_MIN_SIZE: u64 = 64;

/// Whole numbers in one dimension stay inside up to this many bytes: shapes, axes and indices, which
/// shape inference has to read.
pub const MAX_SHAPE_CARRIER: u64 = 64 << 10;

/// What large tensors are aligned to, in bytes, unless options say otherwise: what can be mapped on
/// every system.
pub const DEFAULT_ALIGNMENT: u64 = 64 << 10;

/// Tensors of more bytes than this are aligned: 1 MiB.
pub const ALIGNED_ABOVE: u64 = 1 << 20;

/// The most bytes of a file that every reader of protobuf takes: 2^31 - 1.
pub const MAX_MODEL_SIZE: u64 = (1 << 31) - 1;

/// The format of the files beside a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataFormat {
    /// The bytes of tensors and nothing else: `model.onnx.data`.
    #[default]
    Raw,
    /// Safetensors, with a header before the tensors: `model.safetensors`, or
    /// `model-00001-of-00003.safetensors` and so on with `model.safetensors.index.json`. Tensors are
    /// as close as the format asks for, and equal ones are stored as often as they are there.
    Safetensors,
}

/// How a model is written with external data.
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
    /// The defaults, which the setters name in parentheses.
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

    /// The fewest bytes that a tensor has to have to leave the model ([`DEFAULT_MIN_SIZE`]). Less
    /// than [`LEAST_MIN_SIZE`] needs [`force`](Self::force).
    #[must_use]
    pub const fn min_size(mut self, bytes: u64) -> Self {
        self.min_size = bytes;
        self
    }

    /// What tensors above 1 MiB are aligned to, in bytes ([`DEFAULT_ALIGNMENT`]); 1 to pack them
    /// densely.
    #[must_use]
    pub const fn alignment(mut self, bytes: u64) -> Self {
        self.alignment = bytes;
        self
    }

    /// The most bytes of one data file (no limit: one file). With a limit there may be several,
    /// called `NAME-00001-of-00003.onnx.data`.
    #[must_use]
    pub const fn max_file_size(mut self, bytes: Option<u64>) -> Self {
        self.max_file_size = bytes;
        self
    }

    /// The most bytes of tensors in one data file (no limit: one file). Unlike with
    /// [`max_file_size`](Self::max_file_size), a larger tensor has a file of its own, as onnx-ir
    /// writes it.
    #[must_use]
    pub const fn shard_size(mut self, bytes: Option<u64>) -> Self {
        self.shard_size = bytes;
        self
    }

    /// The format of the data files ([`DataFormat::Raw`]).
    #[must_use]
    pub const fn data_format(mut self, format: DataFormat) -> Self {
        self.data_format = format;
        self
    }

    /// Whether tensors leave from everywhere (no): sparse ones, those in a function's subgraphs and
    /// defaults, and training information, too. onnxruntime reads them; `onnx.load` of onnx 1.23
    /// doesn't.
    #[must_use]
    pub const fn everywhere(mut self, everywhere: bool) -> Self {
        self.everywhere = everywhere;
        self
    }

    /// Whether files that are there are replaced, and a smallest size is taken that onnxruntime may
    /// not (no).
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// How many threads copy (as many as there are cores).
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<NonZeroUsize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Who is told how far it is, and may stop it (nobody).
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// How deep messages may nest in the model ([`DEFAULT_MAX_DEPTH`]).
    #[must_use]
    pub const fn max_depth(mut self, depth: u32) -> Self {
        self.max_depth = depth;
        self
    }
}
