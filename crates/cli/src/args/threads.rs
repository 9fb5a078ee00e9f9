//! Options for threads and progress.

use std::num::NonZeroUsize;

use clap::builder::ValueParser;
use clap::{Args, ValueEnum};

/// The number of threads.
#[derive(Args, Debug)]
pub(crate) struct ThreadsArgs {
    /// Number of threads [default: one per core]; the result is the same
    #[arg(long, value_name = "N", value_parser = ValueParser::new(threads))]
    pub(crate) threads: Option<NonZeroUsize>,
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let wrong = |_| "the number of threads must be at least 1".to_owned();
    text.parse().map_err(wrong)
}

/// When to show progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    Auto,
    Always,
    Never,
}
