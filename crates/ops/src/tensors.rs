//! Listing the tensors of an input.

use std::path::PathBuf;

use proto_splitter_core::formats::Opened;
use proto_splitter_core::tensor::TensorInfo;
use proto_splitter_core::{Error, Result};

use crate::error_place::at;

/// The result of [`tensors`]: the number and total size of the tensors, without the tensors
/// themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TensorsReport {
    /// Path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// Name of the input's format; `None` if unknown.
    pub format: Option<&'static str>,
    /// Total size of the tensors, in bytes.
    pub bytes: u64,
    /// Number of tensors.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub count: usize,
}

/// A tensor, as listed by [`tensors`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TensorEntry {
    /// Name of the tensor.
    pub name: String,
    /// Type of the tensor's elements, such as `float32`.
    pub dtype: String,
    /// Sizes of the tensor's dimensions.
    pub shape: Vec<u64>,
    /// LoD (level of detail) of a Paddle tensor. Each level lists the index at which each sequence
    /// starts, and the index at which the last sequence ends.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub lod: Vec<Vec<u64>>,
    /// Size of the tensor, in bytes.
    pub bytes: u64,
    /// Location of the tensor's bytes: a path in the message, or a file or archive entry with an
    /// offset.
    pub location: String,
}

/// Passes each tensor of an input to `each`, and returns the tensors' number and total size. A list
/// of the tensors is built only if the format requires one, since a model may have millions of
/// tensors.
///
/// ```
/// use proto_splitter_core::Error;
/// use proto_splitter_core::formats::{OpenOptions, Opened};
/// use proto_splitter_ops::tensors;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// std::fs::write(&path, b"\x08\x01")?;
/// let mut names = Vec::new();
/// let input = Opened::of_file(&path, None, &OpenOptions::new())?;
/// let report = tensors(&input, |tensor| {
///     names.push(tensor.name);
///     Ok::<(), Error>(())
/// })?;
/// assert_eq!((report.count, names.len()), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Any error from `each`, which ends the listing. Any error if the tensors' headers can't be read
/// or are damaged.
pub fn tensors<E: From<Error>>(
    input: &Opened,
    mut each: impl FnMut(TensorEntry) -> Result<(), E>,
) -> Result<TensorsReport, E> {
    let failed = |error| at(input, error);
    let mut report = TensorsReport {
        file: input.input().to_owned(),
        format: input.format().map(|format| format.name()),
        bytes: 0,
        count: 0,
    };
    for tensor in input.tensor_iter().map_err(failed)? {
        let tensor = tensor.map_err(failed)?;
        report.count += 1;
        report.bytes = report.bytes.saturating_add(tensor.bytes);
        let lod = input.lod(&tensor).map_err(failed)?;
        each(TensorEntry::of(&tensor, lod))?;
    }
    Ok(report)
}

impl TensorEntry {
    fn of(info: &TensorInfo, lod: Vec<Vec<u64>>) -> TensorEntry {
        TensorEntry {
            name: info.name.clone(),
            dtype: info.dtype.to_string(),
            shape: info.shape.clone(),
            lod,
            bytes: info.bytes,
            location: info.location.to_string(),
        }
    }
}
