//! The size engine, and its entry points.

use std::cell::RefCell;
use std::cmp::Reverse;

use prost_reflect::MessageDescriptor;

use super::tree::{Cut, Node, Siblings, mark_node};
use crate::container::Profile;
use crate::error::{LargePart, NAMED};
use crate::path::{FieldPath, Select, Step};
use crate::split::options::{SizeRules, SplitOptions};
use crate::split::plan::continuation::RunBudget;
use crate::split::plan::cuts::Cuts;
use crate::split::read::source::Source;
use crate::split::read::source_view::Chain;
use crate::{Error, ErrorKind, Result};

/// The size engine, which cuts a message by sizes alone.
pub(crate) struct Engine<'a> {
    pub(super) source: &'a Source,
    pub(super) options: &'a SplitOptions,
    pub(super) rules: &'a SizeRules,
    /// Cuts that splitters have already made. The cut parts no longer count toward their parents'
    /// sizes.
    pub(super) marks: &'a Cuts,
    /// Cuts inside messages that have been reduced completely.
    pub(super) decided: RefCell<Cuts>,
    /// The limit on runs of alternating fields.
    pub(super) turns: &'a RunBudget,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        source: &'a Source,
        options: &'a SplitOptions,
        rules: &'a SizeRules,
        marks: &'a Cuts,
        turns: &'a RunBudget,
    ) -> Self {
        Engine {
            source,
            options,
            rules,
            marks,
            decided: RefCell::default(),
            turns,
        }
    }

    /// Reduces the message at `chain` until its content is within the maximum size, and returns the
    /// cuts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Uncuttable`] with the path and size of a value that can't be cut.
    pub(crate) fn fit(
        self,
        chain: &Chain,
        descriptor: &MessageDescriptor,
        path: &FieldPath,
    ) -> Result<Cuts> {
        let siblings = Siblings::default();
        let depth = 0;
        // The root's fields are always checked, so that a message of another type is refused.
        let check = path.is_root();
        let mut node = self.scan(chain, descriptor, path, depth, siblings, check)?;
        let max = self.options.effective_max_chunk_size();
        self.reduce(&mut node, max)?;
        if node.size > max {
            return Err(self.uncuttable(&node));
        }
        let mut marks = self.decided.into_inner();
        mark_node(&node, &mut marks);
        Ok(marks)
    }

    /// Slices the repeated fields that are larger than one slice, in a message that need not be
    /// cut, and returns the cuts. Returns `None` if every field fits in one slice.
    ///
    /// # Errors
    ///
    /// Any error found in the message.
    pub(crate) fn slice_long_fields(
        self,
        chain: &Chain,
        descriptor: &MessageDescriptor,
        path: &FieldPath,
    ) -> Result<Option<Cuts>> {
        let siblings = Siblings::default();
        let check = path.is_root();
        let mut node = self.scan(chain, descriptor, path, 0, siblings, check)?;
        if !self.slice_long(&mut node)? {
            return Ok(None);
        }
        let mut marks = self.decided.into_inner();
        mark_node(&node, &mut marks);
        Ok(Some(marks))
    }

    /// Returns true if bytes and string values that are elements or are in maps may be cut. Only
    /// the extended profile has paths for them.
    pub(super) fn cuts_elements(&self) -> bool {
        self.options.profile == Profile::Extended
    }

    pub(super) fn max(&self) -> u64 {
        self.options.effective_max_chunk_size()
    }

    /// Returns the target size of slices, in bytes. An element that is larger gets a separate
    /// slice.
    pub(super) fn max_slice(&self) -> u64 {
        self.options.effective_max_slice_size()
    }

    /// Returns an error that names the largest parts that are not moved out of a node. One of these
    /// parts exceeds the maximum chunk size, or all of them together do.
    pub(super) fn uncuttable(&self, node: &Node) -> Error {
        let parts = kept_parts(node);
        if let Some(largest) = parts.first().filter(|part| part.whole > self.max()) {
            return self.uncuttable_value(&largest.path, largest.content, largest.whole);
        }
        let root = Some(self.source.descriptor());
        let message = format!(
            "{} bytes that can't be cut stay in one chunk, over the maximum chunk size of {} bytes{}",
            node.size,
            self.max(),
            self.options.hint(),
        );
        let shown = |part: &Kept| LargePart::new(part.path.display(root), part.whole);
        Error::new(ErrorKind::Uncuttable, message)
            .at_path(node.path.display(root))
            .with_largest(parts.iter().map(shown).collect())
    }

    /// Returns an error about a value that exceeds the maximum chunk size, either alone or together
    /// with its tag and length.
    #[cold]
    pub(super) fn uncuttable_value(&self, path: &FieldPath, content: u64, whole: u64) -> Error {
        let (hint, max) = (self.options.hint(), self.max());
        let bytes = if content > max {
            format!("{content} bytes")
        } else {
            format!("{whole} bytes with tag and length")
        };
        let message =
            format!("{bytes} that can't be cut, over the maximum chunk size of {max} bytes{hint}");
        let root = Some(self.source.descriptor());
        let error = Error::new(ErrorKind::Uncuttable, message).refusing_size();
        error.at_path(path.display(root))
    }
}

/// A part of a message that is not moved out of it.
pub(super) struct Kept {
    pub(super) path: FieldPath,
    /// Size of a single member without its tag and length, in bytes; for any other part, the same
    /// as `whole`.
    pub(super) content: u64,
    /// Size of the part including tags and lengths, in bytes.
    pub(super) whole: u64,
}

/// Returns the largest parts of a node that are not moved out of the node, the largest first.
pub(super) fn kept_parts(node: &Node) -> Vec<Kept> {
    let mut parts = Vec::new();
    for group in &node.groups {
        let children = group.children.iter();
        let largest = children
            .filter(|child| child.ordinal < group.kept)
            .max_by_key(|child| child.outer())
            .filter(|child| child.outer() > group.total / 2);
        match largest {
            Some(child) => match &child.node {
                Some(inner) if child.cut == Cut::No => parts.extend(kept_parts(inner)),
                _ => parts.push(Kept {
                    path: child.path.clone(),
                    content: child.content,
                    whole: child.outer(),
                }),
            },
            None => parts.push(Kept {
                path: node.path.join(Step {
                    field: group.number,
                    select: Select::Field,
                }),
                content: group.total,
                whole: group.total,
            }),
        }
    }
    if node.groups.is_empty() {
        parts.push(Kept {
            path: node.path.clone(),
            content: node.size,
            whole: node.size,
        });
    }
    // Nothing is left of a field that was cut entirely.
    parts.retain(|part| part.whole > 0);
    parts.sort_by_key(|part| Reverse(part.whole));
    parts.truncate(NAMED);
    parts
}
