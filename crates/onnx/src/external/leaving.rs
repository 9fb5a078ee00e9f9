//! Tensors that leave a model, and the files they go to.

use std::ops::Range;

use crate::data_type::TypedField;
use crate::proto::tensor_proto::DataType;

/// A file of data.
#[derive(Debug)]
pub(super) struct DataFile {
    /// Its name, in the folder of the model.
    pub(super) name: String,
    /// The bytes before the tensors: the header, if its format has one.
    pub(super) head: Vec<u8>,
    pub(super) size: u64,
}

/// A tensor that leaves.
#[derive(Debug)]
pub(super) struct Leaving {
    /// Where it begins in the model, which tells it from others.
    pub(super) start: u64,
    pub(super) name: String,
    pub(super) bytes: Bytes,
    /// How many bytes of raw data.
    pub(super) len: u64,
    pub(super) data_type: DataType,
    pub(super) dims: Vec<i64>,
    pub(super) file: usize,
    pub(super) offset: u64,
    /// True if another one with the same bytes writes them.
    pub(super) is_copy: bool,
}

/// Where the bytes of a tensor that leaves come from.
#[derive(Debug)]
pub(super) enum Bytes {
    Raw(Range<u64>),
    /// From the elements in this field of the tensor, of this many bits each.
    Typed(Range<u64>, TypedField, u32),
}
