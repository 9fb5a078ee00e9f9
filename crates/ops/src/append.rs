//! Appending a tensor to the parameter file of a Paddle model.

use std::io::Read;
use std::path::{Path, PathBuf};

use proto_splitter_core::progress::Progress;
use proto_splitter_core::tensor::{ByteOrder, DType, TensorInfo};
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_paddle::proto::framework::var_type::Type;
use proto_splitter_paddle::stream::TensorSpec;
use proto_splitter_paddle::{PaddleOpenOptions, append_to_model, type_of};

use crate::error_place::at_path;
use crate::npy_header::read_npy_header;

/// Options for [`append`].
#[derive(Clone, Debug, Default)]
pub struct AppendOptions {
    dtype: Option<DType>,
    shape: Option<Vec<u64>>,
    lod: Vec<Vec<u64>>,
    program: Option<PathBuf>,
    progress: Progress,
}

impl AppendOptions {
    /// Returns the default options. Each setter documents the default of its option.
    pub fn new() -> AppendOptions {
        AppendOptions::default()
    }

    proto_splitter_core::options! {
        /// Sets the type of the tensor's elements. Default: `None`, which uses the type in the
        /// NumPy file's header.
        const dtype, get_dtype: Option<DType>;

        /// Sets the progress listener, which can also cancel the operation. Default: none.
        ref progress, get_progress: Progress;
    }

    /// Sets the tensor's shape, for a source that contains only little-endian elements and no
    /// header. Such a source also requires a [type](Self::dtype). Default: `None`, which means that
    /// the source is a NumPy file.
    #[must_use]
    pub fn shape(mut self, shape: Option<Vec<u64>>) -> Self {
        self.shape = shape;
        self
    }

    /// Sets the tensor's LoD (level of detail), the coarsest level first. Each level lists the
    /// index at which each sequence starts, and the index at which the last sequence ends. Default:
    /// none.
    #[must_use]
    pub fn lod(mut self, lod: Vec<Vec<u64>>) -> Self {
        self.lod = lod;
        self
    }

    /// Sets the program that declares the parameters. Default: `None`, which uses the program next
    /// to the parameters, if there is one.
    #[must_use]
    pub fn program(mut self, program: Option<PathBuf>) -> Self {
        self.program = program;
        self
    }

    /// Returns the tensor's shape, for a source without a header; `None` if the source is a NumPy
    /// file.
    pub fn get_shape(&self) -> Option<&[u64]> {
        self.shape.as_deref()
    }

    /// Returns the LoD of the tensor.
    pub fn get_lod(&self) -> &[Vec<u64>] {
        &self.lod
    }

    /// Returns the program that declares the parameters; `None` to use the program next to them.
    pub fn get_program(&self) -> Option<&Path> {
        self.program.as_deref()
    }
}

/// The result of [`append`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct AppendReport {
    /// Path of the parameter file to which the tensor was appended.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// Index of the tensor in the file, counted from 0.
    pub counter: u64,
    /// Name of the tensor in the program that declares the parameters; `None` without a program.
    pub name: Option<String>,
    /// Type of the tensor's elements, such as `float32`.
    pub dtype: String,
    /// Sizes of the tensor's dimensions.
    pub shape: Vec<u64>,
    /// Total size of the tensor's elements, in bytes.
    pub bytes: u64,
}

/// Appends a tensor to the parameters of a Paddle model. The parameters must be in one file with
/// the `sized` layout. The file is changed in place. `data` is a NumPy file or, with a
/// [shape](AppendOptions::shape), only the elements. `tensor` is the name of `data` in errors,
/// usually the path of the file with the data.
///
/// `file` is the parameter file, which may be empty, or the folder or program of a model. The
/// existing tensors aren't read. If appending fails, the file is truncated to its old size.
///
/// ```
/// use proto_splitter_core::tensor::DType;
/// use proto_splitter_ops::{AppendOptions, append};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("parameters");
/// std::fs::write(&path, [])?;
///
/// let pair = AppendOptions::new().dtype(Some(DType::U8)).shape(Some(vec![2]));
/// assert_eq!(append(&path, "pair", &mut &[1, 2][..], &pair)?.counter, 0);
/// let report = append(&path, "pair", &mut &[3, 4][..], &pair)?;
/// assert_eq!((report.counter, report.bytes), (1, 2));
/// assert!(append(&path, "pair", &mut &[5][..], &pair).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The errors of [`append_to_model`] and [`read_npy_header`]; [`ErrorKind::InvalidConfig`] if the
/// type is missing, differs from the elements' type, or is unknown to Paddle, or if the elements
/// are big-endian.
pub fn append(
    file: impl AsRef<Path>,
    tensor: impl AsRef<Path>,
    data: &mut dyn Read,
    options: &AppendOptions,
) -> Result<AppendReport> {
    let file = file.as_ref();
    let described = described(data, options);
    let (info, dtype) = described.map_err(|error| error.in_file(tensor))?;
    let spec = TensorSpec::dense(dtype, info.shape.clone()).lod(options.lod.clone());
    let mut opening = PaddleOpenOptions::new();
    if let Some(program) = &options.program {
        opening = opening.program(program);
        if file.is_file() {
            opening = opening.parameters(file);
        }
    }
    let meter = options.progress.meter(info.bytes);
    let appended = append_to_model(file, &opening, &spec, &mut meter.read(data));
    let appended = appended.map_err(|error| at_path(file, error))?;
    Ok(AppendReport {
        file: appended.file,
        counter: appended.counter,
        name: appended.name,
        dtype: info.dtype.to_string(),
        shape: info.shape,
        bytes: appended.bytes,
    })
}

#[cold]
fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

/// Returns a tensor's description and its Paddle element type. Reads the header from `data`, if
/// there is one, so that `data` continues with the first element.
fn described(data: &mut dyn Read, options: &AppendOptions) -> Result<(TensorInfo, Type)> {
    let info = match (&options.shape, options.dtype) {
        (Some(shape), Some(dtype)) => TensorInfo::new("", dtype, shape.clone()),
        (Some(_), None) => return Err(invalid("a shape needs an element type too")),
        (None, _) => of_npy(data, options.dtype)?,
    };
    let dtype = type_of(info.dtype);
    let none = || invalid(format!("Paddle has no elements of the type {}", info.dtype));
    Ok((info.clone(), dtype.ok_or_else(none)?))
}

/// Reads the header of a NumPy file. Fails if `given` is a type that differs from the elements'
/// type, or if the elements are opaque and no type is given.
fn of_npy(data: &mut dyn Read, given: Option<DType>) -> Result<TensorInfo> {
    let header = read_npy_header(data)?;
    let is_opaque = matches!(header.dtype, DType::Other(_));
    let info = match given {
        Some(dtype) => {
            let shape = header.shape.clone();
            let typed = TensorInfo::new("", dtype, shape).ordered(header.byte_order);
            if typed.bytes != header.bytes || !is_opaque && header.dtype != dtype {
                let found = header.dtype;
                return Err(invalid(format!(
                    "its elements have the type {found}, not {dtype}"
                )));
            }
            typed
        }
        None if is_opaque => {
            return Err(invalid(
                "its elements have a type that NumPy lacks: give the type",
            ));
        }
        None => header,
    };
    if info.byte_order == ByteOrder::Big && info.dtype.width() != Some(1) {
        return Err(invalid(
            "its elements are big-endian, but Paddle's must be little-endian",
        ));
    }
    Ok(info)
}
