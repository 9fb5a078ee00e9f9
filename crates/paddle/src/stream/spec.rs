//! The description of a stream to write, without its data.

use prost::Message;
use proto_splitter_core::{Error, ErrorKind, Result};

use super::StreamKind;
use crate::dtype::{data_size, element_type};
use crate::proto::framework::var_type::{TensorDesc, Type};

/// The description of a tensor to be written as a stream: everything except its data.
///
/// ```
/// use proto_splitter_paddle::proto::framework::var_type::Type;
/// use proto_splitter_paddle::stream::TensorSpec;
///
/// let sequences = TensorSpec::dense(Type::Fp32, [6, 2]).lod([vec![0, 2, 5, 6]]);
/// assert_eq!(sequences.data_size()?, 48);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    pub(super) kind: StreamKind,
    dtype: Type,
    dims: Vec<u64>,
    pub(super) lod: Vec<Vec<u64>>,
    pub(super) rows: Vec<i64>,
    pub(super) height: i64,
}

impl TensorSpec {
    /// Creates the description of a dense tensor without LoD.
    #[must_use]
    pub fn dense(dtype: Type, dims: impl Into<Vec<u64>>) -> Self {
        TensorSpec {
            kind: StreamKind::Dense,
            dtype,
            dims: dims.into(),
            lod: Vec::new(),
            rows: Vec::new(),
            height: 0,
        }
    }

    /// Creates the description of selected rows of a matrix that has `height` rows. The first of
    /// `dims` is the number of selected rows.
    #[must_use]
    pub fn selected_rows(
        dtype: Type,
        dims: impl Into<Vec<u64>>,
        rows: impl Into<Vec<i64>>,
        height: i64,
    ) -> Self {
        TensorSpec {
            kind: StreamKind::SelectedRows,
            rows: rows.into(),
            height,
            ..TensorSpec::dense(dtype, dims)
        }
    }

    /// Sets the levels of LoD, outermost first. Each level consists of offsets, which begin with 0
    /// and end with the number of items that the level divides.
    #[must_use]
    pub fn lod(mut self, levels: impl Into<Vec<Vec<u64>>>) -> Self {
        self.lod = levels.into();
        self
    }

    pub(crate) fn kind(&self) -> StreamKind {
        self.kind
    }

    pub(crate) fn dtype(&self) -> Type {
        self.dtype
    }

    pub(crate) fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// Returns the number of rows in the matrix from which selected rows are taken; 0 for other
    /// kinds.
    pub(crate) fn height(&self) -> i64 {
        self.height
    }

    /// Returns the size of the data, in bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the elements have no fixed size, or the size overflows.
    pub fn data_size(&self) -> Result<u64> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidConfig, message);
        let (_, element) = element_type(i64::from(self.dtype as i32))
            .map_err(|error| invalid(error.to_string()))?;
        data_size(&self.dims, element).ok_or_else(|| {
            invalid(format!(
                "a tensor of dims {:?} has more bytes than can be counted",
                self.dims
            ))
        })
    }

    /// Returns the serialized `TensorDesc`, with the same bytes that Paddle would write.
    pub(super) fn desc(&self) -> Result<Vec<u8>> {
        let invalid = |dim: &u64| {
            Error::new(
                ErrorKind::InvalidConfig,
                format!("a dim of {dim} is over Paddle's int64"),
            )
        };
        let dims = self.dims.iter();
        let dims = dims.map(|dim| i64::try_from(*dim).map_err(|_| invalid(dim)));
        let desc = TensorDesc {
            data_type: self.dtype.into(),
            dims: dims.collect::<Result<_>>()?,
        };
        Ok(desc.encode_to_vec())
    }

    /// Fails unless the offsets of each LoD level begin with 0, don't decrease, and end with the
    /// number of items that the level divides: the sequences of the next level or, for the last
    /// level, the tensor's rows.
    pub(crate) fn check_lod(&self) -> Result<()> {
        for (at, level) in self.lod.iter().enumerate() {
            let counted = match self.lod.get(at + 1) {
                Some(next) => (next.len() as u64).saturating_sub(1),
                None => self.dims.first().copied().unwrap_or(1),
            };
            if level.first() != Some(&0) || level.last() != Some(&counted) || !level.is_sorted() {
                let message = format!("LoD level {at} doesn't run from 0 to {counted}");
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
        }
        Ok(())
    }

    /// Fails if readers would reject the tensor, whatever its layout.
    pub(super) fn check(&self) -> Result<()> {
        let rows = self.rows.len() as u64;
        if self.kind == StreamKind::SelectedRows && self.dims.first() != Some(&rows) {
            let message = format!("{rows} row numbers for a tensor of dims {:?}", self.dims);
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        if self.kind == StreamKind::SelectedRows && !self.lod.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidConfig,
                "selected rows have no LoD",
            ));
        }
        if self.lod.len() as u64 > super::MAX_LOD_LEVELS {
            let (levels, limit) = (self.lod.len(), super::MAX_LOD_LEVELS);
            let message = format!("{levels} LoD levels, over the limit of {limit}");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        Ok(())
    }
}
