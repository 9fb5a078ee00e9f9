//! The chunked file that a merge or a verification in parts reads.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use record_file::ReadAt;

use super::identity::{check as check_unchanged, check_same, identify, identify_object};
use super::message_type::apply;
use super::objects::{Objects, Stores, given, is_absolute, is_object, named};
use super::options::PartOptions;
use super::shares::{check_ends, share, share_of_items};
use crate::proto::{Input, MessageType};
use proto_splitter_core::container::Limits;
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::part_work::{RecordStore, open_path_as, open_sources};
use proto_splitter_core::{Error, ErrorKind, Result};

/// The checked input of a plan: the identity of the chunked file, the options for reading it
/// (including the type of its message, if known), and the end of each part's share of the work, in
/// bytes or in items.
#[derive(Clone, Debug)]
pub(super) struct ChunkedInput {
    planned: Input,
    options: ReadOptions,
    part_ends: Vec<u64>,
}

/// Returns the error for an invalid plan. `verb` names the planned operation, such as `merge`.
/// `why` completes the error's message, which begins with "the plan of a merge".
pub(super) fn invalid_plan(verb: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::InvalidMessage,
        format!("the plan of a {verb} {why}"),
    )
}

/// A chunked message, in files or in objects.
pub(super) type Chunked = RecordStore<Arc<dyn ReadAt>>;

/// Opens a chunked message. Returns the message, and the current identity of the file or object
/// that contains it.
pub(super) fn open(input: &Path, stores: Stores<'_>, limits: &Limits) -> Result<(Chunked, Input)> {
    match named(input, stores)? {
        Some((name, objects)) => open_object(name, &**objects, limits),
        None => {
            let planned = identify(input)?;
            Ok((open_file(input, limits)?, planned))
        }
    }
}

fn open_file(input: &Path, limits: &Limits) -> Result<Chunked> {
    open_path_as(input, limits, |file| Arc::new(file) as Arc<dyn ReadAt>)
}

fn open_object(name: &str, objects: &dyn Objects, limits: &Limits) -> Result<(Chunked, Input)> {
    let object = objects.open(name)?;
    let now = identify_object(name, &object)?;
    let store = open_sources(object.source, limits, |named| {
        objects.open_beside(name, &named.path)
    })?;
    Ok((store, now))
}

impl ChunkedInput {
    /// Checks the input in a decoded plan. `verb` names the planned operation, such as `merge`.
    pub(super) fn checked(
        verb: &str,
        input: Option<Input>,
        message_type: Option<&MessageType>,
        part_ends: Vec<u64>,
    ) -> Result<ChunkedInput> {
        let planned = input.ok_or_else(|| invalid_plan(verb, "has no input"))?;
        if !is_absolute(&planned.path) {
            return Err(invalid_plan(verb, "has paths that aren't absolute"));
        }
        let input = ChunkedInput {
            planned,
            options: apply(message_type, ReadOptions::new())?,
            part_ends,
        };
        check_ends(&input.part_ends, input.end())?;
        Ok(input)
    }

    pub(super) fn path(&self) -> &Path {
        Path::new(&self.planned.path)
    }

    /// Returns the number of parts.
    pub(super) fn parts(&self) -> usize {
        self.part_ends.len()
    }

    /// Returns the end of the last part: the size of the whole work, in bytes or in items.
    pub(super) fn end(&self) -> u64 {
        self.part_ends.last().copied().unwrap_or(0)
    }

    /// Returns the share of the part with index `part`: a range of bytes or items.
    pub(super) fn share(&self, part: usize) -> Result<Range<u64>> {
        share(&self.part_ends, part)
    }

    /// Returns the share of the part with index `part`, as a range of item indices.
    pub(super) fn share_of_items(&self, part: usize) -> Result<Range<usize>> {
        share_of_items(&self.part_ends, part)
    }

    /// Fails unless the shares of all parts together are exactly `0..all`.
    pub(super) fn check_shares(&self, all: u64) -> Result<()> {
        check_ends(&self.part_ends, all)
    }

    /// Returns the options for reading the input in a part that is run with `options`.
    pub(super) fn options(&self, options: &PartOptions) -> ReadOptions {
        let reading = self.options.clone().limits(options.limits.clone());
        reading
            .threads(options.threads)
            .progress(options.progress.clone())
    }

    /// Opens the input. Fails if it has changed since the plan was made.
    pub(super) fn open(&self, options: &PartOptions) -> Result<Chunked> {
        let name = &self.planned.path;
        if is_object(name) {
            let objects = given(options.objects.as_ref(), name)?;
            let (store, now) = open_object(name, &**objects, &options.limits)?;
            check_same(&self.planned, &now)?;
            return Ok(store);
        }
        let store = open_file(self.path(), &options.limits)?;
        check_unchanged(&self.planned)?;
        Ok(store)
    }
}
