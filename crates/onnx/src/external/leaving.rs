//! The tensors that are moved out of a model, and their files.

use std::ops::Range;

use proto_splitter_core::tensor::ElementForm;
use proto_splitter_core::{Error, ErrorKind, Result};

use super::ExternalOptions;
use crate::proto::tensor_proto::DataType;

/// A data file to be written.
#[derive(Debug)]
pub(super) struct DataFile {
    /// File name in the folder of the model.
    pub(super) name: String,
    /// Bytes before the tensors: the header, if the format has one.
    pub(super) head: Vec<u8>,
    pub(super) size: u64,
}

/// Returns the name of the data file with index `at`, of `count` files.
pub(super) fn numbered(stem: &str, ending: &str, at: usize, count: usize) -> String {
    match count {
        1 => format!("{stem}{ending}"),
        _ => format!("{stem}-{:05}-of-{count:05}{ending}", at + 1),
    }
}

/// Returns the beginning and the ending of the names of data files, for a model called `name`.
pub(super) fn stem_and_ending(name: &str) -> (&str, &'static str) {
    match name.strip_suffix(".onnx") {
        Some(stem) => (stem, ".onnx.data"),
        None => (name, ".data"),
    }
}

/// A tensor that is moved out of the model.
#[derive(Debug)]
pub(super) struct Leaving {
    /// Offset of the tensor's message in the model, in bytes. It identifies the tensor.
    pub(super) start: u64,
    pub(super) name: String,
    pub(super) bytes: Bytes,
    /// Size of the tensor's elements as raw data, in bytes.
    pub(super) len: u64,
    pub(super) data_type: DataType,
    pub(super) dims: Vec<i64>,
    pub(super) file: usize,
    pub(super) offset: u64,
    /// True if an earlier tensor has the same bytes, which are written only once.
    pub(super) is_copy: bool,
}

impl Leaving {
    /// Fails if the tensor is larger than a data file may be.
    pub(super) fn check_len(&self, options: &ExternalOptions) -> Result<()> {
        match options.max_file_size {
            Some(limit) if self.len > limit => {
                let message = format!(
                    "tensor \"{}\" has {} bytes, over the maximum file size of {limit}",
                    self.name, self.len
                );
                Err(Error::new(ErrorKind::LimitExceeded, message))
            }
            _ => Ok(()),
        }
    }
}

/// The source of a tensor's bytes.
#[derive(Debug)]
pub(super) enum Bytes {
    Raw(Range<u64>),
    /// Elements in a typed field: the range of the tensor's message, and the field with the elements.
    Typed(Range<u64>, ElementForm),
}
