//! Unknown fields in a trailer, which are preserved when the file is rewritten.

use std::borrow::Cow;

use prost::Message;

use crate::Result;
use crate::proto::{ChunkMetadata, descriptor_pool};
use crate::wire::{FieldNumber, WireCursor, WireType, put_varint, slice, tag};

const VERSION: u32 = 1;
const CHUNKS: u32 = 2;
const MESSAGE: u32 = 3;
const EXTENDED_MESSAGE: u32 = 1001;

/// The bytes of a trailer, if the trailer contains unknown fields or unusual encodings.
#[derive(Clone, Debug, Default)]
pub(super) struct Unknown(Option<Box<[u8]>>);

impl Unknown {
    /// Stores `bytes` if they differ from the encoding of `metadata`, which was parsed from them.
    pub(super) fn of(bytes: &[u8], metadata: &ChunkMetadata) -> Self {
        let says_more = metadata.encoded_len() != bytes.len() || metadata.encode_to_vec() != bytes;
        Unknown(says_more.then(|| bytes.into()))
    }

    /// Returns the bytes of the trailer; `None` if encoding the parsed trailer produces the same
    /// bytes.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }

    /// Encodes the edited trailer `metadata`, with the unknown fields from all unchanged parts of
    /// the original trailer `was`. `kept` contains a flag for each chunk of `was`: true if the
    /// chunk remains.
    pub(super) fn encode(
        &self,
        was: &ChunkMetadata,
        mut metadata: ChunkMetadata,
        kept: &[bool],
    ) -> Result<Vec<u8>> {
        let Some(raw) = &self.0 else {
            return Ok(metadata.encode_to_vec());
        };
        let (mut out, mut of_chunks) = (Vec::new(), Vec::new());
        let mut kept = kept.iter();
        let mut cursor = WireCursor::new(&raw[..]);
        while let Some(field) = cursor.next()? {
            let stays = match field.number.0 {
                VERSION => metadata.version == was.version,
                MESSAGE => metadata.message == was.message,
                EXTENDED_MESSAGE => metadata.extended_message == was.extended_message,
                CHUNKS => {
                    if *kept.next().unwrap_or(&false) {
                        of_chunks.push(unknown_of_chunk(slice(raw, &field.value))?);
                    }
                    false
                }
                number => !knows("ChunkMetadata", number),
            };
            if stays {
                out.extend_from_slice(slice(raw, &(field.start..field.end)));
            }
        }
        // An unchanged version or message was copied above, so it isn't encoded again.
        if metadata.version == was.version {
            metadata.version = None;
        }
        if metadata.message == was.message {
            metadata.message = None;
        }
        if metadata.extended_message == was.extended_message {
            metadata.extended_message = None;
        }
        let chunks = std::mem::take(&mut metadata.chunks);
        let mut of_chunks = of_chunks.into_iter();
        for chunk in chunks {
            let mut bytes = chunk.encode_to_vec();
            bytes.extend(of_chunks.next().unwrap_or_default());
            put_varint(&mut out, tag(FieldNumber(CHUNKS), WireType::Len));
            put_varint(&mut out, bytes.len() as u64);
            out.extend(bytes);
        }
        out.extend(metadata.encode_to_vec());
        Ok(out)
    }
}

fn unknown_of_chunk(raw: &[u8]) -> Result<Vec<u8>> {
    let mut unknown = Vec::new();
    let mut cursor = WireCursor::new(raw);
    while let Some(field) = cursor.next()? {
        if !knows("ChunkInfo", field.number.0) {
            unknown.extend_from_slice(slice(raw, &(field.start..field.end)));
        }
    }
    Ok(unknown)
}

fn knows(message: &str, number: u32) -> bool {
    let name: Cow<'_, str> = format!("tensorflow.proto_splitter.{message}").into();
    let message = descriptor_pool().get_message_by_name(&name);
    message.is_some_and(|message| message.get_field(number).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{ChunkInfo, ChunkedMessage, VersionDef};

    /// Returns a trailer with two chunks and three unknown fields: 99 in the trailer, 98 in the
    /// first chunk, and 97 in the chunked message.
    fn raw() -> Vec<u8> {
        let mut raw = Vec::new();
        let chunks = [
            ChunkInfo {
                size: 5,
                ..ChunkInfo::default()
            }
            .encode_to_vec(),
            ChunkInfo {
                size: 6,
                ..ChunkInfo::default()
            }
            .encode_to_vec(),
        ];
        let message = ChunkedMessage {
            chunk_index: Some(1),
            ..ChunkedMessage::default()
        };
        for (number, mut bytes, unknown) in [
            (CHUNKS, chunks[0].clone(), &b"\x90\x06\x07"[..]),
            (CHUNKS, chunks[1].clone(), b""),
            (MESSAGE, message.encode_to_vec(), b"\x88\x06\x08"),
        ] {
            bytes.extend(unknown);
            put_varint(&mut raw, tag(FieldNumber(number), WireType::Len));
            put_varint(&mut raw, bytes.len() as u64);
            raw.extend(bytes);
        }
        raw.extend(b"\x98\x06\x09");
        raw
    }

    fn has(bytes: &[u8], part: &[u8]) -> bool {
        bytes.windows(part.len()).any(|window| window == part)
    }

    #[test]
    fn what_is_not_known_stays_where_it_belongs() {
        let raw = raw();
        let was = ChunkMetadata::decode(&raw[..]).unwrap();
        let unknown = Unknown::of(&raw, &was);
        let mut new = was.clone();
        new.chunks[0].size = 50;
        let bytes = unknown.encode(&was, new.clone(), &[true, true]).unwrap();
        assert_eq!(ChunkMetadata::decode(&bytes[..]).unwrap(), new);
        for part in [b"\x90\x06\x07", b"\x88\x06\x08", b"\x98\x06\x09"] {
            assert!(has(&bytes, part), "{part:?} in {bytes:?}");
        }
        // Encoding the new trailer again keeps its unknown fields, too.
        let again = Unknown::of(&bytes, &new);
        assert_eq!(
            again
                .encode(&new, new.clone(), &[true, true])
                .unwrap()
                .len(),
            bytes.len()
        );
    }

    #[test]
    fn what_belongs_to_something_that_changed_or_went_goes_with_it() {
        let raw = raw();
        let was = ChunkMetadata::decode(&raw[..]).unwrap();
        let mut new = was.clone();
        new.chunks.remove(0);
        new.message = Some(ChunkedMessage {
            chunk_index: Some(0),
            ..ChunkedMessage::default()
        });
        new.version = Some(VersionDef {
            splitter_version: 3,
            ..VersionDef::default()
        });
        let unknown = Unknown::of(&raw, &was);
        let bytes = unknown.encode(&was, new.clone(), &[false, true]).unwrap();
        assert_eq!(ChunkMetadata::decode(&bytes[..]).unwrap(), new);
        assert!(!has(&bytes, b"\x90\x06\x07") && !has(&bytes, b"\x88\x06\x08"));
        assert!(has(&bytes, b"\x98\x06\x09"));
    }

    #[test]
    fn what_is_not_known_is_found_though_the_length_is_as_if_it_were() {
        // The number -1 in five bytes, which is rewritten in ten, and an unknown field of five
        // bytes.
        let unknown = b"\x98\x06\x89\x80\x00";
        let raw = [b"\x0a\x06\x08\xff\xff\xff\xff\x0f".as_slice(), unknown].concat();
        let was = ChunkMetadata::decode(&raw[..]).unwrap();
        assert_eq!(was.encoded_len(), raw.len());
        let kept = Unknown::of(&raw, &was).encode(&was, was.clone(), &[]);
        assert!(has(&kept.unwrap(), unknown));
    }

    #[test]
    fn a_trailer_without_surprises_is_not_held_twice() {
        let metadata = ChunkMetadata {
            source_size: Some(3),
            ..ChunkMetadata::default()
        };
        let bytes = metadata.encode_to_vec();
        let unknown = Unknown::of(&bytes, &metadata);
        assert!(unknown.0.is_none());
        assert_eq!(
            unknown.encode(&metadata, metadata.clone(), &[]).unwrap(),
            bytes
        );
    }
}
