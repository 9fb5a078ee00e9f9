//! The selection of fields to read from records.
use std::collections::BTreeMap;

/// A selection of fields to read from records that are protobuf messages. Other fields are omitted.
///
/// Only transposed chunks store fields separately. Records in other chunks, and records that are
/// not messages, are returned whole.
///
/// # Examples
///
/// ```
/// use record_file::FieldProjection;
///
/// // Field 1, and of the message in field 4 only field 2; of field 7 only whether and how often it is there.
/// let projection = FieldProjection::none().field(&[1]).field(&[4, 2]).existence(&[7]);
/// assert!(!projection.is_all());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldProjection {
    root: Node,
}

/// The fields to read from a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Node {
    all: bool,
    fields: BTreeMap<u32, Node>,
}

impl FieldProjection {
    /// Returns a projection that includes all fields.
    #[must_use]
    pub fn all() -> Self {
        FieldProjection {
            root: Node {
                all: true,
                fields: BTreeMap::new(),
            },
        }
    }

    /// Returns a projection without fields, to which fields can be added.
    #[must_use]
    pub fn none() -> Self {
        FieldProjection::default()
    }

    /// Adds a field with all of its content. The path consists of the field numbers from the record
    /// to the field.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{FieldProjection, ReaderOptions, RecordFile, RecordWriter, WriterOptions};
    ///
    /// let options = WriterOptions::new().transpose(true);
    /// let mut writer = RecordWriter::new(Vec::new(), options)?;
    /// // Field 1 is 7; field 2 is a message, whose field 1 is 8 and field 3 is 9.
    /// writer.write_record(b"\x08\x07\x12\x04\x08\x08\x18\x09")?;
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new())?
    ///     .with_field_projection(FieldProjection::none().field(&[2, 3]));
    /// let record = file.read_record(file.locate(64)?)?;
    /// assert_eq!(record, b"\x12\x02\x18\x09"[..]);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    #[must_use]
    pub fn field(mut self, path: &[u32]) -> Self {
        self.node(path).all = true;
        self
    }

    /// Adds the existence of a field, without its content: the field reads as zero or empty.
    #[must_use]
    pub fn existence(mut self, path: &[u32]) -> Self {
        self.node(path);
        self
    }

    /// Returns true if all fields are read.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.root.all
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    fn node(&mut self, path: &[u32]) -> &mut Node {
        path.iter().fold(&mut self.root, |node, &number| {
            node.fields.entry(number).or_default()
        })
    }
}

/// The part to read from a message or field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Selected<'a> {
    /// All of the message or field.
    All,
    /// The existence of the field, and the selected fields inside the field, if any.
    Some(&'a Node),
    /// Nothing, not even the existence of the field.
    Nothing,
}

impl<'a> Selected<'a> {
    pub(crate) fn of(node: &'a Node) -> Self {
        if node.all {
            Selected::All
        } else {
            Selected::Some(node)
        }
    }

    /// Returns the part to read from a field in this message.
    pub(crate) fn field(self, number: u32) -> Self {
        match self {
            Selected::All => Selected::All,
            Selected::Nothing => Selected::Nothing,
            Selected::Some(node) => node
                .fields
                .get(&number)
                .map_or(Selected::Nothing, Selected::of),
        }
    }
}
