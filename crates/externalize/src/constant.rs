//! The large constants of a model, and the encodings of their values.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use proto_splitter_core::wire::FieldNumber;
use proto_splitter_graph_def::proto::DataType;
use proto_splitter_tensor_bundle::{dtype_name, element_size};
use record_file::ReadAt;

/// The indices that locate a node in a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) meta_graph: usize,
    /// Index of the function whose body contains the node; `None` for the main graph.
    pub(crate) function: Option<usize>,
    pub(crate) node: usize,
}

/// A constant whose value is moved out.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) place: Place,
    /// Name of the constant's node.
    pub(crate) name: String,
    pub(crate) dtype: DataType,
    pub(crate) shape: Vec<u64>,
    /// Size of the decoded tensor, in bytes.
    pub(crate) size: u64,
    pub(crate) encoding: Encoding,
    /// Byte range of the constant's encoded value in the model.
    pub(crate) span: Range<u64>,
}

/// The encoding of a constant's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The bytes of the tensor, little-endian.
    Raw,
    /// One varint per element.
    Varints(Varints),
}

/// The properties of elements that are encoded as varints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Varints {
    /// Size of a decoded element, in bytes.
    pub(crate) width: usize,
    /// True if negative elements are sign-extended to 64 bits before they are encoded.
    pub(crate) signed: bool,
}

impl Encoding {
    /// Returns the encoding of a tensor's value, and the size of the tensor in bytes. The value is
    /// in the field `number` of a `TensorProto`, where it has `len` bytes. Returns `None` if this
    /// field can't contain a value of the given type and shape.
    ///
    /// The fields and types are those in TensorFlow's `tensor.proto`.
    pub(crate) fn of(
        number: FieldNumber,
        dtype: DataType,
        shape: &[u64],
        len: u64,
    ) -> Option<(Encoding, u64)> {
        let width = element_size(dtype)?;
        let elements = shape
            .iter()
            .try_fold(1u64, |all, dim| all.checked_mul(*dim))?;
        let size = elements.checked_mul(width)?;
        let name = dtype_name(dtype);
        let name = name.as_str();
        let is_raw = match number.0 {
            4 => true,
            5 => name == "float",
            6 => name == "double",
            9 => name == "complex64",
            12 => name == "complex128",
            18 => name.starts_with("float8_"),
            _ => false,
        };
        if is_raw {
            return (len == size).then_some((Encoding::Raw, size));
        }
        let signed = match (number.0, name) {
            (7, "int32" | "int16" | "int8" | "qint32" | "qint16" | "qint8") | (10, "int64") => true,
            (7, "uint16" | "uint8" | "quint16" | "quint8")
            | (11, "bool")
            | (13, "half" | "bfloat16")
            | (16, "uint32")
            | (17, "uint64") => false,
            _ => return None,
        };
        let width = usize::try_from(width).ok()?;
        // A varint has one to ten bytes.
        let fits = len >= elements && len.div_ceil(10) <= elements;
        fits.then_some((Encoding::Varints(Varints { width, signed }), size))
    }
}

impl Varints {
    /// Returns the number whose varint encodes the given little-endian element.
    pub(crate) fn number(self, element: &[u8]) -> u64 {
        let mut bytes = [0; 8];
        let len = element.len().min(8);
        bytes[..len].copy_from_slice(&element[..len]);
        if self.signed && element.last().is_some_and(|last| last & 0x80 != 0) {
            bytes[len..].fill(0xff);
        }
        u64::from_le_bytes(bytes)
    }
}

/// A reader for a byte range of a larger source.
#[derive(Clone)]
pub(crate) struct SpanReader {
    data: Arc<dyn ReadAt>,
    range: Range<u64>,
}

impl SpanReader {
    pub(crate) fn new(data: Arc<dyn ReadAt>, range: Range<u64>) -> Self {
        SpanReader { data, range }
    }
}

impl ReadAt for SpanReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.range.end - self.range.start;
        let left = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        if len == 0 {
            return Ok(0);
        }
        self.data
            .read_at(self.range.start + offset, &mut buf[..len])
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.range.end - self.range.start)
    }
}
