//! The options of work that is shared out to several hosts.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Arg, Args};

/// How many parts there are unless the caller says.
// The compiler works this out: 16 isn't zero.
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
    /// Commit without reading once what the parts wrote: damage done since goes unnoticed
    #[arg(long, requires = "commit")]
    pub(crate) no_reread: bool,
}

impl InPartsArgs {
    /// How many parts a plan is to have, if something else may say it.
    pub(crate) fn count(&self, otherwise: Option<NonZeroUsize>) -> NonZeroUsize {
        self.parts.or(otherwise).unwrap_or(DEFAULT_PARTS)
    }
}

/// What counts beside `--plan`; all else is in the plan.
const WITH_PLAN: &[&str] = &[
    "plan",
    "part",
    "report",
    "commit",
    "no_reread",
    "threads",
    "json",
    "help",
    "quiet",
    "verbose",
    "progress",
];

/// The same of what reads a file in chunks: what is accepted of it is each host's own.
const LIMITS: &[&str] = &["allow_outside", "max_merged_size", "max_files", "max_depth"];

/// Has an option refused beside `--plan`, unless it counts there.
pub(crate) fn apart_from_plan(arg: Arg) -> Arg {
    if WITH_PLAN.contains(&arg.get_id().as_str()) {
        arg
    } else {
        arg.conflicts_with("plan")
    }
}

/// The same for a command that reads a file in chunks.
pub(crate) fn reading_apart_from_plan(arg: Arg) -> Arg {
    if LIMITS.contains(&arg.get_id().as_str()) {
        arg
    } else {
        apart_from_plan(arg)
    }
}
