//! Manifests of split protos. A manifest is the first record, and describes the other records.

use prost::Message;
use proto_splitter_core::path::{FieldPath, MapKey, Select, Step};
use proto_splitter_core::wire::FieldNumber;
use proto_splitter_core::{Error, ErrorKind, Result};

/// The schema of a manifest: `xla.SplitProtoManifest` and its nested types.
pub(crate) mod proto {
    /// The message type of a split proto, and the purposes of its records.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct SplitProtoManifest {
        #[prost(string, tag = "1")]
        pub(crate) result_proto_type: String,
        #[prost(message, repeated, tag = "2")]
        pub(crate) records: Vec<Record>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Record {
        #[prost(oneof = "RecordType", tags = "2, 3")]
        pub(crate) record_type: Option<RecordType>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum RecordType {
        #[prost(message, tag = "2")]
        Merge(MergeRecord),
        #[prost(message, tag = "3")]
        Override(OverrideRecord),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct MergeRecord {}

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct OverrideRecord {
        #[prost(message, repeated, tag = "1")]
        pub(crate) field_path: Vec<PathPart>,
        /// Type of the overridden field. XLA defines only the value 1, for a string or bytes.
        #[prost(int32, tag = "2")]
        pub(crate) field_type: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct PathPart {
        #[prost(int32, tag = "1")]
        pub(crate) field_number: i32,
        #[prost(oneof = "Index", tags = "2, 3, 4")]
        pub(crate) index: Option<Index>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Index {
        #[prost(int64, tag = "2")]
        Repeated(i64),
        #[prost(string, tag = "3")]
        StringKey(String),
        #[prost(int64, tag = "4")]
        IntKey(i64),
    }
}

use proto::{Index, OverrideRecord, RecordType, SplitProtoManifest};

/// Maximum size of a manifest, in bytes: 16 MiB. It is enough for four million records.
pub(crate) const MAX_MANIFEST: u64 = 16 << 20;

/// Value of `field_type` for an override of a string or bytes field, as defined by XLA.
pub(crate) const TYPE_STRING: i32 = 1;

/// Value of `field_type` for an override of a message. This is an extension, which XLA doesn't
/// define.
pub(crate) const TYPE_MESSAGE: i32 = 1000;

/// The purpose of a record in a split proto.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordKind {
    /// The record is a part of the message, and is merged into the parts before it.
    Merge,
    /// The record is the value of the string or bytes field at this path.
    Override(FieldPath),
    /// The record is the serialized message at this path, and replaces an earlier value. This is an
    /// extension, which XLA's reader rejects.
    OverrideMessage(FieldPath),
    /// The record's purpose is unknown, so readers skip it.
    Unknown,
}

/// The manifest of a split proto: the message's type, and the purposes of the records.
///
/// ```
/// use proto_splitter_xla::{Manifest, RecordKind};
///
/// let manifest = Manifest::parse(b"\x0a\x0cxla.HloProto\x12\x02\x12\x00")?;
/// assert_eq!(manifest.message_type(), "xla.HloProto");
/// assert_eq!(manifest.records(), [RecordKind::Merge]);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    message_type: String,
    records: Vec<RecordKind>,
}

impl Manifest {
    /// Creates the manifest of a message of this type, whose records have these purposes.
    pub(crate) fn new(message_type: &str, records: Vec<RecordKind>) -> Manifest {
        Manifest {
            message_type: message_type.to_owned(),
            records,
        }
    }

    /// Returns true if `bytes` are a manifest, as opposed to another message. A manifest begins
    /// with the name of a message type. The name must have a dot if the manifest lists no records.
    /// Unknown fields are only accepted if at least one record has a known purpose. Thus, another
    /// message that begins with a string isn't mistaken for a manifest.
    ///
    /// ```
    /// use proto_splitter_xla::Manifest;
    ///
    /// assert!(Manifest::is_one(b"\x0a\x0cxla.HloProto\x12\x02\x12\x00"));
    /// // A message whose field 1 is a text.
    /// assert!(!Manifest::is_one(b"\x0a\x05hello\x18\x01"));
    /// assert!(!Manifest::is_one(b""));
    /// ```
    pub fn is_one(bytes: &[u8]) -> bool {
        let Ok(manifest) = SplitProtoManifest::decode(bytes) else {
            return false;
        };
        // Unknown fields are only accepted if at least one entry has a known purpose.
        let is_known = manifest.encoded_len() == bytes.len();
        let is_kind = |record: &proto::Record| record.record_type.is_some();
        is_type_name(&manifest.result_proto_type)
            && bytes.first() == Some(&0x0a)
            && (is_known || manifest.records.iter().any(is_kind))
            && (!manifest.records.is_empty() || manifest.result_proto_type.contains('.'))
    }

    /// Parses a manifest.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if `bytes` aren't a manifest;
    /// [`ErrorKind::UnsupportedVersion`] if a record is an override of an undefined kind;
    /// [`ErrorKind::InvalidPath`] if the path of an override is invalid. Each error names the
    /// record's number.
    pub fn parse(bytes: &[u8]) -> Result<Manifest> {
        if !Manifest::is_one(bytes) {
            let message = "record 0 is not the manifest of a split proto";
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        }
        let manifest = SplitProtoManifest::decode(bytes).map_err(|error| {
            let message = format!("record 0: the manifest can't be read: {error}");
            Error::new(ErrorKind::InvalidMessage, message)
        })?;
        let kinds =
            manifest
                .records
                .iter()
                .enumerate()
                .map(|(at, record)| match &record.record_type {
                    None => Ok(RecordKind::Unknown),
                    Some(RecordType::Merge(_)) => Ok(RecordKind::Merge),
                    Some(RecordType::Override(over)) => {
                        let path = override_path(over);
                        let kind = match over.field_type {
                            TYPE_MESSAGE => RecordKind::OverrideMessage,
                            _ => RecordKind::Override,
                        };
                        path.map(kind)
                            .map_err(|error| error.context(format!("record {}", at + 1)))
                    }
                });
        Ok(Manifest {
            records: kinds.collect::<Result<_>>()?,
            message_type: manifest.result_proto_type,
        })
    }

    /// Returns the full name of the message's type, such as `xla.HloProto`.
    pub fn message_type(&self) -> &str {
        &self.message_type
    }

    /// Returns the purpose of each record after the manifest, in order.
    pub fn records(&self) -> &[RecordKind] {
        &self.records
    }

    /// Returns the serialized manifest, with the same bytes that XLA would write.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let override_of = |path: &FieldPath, field_type| {
            Some(RecordType::Override(OverrideRecord {
                field_path: path.steps().iter().map(path_part).collect(),
                field_type,
            }))
        };
        let records = self.records.iter().map(|kind| proto::Record {
            record_type: match kind {
                RecordKind::Merge => Some(RecordType::Merge(proto::MergeRecord {})),
                RecordKind::Override(path) => override_of(path, TYPE_STRING),
                RecordKind::OverrideMessage(path) => override_of(path, TYPE_MESSAGE),
                RecordKind::Unknown => None,
            },
        });
        SplitProtoManifest {
            result_proto_type: self.message_type.clone(),
            records: records.collect(),
        }
        .encode_to_vec()
    }
}

/// Returns true if a string is a valid full name of a type, which consists of identifiers separated
/// by dots.
fn is_type_name(name: &str) -> bool {
    let is_identifier = |part: &str| {
        let mut bytes = part.bytes();
        let begins = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        bytes.next().is_some_and(begins)
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    name.split('.').all(is_identifier)
}

fn override_path(over: &OverrideRecord) -> Result<FieldPath> {
    if ![TYPE_STRING, TYPE_MESSAGE].contains(&over.field_type) {
        let message = format!("an override has the unknown type {}", over.field_type);
        return Err(Error::new(ErrorKind::UnsupportedVersion, message));
    }
    if over.field_path.is_empty() {
        let message = "an override has no path";
        return Err(Error::new(ErrorKind::InvalidPath, message));
    }
    over.field_path.iter().map(step).collect()
}

fn step(part: &proto::PathPart) -> Result<Step> {
    let number = u32::try_from(part.field_number)
        .ok()
        .filter(|number| (1..1 << 29).contains(number));
    let Some(number) = number else {
        let message = format!("{} is not a field number", part.field_number);
        return Err(Error::new(ErrorKind::InvalidPath, message));
    };
    let select = match &part.index {
        None => Select::Field,
        Some(Index::Repeated(index)) => match u64::try_from(*index) {
            Ok(index) => Select::Index(index),
            Err(_) => {
                let message = format!("{index} is not an index");
                return Err(Error::new(ErrorKind::InvalidPath, message));
            }
        },
        Some(Index::StringKey(key)) => Select::Key(MapKey::String(key.clone())),
        Some(Index::IntKey(key)) => Select::Key(MapKey::I64(*key)),
    };
    let field = FieldNumber(number);
    Ok(Step { field, select })
}

fn path_part(step: &Step) -> proto::PathPart {
    let index = match &step.select {
        Select::Field => None,
        Select::Index(index) => Some(Index::Repeated(index.cast_signed())),
        Select::Key(MapKey::String(key)) => Some(Index::StringKey(key.clone())),
        Select::Key(key) => Some(Index::IntKey(int_key(key))),
    };
    proto::PathPart {
        field_number: step.field.0.cast_signed(),
        index,
    }
}

/// Returns the number that represents a key in an override's path.
fn int_key(key: &MapKey) -> i64 {
    match key {
        MapKey::I32(key) => i64::from(*key),
        MapKey::I64(key) => *key,
        MapKey::U32(key) => i64::from(*key),
        MapKey::U64(key) => key.cast_signed(),
        MapKey::Bool(key) => i64::from(*key),
        MapKey::String(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_written_as_xla_writes_them() {
        let path: FieldPath = "3".parse().unwrap();
        let kinds = vec![RecordKind::Override(path), RecordKind::Merge];
        let manifest = Manifest::new("xla.gpu.GpuExecutableProto", kinds);
        let mut expected = b"\x0a\x1axla.gpu.GpuExecutableProto".to_vec();
        expected.extend(b"\x12\x08\x1a\x06\x0a\x02\x08\x03\x10\x01\x12\x02\x12\x00");
        assert_eq!(manifest.encode(), expected);
        assert_eq!(Manifest::parse(&expected).unwrap(), manifest);
    }

    #[test]
    fn other_messages_are_no_manifests() {
        for (bytes, expected) in [
            (&b"\x0a\x0cxla.HloProto"[..], true),
            // A file descriptor, which has a name and a syntax, but isn't a manifest.
            (b"\x0a\x07a.proto\x62\x06proto3", false),
            // A type without a package is accepted with a record, but not without records.
            (b"\x0a\x01T\x12\x02\x12\x00", true),
            (b"\x0a\x01T", false),
            (b"\x0a\x05a.b c\x12\x02\x12\x00", false),
            (b"\x0a\x04.a.b\x12\x02\x12\x00", false),
            (b"\x0a\x03a.b\x12\x02\x12\x00\x9a\x3e\x01x", true),
            (b"\x0a\x03a.b\x9a\x3e\x01x", false),
            (b"\x12\x02\x12\x00", false),
            (b"\x0a", false),
        ] {
            assert_eq!(
                Manifest::is_one(bytes),
                expected,
                "{}",
                bytes.escape_ascii()
            );
        }
    }
}
