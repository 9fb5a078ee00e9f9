//! Options for reading a message, shared by several commands.

use clap::Args;
use clap::builder::ValueParser;
use proto_splitter::merge::{DEFAULT_MAX_FILES, Limits};

use super::depth::DepthArgs;
use super::schema::SchemaArgs;
use crate::size;

/// Options for reading a message, including the limits for a message that another program wrote.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReadingArgs {
    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
    /// Merge without the type; treat ambiguous values as plain bytes and messages
    #[arg(long, help_heading = "Schema", hide_short_help = true)]
    pub(crate) assume_plain: bool,
    #[command(flatten)]
    pub(crate) depth: DepthArgs,
    #[command(flatten)]
    pub(crate) shards: ShardArgs,
}

impl ReadingArgs {
    /// Returns the limits on the input.
    pub(crate) fn limits(&self) -> Limits {
        self.shards
            .limits()
            .max_message_depth(self.depth.max_depth as usize)
    }
}

/// Limits for a message whose chunks are spread over several files.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ShardArgs {
    /// Also read chunks from files outside FILE's folder, if FILE names them
    #[arg(long, hide_short_help = true, help_heading = "Limits")]
    pub(crate) allow_outside: bool,
    /// Largest message to merge [default: 8 GiB, or 4096 times the size of FILE if that is more]
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(size::parse), hide_short_help = true, help_heading = "Limits")]
    pub(crate) max_merged_size: Option<u64>,
    /// Largest number of other files that hold FILE's chunks
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_FILES, hide_short_help = true, help_heading = "Limits")]
    pub(crate) max_files: usize,
}

impl ShardArgs {
    /// Returns the limits on the input.
    pub(crate) fn limits(self) -> Limits {
        Limits::new()
            .allow_outside(self.allow_outside)
            .max_merged_size(self.max_merged_size)
            .max_files(self.max_files)
    }
}
