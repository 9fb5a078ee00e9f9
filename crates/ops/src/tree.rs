//! Measuring the space that the parts of an input use: by field or, in an archive, by entry name.

mod diff;
mod enter;
mod entries;
mod options;
mod report;

use std::path::PathBuf;

use prost_reflect::MessageDescriptor;
use proto_splitter_core::formats::Opened;
use proto_splitter_core::path::PathQuery;
use proto_splitter_core::view::MessageView;
use proto_splitter_core::view::size_tree::{self, LargePart, NAMED, NameRule, SizeTree, TreePlace};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::error_place::at;
use crate::info::entries;
pub use diff::{SizeChange, TreeDiffReport, WhatChanged, tree_diff};
use entries::EntryTree;
pub use options::{LeastSize, TreeLimits, TreeOptions, TreeOrder};
pub use report::{TreeField, TreeMember, TreePart, TreeReport, TreeRest};

/// The sizes of an input's parts, which are measured once. [`report`](Self::report) can then be
/// called several times, with different limits on the parts to list.
#[derive(Debug)]
pub struct MeasuredTree {
    file: PathBuf,
    /// Full name of the message's type or, for an archive, title of the archive's format; `None` if
    /// unknown.
    title: Option<String>,
    measured: Measured,
}

#[derive(Debug)]
enum Measured {
    Message {
        tree: SizeTree,
        /// Trees of the largest list elements and map entries, each measured separately.
        entered: Vec<SizeTree>,
    },
    Entries(EntryTree),
}

/// Measures an input, or the part of it that the options select, and reports the largest parts. A
/// message is measured by field, without loading it. An archive is measured by entry, and its
/// entries are grouped by the components of their names.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Opened};
/// use proto_splitter_ops::{TreeOptions, tree};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// // Field 3 occurs twice, as messages with the strings "testing" and "it" in field 1.
/// std::fs::write(&path, b"\x1a\x09\x0a\x07testing\x1a\x04\x0a\x02it")?;
/// let input = Opened::of_file(&path, None, &OpenOptions::new())?;
/// let report = tree(&input, &TreeOptions::new())?;
/// assert_eq!(report.tree.size, 17);
/// assert_eq!((report.tree.fields[0].path.as_str(), report.tree.fields[0].count), ("3[*]", 2));
/// assert_eq!(report.tree.fields[0].members[0].name.as_deref(), Some("testing"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The errors of [`MeasuredTree::of`].
pub fn tree(input: &Opened, options: &TreeOptions) -> Result<TreeReport> {
    Ok(MeasuredTree::of(input, options)?.report(options.get_limits()))
}

impl MeasuredTree {
    /// Measures an input, or the part of it that the options select. Keeps only the list elements
    /// and map entries within the limits in the options.
    ///
    /// ```
    /// use proto_splitter_core::formats::{OpenOptions, Opened};
    /// use proto_splitter_ops::{MeasuredTree, TreeLimits, TreeOptions};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("message.pb");
    /// std::fs::write(&path, b"\x1a\x09\x0a\x07testing\x1a\x04\x0a\x02it")?;
    /// let input = Opened::of_file(&path, None, &OpenOptions::new())?;
    /// let measured = MeasuredTree::of(&input, &TreeOptions::new())?;
    /// assert_eq!(measured.size(), 17);
    /// assert_eq!(measured.largest(1)[0].path, "3[0]");
    /// assert!(measured.report(&TreeLimits::new().depth(0)).tree.fields.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidPath`] if the path in the options can't be parsed, or there is no
    ///   value at it.
    /// - Any error if the input is damaged or can't be read.
    pub fn of(input: &Opened, options: &TreeOptions) -> Result<MeasuredTree> {
        let known = input.descriptor();
        let (title, measured) = if input.has_message() {
            let (tree, entered) = of_message(input, known, options)?;
            let title = known.map(|known| known.full_name().to_owned());
            (title, Measured::Message { tree, entered })
        } else {
            let title = input.format().map_or("archive", |format| format.title());
            let tree = of_entries(input, options.get_start())?;
            (Some(title.to_owned()), Measured::Entries(tree))
        };
        Ok(MeasuredTree {
            file: input.input().to_owned(),
            title,
            measured,
        })
    }

    /// Returns the size of the measured part, in bytes.
    pub fn size(&self) -> u64 {
        match &self.measured {
            Measured::Message { tree, .. } => tree.root.size,
            Measured::Entries(tree) => tree.size(),
        }
    }

    /// Returns the largest parts of a message, up to `most` of them, like [`SizeTree::largest`].
    /// Returns no parts for an archive.
    pub fn largest(&self, most: usize) -> Vec<LargePart> {
        match &self.measured {
            Measured::Message { tree, .. } => tree.largest(most),
            Measured::Entries(_) => Vec::new(),
        }
    }

    /// Returns a report that lists the parts within `limits`. List elements and map entries are
    /// listed only if they are also within the limits that were passed to [`of`](Self::of).
    pub fn report(&self, limits: &TreeLimits) -> TreeReport {
        let (tree, inside) = match &self.measured {
            Measured::Message { tree, entered } => report::of_message(tree, entered, limits),
            Measured::Entries(tree) => (tree.report(limits), Vec::new()),
        };
        TreeReport {
            file: self.file.clone(),
            message: self.title.clone(),
            largest: self
                .largest(NAMED)
                .into_iter()
                .map(TreePart::from)
                .collect(),
            tree,
            inside,
        }
    }
}

/// Groups the entries of an archive by the components of their names, and returns the tree with the
/// sum of sizes for each group. `path` selects a group; an empty path selects the whole archive.
fn of_entries(input: &Opened, path: &str) -> Result<EntryTree> {
    let found = entries(input).map_err(|error| at(input, error))?;
    EntryTree::measure(&found, path).ok_or_else(|| {
        let message = format!("there is no entry {path:?}");
        at(input, Error::new(ErrorKind::InvalidPath, message))
    })
}

/// Measures a message of the type `root`, or the part that the options select. On request, also
/// measures the largest list elements and map entries separately.
fn of_message(
    input: &Opened,
    root: Option<&MessageDescriptor>,
    options: &TreeOptions,
) -> Result<(SizeTree, Vec<SizeTree>)> {
    let mut reading = input.reading_options().descriptor(root.cloned());
    if let Some(progress) = options.progress.clone() {
        reading = reading.progress(progress);
    }
    let measured = || {
        let start = Start::parse(options.get_start(), root)?;
        let view = input.view_with(reading)?;
        view.check_type()?;
        let names = input.registry().member_names();
        let place = start.find(&view, &names)?;
        let whole = view.size(&place.path)?.unwrap_or(0);
        let measuring = |whole| options.measuring(whole).names(&names);
        let tree = size_tree::measure(&view, &place.path, &measuring(whole))?;
        let tree = tree.focus(&place.below)?;
        let entered = if options.enter_members {
            enter::measure(&view, &tree, &measuring(tree.root.size))?
        } else {
            Vec::new()
        };
        Ok((tree, entered))
    };
    measured().map_err(|error| at(input, error))
}

/// The part of a message to measure: a path, or a query that is resolved to a path by reading the
/// message.
enum Start {
    Place(TreePlace),
    Query(PathQuery),
}

impl Start {
    fn parse(text: &str, root: Option<&MessageDescriptor>) -> Result<Start> {
        let query = PathQuery::parse(text, root).ok();
        match query.filter(|query| query.singular().0.as_path().is_none()) {
            Some(query) => Ok(Start::Query(query)),
            None => TreePlace::parse(text, root).map(Start::Place),
        }
    }

    fn find(self, view: &MessageView<'_>, names: &[NameRule]) -> Result<TreePlace> {
        let query = match self {
            Start::Place(place) => return Ok(place),
            Start::Query(query) => query,
        };
        let root = view.descriptor();
        let (front, _) = query.singular();
        let rest = query.as_str().get(front.as_str().len()..);
        let path = view.select_one(&front, names)?.display(root);
        TreePlace::parse(&(path + rest.unwrap_or_default()), root)
    }
}
