//! Merkle roots: a hash of a whole chunked message, against which every chunk can be checked
//! separately.

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
