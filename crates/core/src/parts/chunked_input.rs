//! The chunked file that a merge or a verification in parts reads.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use super::identity::check as check_unchanged;
use super::message_type::apply;
use super::options::PartOptions;
use super::shares::{check_ends, share, share_of_items};
use crate::merge::{ReadOptions, RecordStore, open_path};
use crate::proto::parts::{Input, MessageType};
use crate::{Error, ErrorKind, Result};

/// A chunked file of a plan that was checked, what is known of its message, and where each part of
/// the work ends.
#[derive(Clone, Debug)]
pub(super) struct ChunkedInput {
    planned: Input,
    options: ReadOptions,
    part_ends: Vec<u64>,
}

/// That the plan of a `verb` isn't one.
pub(super) fn invalid_plan(verb: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::InvalidMessage,
        format!("the plan of a {verb} {why}"),
    )
}

impl ChunkedInput {
    /// Checks what the plan of a `verb` says of its input.
    pub(super) fn checked(
        verb: &str,
        input: Option<Input>,
        message_type: Option<&MessageType>,
        part_ends: Vec<u64>,
    ) -> Result<ChunkedInput> {
        let planned = input.ok_or_else(|| invalid_plan(verb, "has no input"))?;
        if Path::new(&planned.path).is_relative() {
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

    /// How many parts there are.
    pub(super) fn parts(&self) -> usize {
        self.part_ends.len()
    }

    /// Where the last part ends.
    pub(super) fn end(&self) -> u64 {
        self.part_ends.last().copied().unwrap_or(0)
    }

    /// Where a part begins and ends.
    pub(super) fn share(&self, part: usize) -> Result<Range<u64>> {
        share(&self.part_ends, part)
    }

    /// The same of items that are all in memory.
    pub(super) fn share_of_items(&self, part: usize) -> Result<Range<usize>> {
        share_of_items(&self.part_ends, part)
    }

    /// Fails unless the parts share out so much.
    pub(super) fn check_shares(&self, all: u64) -> Result<()> {
        check_ends(&self.part_ends, all)
    }

    /// How the file is read in a part that is done like this.
    pub(super) fn options(&self, options: &PartOptions) -> ReadOptions {
        let reading = self.options.clone().limits(options.limits.clone());
        reading
            .threads(options.threads)
            .progress(options.progress.clone())
    }

    /// The file, if it still is what was planned.
    pub(super) fn open(&self, options: &PartOptions) -> Result<RecordStore<File>> {
        let store = open_path(self.path(), &options.limits)?;
        check_unchanged(&self.planned)?;
        Ok(store)
    }
}
