//! All tensors of an input in one file for other programs.

mod npz;
mod safetensors;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};
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
    /// A NumPy archive, not compressed.
    Npz,
}

impl ExportFormat {
    /// Returns the format that a file's name tells: `.safetensors` or `.npz`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if it tells none.
    pub fn of_name(file: &Path) -> Result<ExportFormat> {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("safetensors") => Ok(ExportFormat::Safetensors),
            Some("npz") => Ok(ExportFormat::Npz),
            _ => {
                let message = "the name ends with neither .safetensors nor .npz";
                let error = Error::new(ErrorKind::InvalidConfig, message);
                Err(error.context(file.display()))
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
    /// The defaults: the format that the name of the output tells, and nothing is replaced.
    #[must_use]
    pub fn new() -> Self {
        ExportOptions::default()
    }

    /// Sets the format. Default: what the name of the output tells.
    #[must_use]
    pub fn format(mut self, format: impl Into<Option<ExportFormat>>) -> Self {
        self.format = format.into();
        self
    }

    /// Sets whether a file in the way is replaced. Default: false.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Sets what is told how far the work is, and may cancel it. Default: nothing.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }
}

/// The result of [`export`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ExportReport {
    /// The file that was written.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub output: PathBuf,
    /// The number of tensors in it.
    pub tensors: usize,
    /// Its size.
    pub output_bytes: u64,
    /// The tensors that the format has no type for.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub left_out: Vec<String>,
    /// The tensors whose names would lead out of the archive, and what they are called in it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub renamed: Vec<(String, String)>,
}

/// Writes all tensors of an input to one file, which appears complete or not at all. They are copied
/// as they are read.
///
/// # Errors
///
/// - [`ErrorKind::InvalidMessage`] if there are no tensors that the format has a type for, or two
///   have one name.
/// - [`ErrorKind::AlreadyExists`] if the file is there and isn't to be replaced.
/// - [`ErrorKind::InvalidConfig`] if the file is one that is read, or its name tells no format.
/// - If the input is damaged, or something can't be read or written.
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
    let tensors = input.tensors().map_err(|error| at(input, error))?;
    let (tensors, left_out): (Vec<_>, Vec<_>) = tensors
        .into_iter()
        .partition(|tensor| format.has_type(tensor));
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

/// Fails if there are no tensors, or two have one name: the formats find tensors by their names.
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

/// Counts what is written through it as done.
struct Metered<'a> {
    sink: &'a mut dyn Write,
    meter: &'a Meter,
}

impl Write for Metered<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.meter.advance(written as u64)?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
