//! The Merkle tree's leaf for the trailer: the whole trailer, except the places of records and the
//! tree's own hashes.

use std::ops::Range;

use super::hashing::{Hash, Hashing};
use crate::Result;
use crate::wire::{WireCursor, WireType, put_varint, slice};

const CHUNKS: u32 = 2;
const FILES: u32 = 1007;
const MERKLE_TREE: u32 = 1010;
const CHUNK_OFFSET: u32 = 3;
const CHUNK_FILE: u32 = 1001;

/// Returns the hash of a serialized trailer, as [`MerkleRoot`](super::MerkleRoot) defines it.
///
/// Fields are hashed as they are serialized, so that fields unknown to this version are part of the
/// hash, too.
pub(super) fn trailer_leaf(hashing: Hashing, trailer: &[u8]) -> Result<Hash> {
    let mut leaf = hashing.leaf();
    let mut cursor = WireCursor::new(trailer);
    let mut length = Vec::new();
    while let Some(field) = cursor.next()? {
        match (field.number.0, field.wire_type) {
            (FILES | MERKLE_TREE, _) => {}
            (CHUNKS, WireType::Len) => {
                let chunk = slice(trailer, &field.value);
                let kept = kept_of_chunk(chunk)?;
                length.clear();
                put_varint(
                    &mut length,
                    kept.iter().map(|range| range.end - range.start).sum(),
                );
                leaf.update(slice(trailer, &(field.start..field.tag_end)));
                leaf.update(&length);
                for range in &kept {
                    leaf.update(slice(chunk, range));
                }
            }
            _ => leaf.update(slice(trailer, &(field.start..field.end))),
        }
    }
    Ok(leaf.finish())
}

/// Returns the byte ranges of a chunk's `ChunkInfo` that are hashed: all fields, except those that
/// locate the chunk's record.
fn kept_of_chunk(chunk: &[u8]) -> Result<Vec<Range<u64>>> {
    let mut kept: Vec<Range<u64>> = Vec::new();
    let mut cursor = WireCursor::new(chunk);
    while let Some(field) = cursor.next()? {
        if [CHUNK_OFFSET, CHUNK_FILE].contains(&field.number.0) {
            continue;
        }
        match kept.last_mut() {
            Some(last) if last.end == field.start => last.end = field.end,
            _ => kept.push(field.start..field.end),
        }
    }
    Ok(kept)
}

#[cfg(all(test, feature = "merkle"))]
mod tests {
    use prost::Message;

    use super::*;
    use crate::proto::chunk_metadata::{ExternalFile, MerkleTree};
    use crate::proto::{ChunkInfo, ChunkMetadata, ChunkedMessage};

    fn metadata() -> ChunkMetadata {
        ChunkMetadata {
            chunks: (1..4)
                .map(|number| ChunkInfo {
                    r#type: 1,
                    size: 100 * number,
                    crc32c: Some(7),
                    ..ChunkInfo::default()
                })
                .collect(),
            message: Some(ChunkedMessage {
                chunk_index: Some(0),
                chunked_fields: Vec::new(),
            }),
            message_type: "a.B".into(),
            ..ChunkMetadata::default()
        }
    }

    fn leaf(bytes: &[u8]) -> Hash {
        trailer_leaf(Hashing::new().unwrap(), bytes).unwrap()
    }

    #[test]
    fn only_the_places_of_records_are_left_out() {
        let plain = metadata();
        let expected = Hashing::new().unwrap().leaf_of(&plain.encode_to_vec());
        let mut moved = plain.clone();
        for (chunk, offset) in moved.chunks.iter_mut().zip([64, 1 << 40, u64::MAX]) {
            (chunk.offset, chunk.file) = (offset, 3);
        }
        moved.files = vec![ExternalFile::default(); 3];
        moved.merkle_tree = Some(MerkleTree {
            nodes_offset: 9,
            ..MerkleTree::default()
        });
        assert_eq!(leaf(&plain.encode_to_vec()), expected);
        assert_eq!(leaf(&moved.encode_to_vec()), expected);
        let changes: [fn(&mut ChunkMetadata); 8] = [
            |it| it.chunks[1].size += 1,
            |it| it.chunks[1].crc32c = None,
            |it| it.chunks[2].r#type = 2,
            |it| it.chunks.swap(0, 1),
            |it| it.message_type.push('C'),
            |it| it.source_size = Some(0),
            |it| it.message = None,
            |it| it.chunks.truncate(2),
        ];
        for change in changes {
            let mut changed = moved.clone();
            change(&mut changed);
            assert_ne!(leaf(&changed.encode_to_vec()), expected, "{changed:?}");
        }
    }

    #[test]
    fn unknown_fields_are_hashed() {
        let bytes = metadata().encode_to_vec();
        // Adds field 2000, which is unknown in a trailer.
        let with_unknown = [&bytes[..], b"\x80\x7d\x01"].concat();
        assert_ne!(leaf(&with_unknown), leaf(&bytes));
        assert_eq!(
            leaf(&with_unknown),
            Hashing::new().unwrap().leaf_of(&with_unknown)
        );
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for bytes in [&b"\x12\x05\x08"[..], b"\x12\x01\x08", b"\x07"] {
            assert!(
                trailer_leaf(Hashing::new().unwrap(), bytes).is_err(),
                "{bytes:?}"
            );
        }
    }
}
