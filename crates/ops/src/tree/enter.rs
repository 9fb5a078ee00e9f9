//! Measuring the largest list elements and map entries separately, for a page that can zoom into
//! them.

use std::collections::{BinaryHeap, HashSet};

use proto_splitter_core::Result;
use proto_splitter_core::view::MessageView;
use proto_splitter_core::view::size_tree::{self, SizeTree, TreeOptions};

/// Maximum number of list elements and map entries to measure separately. Those smaller than
/// 1/[`LEAST_ENTERED`] of the total size are skipped.
const MOST_ENTERED: usize = 200;
const LEAST_ENTERED: u64 = 1_000;

/// Measures the largest list elements and map entries in `tree` separately, and then the largest
/// ones inside these. Returns a tree for each, the largest first.
pub(super) fn measure(
    view: &MessageView<'_>,
    tree: &SizeTree,
    options: &TreeOptions,
) -> Result<Vec<SizeTree>> {
    let whole = tree.root.size;
    let mut entered = Vec::new();
    let mut found = BinaryHeap::new();
    let mut seen = HashSet::new();
    let mut look_into = |tree: &SizeTree, found: &mut BinaryHeap<_>| {
        let mut open = vec![&tree.root];
        while let Some(node) = open.pop() {
            open.extend(&node.children);
            // The page can't zoom into members without fields.
            let members = node.members.iter().filter(|_| !node.children.is_empty());
            for member in members {
                let is_large = member.size.saturating_mul(LEAST_ENTERED) >= whole;
                if is_large && seen.insert(member.path.clone()) {
                    found.push((member.size, member.path.clone()));
                }
            }
        }
    };
    look_into(tree, &mut found);
    while let Some((_, path)) = found.pop() {
        if entered.len() >= MOST_ENTERED {
            break;
        }
        let inside = size_tree::measure(view, &path, options)?;
        look_into(&inside, &mut found);
        entered.push(inside);
    }
    Ok(entered)
}
