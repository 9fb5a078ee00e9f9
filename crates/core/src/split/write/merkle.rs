//! Writing the nodes of a Merkle tree.

use std::io::Write;

use prost::Message;
use record_file::{Compression, RecordWriter};

use crate::Result;
use crate::container::{HASH_LEN, Hash, Hashing, Levels, MerkleRoot, nodes_above};
use crate::proto::ChunkMetadata;
use crate::proto::chunk_metadata::MerkleTree;
use crate::split::file_sizes::most_stored;

/// Maximum size of the trailer's field for a tree, in bytes.
const MOST_OF_FIELD: u64 = 96;

/// Returns the maximum number of bytes that a tree over `chunks` chunks adds to a file.
pub(crate) fn most_of_tree(chunks: usize) -> u64 {
    most_stored(Levels::of(chunks).stored_len()).saturating_add(MOST_OF_FIELD)
}

/// Writes the nodes of the tree with these leaves as a record, and returns the trailer's field for
/// the tree. `metadata` is the file's metadata.
pub(in crate::split) fn write_tree<W: Write>(
    writer: &mut RecordWriter<W>,
    leaves: &[Hash],
    metadata: &[u8],
) -> Result<MerkleTree> {
    let hashing = Hashing::new()?;
    let mut nodes: Vec<u8> = Vec::with_capacity(2 * HASH_LEN * leaves.len());
    let mut level = leaves.to_vec();
    while let Some(above) = nodes_above(hashing, &level) {
        nodes.extend(level.iter().flatten());
        level = above;
    }
    let nodes_offset = if nodes.is_empty() {
        0
    } else {
        // Uncompressed, so that readers can read single nodes by their positions.
        let position = writer.write_record_alone(&nodes, Compression::None)?;
        position.numeric()
    };
    let root = level.first().copied().unwrap_or_default();
    Ok(MerkleTree {
        chunks: root.to_vec().into(),
        metadata: hashing.leaf_of(metadata).to_vec().into(),
        nodes_offset,
    })
}

/// Returns the Merkle root of a file with this trailer; `None` if the trailer has no tree.
pub(in crate::split) fn root_of(trailer: &ChunkMetadata) -> Result<Option<MerkleRoot>> {
    let tree = trailer.merkle_tree.as_ref();
    tree.map(|tree| MerkleRoot::of(&trailer.encode_to_vec(), tree))
        .transpose()
}
