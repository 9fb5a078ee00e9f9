//! Writing to the memory of a Python object.

use std::io::{self, Write};

use proto_splitter::progress::Meter;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// The memory of a `bytearray`, `memoryview` or array, which is written from its start. Python
/// can't resize the memory while it is borrowed.
pub(crate) struct Target {
    buffer: PyUntypedBuffer,
    len: usize,
    filled: usize,
    meter: Option<Meter>,
}

impl Target {
    /// Borrows the memory of an object.
    ///
    /// # Errors
    ///
    /// `TypeError` if the object has no contiguous, writable memory.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Target> {
        let buffer = PyUntypedBuffer::get(object)?;
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyTypeError::new_err(
                "expected a contiguous, writable buffer",
            ));
        }
        let len = buffer.len_bytes();
        Ok(Target {
            buffer,
            len,
            filled: 0,
            meter: None,
        })
    }

    /// Returns all of the object's memory.
    ///
    /// # Safety
    ///
    /// While the slice exists, nothing else may read or modify the memory, neither Python nor
    /// another buffer of the same object. [`are_apart`](Self::are_apart) checks for overlapping
    /// buffers.
    pub(crate) unsafe fn as_mut_slice(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: The buffer is writable, contiguous and `len` bytes long, and isn't released
        // before `self` is dropped. The caller guarantees exclusive access.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.buf_ptr().cast(), self.len) }
    }

    /// Returns true if none of the buffers overlap.
    pub(crate) fn are_apart(targets: &[Target]) -> bool {
        let filled = targets.iter().filter(|target| target.len > 0);
        let mut places: Vec<(usize, usize)> = filled
            .map(|target| (target.buffer.buf_ptr().addr(), target.len))
            .collect();
        places.sort_unstable();
        places
            .windows(2)
            .all(|pair| pair[1].0 - pair[0].0 >= pair[0].1)
    }

    /// Sets a meter to which writes report their number of bytes. Writing fails once the meter is
    /// cancelled.
    pub(crate) fn reporting(mut self, meter: Meter) -> Self {
        self.meter = Some(meter);
        self
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(self.len - self.filled);
        if len < bytes.len() {
            let message = format!("a buffer of {} bytes is too short for the value", self.len);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        // SAFETY: The buffer is writable and contiguous, and isn't released before `self` is
        // dropped; `filled + len <= self.len`. No Rust reference to the memory exists, so Python
        // may read the memory in the meantime.
        unsafe {
            let to = self.buffer.buf_ptr().cast::<u8>().add(self.filled);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len);
        }
        self.filled += len;
        if let Some(meter) = &self.meter {
            meter.advance(len as u64).map_err(io::Error::other)?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
