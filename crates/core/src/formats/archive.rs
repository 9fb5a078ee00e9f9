//! Inputs that are not a message, but a list of named tensors and whatever is beside them.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;

use crate::progress::Progress;
use crate::tensor::{Location, TensorInfo, TensorReader};
use crate::{Error, ErrorKind, Result};

/// Named tensors, and what else an input of their format has.
///
/// Headers were read when it was opened; the bytes of tensors are read when they are asked for.
pub trait Archive: Any + Debug + Send + Sync {
    /// All tensors, in the order of the file. Names are unique.
    ///
    /// # Errors
    ///
    /// If what they say of themselves can't be read.
    fn tensors(&self) -> Result<Vec<TensorInfo>>;

    /// Returns an iterator over the tensors, in the order of [`tensors`](Self::tensors). A format with
    /// tensors by the million overrides it, so that no list of them is made.
    ///
    /// # Errors
    ///
    /// As [`tensors`](Self::tensors).
    fn tensor_iter(&self) -> Result<TensorIter<'_>> {
        Ok(Box::new(self.tensors()?.into_iter().map(Ok)))
    }

    /// The bytes of a tensor: one that [`tensors`](Self::tensors) or [`find`](Self::find) gave.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if the archive has no such tensor.
    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>>;

    /// The tensor with this name; none if there is none. A format that has an index overrides it.
    ///
    /// # Errors
    ///
    /// As [`tensors`](Self::tensors).
    fn find(&self, name: &str) -> Result<Option<TensorInfo>> {
        let mut tensors = self.tensors()?.into_iter();
        Ok(tensors.find(|tensor| tensor.name == name))
    }

    /// The file whose bytes a tensor's elements are, and which, where they stand there as they are in
    /// memory, in one piece, and no checksum covers them; by default none.
    fn tensor_in_file(&self, info: &TensorInfo) -> Option<(&Path, Range<u64>)> {
        let _ = info;
        None
    }

    /// All that takes up space, for lists and size trees. By default the tensors. Names have `/`
    /// between their parts where they have any.
    ///
    /// # Errors
    ///
    /// As [`tensors`](Self::tensors).
    fn entries(&self) -> Result<Vec<Entry>> {
        Ok(self.tensors()?.iter().map(Entry::of_tensor).collect())
    }

    /// What the archive says of itself, as names and values, for reports.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    fn properties(&self) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    /// Reads everything and checks what can be checked. By default all tensors are read to their
    /// ends. A format with checksums overrides it.
    ///
    /// # Errors
    ///
    /// The first damage, with the tensor and the offset.
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

/// The tensors of an input one after the other, from [`Archive::tensor_iter`].
pub type TensorIter<'a> = Box<dyn Iterator<Item = Result<TensorInfo>> + 'a>;

/// Something in an archive that takes up space.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// What it is called.
    pub name: String,
    /// What it is: a tensor's type and shape, a header.
    pub detail: Option<String>,
    /// Bytes of its content.
    pub bytes: u64,
    /// Where it is.
    pub location: Location,
}

impl Entry {
    /// An entry of this name and size.
    pub fn new(name: impl Into<String>, bytes: u64, location: Location) -> Entry {
        Entry {
            name: name.into(),
            detail: None,
            bytes,
            location,
        }
    }

    /// The same entry, said to be this.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The entry that a tensor is.
    pub fn of_tensor(tensor: &TensorInfo) -> Entry {
        let sizes: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
        Entry::new(&tensor.name, tensor.bytes, tensor.location.clone()).detail(format!(
            "{}[{}]",
            tensor.dtype,
            sizes.join(", ")
        ))
    }
}

/// What a check went by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Checks {
    /// Checksums of all the data.
    Checksums,
    /// The structure alone: the format has no checksums.
    Structure,
}

/// What was read and found to be sound.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// How many tensors.
    pub tensors: u64,
    /// How many bytes of them.
    pub bytes: u64,
    /// What they were checked by.
    pub checks: Checks,
    /// What is odd, but harms nobody.
    pub warnings: Vec<String>,
}

impl Verified {
    /// This many tensors and bytes, checked by this.
    pub fn new(tensors: u64, bytes: u64, checks: Checks) -> Verified {
        Verified {
            tensors,
            bytes,
            checks,
            warnings: Vec::new(),
        }
    }

    /// The same, with what is odd, but harms nobody.
    #[must_use]
    pub fn warnings(mut self, warnings: Vec<String>) -> Verified {
        self.warnings = warnings;
        self
    }
}

/// The error of an archive that was asked for what it lacks.
#[cold]
pub(super) fn no_tensor(name: &str) -> Error {
    Error::new(
        ErrorKind::InvalidPath,
        format!("there is no tensor {name:?}"),
    )
}
