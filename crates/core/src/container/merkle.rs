//! Merkle roots. A Merkle root is one hash of a whole message in chunks, against which any part of
//! the message can be checked.

mod hashing;
mod known_nodes;
mod levels;
mod root;
mod trailer_leaf;

pub use hashing::check_hashing;
pub(crate) use hashing::{HASH_LEN, Hash, Hashing, LeafHasher, hash_of, hex};
pub(crate) use known_nodes::{KnownNodes, Node};
pub(crate) use levels::{Levels, nodes_above};
pub use root::MerkleRoot;
pub(crate) use root::subtrees;
