//! Merging marked files, whose placeholders determine the place of each chunk.

use std::collections::HashMap;

use super::node_state::Occurrence;
use super::planner::Planner;
use super::segment_list::Part;
use super::states::TargetValues;
use super::walk::Role;
use crate::container::{ChunkKind, ChunkRef, NodeId};
use crate::merge::read::chunk_store::ChunkStore;
use crate::merge::read::first_field::first_field;
use crate::path::Select;
use crate::wire::{FieldNumber, WireType};
use crate::{Error, ErrorKind, Result};

impl<S: ChunkStore + ?Sized> Planner<'_, S> {
    /// Inserts the chunks at a node of a marked file. Call this after the content of the parent
    /// node was parsed.
    pub(in crate::merge) fn complete_marked(&mut self, node: NodeId) -> Result<()> {
        let chunks = self.chunks(node);
        if !self.states[node].is_present() {
            return self.missing(node);
        }
        let Some(first) = chunks.first() else {
            return Ok(());
        };
        if self.kinds[first.chunk] == ChunkKind::Bytes {
            return self.put_value(node, chunks);
        }
        let has_children = !self.tree.children(node).is_empty();
        let at = match &self.states[node].last {
            // The root message has no placeholder: its first chunk is the message.
            None => self.states[node].end().cloned(),
            Some(last) if last.is_empty() && !first.packed => {
                self.check_single(node, first.chunk)?;
                Some(last.value_start())
            }
            Some(_) => None,
        };
        let slices = match at {
            // A tail is appended without parsing, since it may begin within a field.
            Some(at) if !has_children && chunks[1..].iter().all(|c| c.tail) => {
                for c in chunks {
                    self.fill(node, c.chunk, &at, false)?;
                }
                return Ok(());
            }
            Some(at) => {
                self.fill(node, first.chunk, &at, has_children || chunks.len() > 1)?;
                &chunks[1..]
            }
            None => chunks,
        };
        self.put_slices(node, slices)
    }

    fn put_value(&mut self, node: NodeId, chunks: &[ChunkRef]) -> Result<()> {
        let chunk = chunks.first().map_or(0, |c| c.chunk);
        let state = &self.states[node];
        let Some(last) = state.last.clone() else {
            return self.missing(node);
        };
        if last.wire != WireType::Len || !last.is_empty() {
            let message = format!(
                "chunk {chunk} belongs where {} bytes are instead of an empty placeholder",
                last.value().end - last.value().start
            );
            return self.fail_at(node, &last, message);
        }
        self.check_single(node, chunk)?;
        for c in chunks {
            let whole = self.use_whole(c.chunk);
            self.segments
                .insert(&last.value_start(), 0, Part::Splice(whole));
        }
        Ok(())
    }

    /// Fails unless a placeholder is the only empty value at its path, since otherwise it is
    /// ambiguous which value was cut.
    fn check_single(&self, node: NodeId, chunk: usize) -> Result<()> {
        let state = &self.states[node];
        match &state.last {
            Some(last) if state.empties > 1 => {
                let message = format!("{} empty placeholders for chunk {chunk}", state.empties);
                self.fail_at(node, last, message)
            }
            _ => Ok(()),
        }
    }

    fn put_slices(&mut self, node: NodeId, slices: &[ChunkRef]) -> Result<()> {
        // For each field, the last run of packed elements in a slice, which the next packed slice
        // continues.
        let mut tails: HashMap<FieldNumber, Occurrence> = HashMap::new();
        let last_packed = slices.iter().rposition(|slice| slice.packed);
        for (at, c) in slices.iter().enumerate() {
            if c.tail {
                self.put_tail(node, c.chunk)?;
                continue;
            }
            let path = |error: Error| error.at_path(self.tree.show(node, self.descriptor()));
            let (number, looked_at) = match c.slice_of {
                Some(number) if !c.packed => (number, None),
                _ => {
                    let first = first_field(self.store, c.chunk).map_err(path)?;
                    (first.0.number, Some(first))
                }
            };
            let fail = |message: String| {
                self.fail(ErrorKind::InvalidTrailer, node, message)
                    .map_err(|error: Error| error.in_chunk(c.chunk))
            };
            let fields = self.states[node].fields();
            let Some(anchor) = fields.and_then(|fields| fields.get(number.0)).cloned() else {
                return fail(format!(
                    "the slice continues field {number}, which does not occur in the message"
                ));
            };
            if let Some((first, is_all)) = looked_at.filter(|_| c.packed) {
                let run = tails.get(&number).unwrap_or(&anchor);
                if first.wire_type != WireType::Len || !is_all {
                    return fail("the packed slice is not one run of packed elements".into());
                }
                if run.wire != WireType::Len {
                    return fail(format!("field {number} has no packed run to be continued"));
                }
                let end = run.value_end();
                let elements = self.segments.new_use(c.chunk, first.value);
                self.segments.insert(&end, 0, Part::Splice(elements));
                continue;
            }
            let whole = self.use_whole(c.chunk);
            self.segments
                .insert(&anchor.behind(), 0, Part::Splice(whole));
            let continued = last_packed.is_some_and(|last| last > at);
            if continued || (self.wants_more(node, number) && !self.passes_over(node, number, c)) {
                self.slice_tail = None;
                self.walk(node, c.chunk, whole, Role::Slice(number))?;
                if let Some(tail) = self.slice_tail.take() {
                    tails.insert(number, tail);
                }
            }
        }
        Ok(())
    }

    /// Appends a chunk to the end of the message, after any chunks that were appended before.
    fn put_tail(&mut self, node: NodeId, chunk: usize) -> Result<()> {
        let Some(end) = self.states[node].end().cloned() else {
            return self.missing(node);
        };
        let whole = self.use_whole(chunk);
        self.segments.insert(&end, 0, Part::Splice(whole));
        if !self.tree.children(node).is_empty() {
            self.walk(node, chunk, whole, Role::Tail)?;
        }
        Ok(())
    }

    /// Returns true if paths lead into elements of this field that have not been found yet.
    fn wants_more(&self, node: NodeId, number: FieldNumber) -> bool {
        let children = self.tree.children(node);
        let want = self.states.field(node, number);
        want.is_some_and(|want| match want.wanted {
            TargetValues::Indexed(passed) => passed < want.among(children).len(),
            // The last occurrence counts, and it may be at any position.
            TargetValues::Single | TargetValues::Keyed(_) => true,
        })
    }

    /// Adds a slice's elements to the number of elements found so far, without parsing the slice.
    /// Does this only if the trailer has the number of the slice's elements, and the next path
    /// leads to an element after the slice; otherwise returns false.
    fn passes_over(&mut self, node: NodeId, number: FieldNumber, slice: &ChunkRef) -> bool {
        let (tree, children) = (self.tree, self.tree.children(node));
        let Some(want) = self.states.found_field(node, number) else {
            return false;
        };
        let TargetValues::Indexed(passed) = want.wanted else {
            return false;
        };
        let wanted = want.among(children).get(passed).copied();
        let behind = want.count.checked_add(slice.elements);
        match (wanted, behind.filter(|_| slice.elements > 0)) {
            (Some(wanted), Some(behind)) if behind <= tree.index(wanted) => {
                want.count = behind;
                true
            }
            _ => false,
        }
    }

    /// Returns the error for a path whose target doesn't exist.
    fn missing<T>(&self, node: NodeId) -> Result<T> {
        let chunk = self.tree.first_chunk(node).unwrap_or(0);
        let what = match self.tree.above(node) {
            None => "the message is missing".to_owned(),
            Some((above, step)) => {
                let want = self.states.field(above, step.field);
                let count = want.map_or(0, |want| want.count);
                match &step.select {
                    Select::Field => "the field does not occur".to_owned(),
                    Select::Index(index) => {
                        format!("index {index} is out of range: the field has {count} elements")
                    }
                    Select::Key(_) if self.states[node].entry.is_some() => {
                        "the map entry has no value".to_owned()
                    }
                    Select::Key(_) => "no map entry has this key".to_owned(),
                }
            }
        };
        self.fail(
            ErrorKind::InvalidTrailer,
            node,
            format!("no placeholder for chunk {chunk}: {what}"),
        )
    }

    fn fail_at<T>(&self, node: NodeId, at: &Occurrence, message: String) -> Result<T> {
        self.fail(ErrorKind::InvalidTrailer, node, message)
            .map_err(|error: Error| {
                let error = error.at_offset(at.start);
                match self.segments.chunk(at.in_use) {
                    Some(chunk) => error.in_chunk(chunk),
                    None => error,
                }
            })
    }
}
