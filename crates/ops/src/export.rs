//! Exporting the tensors of an input to one file that other programs can read.

mod npz;
mod safetensors;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::formats::Opened;
use proto_splitter_core::progress::{Meter, Progress};
use proto_splitter_core::tensor::TensorInfo;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::error_place::at;

/// A file format for tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportFormat {
    /// A safetensors file.
    Safetensors,
    /// An uncompressed NumPy archive.
    Npz,
}

impl ExportFormat {
    /// Returns the format implied by a file's extension: `.safetensors` or `.npz`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] for any other extension.
    pub fn of_name(file: &Path) -> Result<ExportFormat> {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("safetensors") => Ok(ExportFormat::Safetensors),
            Some("npz") => Ok(ExportFormat::Npz),
            _ => {
                let message = "the name ends with neither .safetensors nor .npz";
                let error = Error::new(ErrorKind::InvalidConfig, message);
                Err(error.in_file(file))
            }
        }
    }

    fn has_type(self, tensor: &TensorInfo) -> bool {
        match self {
            ExportFormat::Safetensors => safetensors::has_type(tensor),
            ExportFormat::Npz => tensor.dtype.npy().is_some(),
        }
    }
}

/// Options for [`export`].
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    format: Option<ExportFormat>,
    force: bool,
    progress: Progress,
}

impl ExportOptions {
    /// Returns the defaults: the format implied by the output's name, and no overwriting.
    #[must_use]
    pub fn new() -> Self {
        ExportOptions::default()
    }

    proto_splitter_core::options! {
        /// Sets the format. Default: `None`, the format implied by the output's name.
        into format, get_format: Option<ExportFormat>;

        /// Sets whether to overwrite an existing file. Default: false.
        const force, get_force: bool;

        /// Sets progress reporting and cancellation. Default: none.
        ref progress, get_progress: Progress;
    }
}

/// The result of [`export`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ExportReport {
    /// Path of the file that was written.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub output: PathBuf,
    /// Number of tensors written to the file.
    pub tensors: usize,
    /// Size of the file, in bytes.
    pub output_bytes: u64,
    /// Names of the tensors that were omitted because the output format doesn't support their type.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub left_out: Vec<String>,
    /// Unsafe names of tensors, each with the name used in the archive instead. An unsafe name
    /// could place a file outside the archive's folder.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub renamed: Vec<(String, String)>,
}

/// Streams the tensors of an input to one file, which appears complete or not at all. Tensors of
/// types that the format doesn't support are omitted.
///
/// # Errors
///
/// - [`ErrorKind::InvalidMessage`] if the format supports none of the tensors, two tensors have the
///   same name, or a tensor's name is reserved by the format.
/// - [`ErrorKind::LimitExceeded`] if the header of a safetensors file would exceed the 100 MB that
///   readers accept.
/// - [`ErrorKind::AlreadyExists`] if the file exists and `force` is not set.
/// - [`ErrorKind::InvalidConfig`] if the file is one of the input's files, or its name implies no
///   format.
/// - Any error if the input is damaged, or something can't be read or written.
pub fn export(
    input: &Opened,
    output: impl AsRef<Path>,
    options: &ExportOptions,
) -> Result<ExportReport> {
    let output = output.as_ref();
    let format = match options.format {
        Some(format) => format,
        None => ExportFormat::of_name(output)?,
    };
    MadeFrom::files(input.files()).check_apart(output)?;
    let mut tensors = input.tensors().map_err(|error| at(input, error))?;
    let left_out = tensors.extract_if(.., |tensor| !format.has_type(tensor));
    let left_out: Vec<_> = left_out.collect();
    check(&tensors).map_err(|error| at(input, error))?;
    let total = tensors.iter().map(|tensor| tensor.bytes).sum();
    let meter = options.progress.meter(total);
    let output_bytes = write(input, &tensors, format, output, options.force, &meter);
    let renamed = tensors.iter().filter_map(|tensor| {
        let safe = npz::safe_name(&tensor.name);
        match (format, safe) {
            (ExportFormat::Npz, Cow::Owned(safe)) => Some((tensor.name.clone(), safe)),
            _ => None,
        }
    });
    Ok(ExportReport {
        output: output.to_owned(),
        tensors: tensors.len(),
        output_bytes: output_bytes.map_err(|error| at(input, error))?,
        left_out: left_out.into_iter().map(|tensor| tensor.name).collect(),
        renamed: renamed.collect(),
    })
}

/// Fails if there are no tensors, or if two tensors have the same name. Safetensors files and NumPy
/// archives identify tensors by name.
fn check(tensors: &[TensorInfo]) -> Result<()> {
    let wrong = |message: String| Err(Error::new(ErrorKind::InvalidMessage, message));
    if tensors.is_empty() {
        return wrong("there are no tensors to export".into());
    }
    let mut names = HashSet::new();
    match tensors.iter().find(|tensor| !names.insert(&tensor.name)) {
        None => Ok(()),
        Some(tensor) => wrong(format!("two tensors are called {:?}", tensor.name)),
    }
}

fn write(
    input: &Opened,
    tensors: &[TensorInfo],
    format: ExportFormat,
    output: &Path,
    force: bool,
    meter: &Meter,
) -> Result<u64> {
    let made_from = MadeFrom::files(input.files());
    let file = AtomicFile::create(output, &made_from, force)?;
    file.check_space(tensors.iter().map(|tensor| tensor.bytes).sum())?;
    file.write(|mut sink| {
        match format {
            ExportFormat::Safetensors => safetensors::write(input, tensors, &mut sink, meter),
            ExportFormat::Npz => npz::write(input, tensors, &mut sink, meter),
        }?;
        meter.check()?;
        Ok(sink.stream_position()?)
    })
}
