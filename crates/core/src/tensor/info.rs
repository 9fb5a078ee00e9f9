//! Headers of tensors.

use std::fmt;
use std::path::PathBuf;

use super::DType;
use crate::path::FieldPath;

/// The order of the bytes in an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The lowest byte first.
    #[default]
    Little,
    /// The highest byte first.
    Big,
}

/// The location of a tensor's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Location {
    /// In the message, as the value at a path.
    Message {
        /// Path of the tensor's own message in the whole message.
        path: FieldPath,
        /// The path as text, with field names.
        text: String,
    },
    /// In a file.
    File {
        /// Path of the file, which may be relative.
        path: PathBuf,
        /// Offset of the tensor's first byte in the file.
        offset: u64,
    },
    /// In an entry of an archive.
    Entry {
        /// Name of the entry in the archive.
        name: String,
        /// Offset of the tensor's first byte in the archive entry.
        offset: u64,
    },
    /// No location, since there are no bytes.
    Nowhere,
}

impl Location {
    /// Returns the location that begins at `offset` in the file `path`.
    pub fn file(path: impl Into<PathBuf>, offset: u64) -> Location {
        let path = path.into();
        Location::File { path, offset }
    }

    /// Returns the location that begins at `offset` in the archive entry `name`.
    pub fn entry(name: impl Into<String>, offset: u64) -> Location {
        let name = name.into();
        Location::Entry { name, offset }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Message { text, .. } => f.write_str(text),
            Location::File { path, offset } => {
                let name = path.file_name().unwrap_or(path.as_os_str());
                write!(f, "{} at {offset}", name.display())
            }
            Location::Entry { name, offset } => write!(f, "{name} at {offset}"),
            Location::Nowhere => f.write_str("-"),
        }
    }
}

/// The header of a tensor, which is known without reading its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// Name of the tensor. If a file repeats a name, the names are made unique.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Sizes of the dimensions, the outermost first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Size of the stored elements, in bytes.
    pub bytes: u64,
    /// Order of the bytes in an element.
    pub byte_order: ByteOrder,
    /// Location of the tensor's bytes.
    pub location: Location,
}

impl TensorInfo {
    /// Creates the header of a tensor, and computes the size of its elements from their type and
    /// the shape. The size is 0 if it doesn't follow from these, or doesn't fit in 64 bits. To set
    /// a different size, call [`sized`](Self::sized).
    pub fn new(name: impl Into<String>, dtype: DType, shape: Vec<u64>) -> TensorInfo {
        let bytes = element_count(&shape).and_then(|elements| dtype.packed_bytes(elements));
        TensorInfo {
            name: name.into(),
            dtype,
            shape,
            bytes: bytes.unwrap_or(0),
            byte_order: ByteOrder::Little,
            location: Location::Nowhere,
        }
    }

    /// Sets the stored size, in bytes.
    #[must_use]
    pub fn sized(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets the location of the tensor's bytes.
    #[must_use]
    pub fn located(mut self, location: Location) -> Self {
        self.location = location;
        self
    }

    /// Sets the order of the bytes in an element.
    #[must_use]
    pub fn ordered(mut self, byte_order: ByteOrder) -> Self {
        self.byte_order = byte_order;
        self
    }

    /// Returns the number of elements; `None` if it doesn't fit in 64 bits.
    pub fn elements(&self) -> Option<u64> {
        element_count(&self.shape)
    }

    /// Returns true if several elements of less than 8 bits share a byte.
    pub fn is_packed(&self) -> bool {
        let under_a_byte = self.dtype.bits().is_some_and(|bits| bits < 8);
        under_a_byte
            && self
                .elements()
                .is_some_and(|elements| self.bytes < elements)
    }
}

/// Formats the name, the type and the shape: `weights float32[2, 3]`.
impl fmt::Display for TensorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        write!(f, "{} {}[{}]", self.name, self.dtype, sizes.join(", "))
    }
}

/// Returns the number of elements in a tensor of this shape; `None` if it doesn't fit in 64 bits.
///
/// ```
/// use proto_splitter_core::tensor::element_count;
///
/// assert_eq!((element_count(&[]), element_count(&[2, 3])), (Some(1), Some(6)));
/// assert_eq!((element_count(&[u64::MAX, 0, 2]), element_count(&[u64::MAX, 2])), (Some(0), None));
/// ```
pub fn element_count(shape: &[u64]) -> Option<u64> {
    // If any dimension is 0, there are no elements, even if the product of the others overflows.
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1u64, |elements, &size| elements.checked_mul(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_has_one_element_and_an_empty_dimension_none() {
        for (shape, elements) in [
            (vec![], Some(1)),
            (vec![3, 4], Some(12)),
            (vec![u64::MAX, 2, 0], Some(0)),
            (vec![u64::MAX, 2], None),
        ] {
            let info = TensorInfo::new("t", DType::U8, shape);
            assert_eq!(info.elements(), elements, "{info}");
        }
    }

    #[test]
    fn fewer_bytes_than_elements_are_packed() {
        let four = TensorInfo::new("t", DType::I4, vec![4]);
        assert_eq!((four.bytes, four.is_packed()), (2, true));
        assert!(!four.sized(4).is_packed());
        assert!(!TensorInfo::new("t", DType::I8, vec![4]).is_packed());
    }
}
