//! How long work is done, and what is seen of it.

use std::num::NonZeroUsize;

use clap::{Args, ValueEnum};

/// How many threads work.
#[derive(Args, Debug)]
pub(crate) struct ThreadsArgs {
    /// How many threads work; by default one for each core. The result is the same
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
}

/// When it is shown how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shown {
    Auto,
    Always,
    Never,
}
