//! The nodes of a Merkle tree, level by level, and their places in the record that stores them.

use std::ops::Range;

use super::hashing::{HASH_LEN, Hash, Hashing};

/// The levels of a Merkle tree with a given number of leaves.
///
/// Level 0 consists of the leaves. Each higher level has one node for every two nodes of the level
/// below. If that level has an odd number of nodes, its last node is repeated unchanged on the
/// higher level. The result is the tree of RFC 9162, section 2.1.1. The RFC splits the leaves at
/// the largest power of two below their number, which leads to the same complete subtrees on the
/// left.
///
/// The levels are stored one after the other, from the leaves up, without the root, so that the
/// offset of a node can be computed from the number of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Levels {
    leaves: u64,
}

impl Levels {
    /// Returns the levels of a tree with this number of leaves.
    pub(crate) fn of(leaves: usize) -> Levels {
        Levels {
            leaves: leaves as u64,
        }
    }

    /// Returns the number of nodes on each level, from the leaves up to the root.
    pub(crate) fn sizes(self) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(self.leaves), |&size| {
            (size > 1).then(|| size.div_ceil(2))
        })
    }

    /// Returns the number of nodes on a level; 0 above the root.
    pub(crate) fn size(self, level: u32) -> u64 {
        self.sizes().nth(level as usize).unwrap_or(0)
    }

    /// Returns the level of the root.
    pub(crate) fn top(self) -> u32 {
        let levels = self.sizes().count().saturating_sub(1);
        u32::try_from(levels).unwrap_or(u32::MAX)
    }

    /// Returns the size of the stored nodes, in bytes; 0 for a single leaf, which is the root.
    pub(crate) fn stored_len(self) -> u64 {
        let nodes = self.sizes().filter(|&size| size > 1);
        nodes
            .fold(0u64, u64::saturating_add)
            .saturating_mul(HASH_LEN as u64)
    }

    /// Returns the range of a stored node, in bytes from the start of the first stored node.
    pub(crate) fn place(self, level: u32, index: u64) -> Range<u64> {
        let below: u64 = self.sizes().take(level as usize).sum();
        let start = below.saturating_add(index).saturating_mul(HASH_LEN as u64);
        start..start.saturating_add(HASH_LEN as u64)
    }
}

/// Returns the nodes on the level above `nodes`; `None` if there is only one node, the root.
pub(crate) fn nodes_above(hashing: Hashing, nodes: &[Hash]) -> Option<Vec<Hash>> {
    let above = |pair: &[Hash]| match pair {
        [left, right] => hashing.node(left, right),
        _ => pair.first().copied().unwrap_or_default(),
    };
    (nodes.len() > 1).then(|| nodes.chunks(2).map(above).collect())
}

#[cfg(all(test, feature = "merkle"))]
mod tests {
    use super::*;

    /// Returns the root as RFC 9162 defines it, recursively: the leaves are divided at a power of
    /// two.
    fn by_definition(hashing: Hashing, leaves: &[Hash]) -> Hash {
        match leaves {
            [leaf] => *leaf,
            _ => {
                let half = leaves.len().next_power_of_two() / 2;
                let (left, right) = leaves.split_at(half);
                let [left, right] = [left, right].map(|half| by_definition(hashing, half));
                hashing.node(&left, &right)
            }
        }
    }

    /// Returns the root, computed level by level.
    fn root(hashing: Hashing, leaves: &[Hash]) -> Hash {
        let mut nodes = leaves.to_vec();
        while let Some(above) = nodes_above(hashing, &nodes) {
            nodes = above;
        }
        nodes[0]
    }

    #[test]
    fn roots_are_those_of_the_rfc() {
        // Leaves and roots from the tests of certificate-transparency-go.
        let leaves: [&[u8]; 8] = [
            b"",
            b"\x00",
            b"\x10",
            b"\x20\x21",
            b"\x30\x31",
            b"\x40\x41\x42\x43",
            b"\x50\x51\x52\x53\x54\x55\x56\x57",
            b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
        ];
        let roots = [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        let hashing = Hashing::new().unwrap();
        let hashes = leaves.map(|leaf| hashing.leaf_of(leaf));
        for (count, expected) in (1..).zip(roots) {
            let some = &hashes[..count];
            assert_eq!(super::super::hex(&root(hashing, some)), expected, "{count}");
            assert_eq!(root(hashing, some), by_definition(hashing, some), "{count}");
        }
    }

    #[test]
    fn a_tree_of_any_size_is_the_one_that_the_rfc_defines() {
        let hashing = Hashing::new().unwrap();
        let leaves: Vec<Hash> = (0..300u32)
            .map(|number| hashing.leaf_of(&number.to_le_bytes()))
            .collect();
        for count in 1..=leaves.len() {
            let some = &leaves[..count];
            assert_eq!(root(hashing, some), by_definition(hashing, some), "{count}");
        }
    }

    #[test]
    fn every_stored_node_has_its_own_place() {
        for leaves in 0..200 {
            let levels = Levels::of(leaves);
            let mut next = 0;
            for (level, size) in (0..).zip(levels.sizes()).filter(|(_, size)| *size > 1) {
                assert_eq!(levels.size(level), size);
                for index in 0..size {
                    let place = levels.place(level, index);
                    assert_eq!(place, next..next + 32, "{leaves} {level} {index}");
                    next = place.end;
                }
            }
            assert_eq!(levels.stored_len(), next);
            assert_eq!(levels.size(levels.top()), u64::from(leaves > 0));
        }
    }
}
