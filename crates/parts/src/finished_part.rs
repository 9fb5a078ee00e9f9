//! The report on a part that has run.

use std::path::PathBuf;

use super::plan::PartsPlan;
use super::report::PartReport;

/// A report on a part that has run. The part's own report, which the commit needs, is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FinishedPart {
    /// Id of the plan.
    pub plan_id: String,
    /// Number of the part, counted from 0.
    pub part: usize,
    /// Number of parts in the plan.
    pub parts: usize,
    /// Path or URL of the report for the commit.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub report: PathBuf,
    /// The part's own file, if it has one.
    pub file: Option<String>,
    /// Number of bytes written or read.
    pub bytes: u64,
    /// Problems that a part of a verification has found.
    pub problems: Vec<String>,
}

impl FinishedPart {
    pub(super) fn new(plan: &PartsPlan, done: &PartReport, report: PathBuf) -> FinishedPart {
        FinishedPart {
            plan_id: plan.id(),
            part: done.part(),
            parts: plan.parts(),
            report,
            file: done.file().map(|(name, _)| name.to_owned()),
            bytes: done.bytes(),
            problems: done.problems().to_vec(),
        }
    }
}
