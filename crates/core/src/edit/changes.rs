//! Several changes to a message in one pass.

use std::io::Write;
use std::sync::Arc;

use record_file::ReadAt;

use super::find::Finder;
use super::splice::{Splice, SpliceKind, Splicer, settle};
use super::strip::Stripper;
use crate::merge::ReadOptions;
use crate::path::PathQuery;
use crate::progress::Progress;
use crate::spans::{Spans, SpansBuilder, copy_range};
use crate::tensor::TensorRule;
use crate::view::MessageView;
use crate::view::NameRule;
use crate::{Error, ErrorKind, Result};

/// Changes to a message, made in one pass. Every path refers to the message before the changes:
/// removing `node[0]` and `node[1]` removes the first two elements.
///
/// ```
/// use std::sync::Arc;
///
/// use proto_splitter_core::edit::Changes;
/// use proto_splitter_core::merge::ReadOptions;
/// use proto_splitter_core::path::PathQuery;
/// # use prost::Message;
/// use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
///
/// # let dependency = ["a", "b", "c"].map(str::to_owned).to_vec();
/// # let file = FileDescriptorProto { name: Some("old".into()), dependency, ..Default::default() };
/// # let message: Vec<u8> = file.encode_to_vec();
/// let root = FileDescriptorProto::default().descriptor();
/// let query = |text| PathQuery::parse(text, Some(&root));
/// let changes = Changes::new()
///     .remove(query("dependency[0:2]")?)
///     .replace(query("name")?, Arc::new(b"new".to_vec()))
///     .insert(query("package")?, Arc::new(b"p".to_vec()));
/// let reading = ReadOptions::new().descriptor(root.clone());
/// let changed = changes.apply(Arc::new(message), &reading)?;
///
/// let mut bytes = Vec::new();
/// changed.write_to(&mut bytes, &Default::default())?;
/// let file = FileDescriptorProto::decode(&bytes[..])?;
/// assert_eq!((file.name(), file.package()), ("new", "p"));
/// assert_eq!(file.dependency, ["c"]);
/// assert_eq!(changed.removed, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Changes {
    changes: Vec<Change>,
    least: Option<u64>,
    tensors: Vec<&'static TensorRule>,
    names: Vec<NameRule>,
}

#[derive(Clone)]
enum Change {
    Remove(PathQuery),
    Insert(PathQuery, Arc<dyn ReadAt>),
    Replace(PathQuery, Arc<dyn ReadAt>),
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes")
            .field("count", &self.changes.len())
            .field("strip_values", &self.least)
            .finish_non_exhaustive()
    }
}

/// A changed message. Its bytes are not copied, but read from their sources when the message is
/// read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Changed {
    /// The changed message. Its sources are the message before the changes, and then the new values
    /// in the order in which they were added.
    pub message: Arc<Spans>,
    /// Number of fields, elements and map entries removed.
    pub removed: u64,
    /// Number of fields, elements and map entries inserted.
    pub inserted: u64,
    /// Number of values replaced.
    pub replaced: u64,
    /// Number of values and tensors emptied.
    pub stripped: u64,
    /// Size of the content removed from the emptied values, with its length prefixes, in bytes.
    pub stripped_bytes: u64,
}

impl Changes {
    /// Creates an empty set of changes.
    #[must_use]
    pub fn new() -> Self {
        Changes::default()
    }

    /// Removes everything that a query matches: elements of a repeated field, entries of a map, or
    /// a whole field. Later elements move to lower indices.
    #[must_use]
    pub fn remove(mut self, query: PathQuery) -> Self {
        self.changes.push(Change::Remove(query));
        self
    }

    /// Inserts a value that doesn't exist yet. With an index or a name in the query, inserts an
    /// element before the element that the query selects; with the path of a repeated field,
    /// appends an element; with a key, inserts a map entry; otherwise sets a singular field. The
    /// value has the form that [`MessageView::get`] returns.
    #[must_use]
    pub fn insert(mut self, query: PathQuery, value: Arc<dyn ReadAt>) -> Self {
        self.changes.push(Change::Insert(query, value));
        self
    }

    /// Replaces the value that a query matches. The new value has the form that
    /// [`MessageView::get`] returns.
    #[must_use]
    pub fn replace(mut self, query: PathQuery, value: Arc<dyn ReadAt>) -> Self {
        self.changes.push(Change::Replace(query, value));
        self
    }

    /// Empties all string, bytes, packed and unknown values of at least `least` bytes. The emptied
    /// values aren't removed, so that indices stay valid.
    #[must_use]
    pub const fn strip_values(mut self, least: u64) -> Self {
        self.least = Some(least);
        self
    }

    /// Removes the elements of all tensors that these rules describe. Types, shapes and names stay.
    #[must_use]
    pub fn strip_tensors(mut self, rules: Vec<&'static TensorRule>) -> Self {
        self.tensors = rules;
        self
    }

    /// Sets rules for the names by which queries select elements. Fields that look like names are
    /// used in addition.
    #[must_use]
    pub fn names(mut self, names: Vec<NameRule>) -> Self {
        self.names = names;
        self
    }

    /// Returns true if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.least.is_none() && self.tensors.is_empty()
    }

    /// Applies the changes to the message in `source`, which contains nothing else. Reads the
    /// message's tags, lengths, names and map keys, and the new values, but no other content. Uses
    /// about 100 bytes of memory for each changed field.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if there is no value to change or to insert before, or if a value
    /// to insert exists already; [`ErrorKind::InvalidMessage`] if a new value doesn't have the form
    /// that its field requires, or the message breaks the wire format along the path of a change;
    /// [`ErrorKind::InvalidConfig`] if two changes contradict each other;
    /// [`ErrorKind::SchemaNeeded`] if a change depends on the message's type, which is unknown.
    pub fn apply(&self, source: Arc<dyn ReadAt>, reading: &ReadOptions) -> Result<Changed> {
        let size = source.size()?;
        let view = MessageView::of_reader(&*source, reading.clone())?;
        view.check_whole_type()?;
        let mut builder = SpansBuilder::new();
        let file = builder.reader("the message", Arc::clone(&source))?;
        let (mut splices, mut values) = (Vec::new(), Vec::new());
        let mut finder = Finder::new(&view, &*source, &self.names)?;
        for change in &self.changes {
            let number = values.len();
            let value = match change {
                Change::Remove(query) => {
                    splices.extend(finder.remove(query)?);
                    continue;
                }
                Change::Insert(query, value) => {
                    splices.push(finder.insert(query, &**value, number)?);
                    value
                }
                Change::Replace(query, value) => {
                    splices.push(finder.replace(query, &**value, number)?);
                    value
                }
            };
            let name = format!("new value {number}");
            values.push((builder.reader(name, Arc::clone(value))?, value.size()?));
        }
        self.strip(&view, &*source, &mut splices)?;
        let splices = settle(splices)?;
        Splicer::new(&*source, size, &mut builder, file, &values).message(0..size, &splices)?;
        let count =
            |kind: SpliceKind| splices.iter().filter(|splice| splice.kind == kind).count() as u64;
        let bytes = |splice: &Splice| splice.range.end - splice.range.start;
        let stripped = splices
            .iter()
            .filter(|splice| splice.kind == SpliceKind::Strip);
        Ok(Changed {
            message: Arc::new(builder.finish()?),
            removed: count(SpliceKind::Remove),
            inserted: count(SpliceKind::Insert),
            replaced: count(SpliceKind::Replace),
            stripped: count(SpliceKind::Strip),
            stripped_bytes: stripped.map(bytes).fold(0, u64::saturating_add),
        })
    }

    fn strip(
        &self,
        view: &MessageView<'_>,
        source: &dyn ReadAt,
        splices: &mut Vec<Splice>,
    ) -> Result<()> {
        if self.least.is_none() && self.tensors.is_empty() {
            return Ok(());
        }
        let Some(root) = view.descriptor() else {
            let message = "only the type distinguishes values from messages";
            return Err(Error::new(ErrorKind::SchemaNeeded, message));
        };
        let size = source.size()?;
        let meter = view.progress().meter(size);
        let mut stripper = Stripper::new(source, root, self.least, &self.tensors, &meter)?;
        stripper.message(0..size, root, view.walked_depth())?;
        splices.append(&mut stripper.found);
        Ok(())
    }
}

impl Changed {
    /// Writes the message to `sink` and returns the number of bytes written.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if reading or writing fails; damage in the chunks that are read;
    /// [`ErrorKind::Cancelled`]. After an error, discard the bytes that `sink` received.
    pub fn write_to(&self, sink: &mut impl Write, progress: &Progress) -> Result<u64> {
        let size = self.message.total_size();
        let meter = progress.meter(size);
        copy_range(&*self.message, 0..size, &mut meter.written_to(sink))?;
        meter.check()?;
        Ok(size)
    }
}
