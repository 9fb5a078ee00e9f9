//! Where XLA's writers cut the types that they split.

use std::ops::Range;

use proto_splitter_core::Result;
use proto_splitter_core::path::{FieldPath, Step};
use proto_splitter_core::spans::{SourceId, SpanList};
use proto_splitter_core::wire::{
    Field, FieldNumber, SourceInput, WireCursor, WireType, put_varint, tag, varint_len,
};
use record_file::ReadAt;

use super::{MAX_MERGE_RECORD, uncuttable};
use crate::manifest::RecordKind;
use crate::{EXECUTABLE_AND_OPTIONS, GPU_EXECUTABLE, HLO_PROTO};

/// Messages that XLA doesn't split get records of up to this many bytes, where fields allow.
const GENERIC_RECORD: u64 = 1 << 30;

/// The most bytes of a name that an error shows.
const MAX_NAME: u64 = 200;

type Cut = Vec<(RecordKind, SpanList)>;

/// The records of a message of this type.
pub(super) fn cut(message: &dyn ReadAt, message_type: &str) -> Result<Cut> {
    let size = message.size()?;
    let mut cutter = Cutter {
        cursor: WireCursor::new(SourceInput::new(message, size)),
        source: SourceId::new(0)?,
        size,
    };
    let cut = match message_type {
        HLO_PROTO => cutter.module()?,
        GPU_EXECUTABLE => cutter.executable()?,
        EXECUTABLE_AND_OPTIONS => cutter.with_options()?,
        _ => cutter.any()?,
    };
    for (at, (kind, record)) in cut.iter().enumerate() {
        let len = record.len();
        if *kind == RecordKind::Merge && len > MAX_MERGE_RECORD {
            let what = match message_type {
                HLO_PROTO if at > 0 => cutter.computation(at - 1)?,
                GPU_EXECUTABLE if (3..cut.len() - 1).contains(&at) => {
                    format!("constants[{}]", at - 3)
                }
                _ => format!("what is left of the {message_type}"),
            };
            return Err(uncuttable(&what, len));
        }
    }
    Ok(cut)
}

struct Cutter<'a> {
    cursor: WireCursor<SourceInput<'a, dyn ReadAt + 'a>>,
    source: SourceId,
    size: u64,
}

impl Cutter<'_> {
    fn fields(&mut self, range: Range<u64>) -> Result<Vec<Field>> {
        self.cursor.set_range(range);
        let mut fields = Vec::new();
        while let Some(field) = self.cursor.next()? {
            fields.push(field);
        }
        Ok(fields)
    }

    fn push(&self, list: &mut SpanList, range: Range<u64>) {
        list.push_span(self.source, range);
    }

    /// A message in which a list of spans is the value of a field.
    fn wrapped(number: u32, inside: &SpanList) -> SpanList {
        let mut list = SpanList::default();
        list.push_literal(&head(number, inside.len()));
        list.append(inside);
        list
    }

    /// The module's parts and computations: what the message has besides them, then each of them.
    fn parts_of_module(&mut self) -> Result<(SpanList, SpanList, Vec<Range<u64>>, bool)> {
        let (mut inside, mut outside) = (SpanList::default(), SpanList::default());
        let (mut computations, mut has_module) = (Vec::new(), false);
        for field in self.fields(0..self.size)? {
            if !is_message(&field, 1) {
                self.push(&mut outside, field.start..field.end);
                continue;
            }
            has_module = true;
            for field in self.fields(field.value)? {
                if is_message(&field, 3) {
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
        let mut cut = vec![(RecordKind::Merge, first)];
        for computation in computations {
            let mut inside = SpanList::default();
            self.push(&mut inside, computation);
            cut.push((RecordKind::Merge, Self::wrapped(1, &inside)));
        }
        Ok(cut)
    }

    /// What a computation is called.
    fn computation(&mut self, index: usize) -> Result<String> {
        let (.., computations, _) = self.parts_of_module()?;
        let mut name = String::new();
        if let Some(range) = computations.get(index).cloned() {
            let field = self.fields(range)?.into_iter().next();
            let inside = field.map_or(Ok(Vec::new()), |field| self.fields(field.value))?;
            let is_name = |field: &&Field| is_message(field, 1);
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
        for field in self.fields(0..self.size)? {
            let all = field.start..field.end;
            match (field.number.0, field.wire_type) {
                (3 | 4, WireType::Len) => {
                    let mut value = SpanList::default();
                    self.push(&mut value, field.value);
                    // The last counts.
                    texts[usize::from(field.number.0 == 4)] = value;
                }
                (5, WireType::Len) => self.push(&mut graphs, all),
                (12, WireType::Len) => {
                    let mut constant = SpanList::default();
                    self.push(&mut constant, all);
                    constants.push((RecordKind::Merge, constant));
                }
                _ => self.push(&mut rest, all),
            }
        }
        let [text, binary] = texts;
        let mut cut = vec![
            (override_of(3), text),
            (override_of(4), binary),
            (RecordKind::Merge, graphs),
        ];
        cut.append(&mut constants);
        cut.push((RecordKind::Merge, rest));
        Ok(cut)
    }

    fn with_options(&mut self) -> Result<Cut> {
        let (mut executable, mut rest) = (SpanList::default(), SpanList::default());
        for field in self.fields(0..self.size)? {
            if is_message(&field, 1) {
                executable = SpanList::default();
                self.push(&mut executable, field.value);
            } else {
                self.push(&mut rest, field.start..field.end);
            }
        }
        Ok(vec![
            (override_of(1), executable),
            (RecordKind::Merge, rest),
        ])
    }

    /// Any message: runs of its fields.
    fn any(&mut self) -> Result<Cut> {
        let (mut cut, mut run) = (Cut::new(), SpanList::default());
        for field in self.fields(0..self.size)? {
            let len = field.end - field.start;
            if !run.is_empty() && run.len() + len > GENERIC_RECORD {
                cut.push((RecordKind::Merge, std::mem::take(&mut run)));
            }
            self.push(&mut run, field.start..field.end);
        }
        cut.push((RecordKind::Merge, run));
        Ok(cut)
    }
}

fn is_message(field: &Field, number: u32) -> bool {
    field.number.0 == number && field.wire_type == WireType::Len
}

fn override_of(number: u32) -> RecordKind {
    RecordKind::Override([Step::field(number)].into_iter().collect::<FieldPath>())
}

/// The tag and length in front of a value.
fn head(number: u32, len: u64) -> Vec<u8> {
    let tag = tag(FieldNumber(number), WireType::Len);
    let mut bytes = Vec::with_capacity(varint_len(tag) + varint_len(len));
    put_varint(&mut bytes, tag);
    put_varint(&mut bytes, len);
    bytes
}
