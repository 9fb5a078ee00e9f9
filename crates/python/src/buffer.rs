//! Bytes that Python reads without copying them.

use std::ffi::c_int;

use bytes::Bytes;
use pyo3::exceptions::{PyBufferError, PyIndexError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PySlice;

/// Read-only bytes that `memoryview` and `numpy.frombuffer` access without a copy. The memory is
/// freed when no view of it is left.
#[pyclass(frozen, module = "proto_splitter")]
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Bytes,
}

impl Buffer {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Buffer { bytes }
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the byte at an index, as a number, or the bytes in a slice. A slice with a step of 1
    /// shares the memory; any other slice is a copy.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        at: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let len = self.bytes.len();
        if let Ok(slice) = at.cast::<PySlice>() {
            let range = slice.indices(isize::try_from(len)?)?;
            let (start, count) = (usize::try_from(range.start), range.slicelength);
            let start = start.unwrap_or(0).min(len);
            let bytes = if range.step == 1 || count == 0 {
                self.bytes.slice(start..start + count)
            } else {
                let nth = |at: usize| {
                    let steps = isize::try_from(at).ok()?.checked_mul(range.step)?;
                    usize::try_from(range.start.checked_add(steps)?).ok()
                };
                let picked = (0..count).filter_map(nth);
                picked
                    .filter_map(|at| self.bytes.get(at).copied())
                    .collect()
            };
            return Ok(Bound::new(py, Buffer::new(bytes))?.into_any());
        }
        let at: isize = at.extract()?;
        let index = if at < 0 {
            at.checked_add_unsigned(len)
        } else {
            Some(at)
        };
        let found = index.and_then(|index| usize::try_from(index).ok());
        match found.and_then(|index| self.bytes.get(index)) {
            Some(byte) => Ok(byte.into_pyobject(py)?.into_any()),
            None => Err(PyIndexError::new_err(format!(
                "{at}: the buffer has {len} bytes"
            ))),
        }
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, pyo3::types::PyBytes> {
        pyo3::types::PyBytes::new(py, &self.bytes)
    }

    fn __repr__(&self) -> String {
        format!("Buffer({} bytes)", self.bytes.len())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Ok(other) = other.cast::<Buffer>() {
            return Ok(self.bytes == other.get().bytes);
        }
        match other.cast::<pyo3::types::PyBytes>() {
            Ok(other) => Ok(self.bytes == other.as_bytes()),
            Err(_) => Ok(false),
        }
    }

    /// # Safety
    ///
    /// Only the interpreter calls this. `view` is the view to fill, or null.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to be filled"));
        }
        let bytes = &slf.get().bytes;
        let Ok(len) = isize::try_from(bytes.len()) else {
            return Err(PyBufferError::new_err(
                "the buffer is too large to be viewed",
            ));
        };
        // SAFETY: The bytes belong to `slf`, to which the view holds a reference. The bytes never
        // change or move, since the class is frozen. The view is read-only.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                bytes.as_ptr().cast_mut().cast(),
                len,
                1,
                flags,
            )
        };
        if filled == -1 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }
}
