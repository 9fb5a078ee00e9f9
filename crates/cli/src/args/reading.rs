//! Options that several commands read a message by.

use clap::Args;
use clap::builder::ValueParser;
use proto_splitter::merge::{DEFAULT_MAX_FILES, Limits};

use super::depth::DepthArgs;
use super::schema::SchemaArgs;
use crate::size;

/// What merging a file of another writer can depend on.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReadingArgs {
    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
    /// Do without the type: where it would decide, take the plainest reading
    #[arg(long)]
    pub(crate) assume_plain: bool,
    #[command(flatten)]
    pub(crate) depth: DepthArgs,
    #[command(flatten)]
    pub(crate) parts: PartsArgs,
}

impl ReadingArgs {
    /// What is accepted of a file.
    pub(crate) fn limits(&self) -> Limits {
        self.parts
            .limits()
            .max_message_depth(self.depth.max_depth as usize)
    }
}

/// Where the other files of one whose chunks are in several may be.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PartsArgs {
    /// Read chunks from files outside of FILE's folder too, if FILE names them
    #[arg(long)]
    pub(crate) allow_outside: bool,
    /// The largest message to merge; 8 GiB or 4096 times the size of FILE if not given
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(size::parse))]
    pub(crate) max_merged_size: Option<u64>,
    /// How many other files FILE may have its chunks in
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_FILES)]
    pub(crate) max_files: usize,
}

impl PartsArgs {
    /// What is accepted of a file.
    pub(crate) fn limits(self) -> Limits {
        Limits::new()
            .allow_outside(self.allow_outside)
            .max_merged_size(self.max_merged_size)
            .max_files(self.max_files)
    }
}
