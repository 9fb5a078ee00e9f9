//! Options that several commands read a message by.

use clap::Args;

use super::schema::SchemaArgs;

/// What merging a file of another writer can depend on.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReadingArgs {
    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
    /// Do without the type: take what depends on it in the plainest way
    #[arg(long)]
    pub(crate) assume_plain: bool,
    /// Read chunks from files outside of FILE's folder too, if FILE names them
    #[arg(long)]
    pub(crate) allow_outside: bool,
}
