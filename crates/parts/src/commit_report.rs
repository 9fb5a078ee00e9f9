//! The report on a commit.

use std::path::PathBuf;

use super::committed::Committed;
use super::plan::PartsPlan;
use proto_splitter_core::container::MerkleRoot;
use proto_splitter_core::merge::{MergeCheck, SourceCheck};

/// A report on a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CommitReport {
    /// The verb: `split`, `merge` or `verify`.
    pub verb: &'static str,
    /// Number of parts.
    pub parts: usize,
    /// The file or object written; `None` for a verification.
    #[cfg_attr(
        feature = "serde",
        serde(serialize_with = "crate::as_text::optional_path")
    )]
    pub output: Option<PathBuf>,
    /// Number of bytes written or read.
    pub bytes: u64,
    /// Size of the message, in bytes, if known.
    pub message_bytes: Option<u64>,
    /// crc32c of the merged message, if it was computed.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::crc32c"))]
    pub crc32c: Option<u32>,
    /// True if a merge reproduces the exact bytes of the source; `None` if that is unknown.
    pub byte_exact: Option<bool>,
    /// Number of chunks written by a split.
    pub chunks: Option<usize>,
    /// The Merkle root of a split, if its plan requests one.
    #[cfg_attr(
        feature = "serde",
        serde(
            serialize_with = "crate::as_text::merkle_root",
            skip_serializing_if = "Option::is_none"
        )
    )]
    pub merkle_root: Option<MerkleRoot>,
    /// True if the same commit was made before, so that there was nothing to do.
    pub was_there: bool,
    /// Removed files of an earlier split, or of parts that ran more than once with different
    /// results.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::paths"))]
    pub removed_files: Vec<PathBuf>,
    /// Problems that a verification has found.
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
