//! A message that is merged while it is read.

use std::sync::Arc;

use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{Limits, ReadOptions};
use proto_splitter::record_file::{ReadAt, is_record_file};
use proto_splitter::tensor::read_bytes;
use proto_splitter::{Error, MessageReader, Result};
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::functions::{MergeArguments, opening};
use crate::input::Input;
use crate::work::detached;

/// A message that is read by offset. If the source is chunked, the message is merged while it is
/// read.
#[pyclass(frozen, module = "proto_splitter._core")]
pub(crate) struct MergedReader {
    message: MessageReader,
    name: Option<String>,
}

#[pymethods]
impl MergedReader {
    #[new]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        arguments: MergeArguments,
    ) -> PyResult<MergedReader> {
        let input = Input::of(source)?;
        let options = arguments.reading(py)?;
        let name = input.name();
        let message = detached(py, name.as_deref(), None, |_| {
            match (input.in_records(&opening(&options))?, input) {
                (Some(opened), _) => opened.reader(),
                (None, Input::Path(path)) => MessageReader::open(path, &options),
                (None, Input::Reader(reader)) => merged(reader, &options),
            }
        })?;
        Ok(MergedReader { message, name })
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.message.total_size()).unwrap_or(usize::MAX)
    }

    /// Reads `size` bytes at an offset. Returns fewer bytes if the message ends earlier.
    fn read(&self, py: Python<'_>, offset: u64, size: u64) -> PyResult<Buffer> {
        let end = offset.saturating_add(size).min(self.message.total_size());
        let start = offset.min(end);
        let read = |_| read_bytes(&self.message, start..end);
        let bytes = detached(py, self.name.as_deref(), None, read)?;
        Ok(Buffer::new(bytes))
    }
}

impl MergedReader {
    /// Creates a reader for the message in `reader`, which may be chunked.
    pub(crate) fn of(reader: Arc<dyn ReadAt>, options: &ReadOptions) -> Result<MergedReader> {
        let message = merged(reader, options)?;
        let name = None;
        Ok(MergedReader { message, name })
    }
}

fn merged(reader: Arc<dyn ReadAt>, options: &ReadOptions) -> Result<MessageReader> {
    if !is_record_file(&reader).map_err(Error::from)? {
        let size = reader.size()?;
        return Ok(MessageReader::new(reader, size));
    }
    let file = ChunkedFile::from_source(reader, &Limits::new())?;
    MessageReader::of_chunks(file, options.get_descriptor().cloned())
}
