//! The report on a plan in a file or object.

use std::path::{Path, PathBuf};

use super::plan::PartsPlan;

/// A report on a plan in a file or object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PlanReport {
    /// Path or URL of the plan.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub plan: PathBuf,
    /// Unique id of the plan, in hexadecimal.
    pub id: String,
    /// Operation of the plan: `split`, `merge` or `verify`.
    pub verb: &'static str,
    /// Path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub input: PathBuf,
    /// Path or URL of the output, which a commit writes; `None` for a verification.
    #[cfg_attr(
        feature = "serde",
        serde(serialize_with = "crate::as_text::optional_path")
    )]
    pub output: Option<PathBuf>,
    /// Number of parts in the plan.
    pub parts: usize,
}

impl PlanReport {
    pub(super) fn new(path: &Path, plan: &PartsPlan) -> PlanReport {
        let (input, output) = plan.files();
        PlanReport {
            plan: path.to_owned(),
            id: plan.id(),
            verb: plan.verb(),
            input: input.to_owned(),
            output,
            parts: plan.parts(),
        }
    }
}
