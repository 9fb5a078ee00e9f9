//! A single `TensorProto`: its header, and the location of its elements.

use std::io::Write;
use std::mem::take;
use std::ops::Range;

use proto_splitter_core::tensor::ElementForm;
use proto_splitter_core::wire::{Field, Input, WireCursor, WireType, decode_varint, low_32};
use proto_splitter_core::{Error, ErrorKind, Result};

use record_file::ReadAt;

use crate::cursor::Cursor;
use crate::data_type::{element_bits, element_count, raw_len, type_name};
use crate::elements;
use crate::proto::tensor_proto::DataType;
use crate::reference::Entries;
use crate::tensor_rule::typed_form;

/// Maximum number of dimensions in a tensor. Other readers accept far fewer.
pub const MAX_RANK: usize = 256;

/// Maximum size of a tensor's name, in bytes: 16 MiB. ONNX has no limit.
pub const MAX_TENSOR_NAME: u64 = 16 << 20;

/// Size up to which a tensor's message is read at once instead of field by field, in bytes: 1 KiB.
/// A model may have hundreds of thousands of small tensors.
const FETCHED_WHOLE: u64 = 1 << 10;

/// Numbers of the `TensorProto` fields that are read.
pub(crate) mod field {
    pub(crate) const DIMS: u32 = 1;
    pub(crate) const DATA_TYPE: u32 = 2;
    pub(crate) const NAME: u32 = 8;
    pub(crate) const RAW_DATA: u32 = 9;
    pub(crate) const EXTERNAL_DATA: u32 = 13;
    pub(crate) const DATA_LOCATION: u32 = 14;
    /// Typed fields, which contain elements: `float_data`, `int32_data`, `string_data`,
    /// `int64_data`, `double_data`, `uint64_data`.
    pub(crate) const TYPED: [u32; 6] = [4, 5, 6, 7, 10, 11];
    /// All fields that contain or locate a tensor's data, which are removed when the data is moved
    /// into the model or out of it.
    pub(crate) const DATA: &[u32] = &[4, 5, 6, 7, RAW_DATA, 10, 11, EXTERNAL_DATA, DATA_LOCATION];
}

/// A tensor of a model, without its elements. Positions are byte offsets in the model.
///
/// ```text
/// TensorProto
///   dims 1, data_type 2, name 8     its description
///   float_data 4 ... uint64_data 11  its elements one by one, or
///   raw_data 9                       their bytes, little-endian, or
///   external_data 13                 the location of their bytes, if data_location 14 is EXTERNAL
/// ```
#[derive(Clone, Debug, Default)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dims: Vec<i64>,
    pub(crate) data_type: i32,
    /// Byte range of the tensor's message in the model.
    pub(crate) range: Range<u64>,
    pub(crate) raw: Option<Range<u64>>,
    /// True if the tensor has elements in a typed field.
    pub(crate) has_typed: bool,
    pub(crate) is_external: bool,
    /// Content of `external_data`. It is stored even if `is_external` is false, in which case
    /// readers ignore `external_data`.
    pub(crate) entries: Entries,
}

/// A part of a model, read into memory. Positions are byte offsets in the model.
struct Window<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl Input for Window<'_> {
    #[inline]
    fn size(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }

    #[inline]
    fn fetch(&mut self, position: u64, _want: usize) -> Result<&[u8]> {
        let skip = position
            .checked_sub(self.start)
            .and_then(|skip| usize::try_from(skip).ok());
        Ok(skip
            .and_then(|skip| self.bytes.get(skip..))
            .unwrap_or_default())
    }
}

/// The location of the elements of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    Raw(Range<u64>),
    Typed(ElementForm),
    External,
    /// There are no elements, or they are in a field that the tensor's type doesn't use.
    None,
}

impl Tensor {
    /// Parses the header of the tensor at `range` into `self`. Reuses the memory for the previous
    /// tensor's name and shape, since a model can have hundreds of thousands of tensors.
    pub(crate) fn parse(&mut self, cursor: &mut Cursor<'_>, range: Range<u64>) -> Result<()> {
        self.forget(range.clone());
        if range.end - range.start > FETCHED_WHOLE {
            return self.read(cursor, range);
        }
        let window = Window {
            start: range.start,
            bytes: cursor.bytes(range.clone())?,
        };
        if self.read_plain(&window).is_some() {
            return Ok(());
        }
        self.forget(range.clone());
        self.read(&mut WireCursor::new(window), range)
    }

    fn forget(&mut self, range: Range<u64>) {
        let (mut name, mut dims) = (take(&mut self.name), take(&mut self.dims));
        name.clear();
        dims.clear();
        *self = Tensor {
            name,
            dims,
            range,
            ..Tensor::default()
        };
    }

    /// Parses a small tensor in the usual form: without external data, and with one-byte tags.
    /// Returns `None` for any other tensor, which [`read`](Self::read) handles or reports as an
    /// error.
    ///
    /// This must not take longer than skipping the tensor's fields.
    fn read_plain(&mut self, window: &Window<'_>) -> Option<()> {
        let mut rest = window.bytes;
        while let [tag @ ..0x80, behind @ ..] = rest {
            let number = u32::from(tag >> 3);
            let (value, len) = decode_varint(behind)?;
            rest = behind.get(len..)?;
            match (number, WireType::from_bits(u64::from(*tag))?) {
                (field::DIMS, WireType::Varint) if self.dims.len() < MAX_RANK => {
                    self.dims.push(value.cast_signed());
                }
                (field::DATA_TYPE, WireType::Varint) => {
                    self.data_type = low_32(value).cast_signed()
                }
                (field::DATA_LOCATION, WireType::Varint) => self.is_external = value == 1,
                (0 | field::DIMS | field::EXTERNAL_DATA, _) => return None,
                (_, WireType::Len) => {
                    let at = window.size() - rest.len() as u64;
                    let (bytes, behind) = rest.split_at_checked(usize::try_from(value).ok()?)?;
                    rest = behind;
                    match number {
                        field::NAME => {
                            self.name.clear();
                            self.name.push_str(std::str::from_utf8(bytes).ok()?);
                        }
                        field::RAW_DATA => self.raw = Some(at..at + value),
                        number => self.has_typed |= field::TYPED.contains(&number),
                    }
                }
                _ => return None,
            }
        }
        rest.is_empty().then_some(())
    }

    fn read<I: Input>(&mut self, cursor: &mut WireCursor<I>, range: Range<u64>) -> Result<()> {
        let tensor = self;
        cursor.set_range(range.clone());
        while let Some(found) = cursor.next()? {
            match (found.number.0, found.wire_type) {
                (field::DIMS, WireType::Varint | WireType::Len) => {
                    tensor.add_dims(cursor, &found)?;
                }
                (field::DATA_TYPE, WireType::Varint) => {
                    // Enums and int32 are truncated to 32 bits, as every parser does.
                    tensor.data_type = low_32(varint(cursor, &found)?).cast_signed();
                }
                (field::NAME, WireType::Len) => read_name(cursor, &found, &mut tensor.name)?,
                (field::RAW_DATA, WireType::Len) => tensor.raw = Some(found.value),
                (field::EXTERNAL_DATA, WireType::Len) => {
                    tensor.entries.add(cursor, &found)?;
                    cursor.set_range(found.end..range.end);
                }
                (field::DATA_LOCATION, WireType::Varint) => {
                    tensor.is_external = varint(cursor, &found)? == 1;
                }
                (number, _) if field::TYPED.contains(&number) => tensor.has_typed = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn add_dims<I: Input>(&mut self, cursor: &mut WireCursor<I>, found: &Field) -> Result<()> {
        let most = MAX_RANK as u64 * 10;
        if found.value.end - found.value.start > most || self.dims.len() >= MAX_RANK {
            let message = format!("more than {MAX_RANK} dimensions");
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(found.start));
        }
        let mut bytes = cursor.bytes(found.value.clone())?;
        while !bytes.is_empty() {
            let Some((dim, len)) = decode_varint(bytes) else {
                let message = "a dimension is truncated or too long";
                return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(found.start));
            };
            self.dims.push(dim.cast_signed());
            bytes = &bytes[len..];
        }
        if self.dims.len() > MAX_RANK {
            let message = format!("more than {MAX_RANK} dimensions");
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(found.start));
        }
        Ok(())
    }

    /// Returns the type of the elements, if ONNX 1.23 defines it.
    pub(crate) fn data_type(&self) -> Option<DataType> {
        DataType::try_from(self.data_type).ok()
    }

    /// Returns the name of the element type in lower case; its number if the type is unknown.
    pub(crate) fn type_name(&self) -> String {
        self.data_type()
            .map_or_else(|| self.data_type.to_string(), type_name)
    }

    /// Returns the number of elements according to the shape; `None` if the shape is invalid.
    pub(crate) fn element_count(&self) -> Option<u64> {
        element_count(&self.dims)
    }

    /// Returns the size of the raw data that the tensor's type and shape require, in bytes; `None`
    /// for strings, unknown types and invalid shapes.
    pub(crate) fn raw_len(&self) -> Option<u64> {
        raw_len(self.data_type()?, &self.dims)
    }

    /// Returns the location of the elements. External data takes precedence, then raw data, then
    /// elements in a typed field.
    pub(crate) fn data(&self) -> Data {
        if self.is_external {
            return Data::External;
        }
        if let Some(raw) = &self.raw {
            return Data::Raw(raw.clone());
        }
        match self.data_type().and_then(typed_form) {
            Some(form) if self.has_typed => Data::Typed(form),
            _ => Data::None,
        }
    }

    /// Writes the tensor's elements as raw data, little-endian, and returns the number of bytes
    /// written.
    ///
    /// # Errors
    ///
    /// Fails if the tensor has no elements in the model, or its type has no raw data; or if reading
    /// or writing fails.
    pub(crate) fn write_raw(&self, source: &dyn ReadAt, sink: &mut dyn Write) -> Result<u64> {
        match (self.data(), self.data_type().and_then(element_bits)) {
            (Data::Raw(range), _) => elements::copy(source, range, sink),
            (Data::Typed(form), _) => elements::convert(source, self.range.clone(), form, sink),
            (Data::None, Some(_)) if self.element_count() == Some(0) => Ok(0),
            (Data::External, _) => Err(self.invalid("its data is in another file")),
            (_, None) => Err(self.invalid("its type has no raw data")),
            (Data::None, _) => Err(self.invalid("it has no data")),
        }
    }

    /// Returns an error that begins with the tensor's name.
    #[cold]
    pub(crate) fn invalid(&self, message: &str) -> Error {
        let message = format!("tensor \"{}\": {message}", self.name);
        Error::new(ErrorKind::InvalidMessage, message)
    }
}

fn read_name<I: Input>(cursor: &mut WireCursor<I>, found: &Field, name: &mut String) -> Result<()> {
    if found.value.end - found.value.start > MAX_TENSOR_NAME {
        let message = format!("a tensor's name has more than {MAX_TENSOR_NAME} bytes");
        return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(found.start));
    }
    let bytes = cursor.bytes(found.value.clone())?;
    name.clear();
    name.push_str(&String::from_utf8_lossy(bytes));
    Ok(())
}

/// Reads the value of a varint field.
pub(crate) fn varint<I: Input>(cursor: &mut WireCursor<I>, found: &Field) -> Result<u64> {
    let bytes = cursor.bytes(found.value.clone())?;
    decode_varint(bytes).map(|(value, _)| value).ok_or_else(|| {
        let message = "varint is truncated or too long";
        Error::new(ErrorKind::InvalidMessage, message).at_offset(found.start)
    })
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use proto_splitter_core::wire::SourceInput;

    use super::*;
    use crate::proto::TensorProto;

    /// Parses `bytes`, preceded by three other bytes, both with `parse` and field by field.
    fn both_ways(bytes: &[u8]) -> [String; 2] {
        let model = [b"abc", bytes].concat();
        let range = 3..model.len() as u64;
        let source: &dyn ReadAt = &model;
        [true, false].map(|at_once| {
            let mut cursor = WireCursor::new(SourceInput::new(source, range.end));
            let mut tensor = Tensor::default();
            tensor.forget(range.clone());
            let read = if at_once {
                tensor.parse(&mut cursor, range.clone())
            } else {
                tensor.read(&mut cursor, range.clone())
            };
            match read {
                Ok(()) => format!("{tensor:?}"),
                Err(error) => error.to_string(),
            }
        })
    }

    #[test]
    fn a_small_tensor_is_read_at_once_as_it_is_field_by_field_whatever_its_bytes() {
        let tensor = TensorProto {
            dims: vec![3, 300],
            data_type: Some(1),
            float_data: vec![0.5],
            name: Some("w".into()),
            raw_data: Some(vec![1, 2, 3].into()),
            doc_string: Some("d".into()),
            data_location: Some(0),
            ..Default::default()
        };
        let bytes = tensor.encode_to_vec();
        let (mut read, mut refused) = (0, 0);
        for at in 0..bytes.len() {
            let cut = &bytes[..at];
            let changed = (0..=u8::MAX).map(|byte| {
                let mut changed = bytes.clone();
                changed[at] = byte;
                changed
            });
            for bytes in changed.chain([cut.to_vec()]) {
                let [at_once, by_field] = both_ways(&bytes);
                assert_eq!(at_once, by_field, "{bytes:02x?}");
                if by_field.starts_with("Tensor") {
                    read += 1
                } else {
                    refused += 1
                }
            }
        }
        assert!(read > 1_000 && refused > 1_000, "{read} {refused}");
    }
}
