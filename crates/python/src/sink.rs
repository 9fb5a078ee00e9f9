//! Writing to a file-like Python object.

use std::io::{self, BufWriter, Write};

use proto_splitter::{Error, Result};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes};

/// Number of bytes to write to a file-like object at once: 1 MiB, since each write acquires the
/// GIL.
const WRITE_LEN: usize = 1 << 20;

/// A Python object with `write`, as a writer.
pub(crate) struct Sink {
    object: Py<PyAny>,
}

impl Sink {
    /// Wraps an object with `write`.
    ///
    /// # Errors
    ///
    /// `TypeError` for an object without `write`.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Sink> {
        if !object.hasattr("write")? {
            let message = format!("expected an object with write, found {}", object.get_type());
            return Err(PyTypeError::new_err(message));
        }
        Ok(Sink {
            object: object.clone().unbind(),
        })
    }

    /// Runs a job that writes to the object through a buffer of 1 MiB. If the job fails, discards
    /// the bytes in the buffer.
    pub(crate) fn written_by<T>(
        self,
        job: impl FnOnce(&mut BufWriter<Sink>) -> Result<T>,
    ) -> Result<T> {
        let mut buffered = BufWriter::with_capacity(WRITE_LEN, self);
        let done = job(&mut buffered).and_then(|value| {
            buffered.flush().map_err(Error::from)?;
            Ok(value)
        });
        // Discards the buffer: dropping the `BufWriter` itself would write its content.
        drop(buffered.into_parts());
        done
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // `BufWriter` passes large pieces on as they are, so their size is limited here.
        let bytes = &bytes[..bytes.len().min(WRITE_LEN)];
        Python::attach(|py| -> PyResult<usize> {
            let object = self.object.bind(py);
            let written = object.call_method1("write", (PyBytes::new(py, bytes),))?;
            // The `write` of many objects always writes all bytes, and returns nothing.
            if written.is_none() {
                return Ok(bytes.len());
            }
            // `True` is rejected, since it could also be extracted as the number 1.
            if written.is_instance_of::<PyBool>() {
                let message = format!("write returned {written}, not a number of bytes");
                return Err(PyTypeError::new_err(message));
            }
            let written = written.extract::<usize>()?;
            if written > bytes.len() {
                let message = format!(
                    "write returned {written}, but was given {} bytes",
                    bytes.len()
                );
                return Err(PyValueError::new_err(message));
            }
            Ok(written)
        })
        .map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
