//! Splitters' requests for slices: the element at which each slice begins.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

use super::cuts::Cuts;
use super::size_requests::SizeRequests;
use crate::split::options::SplitOptions;
use crate::split::read::source::Source;
use crate::split::read::source_view::Located;
use crate::split::read::source_view::elements::Element;
use crate::wire::{FieldNumber, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// Number of fields between two checks for cancellation.
const CHECK_EVERY: u32 = 1 << 16;

/// A field to slice: the start and the end of the field's message in the source, and the field's
/// number.
type Sliced = (u64, u64, FieldNumber);

/// The requested slices of all fields.
#[derive(Debug, Default)]
pub(in crate::split) struct Slices {
    fields: BTreeMap<Sliced, SliceStarts>,
}

/// The elements of a field at which slices begin.
#[derive(Debug)]
struct SliceStarts {
    message: Located,
    wire_type: WireType,
    /// First element of each slice, by the element's offset in the source.
    starts: BTreeMap<u64, SliceStart>,
}

/// The first element of a slice.
#[derive(Clone, Copy, Debug)]
struct SliceStart {
    index: u64,
    /// Start of the run of contiguous elements that ends with this element.
    run: u64,
}

impl Slices {
    /// Requests a slice that begins at `element`, whose message must be in one piece.
    pub(in crate::split) fn begin(&mut self, element: &Element<'_>) {
        let (message, field) = (element.message(), element.field());
        let Range { start, end } = message.content(0);
        let key = (start, end, field.number);
        let sliced = self.fields.entry(key).or_insert_with(|| SliceStarts {
            message: message.located(),
            wire_type: field.wire_type,
            starts: BTreeMap::new(),
        });
        let beginning = SliceStart {
            index: element.index(),
            run: element.run(),
        };
        sliced.starts.insert(field.start, beginning);
    }

    /// Fails if a splitter requested slices of a field, and `fits` contains a request that would
    /// also cut the field's message by size, since such a cut could slice the same field.
    pub(in crate::split) fn check_apart_from(
        &self,
        fits: &SizeRequests,
        source: &Source,
        options: &SplitOptions,
    ) -> Result<()> {
        for field in self.fields.values() {
            let size = options.effective_max_chunk_size();
            if fits.reaches(&field.message, size) {
                let message = "the splitter both slices the field itself, and fits the message by size, which would also slice the field";
                let path = field.message.path.display(Some(source.descriptor()));
                return Err(Error::new(ErrorKind::Uncuttable, message).at_path(path));
            }
        }
        Ok(())
    }

    /// Adds the requested slices to `marks`. Scans parts of a message again only for slices whose
    /// elements are not contiguous, and for the last slice of each field.
    pub(in crate::split) fn mark(
        self,
        source: &Source,
        options: &SplitOptions,
        marks: &mut Cuts,
    ) -> Result<()> {
        for ((_, end, number), field) in self.fields {
            let Some(chain) = field.message.chains.first() else {
                continue;
            };
            let mut starts = field.starts.into_iter().peekable();
            while let Some((start, SliceStart { index, run })) = starts.next() {
                // A merge inserts slices directly after the elements that stay, so a gap there
                // changes the order.
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

/// Returns the ranges of a field's elements in a range of a message, and the number of these
/// elements. The range of the message must begin at an element.
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
