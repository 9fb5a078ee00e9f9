//! Locating contiguous tensors in files, and reading many tensors or strings at once.

use std::ops::Range;
use std::path::Path;

use super::Opened;
use crate::progress::Progress;
use crate::tensor::{Location, TensorInfo, string_elements_at};
use crate::{Error, ErrorKind, Result};

/// Methods that locate contiguous tensors in files, and read many tensors or strings at once.
impl Opened {
    /// Returns the file that contains a tensor's elements, and their byte range in the file, so
    /// that a caller can map the file instead of copying the elements. Returns `None` unless the
    /// elements are contiguous, are stored as they are laid out in memory, and aren't covered by a
    /// checksum. For a tensor in a file in chunks, for example, the result is `None`.
    ///
    /// The tensors in a message must have been [listed](Opened::tensors) before.
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
    /// // Its type is unknown, and so are its tensors.
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

    /// Reads tensors, each into a buffer of its [size](TensorInfo::bytes). This is faster than
    /// reading one tensor after the other, since several threads are used, and each chunk of a file
    /// in chunks is read once.
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
    /// [`ErrorKind::InvalidConfig`] if a buffer's length differs from its tensor's size; any error
    /// from [`read_tensor`](Opened::read_tensor). After an error, some buffers may have been
    /// filled.
    pub fn read_tensors_into(
        &self,
        wanted: Vec<(&TensorInfo, &mut [u8])>,
        progress: &Progress,
    ) -> Result<()> {
        let mut total = 0u64;
        for (info, buffer) in &wanted {
            if buffer.len() as u64 != info.bytes {
                let (have, bytes) = (buffer.len(), info.bytes);
                let message = format!("the buffer has {have} bytes, but the tensor has {bytes}");
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

    /// Returns the strings of a tensor in a message, in element order. There may be fewer strings
    /// than elements in the shape; then the last one counts for the others, or, if there are no
    /// strings, all elements are empty.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if `info` isn't a tensor of strings in a message; any error from
    /// [`string_elements_at`].
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
