//! Building a changed message from spans.

use std::cmp::Reverse;
use std::ops::Range;

use record_file::ReadAt;

use crate::spans::{SourceId, SpansBuilder};
use crate::wire::{Field, SourceInput, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// The kind of change to a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpliceKind {
    /// Removal of a field.
    Remove,
    /// Insertion of a field.
    Insert,
    /// Replacement of a value.
    Replace,
    /// Removal of a large value's content, or of a tensor's elements.
    Strip,
}

/// A range of a message, and its replacement.
#[derive(Clone, Debug)]
pub(super) struct Splice {
    pub(super) kind: SpliceKind,
    /// Range of the changed field; for an insertion, range of the content of the message that
    /// receives the field.
    pub(super) at: Range<u64>,
    /// Range that `with` replaces, within one message; empty if nothing is removed. The range
    /// doesn't include the lengths of enclosing fields.
    pub(super) range: Range<u64>,
    pub(super) with: Vec<Replacement>,
    /// Range of the run of packed numbers that contains the changed number; `None` if no packed
    /// number is changed. The run has a length prefix, but is not a message.
    pub(super) run: Option<Range<u64>>,
}

/// A part of the new bytes of a splice.
#[derive(Clone, Debug)]
pub(super) enum Replacement {
    Bytes(Vec<u8>),
    /// A new value, by its index in the list of new values.
    Value(usize),
}

/// Sorts the splices by position, and drops redundant splices, such as the removal of a field
/// within a removed field. A splice that strips a field gives way to a splice of another kind for
/// the same bytes. Fails if two splices contradict each other.
pub(super) fn settle(mut splices: Vec<Splice>) -> Result<Vec<Splice>> {
    // At equal positions, the replacement of a group's content comes before insertions into the
    // group, which contradict it. Other changes come after insertions. Among insertions, the one
    // into the innermost message comes first.
    splices.sort_by_key(|splice| {
        let rank = match splice.kind {
            SpliceKind::Replace => 0,
            SpliceKind::Insert => 1,
            SpliceKind::Remove | SpliceKind::Strip => 2,
        };
        let is_strip = splice.kind == SpliceKind::Strip;
        let start = splice.range.start;
        (start, rank, Reverse(splice.at.start), is_strip)
    });
    let mut settled: Vec<Splice> = Vec::with_capacity(splices.len());
    // The index of the last splice that removes or replaces bytes.
    let mut last: Option<usize> = None;
    for splice in splices {
        let above = last.and_then(|at| settled.get(at));
        let Some(above) = above.filter(|above| is_inside(&splice, above)) else {
            if splice.kind != SpliceKind::Insert {
                last = Some(settled.len());
            }
            settled.push(splice);
            continue;
        };
        match (above.kind, splice.kind) {
            (SpliceKind::Remove, SpliceKind::Remove) | (_, SpliceKind::Strip) => {}
            // A change with an explicit path takes precedence over stripping.
            (SpliceKind::Strip, _) => {
                if let Some(at) = last.take() {
                    settled.remove(at);
                }
                if splice.kind != SpliceKind::Insert {
                    last = Some(settled.len());
                }
                settled.push(splice);
            }
            _ => {
                let message = "two changes of the same bytes contradict each other";
                let error = Error::new(ErrorKind::InvalidConfig, message);
                return Err(error.at_offset(splice.range.start));
            }
        }
    }
    Ok(settled)
}

fn is_inside(splice: &Splice, above: &Splice) -> bool {
    if splice.kind == SpliceKind::Insert {
        // The message that receives a field isn't inside its own only field, although the content
        // of the message and the field are the same range.
        above.at.start < splice.at.start && splice.at.end <= above.at.end
    } else {
        // The content of an empty group is an empty range.
        splice.range.start < above.range.end || splice.at == above.at
    }
}

/// A builder for the new message.
pub(super) struct Splicer<'a> {
    cursor: WireCursor<SourceInput<'a, dyn ReadAt + 'a>>,
    builder: &'a mut SpansBuilder,
    file: SourceId,
    /// The new values, with their sizes in bytes.
    values: &'a [(SourceId, u64)],
}

impl<'a> Splicer<'a> {
    pub(super) fn new(
        source: &'a dyn ReadAt,
        size: u64,
        builder: &'a mut SpansBuilder,
        file: SourceId,
        values: &'a [(SourceId, u64)],
    ) -> Self {
        Splicer {
            cursor: WireCursor::new(SourceInput::new(source, size)),
            builder,
            file,
            values,
        }
    }

    /// Adds a message with its settled splices applied, and updates the lengths of nested messages.
    /// Parses only those nested messages that contain splices.
    pub(super) fn message(&mut self, range: Range<u64>, mut splices: &[Splice]) -> Result<()> {
        let mut copied = range.start;
        self.cursor.set_range(range.clone());
        while !splices.is_empty() {
            let Some(field) = self.cursor.next()? else {
                break;
            };
            while let [first, rest @ ..] = splices
                && first.range.end <= field.start
            {
                copied = self.put(copied, first)?;
                splices = rest;
            }
            while let [first, rest @ ..] = splices
                && first.at == (field.start..field.end)
            {
                copied = self.put(copied, first)?;
                splices = rest;
            }
            let count = splices
                .iter()
                .take_while(|splice| is_below(splice, &field))
                .count();
            let (below, rest) = splices.split_at(count);
            if below.is_empty() {
                continue;
            }
            splices = rest;
            self.copy(copied..field.tag_end)?;
            if field.wire_type == WireType::Len {
                self.builder.begin_length();
                if below
                    .iter()
                    .any(|splice| splice.run.as_ref() == Some(&field.value))
                {
                    self.numbers(field.value.clone(), below)?;
                } else {
                    self.message(field.value.clone(), below)?;
                }
                self.builder.end_field()?;
            } else {
                self.message(field.value.clone(), below)?;
            }
            copied = field.value.end;
            self.cursor.set_range(field.end..range.end);
        }
        for splice in splices {
            copied = self.put(copied, splice)?;
        }
        self.copy(copied..range.end)
    }

    /// Adds packed numbers with their splices applied.
    fn numbers(&mut self, run: Range<u64>, splices: &[Splice]) -> Result<()> {
        let mut copied = run.start;
        for splice in splices {
            copied = self.put(copied, splice)?;
        }
        self.copy(copied..run.end)
    }

    /// Copies the bytes from the position `copied` up to a splice, and adds the new bytes of the
    /// splice. Returns the position at which the range of the splice ends.
    fn put(&mut self, copied: u64, splice: &Splice) -> Result<u64> {
        self.copy(copied..splice.range.start)?;
        for part in &splice.with {
            match part {
                Replacement::Bytes(bytes) => self.builder.literal(bytes)?,
                Replacement::Value(number) => {
                    if let Some((file, size)) = self.values.get(*number) {
                        self.builder.span(*file, 0..*size)?;
                    }
                }
            }
        }
        Ok(splice.range.end)
    }

    fn copy(&mut self, range: Range<u64>) -> Result<()> {
        self.builder.span(self.file, range)
    }
}

fn is_below(splice: &Splice, field: &Field) -> bool {
    matches!(field.wire_type, WireType::Len | WireType::StartGroup)
        && field.value.start <= splice.at.start
        && splice.at.end <= field.value.end
}
