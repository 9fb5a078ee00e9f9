//! The walk over a chunk that other chunks are spliced into, which parses the chunk once, as a
//! stream, with a stack of enclosing messages.

use std::rc::Rc;

use super::node_state::Occurrence;
use super::planner::Planner;
use super::segment_list::Part;
use super::segment_list::{Frame, Pos, UseId};
use super::states::TargetValues;
use crate::container::NodeId;
use crate::merge::read::chunk_store::{ChunkInput, ChunkStore};
use crate::merge::read::prefetch;
use crate::wire::{Field, FieldNumber, WireCursor, WireType};
use crate::{Error, ErrorKind, Result};

/// Number of fields to parse between two checks for cancellation.
const CHECK_EVERY: u32 = 1 << 10;

/// Maximum number of runs of fields into which a merged chunk is divided. A chunk with more runs is
/// inserted as a whole.
const MAX_RUNS: usize = 64;

/// The role of a parsed chunk in the message at its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::merge) enum Role {
    /// The message's content, among whose fields later chunks are inserted.
    Content,
    /// More elements of one field, inserted after its existing elements.
    Slice(FieldNumber),
    /// A message to merge into the existing message, one run of fields at a time.
    Merged,
    /// A further piece of the message, which is appended to the existing content.
    Tail,
}

/// A run of top-level fields with the same number.
#[derive(Debug)]
pub(in crate::merge) struct Run {
    pub(in crate::merge) number: u32,
    pub(in crate::merge) part: UseId,
}

/// The runs of top-level fields in a chunk. `unordered` is true if their field numbers aren't
/// ascending, or if there are too many runs.
#[derive(Debug, Default)]
pub(in crate::merge) struct Runs {
    pub(in crate::merge) runs: Vec<Run>,
    pub(in crate::merge) unordered: bool,
}

pub(in crate::merge) enum Place {
    Message(NodeId),
    /// A map entry whose value is at this node. The entry's key field must not occur again from
    /// this offset on.
    Entry(NodeId, u64),
}

pub(in crate::merge) struct Level {
    pub(in crate::merge) place: Place,
    /// End offset of the length-delimited field that is this message or, for a group, that contains
    /// the group.
    pub(in crate::merge) end: u64,
    /// Innermost frame around this message's fields; `None` if no length-delimited field encloses
    /// them.
    pub(in crate::merge) frame: Option<Rc<Frame>>,
    pub(in crate::merge) group: Option<Field>,
}

pub(in crate::merge) struct Walk<'p, 'a, S: ?Sized> {
    pub(in crate::merge) planner: &'p mut Planner<'a, S>,
    pub(in crate::merge) cursor: WireCursor<ChunkInput<'a>>,
    pub(in crate::merge) chunk: usize,
    pub(in crate::merge) in_use: UseId,
    pub(in crate::merge) role: Role,
    pub(in crate::merge) levels: Vec<Level>,
    pub(in crate::merge) runs: Runs,
}

impl<S: ChunkStore + ?Sized> Planner<'_, S> {
    /// Appends a chunk to the content of the message at a node. `walked` is true if the chunk has
    /// to be parsed, since other chunks are inserted into it or merged with it.
    pub(in crate::merge) fn fill(
        &mut self,
        node: NodeId,
        chunk: usize,
        at: &Pos,
        walked: bool,
    ) -> Result<()> {
        let whole = self.use_whole(chunk);
        self.segments.insert(at, 0, Part::Splice(whole));
        if let Some(content) = &mut self.state(node).content
            && content.fields.is_empty()
        {
            content.begin = None;
        }
        if walked {
            self.walk(node, chunk, whole, Role::Content)?;
        }
        Ok(())
    }

    pub(in crate::merge) fn walk(
        &mut self,
        node: NodeId,
        chunk: usize,
        whole: UseId,
        role: Role,
    ) -> Result<Runs> {
        Walk::run(self, node, chunk, whole, role)
    }
}

impl<'p, 'a, S: ChunkStore + ?Sized> Walk<'p, 'a, S> {
    /// Parses a whole chunk, whose use is `whole`. For [`Role::Merged`], `whole` becomes the use of
    /// the first run only.
    pub(in crate::merge) fn run(
        planner: &'p mut Planner<'a, S>,
        node: NodeId,
        chunk: usize,
        whole: UseId,
        role: Role,
    ) -> Result<Runs> {
        let (store, options) = (planner.store, planner.options);
        prefetch::with_input(store, chunk, options, |input| {
            Walk::over(planner, input, node, (chunk, whole), role)
        })
    }

    fn over(
        planner: &'p mut Planner<'a, S>,
        input: ChunkInput<'a>,
        node: NodeId,
        (chunk, whole): (usize, UseId),
        role: Role,
    ) -> Result<Runs> {
        let cursor = WireCursor::new(input);
        let size = cursor.end();
        let levels = vec![Level {
            place: Place::Message(node),
            end: size,
            frame: None,
            group: None,
        }];
        let mut walk = Walk {
            planner,
            cursor,
            chunk,
            in_use: whole,
            role,
            levels,
            runs: Runs::default(),
        };
        if role == Role::Content {
            let begin = Pos {
                in_use: whole,
                offset: 0,
                frame: None,
            };
            let end = Pos {
                in_use: whole,
                offset: size,
                frame: None,
            };
            walk.planner.state(node).open(begin, end);
        }
        walk.go().map_err(|error| {
            let node = match walk.levels.last().map(|level| &level.place) {
                Some(Place::Message(at) | Place::Entry(at, _)) => *at,
                None => node,
            };
            error.in_chunk(chunk).at_path(walk.planner.show(node))
        })?;
        let Walk { cursor, runs, .. } = walk;
        cursor
            .into_input()
            .finish()
            .map_err(|error| error.in_chunk(chunk))?;
        Ok(runs)
    }

    fn go(&mut self) -> Result<()> {
        let mut steps = 0u32;
        loop {
            steps = steps.wrapping_add(1);
            if steps % CHECK_EVERY == 1 {
                self.planner.options.progress.check()?;
            }
            let Some(field) = self.cursor.header()? else {
                if self.leave()? {
                    return Ok(());
                }
                continue;
            };
            if field.wire_type == WireType::EndGroup {
                self.end_group(&field)?;
                continue;
            }
            let Some(level) = self.levels.last() else {
                return Ok(());
            };
            match level.place {
                Place::Message(node) => {
                    if self.levels.len() == 1 {
                        self.top_level(&field)?;
                    }
                    self.in_message(node, field)?;
                }
                Place::Entry(value, key_end) => self.in_entry(value, key_end, field)?,
            }
        }
    }

    /// Leaves a length-delimited message at its end. Returns true if there is no enclosing message.
    fn leave(&mut self) -> Result<bool> {
        let Some(level) = self.levels.pop() else {
            return Ok(true);
        };
        if let Some(group) = level.group {
            return Err(malformed(
                format!("group {} has no end tag", group.number),
                group.start,
            ));
        }
        match self.levels.last() {
            None => Ok(true),
            Some(outer) => {
                self.cursor.set_range(level.end..outer.end);
                Ok(false)
            }
        }
    }

    fn end_group(&mut self, field: &Field) -> Result<()> {
        let open = self.levels.last_mut().and_then(|level| level.group.take());
        let Some(mut group) = open else {
            return Err(malformed(
                "an end group tag without a group".into(),
                field.start,
            ));
        };
        if group.number != field.number {
            let message = format!(
                "group {} is closed by the end tag of group {}",
                group.number, field.number
            );
            return Err(malformed(message, field.start));
        }
        group.value.end = field.start;
        group.end = field.end;
        let Some(Level {
            place: Place::Message(node) | Place::Entry(node, _),
            ..
        }) = self.levels.pop()
        else {
            return Ok(());
        };
        let Some(outer) = self.levels.last() else {
            return Ok(());
        };
        let occurrence = Occurrence::new(self.in_use, outer.frame.as_ref(), &group);
        let above = match outer.place {
            Place::Message(above) => Some(above),
            Place::Entry(..) => None,
        };
        let end = occurrence.value_end();
        let state = &mut self.planner.states[node];
        state.empties += u64::from(occurrence.is_empty());
        state.last = Some(occurrence);
        if let Some(content) = &mut state.content {
            content.end = Some(end);
        }
        if let Some(above) = above {
            self.remember(above, &group)?;
        }
        Ok(())
    }

    /// Checks a top-level field of the chunk against the chunk's role, and tracks the chunk's runs.
    fn top_level(&mut self, field: &Field) -> Result<()> {
        match self.role {
            Role::Content | Role::Tail => Ok(()),
            Role::Slice(number) if number == field.number => Ok(()),
            Role::Slice(number) => Err(Error::new(
                ErrorKind::InvalidMessage,
                format!(
                    "a slice of field {number} has a field {} in it",
                    field.number
                ),
            )
            .at_offset(field.start)),
            Role::Merged => {
                self.continue_run(field);
                Ok(())
            }
        }
    }

    fn continue_run(&mut self, field: &Field) {
        let number = field.number.0;
        let runs = &mut self.runs;
        match runs.runs.last() {
            Some(last) if last.number == number || runs.unordered => return,
            Some(last) if last.number > number || runs.runs.len() >= MAX_RUNS => {
                runs.unordered = true;
                return;
            }
            Some(_) => {
                let segments = &mut self.planner.segments;
                let end = segments.end(self.in_use);
                segments.set_end(self.in_use, field.start);
                self.in_use = segments.new_use(self.chunk, field.start..end);
            }
            None => {}
        }
        runs.runs.push(Run {
            number,
            part: self.in_use,
        });
    }

    #[inline]
    fn in_message(&mut self, node: NodeId, field: Field) -> Result<()> {
        let state = &self.planner.states[node];
        if state
            .content
            .as_ref()
            .is_some_and(|content| content.oneofs.is_some())
        {
            self.planner.end_other(node, &field);
        }
        let tree = self.planner.tree;
        let Some(want) = self.planner.states.found_field(node, field.number) else {
            return self.pass_run(node, field, u64::MAX).map(drop);
        };
        let children = want.among(tree.children(node));
        let child = match &mut want.wanted {
            TargetValues::Single => children[0],
            TargetValues::Indexed(passed) => {
                if !self.planner.types.of(children[0]).takes(field.wire_type) {
                    return self.pass(node, field);
                }
                want.wire = Some(field.wire_type);
                let index = want.count;
                want.count += 1;
                let next = children
                    .get(*passed)
                    .map(|&child| (tree.index(child), child));
                match next {
                    Some((next, child)) if next == index => {
                        *passed += 1;
                        child
                    }
                    next => {
                        let most = next.map_or(u64::MAX, |(next, _)| next - want.count);
                        let number = field.number;
                        let more = self.pass_run(node, field, most)?;
                        if let Some(want) = self.planner.states.found_field(node, number) {
                            want.count += more;
                        }
                        return Ok(());
                    }
                }
            }
            TargetValues::Keyed(_) => return self.map_entry(node, field),
        };
        if self.planner.types.of(child).takes(field.wire_type) {
            return self.meet(child, Some(node), field);
        }
        self.pass(node, field)
    }

    /// Skips a field that no path leads into, and up to `most` more elements of that field. Returns
    /// the number of these further elements.
    ///
    /// This must be fast, since millions of elements may be between two relevant elements.
    fn pass_run(&mut self, node: NodeId, mut field: Field, most: u64) -> Result<u64> {
        if field.wire_type != WireType::Len {
            return self.pass(node, field).map(|()| 0);
        }
        let end = self.cursor.end();
        let mut more = 0;
        self.cursor.set_range(field.end..end);
        while more < most
            && let Some(next) = self.cursor.header()?
        {
            if next.number != field.number || next.wire_type != WireType::Len {
                self.cursor.set_range(next.start..end);
                break;
            }
            self.cursor.set_range(next.end..end);
            field = next;
            more += 1;
        }
        self.remember(node, &field)?;
        Ok(more)
    }

    /// Skips a field that no path leads into.
    #[inline]
    pub(in crate::merge) fn pass(&mut self, node: NodeId, mut field: Field) -> Result<()> {
        self.hop(&mut field)?;
        self.remember(node, &field)
    }

    #[inline]
    pub(in crate::merge) fn hop(&mut self, field: &mut Field) -> Result<()> {
        if field.wire_type == WireType::StartGroup {
            return self.cursor.skip_group(field);
        }
        let end = self.cursor.end();
        self.cursor.set_range(field.end..end);
        Ok(())
    }

    /// Records a field as the last one with its number, if something may be inserted after it.
    #[inline]
    pub(in crate::merge) fn remember(&mut self, node: NodeId, field: &Field) -> Result<()> {
        // Parts are inserted after existing fields, so the top-level fields of a message to merge
        // don't count. Of a slice, only the last run can be continued.
        let own = self.levels.len() > 1 || self.role != Role::Merged;
        if let Some(content) = &mut self.planner.states[node].content
            && own
        {
            let frame = self.levels.last().and_then(|level| level.frame.as_ref());
            if self.levels.len() == 1
                && let Role::Slice(_) = self.role
            {
                let occurrence = Occurrence::new(self.in_use, frame, field);
                self.planner.slice_tail = Some(occurrence);
                return Ok(());
            }
            content
                .fields
                .see(self.in_use, frame, field)
                .map_err(|e| e.at_offset(field.start))?;
        }
        Ok(())
    }

    /// Handles a piece of a value that a path leads to.
    pub(in crate::merge) fn meet(
        &mut self,
        child: NodeId,
        above: Option<NodeId>,
        mut field: Field,
    ) -> Result<()> {
        let frame = self.levels.last().and_then(|level| level.frame.clone());
        // The value of a map entry was listed when its entry was found.
        if let Some(above) = above {
            self.planner.states.list(above, child);
        }
        let state = &mut self.planner.states[child];
        let descends = state.descends();
        let occurrence = Occurrence::new(self.in_use, frame.as_ref(), &field);
        match field.wire_type {
            WireType::StartGroup => {
                // The end of a group is known only later. The frame around the group also encloses
                // its fields.
                let begin = occurrence.value_start();
                let end = self.cursor.end();
                state.open(begin.clone(), begin);
                self.levels.push(Level {
                    place: Place::Message(child),
                    end,
                    frame,
                    group: Some(field),
                });
                Ok(())
            }
            WireType::Len => {
                state.empties += u64::from(occurrence.is_empty());
                let inner = descends.then(|| occurrence.inner_frame()).flatten();
                let at = |offset| Pos {
                    in_use: self.in_use,
                    offset,
                    frame: inner.clone(),
                };
                let (begin, end) = (at(field.value.start), at(field.value.end));
                let value = field.value.clone();
                state.last = Some(occurrence);
                state.open(begin, end);
                if let Some(above) = above {
                    self.remember(above, &field)?;
                }
                if descends && !value.is_empty() {
                    self.cursor.set_range(value.clone());
                    let place = Place::Message(child);
                    self.levels.push(Level {
                        place,
                        end: value.end,
                        frame: inner,
                        group: None,
                    });
                    return Ok(());
                }
                self.hop(&mut field)
            }
            _ => {
                let at = occurrence.before();
                state.last = Some(occurrence);
                state.open(at.clone(), at);
                self.hop(&mut field)?;
                match above {
                    Some(above) => self.remember(above, &field),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cold]
pub(in crate::merge) fn malformed(message: String, offset: u64) -> Error {
    Error::new(ErrorKind::InvalidMessage, message).at_offset(offset)
}
