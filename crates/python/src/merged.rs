//! A message merged while it is read.

use std::sync::Arc;

use proto_splitter::container::ChunkedFile;
use proto_splitter::formats::Opened;
use proto_splitter::merge::{Limits, ReadOptions};
use proto_splitter::record_file::{ReadAt, is_record_file};
use proto_splitter::tensor::read_bytes;
use proto_splitter::{Error, ErrorKind, MergedMessage, Result};
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::functions::{MergeArguments, opening};
use crate::input::Input;
use crate::work::detached;

/// The merged or plain message of a source, read by position.
#[pyclass(frozen, module = "proto_splitter._core")]
pub(crate) struct MergedReader {
    bytes: Arc<dyn ReadAt>,
    size: u64,
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
        let (bytes, size) = detached(py, name.as_deref(), None, |_| {
            let bytes = match (input.in_records(&opening(&options))?, input) {
                (Some(opened), _) => read_in_place(&opened)?,
                (None, Input::Path(path)) => MergedMessage::open(path, &options)?,
                (None, Input::Reader(reader)) => merged(reader, &options)?,
            };
            let size = bytes.size()?;
            Ok((bytes, size))
        })?;
        Ok(MergedReader { bytes, size, name })
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX)
    }

    /// Reads this many bytes at an offset, or fewer at the end.
    fn read(&self, py: Python<'_>, offset: u64, size: u64) -> PyResult<Buffer> {
        let end = offset.saturating_add(size).min(self.size);
        let start = offset.min(end);
        let read = |_| read_bytes(&*self.bytes, start..end);
        let bytes = detached(py, self.name.as_deref(), None, read)?;
        Ok(Buffer::new(bytes))
    }
}

impl MergedReader {
    /// Returns the merged message of a reader.
    pub(crate) fn of(reader: Arc<dyn ReadAt>, options: &ReadOptions) -> Result<MergedReader> {
        let bytes = merged(reader, options)?;
        let size = bytes.size()?;
        let name = None;
        Ok(MergedReader { bytes, size, name })
    }
}

/// Returns the bytes of a message that isn't in chunks.
fn read_in_place(opened: &Opened) -> Result<Arc<dyn ReadAt>> {
    let bytes = opened.plain().map(|(bytes, _)| Arc::clone(bytes));
    bytes.ok_or_else(|| Error::new(ErrorKind::InvalidConfig, "there is no message in it"))
}

fn merged(reader: Arc<dyn ReadAt>, options: &ReadOptions) -> Result<Arc<dyn ReadAt>> {
    if !is_record_file(&reader).map_err(Error::from)? {
        return Ok(reader);
    }
    let file = ChunkedFile::from_source(reader, &Limits::new())?;
    Ok(Arc::new(MergedMessage::new(
        file,
        options.get_descriptor().cloned(),
    )?))
}
