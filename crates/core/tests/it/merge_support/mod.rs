//! Handmade chunked messages, for the merge tests.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "each test file uses a part"
)]

pub mod file;
pub mod random;
pub mod schema;

use bytes::Bytes;
use proto_splitter_core::Result;
use proto_splitter_core::merge::{Merger, ReadOptions};
use proto_splitter_core::path::{FieldPath, MapKey, Step};
use proto_splitter_core::proto::{
    ChunkInfo, ChunkMetadata, ChunkedField, ChunkedMessage, VersionDef,
};
use proto_splitter_core::wire::{FieldNumber, WireType, put_varint, tag};

fn tagged(number: u32, wire: WireType) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, tag(FieldNumber(number), wire));
    out
}

/// Returns a varint field.
pub fn int(number: u32, value: u64) -> Vec<u8> {
    let mut out = tagged(number, WireType::Varint);
    put_varint(&mut out, value);
    out
}

/// Returns a length-delimited field.
pub fn len(number: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = tagged(number, WireType::Len);
    put_varint(&mut out, value.as_ref().len() as u64);
    out.extend_from_slice(value.as_ref());
    out
}

/// Returns a length-delimited field with an overlong length.
pub fn padded(number: u32, value: impl AsRef<[u8]>, bytes: usize) -> Vec<u8> {
    let value = value.as_ref();
    let mut out = tagged(number, WireType::Len);
    for i in 0..bytes {
        let more = if i + 1 < bytes { 0x80 } else { 0 };
        out.push(u8::try_from((value.len() as u64 >> (7 * i)) & 0x7f).unwrap() | more);
    }
    out.extend_from_slice(value);
    out
}

/// Returns a group.
pub fn group(number: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = tagged(number, WireType::StartGroup);
    out.extend_from_slice(value.as_ref());
    out.extend(tagged(number, WireType::EndGroup));
    out
}

/// Returns a fixed32 field.
pub fn fixed32(number: u32, value: u32) -> Vec<u8> {
    let mut out = tagged(number, WireType::Fixed32);
    out.extend_from_slice(&value.to_le_bytes());
    out
}

/// Returns a fixed64 field.
pub fn fixed64(number: u32, value: u64) -> Vec<u8> {
    let mut out = tagged(number, WireType::Fixed64);
    out.extend_from_slice(&value.to_le_bytes());
    out
}

/// Concatenates fields.
pub fn cat<const N: usize>(fields: [Vec<u8>; N]) -> Vec<u8> {
    fields.concat()
}

/// Returns a map entry with a string key.
pub fn entry(number: u32, key: &str, value: Vec<u8>) -> Vec<u8> {
    len(number, cat([len(1, key), value]))
}

/// Parses a path of field numbers, in which `[3u32]`, `[-1i64]` and similar steps are typed keys.
pub fn path(text: &str) -> FieldPath {
    let mut out = FieldPath::root();
    for part in text.split('.').filter(|part| !part.is_empty()) {
        let typed = part.split_once('[').and_then(|(field, rest)| {
            let field = field.parse().ok()?;
            let key = rest.strip_suffix(']')?;
            let key = if let Some(key) = key.strip_suffix("u32") {
                MapKey::U32(key.parse().unwrap())
            } else if let Some(key) = key.strip_suffix("u64") {
                MapKey::U64(key.parse().unwrap())
            } else if let Some(key) = key.strip_suffix("i32") {
                MapKey::I32(key.parse().unwrap())
            } else if let Some(key) = key.strip_suffix("i64") {
                MapKey::I64(key.parse().unwrap())
            } else {
                return None;
            };
            Some(Step::key(field, key))
        });
        match typed {
            Some(step) => out.push(step),
            None => out = out.concat(&part.parse().unwrap()),
        }
    }
    out
}

/// Returns a base with two placeholders, and the chunks that fill them.
pub fn sample() -> Chunked {
    Chunked::marked()
        .base(cat([int(1, 1), len(8, []), len(10, [])]))
        .bytes("8", "value")
        .message("10[0]", int(1, 2))
}

/// A chunked message under construction.
#[derive(Clone, Default)]
pub struct Chunked {
    pub chunks: Vec<Bytes>,
    pub metadata: ChunkMetadata,
}

impl Chunked {
    /// Creates a chunked message with placeholders.
    pub fn marked() -> Self {
        let mut out = Chunked::unmarked();
        out.metadata.splice_marker = true;
        out
    }

    /// Creates a chunked message without placeholders, like TensorFlow's.
    pub fn unmarked() -> Self {
        let mut out = Chunked::default();
        out.metadata.version = Some(VersionDef {
            splitter_version: 1,
            ..VersionDef::default()
        });
        out.metadata.message = Some(ChunkedMessage::default());
        out
    }

    pub fn add(&mut self, kind: i32, chunk: impl Into<Vec<u8>>) -> u64 {
        let chunk = Bytes::from(chunk.into());
        let info = ChunkInfo {
            r#type: kind,
            size: chunk.len() as u64,
            offset: 0,
            crc32c: None,
            file: 0,
        };
        self.metadata.chunks.push(info);
        self.chunks.push(chunk);
        self.chunks.len() as u64 - 1
    }

    pub fn message_mut(&mut self) -> &mut ChunkedMessage {
        let extended = self.metadata.extended_message.as_mut();
        extended.or(self.metadata.message.as_mut()).unwrap()
    }

    fn field(mut self, at: &str, kind: i32, chunk: impl Into<Vec<u8>>, packed: bool) -> Self {
        let index = self.add(kind, chunk);
        let field = ChunkedField {
            field_tag: path(at).to_tags(),
            message: Some(ChunkedMessage {
                chunk_index: Some(index),
                chunked_fields: Vec::new(),
            }),
            packed,
            ..Default::default()
        };
        self.message_mut().chunked_fields.push(field);
        self
    }

    /// Sets the base chunk.
    pub fn base(mut self, chunk: impl Into<Vec<u8>>) -> Self {
        let index = self.add(1, chunk);
        self.message_mut().chunk_index = Some(index);
        self
    }

    /// Adds a MESSAGE chunk.
    pub fn message(self, at: &str, chunk: impl Into<Vec<u8>>) -> Self {
        self.field(at, 1, chunk, false)
    }

    /// Adds a BYTES chunk.
    pub fn bytes(self, at: &str, chunk: impl Into<Vec<u8>>) -> Self {
        self.field(at, 2, chunk, false)
    }

    /// Adds a slice that continues the packed numbers of a repeated field.
    pub fn packed(self, at: &str, chunk: impl Into<Vec<u8>>) -> Self {
        self.field(at, 1, chunk, true)
    }

    /// Declares the last chunk as a slice of the field with this number.
    pub fn slice_of(mut self, number: u32) -> Self {
        let field = self.message_mut().chunked_fields.last_mut();
        field.unwrap().slice_of = number;
        self
    }

    /// Declares the number of elements in the last chunk.
    pub fn elements(mut self, count: u64) -> Self {
        let field = self.message_mut().chunked_fields.last_mut();
        field.unwrap().elements = count;
        self
    }

    /// Nests the last `count` fields below the field before them, with relative paths.
    pub fn nest(mut self, count: usize) -> Self {
        let fields = &mut self.message_mut().chunked_fields;
        let nested = fields.split_off(fields.len() - count);
        fields
            .last_mut()
            .unwrap()
            .message
            .as_mut()
            .unwrap()
            .chunked_fields = nested;
        self
    }

    pub fn merge_with(&self, options: &ReadOptions) -> Result<Vec<u8>> {
        Merger::new()
            .options(options)
            .merge(&self.chunks, &self.metadata)
            .map(|bytes| bytes.to_vec())
    }

    pub fn merge(&self) -> Result<Vec<u8>> {
        self.merge_with(&ReadOptions::new())
    }
}
