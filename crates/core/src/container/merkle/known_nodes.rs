//! Checking leaves of a Merkle tree against its root, with as few stored nodes as possible.

use std::collections::HashMap;

use super::hashing::{Hash, Hashing, hex};
use super::levels::Levels;
use crate::{Error, ErrorKind, Result};

/// A node of a Merkle tree: its level, counted from the leaves, and its index on that level.
pub(crate) type Node = (u32, u64);

/// The nodes of a Merkle tree that have been checked against its root.
#[derive(Debug)]
pub(crate) struct KnownNodes {
    levels: Levels,
    known: HashMap<Node, Hash>,
}

impl KnownNodes {
    /// Creates the set of known nodes of a tree, which initially contains only the root.
    pub(crate) fn new(levels: Levels, root: Hash) -> KnownNodes {
        KnownNodes {
            levels,
            known: HashMap::from([((levels.top(), 0), root)]),
        }
    }

    /// Returns the stored nodes needed to check this leaf: at most one for each level, and none
    /// that earlier checks have used.
    pub(crate) fn needed(&self, leaf: u64) -> Vec<Node> {
        let mut needed = Vec::new();
        for (level, size) in (0..).zip(self.levels.sizes()) {
            let index = leaf >> level;
            if self.known.contains_key(&(level, index)) {
                break;
            }
            let sibling = (level, index ^ 1);
            if sibling.1 < size && !self.known.contains_key(&sibling) {
                needed.push(sibling);
            }
        }
        needed
    }

    /// Checks that a leaf with this hash belongs to the root. `stored` contains the nodes that
    /// [`needed`](Self::needed) returns for the leaf.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ChecksumMismatch`] if the leaf or a stored node doesn't belong to the root;
    /// [`ErrorKind::InvalidTrailer`] if a needed node is missing.
    pub(crate) fn check(
        &mut self,
        hashing: Hashing,
        leaf: u64,
        hash: Hash,
        stored: &HashMap<Node, Hash>,
    ) -> Result<()> {
        let (mut hash, mut proven) = (hash, Vec::new());
        let is_in_tree = leaf < self.levels.size(0);
        let rows = self.levels.sizes().take_while(|_| is_in_tree);
        for (level, size) in (0..).zip(rows) {
            let index = leaf >> level;
            if let Some(expected) = self.known.get(&(level, index)) {
                if *expected != hash {
                    return Err(mismatch(level, expected, &hash));
                }
                self.known.extend(proven);
                return Ok(());
            }
            proven.push(((level, index), hash));
            let sibling = (level, index ^ 1);
            if sibling.1 >= size {
                continue;
            }
            let other = self.known.get(&sibling).or_else(|| stored.get(&sibling));
            let Some(other) = other.copied() else {
                break;
            };
            proven.push((sibling, other));
            hash = match index % 2 {
                0 => hashing.node(&hash, &other),
                _ => hashing.node(&other, &hash),
            };
        }
        let message = format!("the Merkle tree's nodes around leaf {leaf} are missing");
        Err(Error::new(ErrorKind::InvalidTrailer, message))
    }
}

#[cold]
fn mismatch(level: u32, expected: &Hash, found: &Hash) -> Error {
    let [expected, found] = [expected, found].map(hex);
    let message = match level {
        0 => format!("its hash is {found}, where the Merkle root says {expected}"),
        _ => format!(
            "its hash leads to the node {found} on level {level}, where the Merkle root says {expected}"
        ),
    };
    Error::new(ErrorKind::ChecksumMismatch, message)
}

#[cfg(all(test, feature = "merkle"))]
mod tests {
    use super::super::levels::nodes_above;
    use super::*;

    /// Returns all nodes of a tree with these leaves, and the hash of its root.
    fn tree(leaves: &[Hash]) -> (HashMap<Node, Hash>, Hash) {
        let hashing = Hashing::new().unwrap();
        let mut nodes = HashMap::new();
        let (mut level, mut row) = (0, leaves.to_vec());
        loop {
            nodes.extend((0..).zip(&row).map(|(index, hash)| ((level, index), *hash)));
            match nodes_above(hashing, &row) {
                Some(above) => (level, row) = (level + 1, above),
                None => return (nodes, row[0]),
            }
        }
    }

    fn leaves(count: u32) -> Vec<Hash> {
        let hashing = Hashing::new().unwrap();
        (0..count)
            .map(|n| hashing.leaf_of(&n.to_le_bytes()))
            .collect()
    }

    #[test]
    fn each_leaf_needs_at_most_a_node_for_each_level_and_all_of_them_each_node_once() {
        let hashing = Hashing::new().unwrap();
        for count in 1..70 {
            let leaves = leaves(count);
            let (nodes, root) = tree(&leaves);
            let levels = Levels::of(leaves.len());
            let mut all = KnownNodes::new(levels, root);
            let mut read_by_all = 0;
            for (index, leaf) in (0..).zip(&leaves) {
                let mut alone = KnownNodes::new(levels, root);
                let most = (u32::BITS - (count - 1).leading_zeros()) as usize;
                read_by_all += all.needed(index).len();
                for known in [&mut alone, &mut all] {
                    let needed = known.needed(index);
                    assert!(needed.len() <= most, "{count} {index}: {needed:?}");
                    let stored = needed.iter().map(|node| (*node, nodes[node])).collect();
                    known.check(hashing, index, *leaf, &stored).unwrap();
                    assert!(known.needed(index).is_empty());
                }
            }
            assert!(read_by_all < leaves.len(), "{count}: {read_by_all}");
        }
    }

    #[test]
    fn no_other_leaf_and_no_other_node_is_taken() {
        let hashing = Hashing::new().unwrap();
        let leaves = leaves(13);
        let (nodes, root) = tree(&leaves);
        let levels = Levels::of(leaves.len());
        for (index, leaf) in (0..).zip(&leaves) {
            let fresh = || KnownNodes::new(levels, root);
            let needed = fresh().needed(index);
            let stored: HashMap<_, _> = needed.iter().map(|node| (*node, nodes[node])).collect();
            let mut other = *leaf;
            other[7] ^= 1;
            let mut known = fresh();
            let error = known.check(hashing, index, other, &stored).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
            // A failed check records no hashes.
            assert_eq!(known.needed(index), needed);
            assert!(fresh().check(hashing, index ^ 1, *leaf, &stored).is_err());
            for node in &needed {
                let mut stored = stored.clone();
                stored.get_mut(node).unwrap()[31] ^= 0x80;
                assert!(fresh().check(hashing, index, *leaf, &stored).is_err());
            }
            assert!(
                fresh()
                    .check(hashing, index, *leaf, &HashMap::new())
                    .is_err()
            );
        }
        assert!(
            KnownNodes::new(levels, root)
                .check(hashing, 13, leaves[0], &nodes)
                .is_err()
        );
    }
}
