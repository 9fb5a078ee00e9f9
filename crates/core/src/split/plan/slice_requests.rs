//! Slices that splitters ask for: where each begins, and what goes into it.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

use super::cuts::Marks;
use super::size_requests::Fits;
use crate::split::options::SplitOptions;
use crate::split::read::source::Source;
use crate::split::read::source_view::Located;
use crate::split::read::source_view::elements::Element;
use crate::wire::{FieldNumber, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// After how many fields is asked whether it was cancelled.
const CHECK_EVERY: u32 = 1 << 16;

/// A field whose elements leave, by where its message lies in the source.
type Sliced = (u64, u64, FieldNumber);

/// The slices of all fields.
#[derive(Debug, Default)]
pub(in crate::split) struct Slices {
    fields: BTreeMap<Sliced, Beginnings>,
}

/// Where the slices of a field begin.
#[derive(Debug)]
struct Beginnings {
    message: Located,
    wire_type: WireType,
    /// By their offsets in the source.
    starts: BTreeMap<u64, Beginning>,
}

/// An element that a slice begins at.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    index: u64,
    /// Where the elements begin that stand before it without anything between them.
    run: u64,
}

impl Slices {
    /// Begins a slice at an element of a message that stands in one piece.
    pub(in crate::split) fn begin(&mut self, element: &Element<'_>) {
        let (message, field) = (element.message(), element.field());
        let Range { start, end } = message.content(0);
        let key = (start, end, field.number);
        let sliced = self.fields.entry(key).or_insert_with(|| Beginnings {
            message: message.located(),
            wire_type: field.wire_type,
            starts: BTreeMap::new(),
        });
        let beginning = Beginning {
            index: element.index(),
            run: element.run(),
        };
        sliced.starts.insert(field.start, beginning);
    }

    /// Fails if a message that should be sliced is fitted, too: then the size slices it.
    pub(in crate::split) fn check_apart_from(
        &self,
        fits: &Fits,
        source: &Source,
        options: &SplitOptions,
    ) -> Result<()> {
        for field in self.fields.values() {
            let size = options.effective_max_chunk_size();
            if fits.reaches(&field.message, size) {
                let message = "slices of one's own, and a fit that would make others";
                let path = field.message.path.display(Some(source.descriptor()));
                return Err(Error::new(ErrorKind::Uncuttable, message).at_path(path));
            }
        }
        Ok(())
    }

    /// Marks what leaves. Only where something stands between the elements of a slice, and behind
    /// the last beginning, the messages are hopped over once more.
    pub(in crate::split) fn mark(
        self,
        source: &Source,
        options: &SplitOptions,
        marks: &mut Marks,
    ) -> Result<()> {
        for ((_, end, number), field) in self.fields {
            let Some(chain) = field.message.chains.first() else {
                continue;
            };
            let mut starts = field.starts.into_iter().peekable();
            while let Some((start, Beginning { index, run })) = starts.next() {
                // A merge puts slices right behind the elements that stay.
                marks.reordered |= run == start;
                let slice = match starts.peek() {
                    Some((next, behind)) if behind.run <= start => {
                        (iter::once(start..*next).collect(), behind.index - index)
                    }
                    next => {
                        let end = next.map_or(end, |(next, _)| *next);
                        runs(source, start..end, (number, field.wire_type), options)?
                    }
                };
                marks.reordered |= slice.0.len() > 1;
                marks.slice(&field.message.path, number, chain, slice);
            }
        }
        Ok(())
    }
}

/// Where the elements of a field stand in a part of a message that begins at one, and how many they
/// are.
fn runs(
    source: &Source,
    range: Range<u64>,
    (number, wire_type): (FieldNumber, WireType),
    options: &SplitOptions,
) -> Result<(Vec<Range<u64>>, u64)> {
    let (mut runs, mut elements): (Vec<Range<u64>>, u64) = (Vec::new(), 0);
    let mut cursor = WireCursor::new(source.input());
    cursor.set_range(range);
    let mut steps = 0u32;
    while let Some(met) = cursor.next()? {
        steps = steps.wrapping_add(1);
        if steps % CHECK_EVERY == 1 {
            options.progress.check()?;
        }
        if met.number != number || met.wire_type != wire_type {
            continue;
        }
        elements += 1;
        let pass = |_, _| {
            elements += 1;
            true
        };
        cursor.hop_alike(&met, u64::MAX, pass)?;
        let end = cursor.position();
        match runs.last_mut() {
            Some(run) if run.end == met.start => run.end = end,
            _ => runs.push(met.start..end),
        }
    }
    Ok((runs, elements))
}
