//! Dividing messages into records as XLA's writers do.

use std::collections::HashMap;
use std::ops::Range;

use prost_reflect::MessageDescriptor;
use proto_splitter_core::path::FieldPath;
use proto_splitter_core::spans::{SourceId, SpanList};
use proto_splitter_core::view::MessageView;
use proto_splitter_core::view::size_tree::with_largest;
use proto_splitter_core::wire::{Field, SourceInput, WireCursor, WireType};
use proto_splitter_core::{ReadOptions, Result};
use record_file::ReadAt;

use super::record::{Record, field};
use super::{MAX_MERGE_RECORD, oversized, uncuttable};
use crate::manifest::RecordKind;
use crate::{EXECUTABLE_AND_OPTIONS, GPU_EXECUTABLE, HLO_PROTO};

/// Target size of the records for a message type that XLA doesn't split, in bytes: 1 GiB.
const GENERIC_RECORD: u64 = 1 << 30;

/// Maximum size of a name in an error message, in bytes. A longer name is truncated.
const MAX_NAME: u64 = 200;

type Cut = Vec<Record>;

/// Divides a message of type `message_type` into records. If `extended`, the type's descriptor, is
/// given, records that are too large for XLA's reader are divided further, in ways that XLA's
/// reader doesn't support.
pub(super) fn cut(
    message: &dyn ReadAt,
    message_type: &str,
    extended: Option<&MessageDescriptor>,
) -> Result<Cut> {
    let size = message.size()?;
    let mut cutter = Cutter {
        cursor: WireCursor::new(SourceInput::new(message, size)),
        source: SourceId::FIRST,
        size,
    };
    let cut = match message_type {
        HLO_PROTO => cutter.module()?,
        GPU_EXECUTABLE => cutter.executable()?,
        EXECUTABLE_AND_OPTIONS => cutter.with_options()?,
        _ => cutter.any()?,
    };
    let count = cut.len();
    let mut records = Cut::with_capacity(count);
    for (at, record) in cut.into_iter().enumerate() {
        let len = record.spans.len();
        if record.kind != RecordKind::Merge || len <= MAX_MERGE_RECORD {
            records.push(record);
            continue;
        }
        if let Some(root) = extended
            && let Some(mut cut) = oversized::cut(message, &record, root)?
        {
            records.append(&mut cut);
            continue;
        }
        let what = match message_type {
            HLO_PROTO if at > 0 => cutter.computation(at - 1)?,
            GPU_EXECUTABLE if (3..count - 1).contains(&at) => {
                format!("constants[{}]", at - 3)
            }
            _ => format!("the rest of the {message_type}"),
        };
        let view =
            MessageView::of_reader(message, ReadOptions::new().descriptor(extended.cloned()))?;
        return Err(with_largest(
            uncuttable(&what, len),
            &view,
            &FieldPath::root(),
        ));
    }
    Ok(records)
}

struct Cutter<'a> {
    cursor: WireCursor<SourceInput<'a, dyn ReadAt + 'a>>,
    source: SourceId,
    size: u64,
}

impl Cutter<'_> {
    fn push(&self, list: &mut SpanList, range: Range<u64>) {
        list.push_span(self.source, range);
    }

    /// Returns a length-delimited field whose value consists of the spans `inside`.
    fn wrapped(number: u32, inside: &SpanList) -> SpanList {
        let mut list = SpanList::default();
        field(&mut list, number, inside);
        list
    }

    /// Returns four values: the module's fields, without the computations; the message's fields,
    /// without the module; the byte ranges of the computations; and true if there is a module.
    fn parts_of_module(&mut self) -> Result<(SpanList, SpanList, Vec<Range<u64>>, bool)> {
        let (mut inside, mut outside) = (SpanList::default(), SpanList::default());
        let (mut computations, mut has_module) = (Vec::new(), false);
        for field in self.cursor.fields(0..self.size)? {
            if !field.is_len(1) {
                self.push(&mut outside, field.start..field.end);
                continue;
            }
            has_module = true;
            for field in self.cursor.fields(field.value)? {
                if field.is_len(3) {
                    computations.push(field.start..field.end);
                } else {
                    self.push(&mut inside, field.start..field.end);
                }
            }
        }
        Ok((inside, outside, computations, has_module))
    }

    fn module(&mut self) -> Result<Cut> {
        let (inside, outside, computations, has_module) = self.parts_of_module()?;
        let mut first = SpanList::default();
        if has_module {
            first.append(&Self::wrapped(1, &inside));
        }
        first.append(&outside);
        let mut cut = vec![Record::merge(first)];
        for (at, computation) in computations.into_iter().enumerate() {
            let mut inside = SpanList::default();
            self.push(&mut inside, computation);
            cut.push(Record::merge(Self::wrapped(1, &inside)).behind([1, 3], at));
        }
        Ok(cut)
    }

    /// Returns the path of the computation with this index, and its name if it has one, for an
    /// error message.
    fn computation(&mut self, index: usize) -> Result<String> {
        let (.., computations, _) = self.parts_of_module()?;
        let mut name = String::new();
        if let Some(range) = computations.get(index).cloned() {
            let field = self.cursor.fields(range)?.into_iter().next();
            let inside = field.map_or(Ok(Vec::new()), |field| self.cursor.fields(field.value))?;
            let is_name = |field: &&Field| field.is_len(1);
            if let Some(field) = inside.iter().find(is_name) {
                let end = field.value.end.min(field.value.start + MAX_NAME);
                let bytes = self.cursor.bytes(field.value.start..end)?;
                name = format!(" ({:?})", String::from_utf8_lossy(bytes));
            }
        }
        Ok(format!("hlo_module.computations[{index}]{name}"))
    }

    fn executable(&mut self) -> Result<Cut> {
        let (mut graphs, mut rest) = (SpanList::default(), SpanList::default());
        let (mut texts, mut constants) = ([SpanList::default(), SpanList::default()], Vec::new());
        for field in self.cursor.fields(0..self.size)? {
            let all = field.start..field.end;
            match (field.number.0, field.wire_type) {
                (3 | 4, WireType::Len) => {
                    let mut value = SpanList::default();
                    self.push(&mut value, field.value);
                    // If the field occurs several times, its last value takes effect.
                    texts[usize::from(field.number.0 == 4)] = value;
                }
                (5, WireType::Len) => self.push(&mut graphs, all),
                (12, WireType::Len) => {
                    let mut constant = SpanList::default();
                    self.push(&mut constant, all);
                    let at = constants.len();
                    constants.push(Record::merge(constant).behind([12], at));
                }
                _ => self.push(&mut rest, all),
            }
        }
        let [text, binary] = texts;
        let mut cut = vec![
            Record::value(3, text),
            Record::value(4, binary),
            Record::merge(graphs),
        ];
        cut.append(&mut constants);
        cut.push(Record::merge(rest));
        Ok(cut)
    }

    fn with_options(&mut self) -> Result<Cut> {
        let (mut executable, mut rest) = (SpanList::default(), SpanList::default());
        for field in self.cursor.fields(0..self.size)? {
            if field.is_len(1) {
                executable = SpanList::default();
                self.push(&mut executable, field.value);
            } else {
                self.push(&mut rest, field.start..field.end);
            }
        }
        Ok(vec![Record::value(1, executable), Record::merge(rest)])
    }

    /// Divides a message of any type into records that contain consecutive fields.
    fn any(&mut self) -> Result<Cut> {
        let (mut cut, mut run) = (Cut::new(), SpanList::default());
        let mut counts = HashMap::<u32, usize>::new();
        for field in self.cursor.fields(0..self.size)? {
            let len = field.end - field.start;
            let number = field.number.0;
            let before = counts.entry(number).or_default();
            if !run.is_empty() && run.len() + len > GENERIC_RECORD {
                cut.push(Record::merge(std::mem::take(&mut run)));
            }
            self.push(&mut run, field.start..field.end);
            // A field that is too large for XLA's reader gets a separate record.
            if len > MAX_MERGE_RECORD {
                let alone = Record::merge(std::mem::take(&mut run));
                cut.push(alone.behind([number], *before));
            }
            *before += 1;
        }
        if !run.is_empty() || cut.is_empty() {
            cut.push(Record::merge(run));
        }
        Ok(cut)
    }
}
