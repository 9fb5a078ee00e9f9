//! Errors as Python knows them: the system's as `OSError`, ours with their path, chunk and offset.

use std::io;
use std::path::Path;

use proto_splitter::{Error, ErrorKind};
use pyo3::exceptions::{
    PyFileExistsError, PyFileNotFoundError, PyKeyboardInterrupt, PyOSError, PyValueError,
};
use pyo3::prelude::*;

/// Which Python class an error becomes.
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

/// The first error of the operating system that led to this one.
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

/// An error of the library as a Python exception.
///
/// The operating system's own become the subclass of `OSError` that their number asks for, with
/// `errno` and `filename`; a file in the way is a `FileExistsError`, a missing folder a
/// `FileNotFoundError`.
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
        kind => ours(py, kind, &message, error).unwrap_or_else(|failed| failed),
    }
}

/// The exception that a file-like object raised while we read or wrote it.
fn raised_by(py: Python<'_>, cause: &io::Error) -> Option<PyErr> {
    let raised = cause.get_ref()?.downcast_ref::<PyErr>()?;
    Some(raised.clone_ref(py))
}

fn ours(py: Python<'_>, kind: ErrorKind, message: &str, error: &Error) -> PyResult<PyErr> {
    let class = py.import("proto_splitter._errors")?.getattr(class(kind))?;
    let value = class.call1((message,))?;
    value.setattr("path", error.path())?;
    value.setattr("chunk", error.chunk())?;
    value.setattr("offset", error.offset())?;
    value.setattr("kind", format!("{kind:?}"))?;
    Ok(PyErr::from_value(value))
}

/// `OSError(errno, text, filename)` picks its own subclass.
fn of_io(py: Python<'_>, message: &str, cause: Option<&io::Error>, file: Option<&str>) -> PyErr {
    /// "No such file or directory", on every Unix.
    const ENOENT: i32 = 2;
    let is_missing = || file.is_some_and(|file| !Path::new(file).exists());
    let number = cause.and_then(io::Error::raw_os_error);
    let Some(number) = number.or_else(|| is_missing().then_some(ENOENT)) else {
        return PyOSError::new_err(message.to_owned());
    };
    let made = py
        .import("os")
        .and_then(|os| os.call_method1("strerror", (number,)))
        .and_then(|text| {
            let arguments = (number, text, file);
            py.get_type::<PyOSError>().call1(arguments)
        });
    match made {
        Ok(value) => PyErr::from_value(value),
        Err(failed) => failed,
    }
}
