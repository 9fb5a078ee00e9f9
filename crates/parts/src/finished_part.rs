//! The report on a part that was run.

use std::path::PathBuf;

use super::plan::PartsPlan;
use super::report::PartReport;

/// A report on a part that was run. The [`PartReport`] that the commit needs is in a separate file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FinishedPart {
    /// Id of the plan.
    pub plan_id: String,
    /// Index of the part, counted from 0.
    pub part: usize,
    /// Number of parts in the plan.
    pub parts: usize,
    /// Path or URL of the [`PartReport`], which the commit needs.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub report: PathBuf,
    /// Name of the file that the part wrote; `None` if it wrote no separate file.
    pub file: Option<String>,
    /// Number of bytes that the part wrote or, in a verification, read.
    pub bytes: u64,
    /// Problems that a part of a verification found, one line each.
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
