//! Options that several commands read a message by.

use clap::Args;

/// What merging a file of another writer can depend on.
#[derive(Args, Debug)]
pub(crate) struct ReadingArgs {
    /// The message's type, where the file doesn't say it
    #[arg(long, value_name = "TYPE")]
    pub(crate) message: Option<String>,
    /// Do without the type: take what depends on it in the plainest way
    #[arg(long)]
    pub(crate) assume_plain: bool,
}
