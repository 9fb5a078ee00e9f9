//! The options of work that is shared out to several hosts.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

/// How many parts there are unless it is said. Sixteen is not zero, which the compiler checks: this is a constant.
const DEFAULT_PARTS: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// A plan that is made, done or committed.
#[derive(Args, Debug)]
#[command(next_help_heading = "By several hosts")]
pub(crate) struct InPartsArgs {
    /// Write down how the work is shared out to hosts, and do nothing of it
    #[arg(long, value_name = "FILE", conflicts_with = "plan")]
    pub(crate) plan_only: Option<PathBuf>,
    /// How many parts the work has at the most; by default 16, or as many as --max-file-size needs
    #[arg(long, value_name = "N", requires = "plan_only")]
    pub(crate) parts: Option<NonZeroUsize>,
    /// Do a part of this plan, or commit it: the plan says everything that has to be done
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Do this part of the plan, counted from 0
    #[arg(long, value_name = "K", requires = "plan", conflicts_with = "commit")]
    pub(crate) part: Option<usize>,
    /// Where the report of the part goes, by default to FILE.K.report beside the plan
    #[arg(long, value_name = "REPORT", requires = "part")]
    pub(crate) report: Option<PathBuf>,
    /// Put the parts together, given a report of each; by default those beside the plan
    #[arg(long, value_name = "REPORT", requires = "plan", num_args = 0..)]
    pub(crate) commit: Option<Vec<PathBuf>>,
}

impl InPartsArgs {
    /// How many parts a plan is to have, if something else may say it.
    pub(crate) fn count(&self, otherwise: Option<NonZeroUsize>) -> NonZeroUsize {
        self.parts.or(otherwise).unwrap_or(DEFAULT_PARTS)
    }
}
