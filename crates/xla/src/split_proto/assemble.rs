//! From records to the one message: a list of spans of them.

use std::sync::Arc;

use prost_reflect::{Kind, MessageDescriptor};
use proto_splitter_core::edit::Changes;
use proto_splitter_core::path::{FieldPath, MapKey, PathQuery, Select, Step, TargetKind};
use proto_splitter_core::spans::{SourceId, SpansBuilder};
use proto_splitter_core::view::MessageView;
use proto_splitter_core::{Error, ErrorKind, ReadOptions, Result};
use record_file::ReadAt;

use crate::manifest::{Manifest, RecordKind};
use crate::records::Records;

/// The message that records make.
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
            RecordKind::Override(path) => {
                let set = typed(path, root).and_then(|path| assembly.set(&path, number, root));
                set.map_err(|error| error.context(format!("record {number}")))?;
            }
        }
    }
    assembly.finish()
}

/// A message that is put together front to back.
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

    /// Adds merge records, from one up to another.
    fn merge(&mut self, from: u64, to: u64) -> Result<()> {
        self.builder
            .span(self.source, self.records.range(from..to)?)
    }

    /// Sets the value at a path to the bytes of a record.
    fn set(
        &mut self,
        path: &FieldPath,
        number: u64,
        root: Option<&MessageDescriptor>,
    ) -> Result<()> {
        let is_field = |step: &Step| step.select == Select::Field;
        if !path.steps().iter().all(is_field) {
            return self.set_inside(path, number, root);
        }
        // What comes last counts, and messages that come in pieces are merged.
        for step in path.steps() {
            self.builder.begin_field(step.field)?;
        }
        self.merge(number, number + 1)?;
        for _ in path.steps() {
            self.builder.end_field()?;
        }
        Ok(())
    }

    /// Sets a value inside an element or an entry, where it stands: what would be added at the end
    /// would be another element.
    fn set_inside(
        &mut self,
        path: &FieldPath,
        number: u64,
        root: Option<&MessageDescriptor>,
    ) -> Result<()> {
        let so_far = std::mem::take(&mut self.builder).finish()?;
        let so_far: Arc<dyn ReadAt> = Arc::new(so_far);
        let reading = ReadOptions::new().descriptor(root.cloned());
        let there = MessageView::of_reader(&*so_far, reading.clone())?.size(path)?;
        let query = PathQuery::parse(&path.display(root), root)?;
        let mut value = SpansBuilder::new();
        let reader: Arc<dyn ReadAt> = Arc::clone(self.records) as _;
        let source = value.reader("records", reader)?;
        value.span(source, self.records.range(number..number + 1)?)?;
        let value = Arc::new(value.finish()?);
        let changes = match there {
            Some(_) => Changes::new().replace(query, value),
            None => Changes::new().insert(query, value),
        };
        let changed = changes.apply(so_far, &reading)?.message;
        let size = changed.total_size();
        let mut next = Assembly::new(self.records)?;
        let before = next.builder.reader("the records before", changed)?;
        next.builder.span(before, 0..size)?;
        *self = next;
        Ok(())
    }

    fn finish(self) -> Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(self.builder.finish()?))
    }
}

/// The path with the keys that its fields have, if it leads to a string or bytes. Of a type that
/// isn't known, every path does.
fn typed(path: &FieldPath, root: Option<&MessageDescriptor>) -> Result<FieldPath> {
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
                let message = format!("{key} is no key of this map");
                Error::new(ErrorKind::InvalidPath, message).at_path(typed.display(Some(root)))
            })?);
        }
        typed.push(step);
    }
    let target = typed.resolve(root)?;
    match target.kind {
        TargetKind::Scalar(Kind::String | Kind::Bytes) if !target.whole_field => Ok(typed),
        _ => {
            let what = if target.whole_field {
                "a repeated field or map, without an index or key"
            } else {
                "neither a string nor bytes"
            };
            let message = format!("an override of what is {what}");
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
