//! The size tree of an archive, whose entries are grouped by the components of their names.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem;

use proto_splitter_core::formats::Entry;

use super::report::share;
use super::{TreeField, TreeLimits, TreeOrder, TreeRest};

/// Maximum number of components into which a name is divided. The last component contains the
/// remainder of a name that has more.
const MOST_PARTS: usize = 64;

/// Entries of an archive, grouped by the components of their names.
#[derive(Debug)]
pub(super) struct EntryTree {
    /// Character that separates the components of names.
    separator: char,
    /// Path of the group `node`; empty if the group contains all entries of the archive.
    path: String,
    node: Node,
}

#[derive(Debug, Default)]
struct Node {
    size: u64,
    own: u64,
    count: u64,
    detail: Option<String>,
    below: BTreeMap<String, Node>,
}

/// Returns the character that separates the components of the entries' names: `/` if any name has
/// one, otherwise `.`.
fn separator(entries: &[Entry]) -> char {
    let slashes = entries.iter().any(|entry| entry.name.contains('/'));
    if slashes { '/' } else { '.' }
}

impl EntryTree {
    /// Returns the tree of the entries whose names start with the components in `path`, or of all
    /// entries if `path` is empty. Returns `None` if there are no such entries.
    pub(super) fn measure(entries: &[Entry], path: &str) -> Option<EntryTree> {
        let separator = separator(entries);
        let mut root = Node::default();
        for entry in entries {
            let mut node = &mut root;
            node.add(entry);
            for part in entry.name.splitn(MOST_PARTS, separator) {
                node = node.below.entry(part.to_owned()).or_default();
                node.add(entry);
            }
            node.own += entry.bytes;
            node.detail.clone_from(&entry.detail);
        }
        let node = if path.is_empty() {
            root
        } else {
            // Components of names can be empty. If there is no such entry, additional separators in
            // the path are ignored, such as the last one of `layer/`.
            let exact = root.take(path.splitn(MOST_PARTS, separator));
            let parts = path.split(separator).filter(|part| !part.is_empty());
            exact.or_else(|| root.take(parts))?
        };
        Some(EntryTree {
            separator,
            path: path.to_owned(),
            node,
        })
    }

    /// Returns the total size of the entries, in bytes.
    pub(super) fn size(&self) -> u64 {
        self.node.size
    }

    /// Returns the nodes of the tree that are within the limits.
    pub(super) fn report(&self, limits: &TreeLimits) -> TreeField {
        let whole = self.size();
        let cut = Cut {
            limits: *limits,
            separator: self.separator,
            min_size: limits.get_min_size().of(whole),
            whole,
        };
        cut.field(&self.node, self.path.clone(), self.path.clone(), 0)
    }
}

impl Node {
    fn add(&mut self, entry: &Entry) {
        self.size += entry.bytes;
        self.count += 1;
    }

    /// Takes the node with this path out of the tree. Returns `None` if there is no such node.
    fn take<'p>(&mut self, path: impl IntoIterator<Item = &'p str>) -> Option<Node> {
        let mut path = path.into_iter();
        let node = path.try_fold(self, |node, part| node.below.get_mut(part))?;
        Some(mem::take(node))
    }
}

/// The limits on the listed nodes.
struct Cut {
    limits: TreeLimits,
    separator: char,
    min_size: u64,
    /// Total size, in bytes, of which each share is a fraction.
    whole: u64,
}

impl Cut {
    fn field(&self, node: &Node, label: String, path: String, depth: usize) -> TreeField {
        let limits = &self.limits;
        let mut below: Vec<(&String, &Node)> = node.below.iter().collect();
        below.sort_by_key(|(_, node)| Reverse(node.size));
        let all = below.len();
        below.retain(|(_, node)| node.size >= self.min_size);
        if limits.get_order() == TreeOrder::Count {
            below.sort_by_key(|(_, node)| Reverse(node.count));
        }
        below.truncate(limits.get_top());
        if limits.get_order() == TreeOrder::Name {
            below.sort_by_key(|(name, _)| *name);
        }
        let is_deepest = depth >= limits.get_depth();
        if is_deepest {
            below.clear();
        }
        let listed: u64 = below.iter().map(|(_, node)| node.size).sum();
        let rest = TreeRest {
            count: (all - below.len()) as u64,
            size: (node.size - node.own).saturating_sub(listed),
        };
        let fields = below.into_iter().map(|(name, node)| {
            // The path of the whole archive is empty, and so is the first component of a name that
            // starts with the separator.
            let path = if path.is_empty() && depth == 0 {
                name.clone()
            } else {
                format!("{path}{}{name}", self.separator)
            };
            self.field(node, name.clone(), path, depth + 1)
        });
        TreeField {
            fields: fields.collect(),
            path,
            label,
            detail: node.detail.clone(),
            type_name: node.detail.clone(),
            count: node.count,
            size: node.size,
            own: node.own,
            share: share(node.size, self.whole),
            other_fields: Some(rest).filter(|rest| rest.count > 0 && !is_deepest),
            ..TreeField::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proto_splitter_core::tensor::Location;

    use super::*;

    #[test]
    fn entries_add_up_by_the_parts_of_their_names() {
        let entry = |name: &str, bytes| Entry::new(name, bytes, Location::Nowhere);
        let entries = [entry("a/x", 10), entry("a/y/z", 5), entry("b", 1)];
        let measure = |path| EntryTree::measure(&entries, path);
        let root = measure("").unwrap().node;
        assert_eq!((root.size, root.count, root.own), (16, 3, 0));
        let a = measure("a").unwrap().node;
        assert_eq!((a.size, a.count), (15, 2));
        assert_eq!(measure("a/y/z").unwrap().node.own, 5);
        assert_eq!(measure("a/y/").unwrap().node.own, 0);
        assert_eq!(measure("a//x").unwrap().node.own, 10);
        assert!(measure("a/w").is_none());
    }

    /// Returns the paths of a node and of all nodes below it.
    fn listed(field: &TreeField) -> Vec<&str> {
        let below = field.fields.iter().flat_map(listed);
        [field.path.as_str()].into_iter().chain(below).collect()
    }

    #[test]
    fn the_groups_with_the_most_entries_are_listed_by_count() {
        let entry = |name: &str, bytes| Entry::new(name, bytes, Location::Nowhere);
        let entries = [
            entry("large", 100),
            entry("many/x", 1),
            entry("many/y", 1),
            entry("some/z", 9),
        ];
        let limits = TreeLimits::default().top(1);
        for (order, expected) in [
            (TreeOrder::Size, "large"),
            (TreeOrder::Count, "many"),
            (TreeOrder::Name, "large"),
        ] {
            let tree = EntryTree::measure(&entries, "").unwrap();
            let fields = tree.report(&limits.order(order)).fields;
            assert_eq!(fields.len(), 1);
            assert_eq!(fields[0].path, expected, "{order:?}");
        }
    }

    #[test]
    fn a_listed_path_selects_its_entries() {
        let entry = |name: &str, bytes| Entry::new(name, bytes, Location::Nowhere);
        for (names, group, expected) in [
            (["l.w", "l.b"], "l", "l.w"),
            (["l/w", "l/b.c"], "l", "l/w"),
            (["/l/w", "/l/b"], "/l", "/l/w"),
            (["l//w", "l//b"], "l/", "l//w"),
        ] {
            let entries = names.map(|name| entry(name, 2));
            let whole = EntryTree::measure(&entries, "").unwrap();
            let whole = whole.report(&TreeLimits::default());
            let paths = listed(&whole);
            assert!(
                paths.contains(&group) && paths.contains(&expected),
                "{paths:?}"
            );
            let tree = EntryTree::measure(&entries, group).unwrap();
            assert_eq!(tree.size(), 4);
            let fields = tree.report(&TreeLimits::default()).fields;
            let mut paths = fields.iter().map(|field| field.path.as_str());
            assert!(paths.any(|path| path == expected), "{fields:?}");
            assert_eq!(EntryTree::measure(&entries, expected).unwrap().size(), 2);
        }
    }
}
