//! Inputs that are lists of named tensors instead of messages, possibly with metadata.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;

use crate::progress::Progress;
use crate::tensor::{Location, TensorInfo, TensorReader};
use crate::{Error, ErrorKind, Result};

/// The named tensors of an input, and any other content that its format defines.
///
/// Opening an archive reads its headers; tensors are read on demand.
pub trait Archive: Any + Debug + Send + Sync {
    /// Returns all tensors, in file order. Names are unique.
    ///
    /// # Errors
    ///
    /// If the tensors' headers can't be read.
    fn tensors(&self) -> Result<Vec<TensorInfo>>;

    /// Returns an iterator over the tensors, in the order of [`tensors`](Self::tensors). Formats
    /// with millions of tensors override this method to avoid building a list.
    ///
    /// # Errors
    ///
    /// The errors of [`tensors`](Self::tensors).
    fn tensor_iter(&self) -> Result<TensorIter<'_>> {
        Ok(Box::new(self.tensors()?.into_iter().map(Ok)))
    }

    /// Reads the bytes of a tensor that [`tensors`](Self::tensors) or [`find`](Self::find)
    /// returned.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if the archive has no such tensor.
    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>>;

    /// Returns the tensor with this name, if it exists. Formats with an index override this method.
    ///
    /// # Errors
    ///
    /// The errors of [`tensors`](Self::tensors).
    fn find(&self, name: &str) -> Result<Option<TensorInfo>> {
        let mut tensors = self.tensors()?.into_iter();
        Ok(tensors.find(|tensor| tensor.name == name))
    }

    /// Returns a tensor's LoD (level of detail), which divides its rows into sequences: for each
    /// level, the coarsest first, the start of every sequence and the end of the last one. Default:
    /// no levels.
    ///
    /// # Errors
    ///
    /// If the offsets can't be read.
    fn lod(&self, info: &TensorInfo) -> Result<Vec<Vec<u64>>> {
        let _ = info;
        Ok(Vec::new())
    }

    /// Returns the file that contains a tensor's elements, and their byte range in the file.
    /// Returns `None` unless the elements are contiguous, are stored as they are laid out in
    /// memory, and aren't covered by a checksum. Default: `None`.
    fn tensor_in_file(&self, info: &TensorInfo) -> Option<(&Path, Range<u64>)> {
        let _ = info;
        None
    }

    /// Returns an entry for each part of the archive that takes up space. Lists and size trees show
    /// these entries. In an entry's name, `/` separates the levels of the size tree. The default
    /// implementation returns the tensors.
    ///
    /// # Errors
    ///
    /// The errors of [`tensors`](Self::tensors).
    fn entries(&self) -> Result<Vec<Entry>> {
        Ok(self.tensors()?.iter().map(Entry::of_tensor).collect())
    }

    /// Returns the archive's properties, as names and values, for reports. Default: none.
    ///
    /// # Errors
    ///
    /// If the properties can't be read.
    fn properties(&self) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    /// Reads and checks everything that can be checked. The default implementation reads all
    /// tensors to their ends. Formats with checksums override this method.
    ///
    /// # Errors
    ///
    /// The first damage found, with the tensor and the offset.
    fn verify(&self, progress: &Progress) -> Result<Verified> {
        let tensors = self.tensors()?;
        let total = tensors.iter().map(|tensor| tensor.bytes).sum();
        let meter = progress.meter(total);
        let mut sink = std::io::sink();
        let mut sink = meter.written_to(&mut sink);
        for tensor in &tensors {
            let read = self
                .read(tensor)
                .and_then(|reader| reader.write_to(&mut sink));
            read.map_err(|error| error.context(format!("tensor {:?}", tensor.name)))?;
        }
        meter.check()?;
        Ok(Verified::new(
            tensors.len() as u64,
            total,
            Checks::Structure,
        ))
    }
}

/// An iterator over the tensors of an input, from [`Archive::tensor_iter`].
pub type TensorIter<'a> = Box<dyn Iterator<Item = Result<TensorInfo>> + 'a>;

/// A named part of an archive, with its size and location.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Name of the part.
    pub name: String,
    /// Description of the part, such as a tensor's type and shape, or a note that the part is a
    /// header.
    pub detail: Option<String>,
    /// Size of the part's content, in bytes.
    pub bytes: u64,
    /// Location of the part's content.
    pub location: Location,
}

impl Entry {
    /// Creates an entry with this name, size (in bytes) and location.
    pub fn new(name: impl Into<String>, bytes: u64, location: Location) -> Entry {
        Entry {
            name: name.into(),
            detail: None,
            bytes,
            location,
        }
    }

    /// Sets the description.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Creates the entry for a tensor.
    pub fn of_tensor(tensor: &TensorInfo) -> Entry {
        let sizes: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
        Entry::new(&tensor.name, tensor.bytes, tensor.location.clone()).detail(format!(
            "{}[{}]",
            tensor.dtype,
            sizes.join(", ")
        ))
    }
}

/// The kind of checks that data passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Checks {
    /// Checksums of all data.
    Checksums,
    /// Only the structure: the format has no checksums.
    Structure,
}

/// A report on the data that was read and found intact.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Number of tensors that were verified.
    pub tensors: u64,
    /// Total size of the verified tensors, or of the verified message, in bytes.
    pub bytes: u64,
    /// Kind of checks that the data passed.
    pub checks: Checks,
    /// Warnings about harmless irregularities.
    pub warnings: Vec<String>,
}

impl Verified {
    /// Creates a report with these numbers of tensors and bytes, and this kind of checks.
    pub fn new(tensors: u64, bytes: u64, checks: Checks) -> Verified {
        Verified {
            tensors,
            bytes,
            checks,
            warnings: Vec::new(),
        }
    }

    /// Adds warnings about harmless irregularities.
    #[must_use]
    pub fn warnings(mut self, warnings: Vec<String>) -> Verified {
        self.warnings = warnings;
        self
    }
}

/// Returns the error for an archive that lacks the requested tensor.
#[cold]
pub(super) fn no_tensor(name: &str) -> Error {
    Error::new(
        ErrorKind::InvalidPath,
        format!("there is no tensor {name:?}"),
    )
}
