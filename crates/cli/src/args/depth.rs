//! The limit on nesting.

use clap::Args;
use clap::builder::{RangedU64ValueParser, ValueParser};
use proto_splitter::split::{DEFAULT_DEPTH_LIMIT, LARGEST_DEPTH_LIMIT};

/// Limit on the nesting of messages.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DepthArgs {
    /// Deepest nesting of messages to accept, up to 200. Other readers stop at 100
    #[arg(long, value_name = "N", default_value_t = DEFAULT_DEPTH_LIMIT, value_parser = depth(), hide_short_help = true, help_heading = "Limits")]
    pub(crate) max_depth: u32,
}

fn depth() -> ValueParser {
    let range = RangedU64ValueParser::<u32>::new().range(1..=u64::from(LARGEST_DEPTH_LIMIT));
    ValueParser::new(range)
}
