//! Planning a split: running a splitter over a source.

use std::collections::BTreeSet;

use super::added_places::check_places;
use super::chunk_layout::emit;
use super::continuation::{MOST_RUNS, RunBudget, cut_in_order, cut_in_order_if_needed};
use super::cuts::Cuts;
use super::decisions::{Added, Decisions};
use super::metadata::version_def;
use super::reader_limits::{check_depth, check_reader_limits};
use super::size_requests::SizeRequests;
use super::slice_requests::Slices;
use super::source_layout::source_layout;
use super::split_plan::{PlannedChunk, SplitPlan};
use super::splitter::{ComposableSplitter, SplitContext, check_type};
use crate::container::{ChunkKind, Profile};
use crate::merge::ReadOptions;
use crate::path::FieldPath;
use crate::split::options::SplitOptions;
use crate::split::read::source::Source;
use crate::split::read::source_view::SourceView;
use crate::view::MessageView;
use crate::view::size_tree::with_largest;
use crate::{Error, ErrorKind, Result};

/// Runs a splitter over a source, and creates a plan from the splitter's decisions.
pub(in crate::split) fn plan<P: ComposableSplitter + ?Sized>(
    splitter: &P,
    source: &Source,
    options: &SplitOptions,
) -> Result<SplitPlan> {
    options.validate()?;
    let _span = tracing::debug_span!("plan", bytes = source.size()).entered();
    planned(splitter, source, options).map_err(|error| with_largest_at(error, source))
}

/// Adds the largest parts of a value to an error caused by the value's size.
fn with_largest_at(error: Error, source: &Source) -> Error {
    let descriptor = source.descriptor().clone();
    let path = FieldPath::parse(error.path().unwrap_or_default(), &descriptor);
    let options = ReadOptions::new().descriptor(descriptor);
    match (path, MessageView::of_reader(source.data(), options)) {
        (Ok(path), Ok(view)) => with_largest(error, &view, &path),
        _ => error,
    }
}

fn planned<P: ComposableSplitter + ?Sized>(
    splitter: &P,
    source: &Source,
    options: &SplitOptions,
) -> Result<SplitPlan> {
    let Decisions {
        mut marks,
        fits,
        slices,
        added,
        has_base,
        ..
    } = decide(splitter, source, options)?;
    slices.check_apart_from(&fits, source, options)?;
    slices.mark(source, options, &mut marks)?;
    let profile = options.profile;
    // The extended profile is byte-exact for every message: if slices would not be byte-exact, the
    // message is cut in source order.
    let in_order = profile == Profile::Extended && added.is_empty();
    let mut marks = with_sizes(marks, fits, source, options, in_order)?;
    let (nested, most) = match profile {
        Profile::TensorFlow => (marks.nest_at_keys(), None),
        // Only TensorFlow's Merger needs nested chunks at map keys.
        Profile::Extended => (BTreeSet::new(), options.effective_max_value_size()),
    };
    let mut emitted = emit(source, &marks, most)?;
    let mut layout = if emitted.byte_exact || !added.is_empty() {
        None
    } else {
        source_layout(source, &emitted.chunks, options)?
    };
    if in_order && !emitted.byte_exact && layout.is_none() {
        emitted = emit(source, &cut_in_order(source, options)?, most)?;
        layout = None;
    }
    let byte_exact = added.is_empty() && (emitted.byte_exact || layout.is_some());
    if options.require_byte_exact && !byte_exact {
        return Err(Error::new(ErrorKind::Uncuttable, not_exact(&added)));
    }
    let mut chunks = emitted.chunks;
    if !has_base {
        check_left_out(source, &added)?;
        chunks.clear();
    }
    for added in &added {
        check_depth(added.chunk.path(), source.descriptor(), options)?;
    }
    check_places(&added, source)?;
    for added in added.into_iter().flat_map(|added| added.pieces(most)) {
        added.insert_into(&mut chunks, usize::from(has_base));
    }
    for chunk in &chunks {
        check_size(chunk, options)
            .map_err(|error| error.at_path(chunk.path().display(Some(source.descriptor()))))?;
    }
    let plan = SplitPlan {
        descriptor: source.descriptor().clone(),
        source_size: source.size(),
        chunks,
        nested,
        byte_exact,
        source_layout: layout.unwrap_or_default(),
        version: version_def(splitter.version_def(), profile)?,
        profile,
        has_base,
        always_chunked: options.always_chunked,
    };
    check_reader_limits(&plan, options)?;
    Ok(plan)
}

/// Runs a splitter over a source, and returns its decisions.
fn decide<P: ComposableSplitter + ?Sized>(
    splitter: &P,
    source: &Source,
    options: &SplitOptions,
) -> Result<Decisions> {
    let mut decisions = Decisions {
        source: source.clone(),
        options: options.clone(),
        marks: Cuts::default(),
        fits: SizeRequests::default(),
        slices: Slices::default(),
        added: Vec::new(),
        has_base: true,
    };
    let view = SourceView::root(source, options.profile);
    check_type(splitter, &view)?;
    splitter.build_chunks(&mut SplitContext {
        decisions: &mut decisions,
        view,
    })?;
    Ok(decisions)
}

/// Adds the cuts that the maximum sizes require. If the message has too many runs of fields, and
/// `in_order` is true, replaces all cuts with continuations. `in_order` must be false in
/// TensorFlow's profile, and if chunks were added.
fn with_sizes(
    mut marks: Cuts,
    fits: SizeRequests,
    source: &Source,
    options: &SplitOptions,
    in_order: bool,
) -> Result<Cuts> {
    if in_order && marks.is_empty() && fits.may_slice_all(source) {
        // If all cuts depend only on sizes, it can be determined whether continuations are needed
        // before memory is allocated for runs.
        if let Some(cut) = cut_in_order_if_needed(source, options)? {
            return Ok(cut);
        }
    }
    let turns = RunBudget::new(if in_order { MOST_RUNS } else { u64::MAX });
    match fits.run(source, options, &mut marks, &turns) {
        Err(_) if turns.are_exceeded() => cut_in_order(source, options),
        done => done.map(|()| marks),
    }
}

/// Checks a split that omits the message itself: fails if the message has any bytes, which would be
/// in no chunk, or if no chunk was added.
fn check_left_out(source: &Source, added: &[Added]) -> Result<()> {
    let message = match source.size() {
        0 if added.is_empty() => "the message was left out, and no chunk was added".to_owned(),
        0 => return Ok(()),
        size => format!("the message was left out, so its {size} bytes are in no chunk"),
    };
    Err(Error::new(ErrorKind::InvalidConfig, message))
}

/// Returns the error message that explains why a merge would not be byte-exact.
#[cold]
fn not_exact(added: &[Added]) -> String {
    let why = if added.is_empty() {
        "the list of byte positions is too large for the trailer; in the profile `extended` the merge is byte-exact"
    } else {
        "the splitter makes chunks that are not parts of the message"
    };
    format!("a merge would be equal to the message, but not byte-exact: {why}")
}

/// Fails if a chunk exceeds the maximum size for its kind.
fn check_size(chunk: &PlannedChunk, options: &SplitOptions) -> Result<()> {
    let (kind, size) = (chunk.kind(), chunk.size);
    let max = options.effective_max_chunk_size();
    let message = match (kind, options.effective_max_value_size()) {
        (ChunkKind::Message, _) if size > max => format!(
            "the splitter leaves {size} bytes here, over the maximum chunk size of {max} bytes"
        ),
        (ChunkKind::Bytes, Some(most)) if size > most => format!(
            "a value of {size} bytes, over the maximum value size of {most} bytes{}",
            options.hint()
        ),
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Uncuttable, message).refusing_size())
}
