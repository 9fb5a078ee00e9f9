//! Verifying a chunked file in parts: planning, running a part, and combining the results.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::Path;

use super::chunked_input::{Chunked, ChunkedInput, open};
use super::message_type::message_type;
use super::objects::Stores;
use super::options::PartOptions;
use super::shares::shares;
use crate::proto::report::Result as Outcome;
use crate::proto::{VerifyPlan as PlanMessage, VerifyReport};
use proto_splitter_core::merge::{ChunkStore, MergeCheck, ReadOptions};
use proto_splitter_core::part_work::{verify_part, verify_parts_together};
use proto_splitter_core::{Error, ErrorKind, Result};

/// The combined result of all parts of a verification.
#[derive(Debug)]
#[non_exhaustive]
pub struct CommittedVerify {
    /// Number of records in all files, including the trailer's record.
    pub records: u64,
    /// Total size of the chunks that could be read, in bytes.
    pub bytes: u64,
    /// All problems found, one line each. If the parts found problems, the merge isn't checked, so
    /// it may have problems that aren't listed.
    pub problems: Vec<String>,
    /// Result of checking that merging the chunks yields the message that was split.
    pub merge: MergeCheck,
}

/// Plans a verification of the chunked file or object `input`.
pub(super) fn plan(
    input: &Path,
    options: &ReadOptions,
    (parts, stores): (NonZeroUsize, Stores<'_>),
) -> Result<PlanMessage> {
    let (store, planned) = open(input, stores, options.get_limits())?;
    let groups = store.groups();
    let size = |group: &Vec<usize>| -> u64 {
        let sizes = group.iter().map(|&chunk| store.size(chunk));
        sizes.fold(0, u64::saturating_add)
    };
    let sizes: Vec<u64> = groups.iter().map(size).collect();
    Ok(PlanMessage {
        input: Some(planned),
        part_ends: shares(&sizes, parts, |_| true),
        r#type: Some(message_type(options)),
    })
}

/// A checked plan for a verification.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    input: ChunkedInput,
}

impl Planned {
    /// Checks a decoded plan for a verification.
    pub(super) fn checked(message: PlanMessage) -> Result<Planned> {
        let PlanMessage {
            input,
            part_ends,
            r#type,
        } = message;
        let input = ChunkedInput::checked("verification", input, r#type.as_ref(), part_ends)?;
        Ok(Planned { input })
    }

    pub(super) fn input(&self) -> &ChunkedInput {
        &self.input
    }

    /// Opens the input. Returns it with the indices of its chunks, in groups that can be read
    /// independently. Fails if the input has changed since the plan was made.
    fn open(&self, options: &PartOptions) -> Result<(Chunked, Vec<Vec<usize>>)> {
        let store = self.input.open(options)?;
        let groups = store.groups();
        self.input.check_shares(groups.len() as u64)?;
        Ok((store, groups))
    }

    /// Reads the chunks of a part, and reports the problems found.
    pub(super) fn run(&self, part: usize, options: &PartOptions) -> Result<Outcome> {
        let own = self.input.share_of_items(part)?;
        let (store, groups) = self.open(options)?;
        let groups = groups.get(own).unwrap_or_default();
        let has_file = |file: usize| file % self.input.parts() == part;
        let read = verify_part(&store, groups, has_file, &self.input.options(options));
        options.progress.check()?;
        Ok(Outcome::Verify(VerifyReport {
            bytes: read.bytes,
            records: read.records,
            problems: read.problems.iter().map(Error::to_string).collect(),
            segment_crc32cs: read.crcs,
        }))
    }

    /// Combines the results of all parts, and checks the merge if no part found a problem.
    pub(super) fn commit(
        &self,
        outcomes: &[&Outcome],
        options: &PartOptions,
    ) -> Result<CommittedVerify> {
        let (store, groups) = self.open(options)?;
        let mut all = CommittedVerify {
            records: 0,
            bytes: 0,
            problems: Vec::new(),
            merge: MergeCheck::Failed,
        };
        let (mut crcs, mut known) = (Vec::new(), HashSet::new());
        for (part, outcome) in outcomes.iter().enumerate() {
            let Outcome::Verify(read) = outcome else {
                let message = format!("part {part}: its report doesn't describe a verification");
                return Err(Error::new(ErrorKind::InvalidMessage, message));
            };
            all.records = all.records.saturating_add(read.records);
            all.bytes = all.bytes.saturating_add(read.bytes);
            let problems = read.problems.iter();
            let new = problems.filter(|problem| known.insert(problem.as_str()));
            all.problems.extend(new.cloned());
            crcs.extend_from_slice(&read.segment_crc32cs);
        }
        if all.problems.is_empty() {
            match verify_parts_together(&store, &groups, &crcs, &self.input.options(options)) {
                Ok(merge) => all.merge = merge,
                Err(error) => all.problems.push(error.to_string()),
            }
        }
        Ok(all)
    }
}
