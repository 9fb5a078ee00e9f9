//! A verification in parts.

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

/// What all parts of a verification showed.
#[derive(Debug)]
#[non_exhaustive]
pub struct CommittedVerify {
    /// How many records the files have, the trailer's included.
    pub records: u64,
    /// How many bytes the chunks have that could be read.
    pub bytes: u64,
    /// All that is wrong, as far as one problem didn't hide others.
    pub problems: Vec<String>,
    /// Whether the chunks make the message that was split.
    pub merge: MergeCheck,
}

/// Plans it.
pub(super) fn plan(
    input: &Path,
    options: &ReadOptions,
    (parts, stores): (NonZeroUsize, Stores<'_>),
) -> Result<PlanMessage> {
    let (store, planned) = open(input, stores, &options.limits)?;
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

/// A verification that is planned, checked.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    input: ChunkedInput,
}

impl Planned {
    /// Checks a plan that was read.
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

    /// The file, if it still is what was planned, and its chunks in groups.
    fn open(&self, options: &PartOptions) -> Result<(Chunked, Vec<Vec<usize>>)> {
        let store = self.input.open(options)?;
        let groups = store.groups();
        self.input.check_shares(groups.len() as u64)?;
        Ok((store, groups))
    }

    /// Reads a part's chunks.
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

    /// Puts together what the parts have read.
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
        let mut crcs = Vec::new();
        for (part, outcome) in outcomes.iter().enumerate() {
            let Outcome::Verify(read) = outcome else {
                let message = format!("part {part}: its report isn't one of a verification");
                return Err(Error::new(ErrorKind::InvalidMessage, message));
            };
            all.records = all.records.saturating_add(read.records);
            all.bytes = all.bytes.saturating_add(read.bytes);
            let new = read
                .problems
                .iter()
                .filter(|problem| !all.problems.contains(problem));
            let new: Vec<String> = new.cloned().collect();
            all.problems.extend(new);
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
