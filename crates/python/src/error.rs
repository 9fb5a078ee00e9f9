//! Conversion of errors to Python exceptions. System errors become `OSError`. Exceptions of this
//! package's own classes have the field path, the chunk and the offset of the problem as
//! attributes.

use std::io;
use std::path::{Path, PathBuf};

use proto_splitter::{Error, ErrorKind};
use protosplit_cli::{Exit, Failed};
use pyo3::exceptions::{
    PyFileExistsError, PyFileNotFoundError, PyKeyboardInterrupt, PyOSError, PyValueError,
};
use pyo3::prelude::*;

// Error numbers. These are the same on all Unix systems, except for the last one.
/// `errno` for "No such file or directory".
const ENOENT: i32 = 2;
/// `errno` for "File exists".
const EEXIST: i32 = 17;
/// `errno` for "Not a directory".
const ENOTDIR: i32 = 20;
/// `errno` for "Is a directory".
const EISDIR: i32 = 21;

/// `errno` for "File too large".
const EFBIG: i32 = 27;
/// `errno` for "No space left on device".
const ENOSPC: i32 = 28;
/// `errno` for "Read-only file system".
const EROFS: i32 = 30;
/// `errno` for "Disk quota exceeded" on Linux.
const EDQUOT: i32 = 122;

/// Returns the name of the Python exception class for a kind of error.
fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidPath => "PathError",
        ErrorKind::Uncuttable => "UncuttableError",
        ErrorKind::ChecksumMismatch | ErrorKind::Record => "ChecksumError",
        ErrorKind::SchemaNeeded | ErrorKind::InvalidSchema => "SchemaError",
        ErrorKind::UnsupportedVersion => "VersionError",
        ErrorKind::LimitExceeded => "LimitError",
        ErrorKind::InvalidMessage | ErrorKind::InvalidTrailer | ErrorKind::NotChunked => {
            "FormatError"
        }
        _ => "Error",
    }
}

/// Returns the first system error in the chain of an error's causes; `None` if there is none.
fn of_system(error: &Error) -> Option<&io::Error> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(found) = cause.downcast_ref::<io::Error>() {
            return Some(found);
        }
        source = cause.source();
    }
    None
}

/// Converts an error from the library to a Python exception.
///
/// A system error becomes the `OSError` subclass for its number, with `errno`, and with `file` as
/// its `filename`. The error for an existing file becomes a `FileExistsError`, and the error for a
/// missing folder a `FileNotFoundError`.
pub(crate) fn raise(py: Python<'_>, error: &Error, file: Option<&str>) -> PyErr {
    let message = error.to_string();
    let cause = of_system(error);
    if let Some(raised) = cause.and_then(|cause| raised_by(py, cause)) {
        return raised;
    }
    match error.kind() {
        ErrorKind::Io => of_io(py, &message, cause, file),
        ErrorKind::AlreadyExists => PyFileExistsError::new_err(message),
        ErrorKind::NoFolder => PyFileNotFoundError::new_err(message),
        ErrorKind::InvalidConfig => PyValueError::new_err(message),
        ErrorKind::Cancelled => PyKeyboardInterrupt::new_err(()),
        kind => {
            let at = At {
                path: error.path(),
                chunk: error.chunk().map(|chunk| chunk.get()),
                offset: error.offset(),
            };
            ours(py, kind, &message, at).unwrap_or_else(|failed| failed)
        }
    }
}

/// Returns the exception that a file-like object raised while it was read or written; `None` if the
/// error isn't from such an object.
fn raised_by(py: Python<'_>, cause: &io::Error) -> Option<PyErr> {
    let raised = cause.get_ref()?.downcast_ref::<PyErr>()?;
    Some(raised.clone_ref(py))
}

fn ours(py: Python<'_>, kind: ErrorKind, message: &str, at: At<'_>) -> PyResult<PyErr> {
    let class = py.import("proto_splitter._errors")?.getattr(class(kind))?;
    let value = class.call1((message,))?;
    value.setattr("path", at.path)?;
    value.setattr("chunk", at.chunk)?;
    value.setattr("offset", at.offset)?;
    value.setattr("kind", format!("{kind:?}"))?;
    Ok(PyErr::from_value(value))
}

/// The location of an error. Fields are `None` if they don't apply or aren't known.
struct At<'a> {
    path: Option<&'a str>,
    chunk: Option<u64>,
    offset: Option<u64>,
}

/// Converts the error of a command to a Python exception, as [`raise`] does for an error from the
/// library.
pub(crate) fn of_failed(py: Python<'_>, failed: &Failed) -> PyErr {
    let Some(cause) = &failed.cause else {
        return match failed.exit {
            Exit::Bad => {
                let class = py.import("proto_splitter._errors");
                let class = class.and_then(|errors| errors.getattr("Error"));
                let value = class.and_then(|class| class.call1((&failed.message,)));
                value.map_or_else(|failed| failed, PyErr::from_value)
            }
            _ => PyValueError::new_err(failed.message.clone()),
        };
    };
    let at = At {
        path: cause.path.as_deref(),
        chunk: cause.chunk,
        offset: cause.offset,
    };
    let message = cause.message.as_str();
    match cause.kind {
        ErrorKind::Io => match (cause.errno, &cause.file) {
            (Some(number), Some(file)) => of_number(py, number, Some(&file.display().to_string())),
            (Some(number), None) => of_number(py, number, None),
            (None, _) => PyOSError::new_err(message.to_owned()),
        },
        ErrorKind::AlreadyExists => PyFileExistsError::new_err(message.to_owned()),
        ErrorKind::NoFolder => PyFileNotFoundError::new_err(message.to_owned()),
        ErrorKind::InvalidConfig => PyValueError::new_err(message.to_owned()),
        ErrorKind::Cancelled => PyKeyboardInterrupt::new_err(()),
        kind => ours(py, kind, message, at).unwrap_or_else(|failed| failed),
    }
}

/// Creates an `OSError` from a system error. If the error has no number, infers it from the state
/// of `file`. Python chooses the subclass.
fn of_io(py: Python<'_>, message: &str, cause: Option<&io::Error>, file: Option<&str>) -> PyErr {
    let of_path = || {
        let path = Path::new(file?);
        if path.exists() {
            path.is_dir().then_some(EISDIR)
        } else {
            Some(ENOENT)
        }
    };
    match cause.and_then(io::Error::raw_os_error).or_else(of_path) {
        Some(number) => of_number(py, number, file),
        None => PyOSError::new_err(message.to_owned()),
    }
}

/// Creates an `OSError` with this error number. Python chooses the subclass.
fn of_number(py: Python<'_>, number: i32, file: Option<&str>) -> PyErr {
    let made = py
        .import("os")
        .and_then(|os| os.call_method1("strerror", (number,)))
        .and_then(|text| py.get_type::<PyOSError>().call1((number, text, file)));
    match made {
        Ok(value) => PyErr::from_value(value),
        Err(failed) => failed,
    }
}

/// If `raised` means that one of `outputs` already exists, has no parent folder, or can't be
/// written, returns an exception with the error number and the output's name. Returns any other
/// exception unchanged.
pub(crate) fn of_output(py: Python<'_>, raised: PyErr, outputs: &[PathBuf]) -> PyErr {
    let number = raised.value(py).getattr("errno");
    let known: Option<i32> = number
        .as_ref()
        .ok()
        .and_then(|number| number.extract().ok());
    if let (Some(number @ (EFBIG | ENOSPC | EROFS | EDQUOT)), Some(output)) =
        (known, outputs.first())
    {
        // These errors can only come from writing, so the file name must be an output's.
        return of_number(py, number, Some(&output.display().to_string()));
    }
    if !number.is_ok_and(|number| number.is_none()) {
        return raised;
    }
    let is_there = |path: &&PathBuf| path.symlink_metadata().is_ok();
    let (number, output) = if raised.is_instance_of::<PyFileExistsError>(py) {
        (EEXIST, outputs.iter().find(is_there))
    } else if raised.is_instance_of::<PyFileNotFoundError>(py) {
        let output = outputs.first();
        let folder = output.and_then(|output| output.parent());
        let is_file = |path: &Path| path.is_file();
        if folder.is_some_and(|folder| folder.ancestors().any(is_file)) {
            (ENOTDIR, output)
        } else {
            (ENOENT, output)
        }
    } else {
        return raised;
    };
    match output {
        Some(output) => of_number(py, number, Some(&output.display().to_string())),
        None => raised,
    }
}

/// Creates a `SchemaError` with this message.
pub(crate) fn schema_error(py: Python<'_>, message: &str) -> PyErr {
    let error = Error::new(ErrorKind::InvalidSchema, message);
    raise(py, &error, None)
}
