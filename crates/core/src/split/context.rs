//! What splitters do their work with, and the plan that comes of it.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::emit;
use super::fits::Fits;
use super::marks::Marks;
use super::options::{Profile, SizeRules, SplitOptions};
use super::plan::{Content, PlannedChunk, SplitPlan};
use super::source::Source;
use super::splitter::ComposableSplitter;
use super::view::{View, ViewKind};
use crate::container::ChunkKind;
use crate::path::FieldPath;
use crate::{Error, ErrorKind, Result};

/// A chunk that is no span of the source; see [`SplitContext::add_chunk`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AddedChunk {
    /// A serialized message, to be merged into what is at its path.
    Message(Bytes),
    /// The value of the bytes or string field at its path.
    Bytes(Bytes),
}

/// Chunks that were added, with their place among the others.
#[derive(Debug)]
struct Added {
    chunk: PlannedChunk,
    index: Option<usize>,
}

impl Added {
    /// A value that is too large for one chunk in several, one behind the other.
    fn pieces(self, most: Option<u64>) -> Vec<Added> {
        let Added { chunk, index } = self;
        let most = most.and_then(|most| usize::try_from(most).ok());
        let (Content::Added(bytes), ChunkKind::Bytes, Some(most)) =
            (&chunk.content, chunk.kind, most)
        else {
            return vec![Added { chunk, index }];
        };
        let count = bytes.len().div_ceil(most).max(1);
        let piece = |at: usize| {
            let piece = bytes.slice(at * most..bytes.len().min((at + 1) * most));
            Added {
                index: index.map(|index| index.saturating_add(at)),
                chunk: PlannedChunk {
                    size: piece.len() as u64,
                    content: Content::Added(piece),
                    ..chunk.clone()
                },
            }
        };
        (0..count).map(piece).collect()
    }

    /// Puts the chunk to its place; the base stays the first.
    fn insert_into(self, chunks: &mut Vec<PlannedChunk>) {
        let last = chunks.len();
        let place = self.index.unwrap_or(last).clamp(1, last);
        if place < last {
            let parents = chunks.iter_mut().filter_map(|chunk| chunk.parent.as_mut());
            parents
                .filter(|parent| **parent >= place)
                .for_each(|parent| *parent += 1);
        }
        chunks.insert(place, self.chunk);
    }
}

/// What all splitters of one message work on.
#[derive(Debug)]
pub(super) struct Planning {
    source: Source,
    options: SplitOptions,
    marks: Marks,
    fits: Fits,
    added: Vec<Added>,
}

/// What a splitter works with: the message it is to split, and the ways to do it.
///
/// A child splitter has a context of its own, for a message inside; what it cuts gets the path from
/// the root by itself.
#[derive(Debug)]
pub struct SplitContext<'a> {
    planning: &'a mut Planning,
    view: View,
}

impl SplitContext<'_> {
    /// The message to be split.
    pub fn message(&self) -> View {
        self.view.clone()
    }

    /// The options that the split was asked for with.
    pub fn options(&self) -> &SplitOptions {
        &self.planning.options
    }

    /// Lets a child splitter split a message inside this one.
    ///
    /// # Errors
    ///
    /// What the child reports, or [`ErrorKind::InvalidPath`] if `message` is no message.
    pub fn compose(&mut self, child: &dyn ComposableSplitter, message: &View) -> Result<()> {
        if message.descriptor().is_none() {
            return Err(
                Error::new(ErrorKind::InvalidPath, "a splitter for what is no message")
                    .at_path(message.display_path()),
            );
        }
        let view = message.clone();
        child.build_chunks(&mut SplitContext {
            planning: &mut *self.planning,
            view,
        })
    }

    /// Makes a chunk of its own of this value: a message, or a singular bytes or string field. Of
    /// a map entry without a value there is nothing to cut.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Uncuttable`] for what no path can name: a message written in several pieces; a
    /// value of a oneof that another member supersedes; and, in TensorFlow's profile, an
    /// element of a repeated bytes or string field, or such a value in a map.
    pub fn cut(&mut self, value: &View) -> Result<()> {
        let uncuttable = |message: &str| {
            Err(Error::new(ErrorKind::Uncuttable, message).at_path(value.display_path()))
        };
        let kind = match value.kind {
            ViewKind::Message(_) => ChunkKind::Message,
            ViewKind::Bytes => ChunkKind::Bytes,
            ViewKind::Element if self.planning.options.get_profile() == Profile::Extended => {
                ChunkKind::Bytes
            }
            ViewKind::Element => {
                return uncuttable(
                    "a string or bytes that is an element or in a map is cut only in the extended profile",
                );
            }
        };
        let occurrence = match value.pieces.as_slice() {
            [Some(occurrence)] => occurrence,
            // The value of a map entry that was left out.
            [] => return Ok(()),
            _ => {
                return uncuttable(
                    "only a value inside the message that is written in one piece can be cut",
                );
            }
        };
        if !value.addressable {
            return uncuttable("the value is superseded, or its key can't stand in a path");
        }
        let chain = Some(occurrence.clone());
        self.planning.marks.cut(&chain, &value.path, kind);
        Ok(())
    }

    /// Cuts whatever has to leave so that every MESSAGE chunk is within the maximum, guided by
    /// sizes alone.
    ///
    /// That is done once the splitters are through, so it doesn't matter what is cut before and
    /// what after, nor that a child splitter asks for its own message, too. Nothing is cut of a
    /// message that is within the maximum already.
    ///
    /// # Errors
    ///
    /// None here. [`plan`](ComposableSplitter::plan) fails with [`ErrorKind::Uncuttable`] and the
    /// path and size of what is too large and can't be cut, or [`ErrorKind::InvalidMessage`] if
    /// the source is malformed.
    pub fn fit(&mut self) -> Result<()> {
        self.fit_with(&SizeRules::new())
    }

    /// As [`fit`](Self::fit), with rules on where not to cut.
    ///
    /// # Errors
    ///
    /// As [`fit`](Self::fit).
    pub fn fit_with(&mut self, rules: &SizeRules) -> Result<()> {
        self.planning.fits.add(&self.view, rules);
        Ok(())
    }

    /// Adds a chunk that is made from something else than a span of the source.
    ///
    /// It goes to `path`, from the message of this context, as TensorFlow's Merger puts it there: a
    /// message is merged into what the path leads to, bytes replace the field. `index` is its
    /// place among all chunks; the end if `None`. A file with such chunks is merged by its
    /// schema, not by placeholders.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if the path leads nowhere, or to something the chunk can't be.
    pub fn add_chunk(
        &mut self,
        chunk: AddedChunk,
        path: &FieldPath,
        index: Option<usize>,
    ) -> Result<()> {
        let path = self.view.path.concat(path);
        let root = self.planning.source.descriptor();
        let target = path.resolve(root)?;
        let (kind, bytes) = match chunk {
            AddedChunk::Message(bytes) => (ChunkKind::Message, bytes),
            AddedChunk::Bytes(bytes) => (ChunkKind::Bytes, bytes),
        };
        let is_message = target.kind.message().is_some();
        if target.whole_field || is_message != (kind == ChunkKind::Message) {
            return Err(Error::new(
                ErrorKind::InvalidPath,
                format!("a {kind} chunk doesn't fit here"),
            )
            .at_path(path.display(Some(root))));
        }
        let size = bytes.len() as u64;
        let content = Content::Added(bytes);
        let chunk = PlannedChunk {
            kind,
            path,
            slice_of: None,
            packed: false,
            parent: None,
            size,
            content,
        };
        self.planning.added.push(Added { chunk, index });
        Ok(())
    }
}

/// Runs a splitter over a source, and makes the plan of what it decided.
pub(super) fn plan(
    splitter: &dyn ComposableSplitter,
    source: &Source,
    options: &SplitOptions,
) -> Result<SplitPlan> {
    options.validate()?;
    let _span = tracing::debug_span!("plan", bytes = source.size()).entered();
    let mut planning = Planning {
        source: source.clone(),
        options: options.clone(),
        marks: Marks::default(),
        fits: Fits::default(),
        added: Vec::new(),
    };
    let view = View::root(source, options.get_profile());
    splitter.build_chunks(&mut SplitContext {
        planning: &mut planning,
        view,
    })?;
    let Planning {
        mut marks,
        fits,
        added,
        ..
    } = planning;
    fits.run(source, options, &mut marks)?;
    let profile = options.get_profile();
    let (nested, most) = match profile {
        Profile::TensorFlow => (marks.nest_at_keys(), None),
        // TensorFlow's sorting of keys is no matter here.
        Profile::Extended => (BTreeSet::new(), options.get_max_value_size()),
    };
    let emitted = emit::emit(source, &marks, most)?;
    let mut chunks = emitted.chunks;
    for added in added.into_iter().flat_map(|added| added.pieces(most)) {
        added.insert_into(&mut chunks);
    }
    for chunk in &chunks {
        check_size(chunk, options)
            .map_err(|error| error.at_path(chunk.path.display(Some(source.descriptor()))))?;
    }
    Ok(SplitPlan {
        descriptor: source.descriptor().clone(),
        source_size: source.size(),
        chunks,
        literals: emitted.literals,
        nested,
        byte_exact: emitted.byte_exact,
        splitter_version: splitter.version(),
        profile,
    })
}

/// Fails if a chunk is larger than the options let it be.
fn check_size(chunk: &PlannedChunk, options: &SplitOptions) -> Result<()> {
    let PlannedChunk { kind, size, .. } = *chunk;
    let max = options.get_max_chunk_size();
    let message = match (kind, options.get_max_value_size()) {
        (ChunkKind::Message, _) if size > max => format!(
            "the splitter leaves {size} bytes here, over the maximum chunk size of {max} bytes"
        ),
        (ChunkKind::Bytes, Some(most)) if size > most => format!(
            "a value of {size} bytes, over the maximum value size of {most} bytes{}",
            hint(options)
        ),
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Uncuttable, message))
}

/// What could be done about a value that can't be cut.
pub(super) fn hint(options: &SplitOptions) -> &'static str {
    match options.get_profile() {
        Profile::TensorFlow => "; the profile `extended` may cut it",
        Profile::Extended => "",
    }
}
