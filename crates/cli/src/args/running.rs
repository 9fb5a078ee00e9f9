//! How long work is done, and what is seen of it.

use std::num::NonZeroUsize;

use clap::builder::ValueParser;
use clap::{Args, ValueEnum};

/// How many threads work.
#[derive(Args, Debug)]
pub(crate) struct ThreadsArgs {
    /// How many threads work; by default one for each core. The result is the same
    #[arg(long, value_name = "N", value_parser = ValueParser::new(threads))]
    pub(crate) threads: Option<NonZeroUsize>,
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let wrong = |_| "a number of threads is 1 or more".to_owned();
    text.parse().map_err(wrong)
}

/// When it is shown how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shown {
    Auto,
    Always,
    Never,
}
