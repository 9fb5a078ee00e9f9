//! Assembling the message of a split proto from its records, without copying them.

use std::collections::HashSet;
use std::sync::Arc;

use prost_reflect::{Kind, MessageDescriptor};
use proto_splitter_core::edit::Changes;
use proto_splitter_core::path::{FieldPath, MapKey, PathQuery, Select, TargetKind};
use proto_splitter_core::spans::{SourceId, Spans, SpansBuilder};
use proto_splitter_core::view::MessageView;
use proto_splitter_core::{Error, ErrorKind, ReadOptions, Result};
use proto_splitter_sequences::Records;
use record_file::ReadAt;

use crate::manifest::{Manifest, RecordKind};

/// Assembles the message from the records that the manifest describes. `root` is the message's
/// type, if it is known.
pub(super) fn message(
    manifest: &Manifest,
    records: &Arc<Records>,
    root: Option<&MessageDescriptor>,
) -> Result<Arc<dyn ReadAt>> {
    let mut assembly = Assembly::new(records)?;
    let mut kinds = (1..).zip(manifest.records()).peekable();
    while let Some((number, kind)) = kinds.next() {
        match kind {
            RecordKind::Unknown => {}
            RecordKind::Merge => {
                let mut end = number + 1;
                while let Some((next, _)) =
                    kinds.next_if(|(_, kind)| matches!(kind, RecordKind::Merge))
                {
                    end = next + 1;
                }
                assembly.merge(number, end)?;
            }
            RecordKind::Override(path) if is_of_fields(path) => {
                let set = typed(path, kind, root).and_then(|path| assembly.set(&path, number));
                set.map_err(|error| error.context(format!("record {number}")))?;
            }
            RecordKind::Override(path) | RecordKind::OverrideMessage(path) => {
                let mut inside = vec![(number, path, kind)];
                while let Some((number, kind)) = kinds.next_if(|(_, kind)| is_inside(kind))
                    && let RecordKind::Override(path) | RecordKind::OverrideMessage(path) = kind
                {
                    inside.push((number, path, kind));
                }
                assembly.set_inside(&inside, root)?;
            }
        }
    }
    assembly.finish()
}

/// Returns true if no step of a path selects an element or a map entry.
fn is_of_fields(path: &FieldPath) -> bool {
    path.steps().iter().all(|step| step.select == Select::Field)
}

/// Returns true if a record overrides a nested message, or a value in an element of a repeated
/// field or in a map entry. Appending a field can't override such a value.
fn is_inside(kind: &RecordKind) -> bool {
    match kind {
        RecordKind::Override(path) => !is_of_fields(path),
        RecordKind::OverrideMessage(_) => true,
        RecordKind::Merge | RecordKind::Unknown => false,
    }
}

/// A message that is assembled by appending the contents of records.
struct Assembly<'a> {
    builder: SpansBuilder,
    source: SourceId,
    records: &'a Arc<Records>,
}

impl<'a> Assembly<'a> {
    fn new(records: &'a Arc<Records>) -> Result<Self> {
        let mut builder = SpansBuilder::new();
        let reader: Arc<dyn ReadAt> = Arc::clone(records) as _;
        let source = builder.reader("records", reader)?;
        Ok(Assembly {
            builder,
            source,
            records,
        })
    }

    /// Appends the records from the number `from` up to `to`, exclusive.
    fn merge(&mut self, from: u64, to: u64) -> Result<()> {
        self.builder
            .span(self.source, self.records.range(from..to)?)
    }

    /// Appends a field whose value is the record with this number. The appended field overrides
    /// earlier occurrences of the same field, since the last occurrence takes effect. Parsers merge
    /// the messages that contain the field with earlier occurrences of these messages.
    fn set(&mut self, path: &FieldPath, number: u64) -> Result<()> {
        for step in path.steps() {
            self.builder.begin_field(step.field)?;
        }
        self.merge(number, number + 1)?;
        for _ in path.steps() {
            self.builder.end_field()?;
        }
        Ok(())
    }

    /// Replaces values in existing elements of repeated fields and in existing map entries.
    /// Appending a value would create another element instead. Replaces several values in one pass,
    /// if their paths don't overlap.
    fn set_inside(
        &mut self,
        overrides: &[(u64, &FieldPath, &RecordKind)],
        root: Option<&MessageDescriptor>,
    ) -> Result<()> {
        let reading = ReadOptions::new().descriptor(root.cloned());
        let mut so_far = std::mem::take(&mut self.builder).finish().map(whole)?;
        let mut changes = Changes::new();
        let mut taken = Taken::default();
        for &(number, path, kind) in overrides {
            let of_record = |error: Error| error.context(format!("record {number}"));
            let path = typed(path, kind, root).map_err(of_record)?;
            let query = PathQuery::parse(&path.display(root), root).map_err(of_record)?;
            let value = self.value(number)?;
            if taken.overlaps(&path) {
                so_far = applied(&mut changes, so_far, &reading)?;
                taken = Taken::default();
            }
            let is_there = {
                let view = MessageView::of_reader(&*so_far, reading.clone())?;
                view.size(&path).map_err(of_record)?.is_some()
            };
            if is_there {
                changes = changes.replace(query, value);
                taken.add(path);
                continue;
            }
            so_far = applied(&mut changes, so_far, &reading)?;
            taken = Taken::default();
            let inserted = Changes::new().insert(query, value).apply(so_far, &reading);
            so_far = inserted.map_err(of_record)?.message;
        }
        so_far = applied(&mut changes, so_far, &reading)?;
        let size = so_far.size()?;
        let mut next = Assembly::new(self.records)?;
        let before = next.builder.reader("the records before", so_far)?;
        next.builder.span(before, 0..size)?;
        *self = next;
        Ok(())
    }

    /// Returns the bytes of the record with this number.
    fn value(&self, number: u64) -> Result<Arc<dyn ReadAt>> {
        let mut value = SpansBuilder::new();
        let reader: Arc<dyn ReadAt> = Arc::clone(self.records) as _;
        let source = value.reader("records", reader)?;
        value.span(source, self.records.range(number..number + 1)?)?;
        value.finish().map(whole)
    }

    fn finish(self) -> Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(self.builder.finish()?))
    }
}

fn whole(spans: Spans) -> Arc<dyn ReadAt> {
    Arc::new(spans)
}

/// Applies `changes` to the message `so_far`, and clears `changes`. Returns the changed message.
fn applied(
    changes: &mut Changes,
    so_far: Arc<dyn ReadAt>,
    reading: &ReadOptions,
) -> Result<Arc<dyn ReadAt>> {
    let changes = std::mem::take(changes);
    if changes.is_empty() {
        return Ok(so_far);
    }
    Ok(changes.apply(so_far, reading)?.message)
}

/// The paths of the values to replace in the current pass.
#[derive(Default)]
struct Taken {
    paths: HashSet<FieldPath>,
    /// All proper prefixes of the paths in `paths`.
    ways: HashSet<FieldPath>,
}

impl Taken {
    fn add(&mut self, path: FieldPath) {
        let mut way = path.clone();
        while way.pop().is_some() {
            self.ways.insert(way.clone());
        }
        self.paths.insert(path);
    }

    /// Returns true if `path` equals a path in this set, is a prefix of one, or begins with one.
    fn overlaps(&self, path: &FieldPath) -> bool {
        let mut way = path.clone();
        let mut is_taken = self.paths.contains(&way);
        while way.pop().is_some() {
            is_taken |= self.paths.contains(&way);
        }
        is_taken || self.ways.contains(path)
    }
}

/// Returns a path whose map keys have the types that the schema declares. Fails unless the path
/// leads to a string or bytes field or, for an override of a message, to a message. If the type of
/// the root message is unknown, accepts any path.
fn typed(
    path: &FieldPath,
    kind: &RecordKind,
    root: Option<&MessageDescriptor>,
) -> Result<FieldPath> {
    let Some(root) = root else {
        return Ok(path.clone());
    };
    let mut typed = FieldPath::root();
    for step in path.steps() {
        let target = typed.resolve(root)?;
        let field = target.kind.message();
        let field = field.and_then(|message| message.get_field(step.field.0));
        let mut step = step.clone();
        if let (Select::Key(MapKey::I64(key)), Some(Kind::Message(entry))) = (
            &step.select,
            field
                .filter(|field| field.is_map())
                .map(|field| field.kind()),
        ) {
            let key = *key;
            let kind = entry.map_entry_key_field().kind();
            step.select = Select::Key(number_key(key, &kind).ok_or_else(|| {
                let message = format!("{key} is not a key of this map");
                Error::new(ErrorKind::InvalidPath, message).at_path(typed.display(Some(root)))
            })?);
        }
        typed.push(step);
    }
    let target = typed.resolve(root)?;
    let is_message = matches!(kind, RecordKind::OverrideMessage(_));
    match target.kind {
        TargetKind::Scalar(Kind::String | Kind::Bytes) if !target.whole_field && !is_message => {
            Ok(typed)
        }
        TargetKind::Message(_) if !target.whole_field && is_message => Ok(typed),
        _ => {
            let what = if target.whole_field {
                "a repeated field or map, without an index or key"
            } else if is_message {
                "not a message"
            } else {
                "neither a string nor bytes"
            };
            let message = format!("the target of an override is {what}");
            let error = Error::new(ErrorKind::InvalidPath, message);
            Err(error.at_path(typed.display(Some(root))))
        }
    }
}

fn number_key(key: i64, kind: &Kind) -> Option<MapKey> {
    match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => i32::try_from(key).ok().map(MapKey::I32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Some(MapKey::I64(key)),
        Kind::Uint32 | Kind::Fixed32 => u32::try_from(key).ok().map(MapKey::U32),
        Kind::Uint64 | Kind::Fixed64 => Some(MapKey::U64(key.cast_unsigned())),
        Kind::Bool => match key {
            0 => Some(MapKey::Bool(false)),
            1 => Some(MapKey::Bool(true)),
            _ => None,
        },
        _ => None,
    }
}
