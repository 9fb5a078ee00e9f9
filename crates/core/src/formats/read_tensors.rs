//! Reading tensors of an input that is open where they stand in one piece, and many at once.

use std::ops::Range;
use std::path::Path;

use super::Opened;
use crate::progress::Progress;
use crate::tensor::{Location, TensorInfo, string_elements_at};
use crate::{Error, ErrorKind, Result};

/// Reading tensors of a message where they stand in one piece.
impl Opened {
    /// The file whose bytes a tensor's elements are, and which: where they stand there as they are in
    /// memory, in one piece, and no checksum covers them. So whoever maps the file has the tensor
    /// without a copy. None for any other tensor, as of a file in chunks.
    ///
    /// Tensors of a message have to be [listed](Opened::tensors) before.
    ///
    /// ```
    /// use proto_splitter_core::formats::{OpenOptions, Registry};
    /// use proto_splitter_core::tensor::{DType, TensorInfo};
    ///
    /// static FORMATS: Registry = Registry::new(&[]);
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("plain.pb");
    /// std::fs::write(&path, b"\x0a\x01a")?;
    /// let opened = FORMATS.open(&path, &OpenOptions::new())?;
    /// // Nothing is known of its type, and so of no tensor.
    /// assert!(opened.tensors()?.is_empty());
    /// let other = TensorInfo::new("a", DType::U8, vec![1]);
    /// assert_eq!(opened.tensor_in_file(&other), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tensor_in_file(&self, info: &TensorInfo) -> Option<(&Path, Range<u64>)> {
        if let Some(archive) = self.archive() {
            return archive.tensor_in_file(info);
        }
        let placed = self.listed()?.placed(info)?;
        Some((self.message_file()?, placed.elements.clone()?))
    }

    /// Reads tensors, each to a buffer of its [bytes](TensorInfo::bytes), in less time than one after
    /// the other: on several threads, and each chunk of a file in chunks once.
    ///
    /// ```
    /// use proto_splitter_core::formats::{OpenOptions, Registry};
    /// use proto_splitter_core::progress::Progress;
    ///
    /// static FORMATS: Registry = Registry::new(&[]);
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("plain.pb");
    /// std::fs::write(&path, b"\x0a\x01a")?;
    /// let opened = FORMATS.open(&path, &OpenOptions::new())?;
    /// opened.read_tensors_into(Vec::new(), &Progress::default())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if a buffer has another length; what
    /// [`read_tensor`](Opened::read_tensor) reports. Then some buffers may have been filled.
    pub fn read_tensors_into(
        &self,
        wanted: Vec<(&TensorInfo, &mut [u8])>,
        progress: &Progress,
    ) -> Result<()> {
        let mut total = 0u64;
        for (info, buffer) in &wanted {
            if buffer.len() as u64 != info.bytes {
                let (have, bytes) = (buffer.len(), info.bytes);
                let message = format!("a buffer of {have} bytes for a tensor of {bytes}");
                let error = Error::new(ErrorKind::InvalidConfig, message);
                return Err(error.context(format!("tensor {:?}", info.name)));
            }
            total = total.saturating_add(info.bytes);
        }
        let meter = progress.meter(total);
        let left = match self.listed() {
            Some(table) => table.fill(wanted, self.threads(), &meter)?,
            None => wanted,
        };
        for (info, mut buffer) in left {
            let reader = self.read_tensor(info)?;
            reader.write_to(&mut meter.written_to(&mut buffer))?;
        }
        meter.check()
    }

    /// Returns the strings of a tensor of a message, in the order of its elements. There may be
    /// fewer than its shape says: then the last stands for all that follow, or all are empty.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if it isn't a tensor of strings in a message; what
    /// [`string_elements_at`] reports.
    pub fn strings(&self, info: &TensorInfo) -> Result<Vec<Vec<u8>>> {
        let found = match &info.location {
            Location::Message { path, .. } => {
                let (rule, _) = self.tensor_rule(path)?;
                string_elements_at(&self.view()?, path, rule)?
            }
            Location::File { .. } | Location::Entry { .. } | Location::Nowhere => None,
        };
        found.ok_or_else(|| {
            let (name, location) = (&info.name, &info.location);
            let message = format!(
                "tensor {name:?} at {location}: only strings in a message are read one by one"
            );
            Error::new(ErrorKind::InvalidPath, message)
        })
    }
}
