//! Assembling the message of a split proto from its records, without copying them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prost_reflect::{Kind, MessageDescriptor};
use proto_splitter_core::edit::Changes;
use proto_splitter_core::path::{FieldPath, MapKey, PathQuery, Select, TargetKind};
use proto_splitter_core::spans::{SourceId, SpanList, SpanSource, Spans, SpansBuilder};
use proto_splitter_core::view::MessageView;
use proto_splitter_core::{Error, ErrorKind, ReadOptions, Result};
use proto_splitter_sequences::Records;
use record_file::ReadAt;

use crate::manifest::{Manifest, RecordKind};

/// Maximum number of passes over the message in which values inside of it are set. Each pass reads
/// the messages on the paths again. Records that [`Draft::extended`](crate::Draft::extended)
/// divides take a pass each, and have more than 2 GiB.
const MAX_PASSES: u64 = 1024;

/// Maximum number of bytes to read while looking for the values to set, in addition to
/// [`MAX_PASSES`] times the size of the records. The search for a value starts at the beginning of
/// each message that contains the value.
const MAX_SEARCHED: u64 = 256 << 20;

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
    /// Number of passes over the message so far.
    passes: u64,
    /// Number of bytes read so far while looking for the values to set.
    searched: u64,
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
            passes: 0,
            searched: 0,
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

    /// Appends a range of a message whose only source is the records.
    fn append(&mut self, list: &SpanList, range: Range<u64>) -> Result<()> {
        for span in list.parts(range) {
            match span.source {
                SpanSource::Literal(bytes) => self.builder.literal(bytes)?,
                SpanSource::Stored(_, at) => self.builder.span(self.source, at..at + span.len)?,
            }
        }
        Ok(())
    }

    /// Replaces values in existing elements of repeated fields and in existing map entries.
    /// Appending a value would create another element instead. Replaces several values in one pass,
    /// if their paths don't overlap. If several values have the same path, only the last of them is
    /// set.
    fn set_inside(
        &mut self,
        overrides: &[(u64, &FieldPath, &RecordKind)],
        root: Option<&MessageDescriptor>,
    ) -> Result<()> {
        let reading = ReadOptions::new().descriptor(root.cloned());
        let end = overrides.last().map_or(0, |(number, ..)| number + 1);
        let size = self.records.range(1..end)?;
        let most = MAX_PASSES.saturating_mul(size.end - size.start);
        let most = most.saturating_add(MAX_SEARCHED);
        let mut so_far = Arc::new(std::mem::take(&mut self.builder).finish()?);
        let mut taken = Taken::default();
        for &(number, path, kind) in overrides {
            let of_record = |error: Error| error.context(format!("record {number}"));
            let path = typed(path, kind, root).map_err(of_record)?;
            if taken.replace(&path, number) {
                continue;
            }
            // As text, the integer key of a field of an unknown type would be an index.
            let query = PathQuery::from(&path);
            if taken.overlaps(&path) {
                let values = std::mem::take(&mut taken).values;
                so_far = self.changed(so_far, &values, Changes::replace, &reading)?;
            }
            let is_there = {
                let message = Counted::new(&so_far);
                let view = MessageView::of_reader(&message, reading.clone())?;
                let size = view.size(&path).map_err(of_record)?;
                let read = message.read.load(Ordering::Relaxed);
                self.searched = self.searched.saturating_add(read);
                size.is_some()
            };
            if self.searched > most {
                let message = format!(
                    "more than {most} bytes would be read to find the values that overrides replace"
                );
                return Err(of_record(Error::new(ErrorKind::LimitExceeded, message)));
            }
            if is_there {
                taken.add(path, query, number);
                continue;
            }
            let values = std::mem::take(&mut taken).values;
            so_far = self.changed(so_far, &values, Changes::replace, &reading)?;
            so_far = self.changed(so_far, &[(query, number)], Changes::insert, &reading)?;
        }
        so_far = self.changed(so_far, &taken.values, Changes::replace, &reading)?;
        let mut next = Assembly::new(self.records)?;
        next.append(so_far.list(), 0..so_far.total_size())?;
        (next.passes, next.searched) = (self.passes, self.searched);
        *self = next;
        Ok(())
    }

    /// Sets values of the message `so_far` in one pass. `change` adds the value of one record to
    /// the changes. Returns the changed message. Its only source is the records, like that of
    /// `so_far`: if it were read through `so_far`, readers would be nested as deeply as there are
    /// passes.
    fn changed(
        &mut self,
        so_far: Arc<Spans>,
        values: &[(PathQuery, u64)],
        change: fn(Changes, PathQuery, Arc<dyn ReadAt>) -> Changes,
        reading: &ReadOptions,
    ) -> Result<Arc<Spans>> {
        let Some((_, last)) = values.last() else {
            return Ok(so_far);
        };
        self.passes += 1;
        if self.passes > MAX_PASSES {
            let message = format!("overrides need more than {MAX_PASSES} passes over the message");
            let error = Error::new(ErrorKind::LimitExceeded, message);
            return Err(error.context(format!("record {last}")));
        }
        let mut changes = Changes::new();
        for (query, number) in values {
            changes = change(changes, query.clone(), self.value(*number)?);
        }
        let before: Arc<dyn ReadAt> = Arc::clone(&so_far) as _;
        let changed = changes.apply(before, reading);
        let changed = changed.map_err(|error| match values {
            [(_, number)] => error.context(format!("record {number}")),
            _ => error,
        })?;
        let mut next = Assembly::new(self.records)?;
        for span in changed.message.list().iter() {
            let (source, at) = match span.source {
                SpanSource::Literal(bytes) => {
                    next.builder.literal(bytes)?;
                    continue;
                }
                SpanSource::Stored(source, at) => (source, at),
            };
            // The sources are the message before, and then the new values.
            let value = source.index().checked_sub(1);
            match value.and_then(|value| values.get(value)) {
                Some((_, number)) => {
                    let start = self.records.range(*number..number + 1)?.start + at;
                    next.builder.span(next.source, start..start + span.len)?;
                }
                None => next.append(so_far.list(), at..at + span.len)?,
            }
        }
        next.builder.finish().map(Arc::new)
    }

    /// Returns the bytes of the record with this number.
    fn value(&self, number: u64) -> Result<Arc<dyn ReadAt>> {
        let mut value = SpansBuilder::new();
        let reader: Arc<dyn ReadAt> = Arc::clone(self.records) as _;
        let source = value.reader("records", reader)?;
        value.span(source, self.records.range(number..number + 1)?)?;
        Ok(Arc::new(value.finish()?))
    }

    fn finish(self) -> Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(self.builder.finish()?))
    }
}

/// A message that counts the bytes that are read.
struct Counted<'a> {
    message: &'a Spans,
    read: AtomicU64,
}

impl<'a> Counted<'a> {
    fn new(message: &'a Spans) -> Self {
        Counted {
            message,
            read: AtomicU64::new(0),
        }
    }
}

impl ReadAt for Counted<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.message.read_at(offset, buf)?;
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        self.message.size()
    }
}

/// The values to replace in the current pass.
#[derive(Default)]
struct Taken {
    /// Queries for the values, and the numbers of the records with the new values.
    values: Vec<(PathQuery, u64)>,
    /// Map from a path to the index of its value in `values`.
    paths: HashMap<FieldPath, usize>,
    /// All proper prefixes of the paths in `paths`.
    ways: HashSet<FieldPath>,
}

impl Taken {
    fn add(&mut self, path: FieldPath, query: PathQuery, number: u64) {
        let mut way = path.clone();
        while way.pop().is_some() {
            self.ways.insert(way.clone());
        }
        self.paths.insert(path, self.values.len());
        self.values.push((query, number));
    }

    /// Sets the number of the record with the new value at `path`, and returns true, if this set
    /// already has a value at this path.
    fn replace(&mut self, path: &FieldPath, number: u64) -> bool {
        let there = self.paths.get(path);
        let there = there.and_then(|index| self.values.get_mut(*index));
        there.is_some_and(|(_, there)| {
            *there = number;
            true
        })
    }

    /// Returns true if `path` is a prefix of a path in this set, or begins with one.
    fn overlaps(&self, path: &FieldPath) -> bool {
        let mut way = path.clone();
        let mut is_taken = false;
        while way.pop().is_some() {
            is_taken |= self.paths.contains_key(&way);
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
