//! The metadata of a file: the options it was written with, and its schema.
use crate::error::{Error, ErrorKind, Result};
use crate::varint;

/// The metadata of a file: the message `riegeli.RecordsMetadata`, which describes the file and its
/// records.
///
/// ```text
/// 1   file_comment           string
/// 2   record_type_name       string
/// 3   file_descriptor        repeated google.protobuf.FileDescriptorProto
/// 4   record_writer_options  string
/// 5   num_records            int64
/// 1000 and above             extensions
/// ```
///
/// # Examples
///
/// ```
/// use record_file::RecordsMetadata;
///
/// let metadata = RecordsMetadata {
///     file_comment: Some("measured on a Tuesday".into()),
///     num_records: Some(7),
///     ..RecordsMetadata::default()
/// };
/// let serialized = metadata.serialize();
/// assert_eq!(RecordsMetadata::parse(&serialized)?, metadata);
/// # Ok::<(), record_file::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordsMetadata {
    /// Comment for human readers.
    pub file_comment: Option<String>,
    /// Full name of the message type of each record.
    pub record_type_name: Option<String>,
    /// Descriptors of the `.proto` files that define the message type of the records, each as a
    /// serialized `google.protobuf.FileDescriptorProto`. Every file comes after the files that it
    /// imports.
    pub file_descriptors: Vec<Vec<u8>>,
    /// Options of the writer, as a string.
    pub record_writer_options: Option<String>,
    /// Number of records in the file; `None` if the writer didn't know it.
    pub num_records: Option<i64>,
    /// The fields of the message that have no member in this struct, including extensions. They are
    /// in encoded form, with their tags.
    pub unknown: Vec<u8>,
}

const FILE_COMMENT: u32 = 1;
const RECORD_TYPE_NAME: u32 = 2;
const FILE_DESCRIPTOR: u32 = 3;
const RECORD_WRITER_OPTIONS: u32 = 4;
const NUM_RECORDS: u32 = 5;

impl RecordsMetadata {
    /// Serializes the message, with its fields in the order of their numbers.
    #[must_use]
    pub fn serialize(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut bytes = |number: u32, value: &[u8]| {
            varint::push(&mut out, u64::from(number << 3 | 2));
            varint::push(&mut out, value.len() as u64);
            out.extend_from_slice(value);
        };
        for (number, text) in [
            (FILE_COMMENT, &self.file_comment),
            (RECORD_TYPE_NAME, &self.record_type_name),
        ] {
            if let Some(text) = text {
                bytes(number, text.as_bytes());
            }
        }
        for descriptor in &self.file_descriptors {
            bytes(FILE_DESCRIPTOR, descriptor);
        }
        if let Some(text) = &self.record_writer_options {
            bytes(RECORD_WRITER_OPTIONS, text.as_bytes());
        }
        if let Some(count) = self.num_records {
            varint::push(&mut out, u64::from(NUM_RECORDS << 3));
            varint::push(&mut out, count.cast_unsigned());
        }
        out.extend_from_slice(&self.unknown);
        out
    }

    /// Parses a serialized message.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](ErrorKind::Corrupt) if the bytes are not a message, or a string in the message
    /// is not UTF-8.
    pub fn parse(serialized: &[u8]) -> Result<Self> {
        let mut metadata = RecordsMetadata::default();
        let mut rest = serialized;
        while !rest.is_empty() {
            let from = rest;
            let (tag, value) = take_field(&mut rest).ok_or_else(|| {
                let at = serialized.len() - from.len();
                Error::plain(
                    ErrorKind::Corrupt,
                    format!("metadata: no field at byte {at} of the message"),
                )
            })?;
            match (tag >> 3, value) {
                (FILE_COMMENT, Value::Bytes(text)) => {
                    metadata.file_comment = Some(string(text, "file_comment")?);
                }
                (RECORD_TYPE_NAME, Value::Bytes(text)) => {
                    metadata.record_type_name = Some(string(text, "record_type_name")?);
                }
                (FILE_DESCRIPTOR, Value::Bytes(descriptor)) => {
                    metadata.file_descriptors.push(descriptor.to_vec());
                }
                (RECORD_WRITER_OPTIONS, Value::Bytes(text)) => {
                    metadata.record_writer_options = Some(string(text, "record_writer_options")?);
                }
                (NUM_RECORDS, Value::Varint(count)) => {
                    metadata.num_records = Some(count.cast_signed());
                }
                _ => {
                    let len = from.len() - rest.len();
                    metadata.unknown.extend_from_slice(&from[..len]);
                }
            }
        }
        Ok(metadata)
    }
}

fn string(bytes: &[u8], field: &str) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| {
        Error::plain(
            ErrorKind::Corrupt,
            format!("metadata: {field} is not UTF-8"),
        )
    })
}

enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Removes a field from the front of a message, and returns the field's tag and value. Returns
/// `None` if the field is malformed.
fn take_field<'a>(rest: &mut &'a [u8]) -> Option<(u32, Value<'a>)> {
    let tag = take_tag(rest)?;
    if tag & 7 != 3 {
        return take_value(rest, tag).map(|value| (tag, value));
    }
    let mut open = vec![tag >> 3];
    while let Some(&group) = open.last() {
        let inner = take_tag(rest)?;
        match inner & 7 {
            3 => open.push(inner >> 3),
            4 if inner >> 3 == group => {
                open.pop();
            }
            _ => {
                take_value(rest, inner)?;
            }
        }
    }
    Some((tag, Value::Other))
}

fn take_tag(rest: &mut &[u8]) -> Option<u32> {
    let tag = u32::try_from(varint::take(rest)?).ok()?;
    (tag >= 8).then_some(tag)
}

fn take_value<'a>(rest: &mut &'a [u8], tag: u32) -> Option<Value<'a>> {
    let len = match tag & 7 {
        0 => return varint::take(rest).map(Value::Varint),
        1 => 8,
        5 => 4,
        2 => usize::try_from(varint::take(rest)?).ok()?,
        _ => return None,
    };
    let (value, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(if tag & 7 == 2 {
        Value::Bytes(value)
    } else {
        Value::Other
    })
}
