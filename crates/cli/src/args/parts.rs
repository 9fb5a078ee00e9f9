//! The options for dividing work among several hosts.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Arg, Args};

/// Options that write, execute or commit a plan.
#[derive(Args, Debug)]
#[command(next_help_heading = "Several hosts")]
pub(crate) struct PartsArgs {
    /// Write a plan for several hosts and exit
    #[arg(long, value_name = "FILE", conflicts_with = "plan")]
    pub(crate) plan_only: Option<PathBuf>,
    /// Number of parts, at most one for each chunk; more if --max-file-size needs more files [default: 16]
    #[arg(long, value_name = "N", requires = "plan_only", hide_short_help = true)]
    pub(crate) parts: Option<NonZeroUsize>,
    /// The plan: execute one part with --part, or --commit it
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Part of the plan to execute, counted from 0
    #[arg(
        long,
        value_name = "K",
        requires = "plan",
        conflicts_with = "commit",
        hide_short_help = true
    )]
    pub(crate) part: Option<usize>,
    /// Report of the part to write [default: PLAN.NNNNN.report, K in five digits]
    #[arg(long, value_name = "REPORT", requires = "part", hide_short_help = true)]
    pub(crate) report: Option<PathBuf>,
    /// Combine the parts, given the report of each [default: the reports beside the plan]
    #[arg(long, value_name = "REPORT", requires = "plan", num_args = 0.., hide_short_help = true)]
    pub(crate) commit: Option<Vec<PathBuf>>,
    /// Commit without reading the parts again: damage since they were written goes unnoticed
    #[arg(long, requires = "commit", hide_short_help = true)]
    pub(crate) no_reread: bool,
}

/// The options that are allowed with `--plan`. The values of all other options are recorded in the
/// plan.
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

/// Options that are also allowed with `--plan` if the command reads a chunked file. With these,
/// each host sets its own limits.
const LIMITS: &[&str] = &["allow_outside", "max_merged_size", "max_files", "max_depth"];

/// Makes an option conflict with `--plan`, unless [`WITH_PLAN`] contains the option.
pub(crate) fn apart_from_plan(arg: Arg) -> Arg {
    if WITH_PLAN.contains(&arg.get_id().as_str()) {
        arg
    } else {
        arg.conflicts_with("plan")
    }
}

/// Makes an option of a command that reads a chunked file conflict with `--plan`, unless
/// [`WITH_PLAN`] or [`LIMITS`] contains the option.
pub(crate) fn reading_apart_from_plan(arg: Arg) -> Arg {
    if LIMITS.contains(&arg.get_id().as_str()) {
        arg
    } else {
        apart_from_plan(arg)
    }
}
