//! The layouts of streams, and the kinds of values in streams.

use std::fmt;
use std::str::FromStr;

use proto_splitter_core::{Error, ErrorKind, Result};

/// The kind of value in a stream. The stream itself doesn't contain the kind, but the program
/// declares it for each variable.
///
/// - [`Dense`](StreamKind::Dense): a tensor with its LoD, if any ("LoDTensor", "DenseTensor");
/// - [`SelectedRows`](StreamKind::SelectedRows): some rows of a matrix, with their row numbers;
/// - [`Vocabulary`](StreamKind::Vocabulary): a list of strings, each with an ID.
#[doc(inline)]
pub use crate::proto::model::parameter::Kind as StreamKind;
/// The layout of a stream in a file. Numbers are little-endian and unaligned.
///
/// The text form is `paddle`, `model-format` or `sized`.
///
/// ```
/// use proto_splitter_paddle::stream::Layout;
///
/// assert_eq!("model-format".parse::<Layout>()?, Layout::ModelFormat);
/// assert_eq!(Layout::default().to_string(), "paddle");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// [`Layout::Paddle`] is the layout that Paddle reads and writes, with the operators `save` and
/// `save_combine`, or with `paddle.save` and the option `use_binary_format`. Observed with Paddle
/// 2.6.2 and 3.3.1.
///
/// ```text
/// u32 0 | u64 levels | levels x { u64 bytes | offsets, u64 each } | u32 0 | i32 desc size | TensorDesc | data
/// ```
///
/// SelectedRows, which only occur in files with a single variable:
///
/// ```text
/// u32 0 | u64 count | count x i64 row | i64 height | u32 0 | i32 desc size | TensorDesc | data
/// ```
///
/// A vocabulary, for the operator `faster_tokenizer`:
///
/// ```text
/// u64 count | count x { u64 bytes | UTF-8 text | i32 number }
/// ```
///
/// [`Layout::ModelFormat`] is the layout from a table in the design document of the model format.
/// It has a single version word, and the LoD at the end. Paddle rejects this layout, since it reads
/// the size of the `TensorDesc` as the lower half of the number of levels.
///
/// ```text
/// u32 0 | u32 desc size | TensorDesc | data | u64 levels | levels x { u64 bytes | offsets, u64 each }
/// ```
///
/// [`Layout::Sized`] is the layout from the design document about saving a model to one file. Each
/// stream is stored as in [`Layout::Paddle`], and preceded by its size, so that readers can skip
/// streams. Paddle rejects this layout, since it reads the size as the version.
///
/// ```text
/// u64 size of the stream | stream
/// ```
#[doc(inline)]
pub use crate::proto::model::parameter_file::Layout;

impl Layout {
    /// All layouts.
    pub const ALL: [Layout; 3] = [Layout::Paddle, Layout::ModelFormat, Layout::Sized];

    /// Returns true if Paddle itself can read this layout.
    #[must_use]
    pub const fn is_read_by_paddle(self) -> bool {
        matches!(self, Layout::Paddle)
    }

    /// Returns the error for a kind that this layout doesn't support.
    #[cold]
    pub(super) fn no_place(self, kind: StreamKind) -> Error {
        let message = format!("the layout {self} can't store a {kind}");
        Error::new(ErrorKind::InvalidConfig, message)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Layout::Paddle => "paddle",
            Layout::ModelFormat => "model-format",
            Layout::Sized => "sized",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Layout {
    type Err = Error;

    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if no layout has this name.
    fn from_str(text: &str) -> Result<Self> {
        let found = Layout::ALL.into_iter().find(|layout| layout.name() == text);
        found.ok_or_else(|| {
            let message = format!("layout {text:?} is not paddle, model-format or sized");
            Error::new(ErrorKind::InvalidConfig, message)
        })
    }
}

impl fmt::Display for StreamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            StreamKind::Dense => "dense tensor",
            StreamKind::SelectedRows => "selected rows",
            StreamKind::Vocabulary => "vocabulary",
        })
    }
}
