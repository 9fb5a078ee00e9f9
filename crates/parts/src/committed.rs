//! The result of a committed plan.

use super::splitting::CommittedSplit;
use super::verifying::CommittedVerify;
use proto_splitter_core::merge::Merged;

/// The result of a [committed](super::PartsPlan::commit) plan.
#[derive(Debug)]
#[non_exhaustive]
pub enum Committed {
    /// The result of a split.
    Split(CommittedSplit),
    /// The result of a merge.
    Merge(Merged),
    /// The result of a verification.
    Verify(CommittedVerify),
}
