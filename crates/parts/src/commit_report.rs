//! The report of a committed plan.

use std::path::PathBuf;

use super::committed::Committed;
use super::plan::PartsPlan;
use proto_splitter_core::container::MerkleRoot;
use proto_splitter_core::merge::{MergeCheck, SourceCheck};

/// A report on a committed plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CommitReport {
    /// Operation of the plan: `split`, `merge` or `verify`.
    pub verb: &'static str,
    /// Number of parts in the plan.
    pub parts: usize,
    /// Path or URL of the written file or object; `None` for a verification.
    #[cfg_attr(
        feature = "serde",
        serde(serialize_with = "crate::as_text::optional_path")
    )]
    pub output: Option<PathBuf>,
    /// Number of bytes that a split or merge wrote, or that a verification read.
    pub bytes: u64,
    /// Size of the message, in bytes; `None` if it is unknown.
    pub message_bytes: Option<u64>,
    /// crc32c of the merged message; `None` if it wasn't computed.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::crc32c"))]
    pub crc32c: Option<u32>,
    /// True if a merge reproduces the exact bytes of the source; `None` if this is unknown.
    pub byte_exact: Option<bool>,
    /// Number of chunks that a split wrote; `None` for other operations.
    pub chunks: Option<usize>,
    /// Merkle root of the chunks of a split; `None` if the plan doesn't request one.
    #[cfg_attr(
        feature = "serde",
        serde(
            serialize_with = "crate::as_text::merkle_root",
            skip_serializing_if = "Option::is_none"
        )
    )]
    pub merkle_root: Option<MerkleRoot>,
    /// True if the split was already committed with the same result, so that this commit did
    /// nothing.
    pub was_there: bool,
    /// Paths of removed files. They belonged to an earlier split, or to parts that were run more
    /// than once with different results.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::paths"))]
    pub removed_files: Vec<PathBuf>,
    /// Problems that a verification found, one line each.
    pub problems: Vec<String>,
}

impl CommitReport {
    pub(super) fn new(plan: &PartsPlan, committed: &Committed) -> CommitReport {
        let report = CommitReport {
            verb: plan.verb(),
            parts: plan.parts(),
            output: plan.files().1,
            ..CommitReport::default()
        };
        match committed {
            Committed::Split(done) => CommitReport {
                bytes: done.output_size,
                message_bytes: Some(done.source_size),
                byte_exact: Some(done.byte_exact),
                chunks: Some(done.chunks),
                merkle_root: done.merkle_root,
                was_there: done.was_there,
                removed_files: done.removed.clone(),
                ..report
            },
            Committed::Merge(merged) => CommitReport {
                bytes: merged.size,
                message_bytes: Some(merged.size),
                crc32c: Some(merged.crc32c),
                byte_exact: merged.byte_exact,
                ..report
            },
            Committed::Verify(all) => {
                let report = CommitReport {
                    bytes: all.bytes,
                    problems: all.problems.clone(),
                    ..report
                };
                report.merged(&all.merge)
            }
        }
    }

    fn merged(mut self, merge: &MergeCheck) -> Self {
        match merge {
            MergeCheck::Merged {
                size,
                crc32c,
                source,
                ..
            } => {
                self.message_bytes = Some(*size);
                self.crc32c = Some(*crc32c);
                self.byte_exact = source.map(|source| source == SourceCheck::Same);
            }
            MergeCheck::NeedsType(error) => self.problems.push(error.to_string()),
            _ => {}
        }
        self
    }
}
