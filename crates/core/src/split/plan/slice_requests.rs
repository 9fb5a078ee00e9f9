//! Slices that splitters ask for: where each begins, and what goes into it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::cuts::Marks;
use super::size_requests::Fits;
use crate::split::options::SplitOptions;
use crate::split::read::source::Source;
use crate::split::read::source_view::{Located, SourceView};
use crate::wire::{Field, FieldNumber, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// After how many fields is asked whether it was cancelled.
const CHECK_EVERY: u32 = 1 << 16;

/// A field of which elements leave, by where its message lies in the source.
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
    /// Offsets in the source.
    starts: BTreeSet<u64>,
}

impl Slices {
    /// Begins a slice at an element of a message that stands in one piece.
    pub(in crate::split) fn begin(&mut self, message: &SourceView<'_>, element: &Field) {
        let Range { start, end } = message.content(0);
        let key = (start, end, element.number);
        let field = self.fields.entry(key).or_insert_with(|| Beginnings {
            message: message.located(),
            wire_type: element.wire_type,
            starts: BTreeSet::new(),
        });
        field.starts.insert(element.start);
    }

    /// Fails if a message is to be sliced that is fitted, too: then it is the size that slices it.
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

    /// Hops over the messages once more, and marks what leaves.
    pub(in crate::split) fn mark(
        self,
        source: &Source,
        options: &SplitOptions,
        marks: &mut Marks,
    ) -> Result<()> {
        for ((start, end, number), field) in self.fields {
            let Some(chain) = field.message.chains.first() else {
                continue;
            };
            let mut starts = field.starts.into_iter().peekable();
            let mut slices: Vec<(Vec<Range<u64>>, u64)> = Vec::new();
            let mut previous_end = None;
            let mut cursor = WireCursor::new(source.input());
            cursor.set_range(start..end);
            let mut steps = 0u32;
            while let Some(met) = cursor.next()? {
                steps = steps.wrapping_add(1);
                if steps % CHECK_EVERY == 1 {
                    options.progress.check()?;
                }
                if met.number != number || met.wire_type != field.wire_type {
                    continue;
                }
                if starts.next_if_eq(&met.start).is_some() {
                    slices.push((Vec::new(), 0));
                }
                if let Some((runs, elements)) = slices.last_mut() {
                    *elements += 1;
                    // A merge puts slices right behind the elements that stay.
                    marks.reordered |= previous_end != Some(met.start);
                    match runs.last_mut() {
                        Some(run) if run.end == met.start => run.end = met.end,
                        _ => runs.push(met.start..met.end),
                    }
                }
                previous_end = Some(met.end);
            }
            for slice in slices {
                marks.slice(&field.message.path, number, chain, slice);
            }
        }
        Ok(())
    }
}
