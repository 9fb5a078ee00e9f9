//! A serialized message in pieces, some of which are in a file.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use proto_splitter::record_file::ReadAt;
use proto_splitter::spans::{Spans, SpansBuilder};
use proto_splitter::{Error, Result};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::error::raise;

/// A piece of a message: bytes, or an offset and a length in a file.
#[derive(FromPyObject)]
enum Piece {
    #[pyo3(transparent)]
    Bytes(PyBackedBytes),
    #[pyo3(transparent)]
    Span((u64, u64)),
}

/// A serialized message that is read by offset. It consists of bytes in memory and byte ranges of
/// one file.
#[pyclass(frozen, module = "proto_splitter._core")]
pub(crate) struct Pieces {
    spans: Arc<Spans>,
}

impl Pieces {
    pub(crate) fn reader(&self) -> Arc<dyn ReadAt> {
        Arc::clone(&self.spans) as Arc<dyn ReadAt>
    }
}

#[pymethods]
impl Pieces {
    /// Creates the message from its pieces. Takes ownership of the file descriptor, which is closed
    /// when nothing reads the file any more.
    #[new]
    fn new(py: Python<'_>, file: RawFd, pieces: Vec<Piece>) -> PyResult<Pieces> {
        // SAFETY: The Python layer passes a descriptor that it has just duplicated. It doesn't use
        // or close the descriptor afterwards.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(file) });
        let spans = spans_of(file, &pieces).map_err(|error| raise(py, &error, None))?;
        Ok(Pieces {
            spans: Arc::new(spans),
        })
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.spans.total_size()).unwrap_or(usize::MAX)
    }
}

fn spans_of(file: File, pieces: &[Piece]) -> Result<Spans> {
    let mut builder = SpansBuilder::new();
    let spool = builder.reader("the serialized message", Arc::new(file))?;
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => builder.literal(bytes)?,
            Piece::Span((start, len)) => {
                let end = start.checked_add(*len).ok_or_else(|| {
                    Error::new(
                        proto_splitter::ErrorKind::InvalidConfig,
                        format!("a span of {len} bytes at {start}"),
                    )
                })?;
                builder.span(spool, *start..end)?;
            }
        }
    }
    builder.finish()
}
