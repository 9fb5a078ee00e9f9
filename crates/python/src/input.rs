//! Inputs from Python: a path, bytes, or a file-like object.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use proto_splitter::Result;
use proto_splitter::formats::{self, Candidate, CandidateKind, OpenOptions, Opened};
use proto_splitter::record_file::ReadAt;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::pieces::Pieces;

/// Minimum number of bytes to request from a file-like object at once: 1 MiB, since each read
/// acquires the GIL.
const READ_LEN: usize = 1 << 20;

/// An input that Python passes: a path, or an object to read from.
pub(crate) enum Input {
    /// A path of a file or folder, or the common prefix of several files.
    Path(PathBuf),
    /// Bytes or a file-like object, which are read by offset.
    Reader(Arc<dyn ReadAt>),
}

impl Input {
    /// Converts a Python argument to an input.
    ///
    /// # Errors
    ///
    /// `TypeError` if the object isn't a path or contiguous bytes, and has no `read` or no `seek`.
    pub(crate) fn of(argument: &Bound<'_, PyAny>) -> PyResult<Input> {
        if let Ok(bytes) = argument.cast::<PyBytes>() {
            let bytes = Bytes::from_owner(PyBackedBytes::from(bytes.clone()));
            return Ok(Input::Reader(Arc::new(bytes)));
        }
        if let Ok(pieces) = argument.cast::<Pieces>() {
            return Ok(Input::Reader(pieces.get().reader()));
        }
        if argument.hasattr("read")? && argument.hasattr("seek")? {
            return Ok(Input::Reader(Arc::new(FileLike::new(argument)?)));
        }
        if let Ok(buffer) = PyUntypedBuffer::get(argument) {
            return Ok(Input::Reader(Arc::new(Viewed::new(buffer)?)));
        }
        argument.extract::<PathBuf>().map(Input::Path).map_err(|_| {
            PyTypeError::new_err(format!(
                "expected a path, bytes, or an object with read and seek, found {}",
                argument.get_type()
            ))
        })
    }

    /// Returns the input as a [`Candidate`], which a format can recognize and open.
    pub(crate) fn candidate(&self) -> Result<Candidate<'_>> {
        match self {
            Input::Path(path) => Candidate::new(path),
            Input::Reader(reader) => {
                Candidate::of_source(Path::new("the input"), Arc::clone(reader))
            }
        }
    }

    /// Opens the input if its format stores messages in special records, as XLA does. Returns
    /// `None` if the message is in chunks or serialized as a whole, or if the input can't be
    /// examined.
    pub(crate) fn in_records(&self, options: &OpenOptions) -> Result<Option<Opened>> {
        let Ok(candidate) = self.candidate() else {
            return Ok(None);
        };
        let is_in_records = candidate.kind() == CandidateKind::File
            && candidate.is_chunked()?
            && !formats::ALL.is_chunked(&candidate)?;
        is_in_records
            .then(|| formats::ALL.open_input(&candidate, options))
            .transpose()
    }

    /// Returns the path for the `filename` of an `OSError`; `None` if the input has no path.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Input::Path(path) => Some(path.display().to_string()),
            Input::Reader(_) => None,
        }
    }
}

/// The memory of a `bytearray`, `memoryview`, `mmap` or array. Python can't resize the memory while
/// it is borrowed. If Python modifies the memory in the meantime, the result is a checksum error or
/// wrong bytes, but never a crash, since the bytes are only copied.
struct Viewed {
    buffer: PyUntypedBuffer,
    len: usize,
}

impl Viewed {
    fn new(buffer: PyUntypedBuffer) -> PyResult<Viewed> {
        if !buffer.is_c_contiguous() {
            return Err(PyTypeError::new_err("expected contiguous bytes"));
        }
        let len = buffer.len_bytes();
        Ok(Viewed { buffer, len })
    }
}

impl ReadAt for Viewed {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let Some(left) = usize::try_from(offset)
            .ok()
            .and_then(|at| self.len.checked_sub(at))
        else {
            return Ok(0);
        };
        let len = left.min(buf.len());
        let start = self.len - left;
        // SAFETY: The buffer is contiguous, and isn't released before `self` is dropped, so
        // `start + len <= self.len` bytes exist. `buf` is another allocation, since no one else has
        // mutable access to it.
        unsafe {
            let from = self.buffer.buf_ptr().cast::<u8>().add(start);
            std::ptr::copy_nonoverlapping(from, buf.as_mut_ptr(), len);
        }
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len as u64)
    }
}

/// An object with `read` and `seek`. Only one thread reads at a time. A small read requests more
/// bytes than needed, and keeps the additional ones for the next read.
struct FileLike {
    object: Py<PyAny>,
    size: u64,
    recent: std::sync::Mutex<(u64, Vec<u8>)>,
}

impl FileLike {
    fn new(object: &Bound<'_, PyAny>) -> PyResult<FileLike> {
        let mut size = object.call_method1("seek", (0, 2))?;
        let mut said_by = "seek(0, 2)";
        // Some objects have a `seek` that returns nothing.
        if size.is_none() {
            size = object.call_method0("tell")?;
            said_by = "tell()";
        }
        let bytes = size.extract::<u64>().ok();
        let bytes = bytes.filter(|bytes| i64::try_from(*bytes).is_ok());
        let size = bytes.ok_or_else(|| {
            let message = format!("{said_by} returned {size}, which is not the size of a file");
            PyValueError::new_err(message)
        })?;
        // Checks for bytes after the reported end, which would be lost silently.
        if !piece_at(object, size, 1)?.is_empty() {
            let message = format!("{said_by} returned {size}, but more bytes follow");
            return Err(PyValueError::new_err(message));
        }
        // Checks for an object that returns more bytes than requested, which can only be detected
        // before the object's end.
        if size > 0 {
            piece_at(object, 0, 1)?;
        }
        Ok(FileLike {
            object: object.clone().unbind(),
            size,
            recent: std::sync::Mutex::default(),
        })
    }

    /// Reads up to `want` bytes at an offset, while holding the GIL. Reads fewer bytes only at the
    /// end of the object.
    fn fetch(&self, offset: u64, want: usize) -> io::Result<Vec<u8>> {
        Python::attach(|py| -> PyResult<Vec<u8>> {
            let object = self.object.bind(py);
            let mut read = piece_at(object, offset, want)?.to_vec();
            while !read.is_empty() && read.len() < want {
                let piece = piece(object, want - read.len())?;
                if piece.is_empty() {
                    break;
                }
                read.extend_from_slice(&piece);
            }
            Ok(read)
        })
        .map_err(io::Error::other)
    }
}

/// Reads up to `want` bytes at an offset of an object, with one call of its `read`.
fn piece_at(object: &Bound<'_, PyAny>, offset: u64, want: usize) -> PyResult<PyBackedBytes> {
    let went = object.call_method1("seek", (offset,))?;
    if let Ok(at) = went.extract::<i128>()
        && at != i128::from(offset)
    {
        let message = format!("seek({offset}) went to {at}");
        return Err(PyValueError::new_err(message));
    }
    piece(object, want)
}

/// Reads up to `want` bytes at an object's current position, with one call of its `read`.
fn piece(object: &Bound<'_, PyAny>, want: usize) -> PyResult<PyBackedBytes> {
    let piece = object.call_method1("read", (want,))?;
    let bytes = piece.extract::<PyBackedBytes>().map_err(|_| {
        let kind = piece.get_type();
        PyTypeError::new_err(format!("read returned {kind}, not bytes"))
    })?;
    if bytes.len() > want {
        let message = format!("read({want}) returned {} bytes", bytes.len());
        return Err(PyValueError::new_err(message));
    }
    Ok(bytes)
}

impl ReadAt for FileLike {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut recent = self
            .recent
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let held = |recent: &(u64, Vec<u8>)| -> Option<usize> {
            let skip = usize::try_from(offset.checked_sub(recent.0)?).ok()?;
            (skip < recent.1.len()).then_some(skip)
        };
        let skip = match held(&recent) {
            Some(skip) => skip,
            None => {
                // Requests nothing past the end, so that an object that returns more bytes than
                // requested is noticed.
                let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
                let want = buf.len().max(READ_LEN).min(left);
                *recent = (offset, self.fetch(offset, want)?);
                0
            }
        };
        let there = &recent.1[skip.min(recent.1.len())..];
        let len = there.len().min(buf.len());
        buf[..len].copy_from_slice(&there[..len]);
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}
