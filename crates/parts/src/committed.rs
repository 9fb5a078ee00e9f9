//! The outcome of a commit.

use super::splitting::CommittedSplit;
use super::verifying::CommittedVerify;
use proto_splitter_core::merge::Merged;

/// The outcome of a [commit](super::PartsPlan::commit).
#[derive(Debug)]
#[non_exhaustive]
pub enum Committed {
    /// A message was split.
    Split(CommittedSplit),
    /// A chunked file was merged.
    Merge(Merged),
    /// A chunked file was verified.
    Verify(CommittedVerify),
}
