//! The command line of `protosplit tree`.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Args, ValueEnum};

use proto_splitter::ops::{LeastSize, TreeOrder};

use super::reading::ReadingArgs;
use crate::size;

pub(super) const HELP: &str = "\
Shows what takes up space in a message: bytes by field path, without loading it. Large values
are skipped; only tags, lengths and names are read.

All elements of a repeated field or map share one line with [*], and so does each field below
them. The largest elements follow on dashed lines, by index or key and by name. The size of a
field is the sum of its elements, or of its fields. Lines are truncated to a terminal's
width; --full-paths shows paths that other commands accept. A size counts tags and lengths, so
the fields of a message add up to its size; own is the part outside the fields below. For a
.cpb file the tree shows the merged message, and the chunks that contain each part.

FILE can be a .pb or .cpb file, its prefix, or the folder of a SavedModel. PATH is one value
or a line of a tree. Without the type a path consists of field numbers, and bytes that look
like a message are marked with a question mark.

Examples:
  protosplit tree model/
  protosplit tree model/ 'meta_graphs[0].graph_def.node[*]' --top 50
      The largest nodes.
  protosplit tree graph.pb --message tensorflow.GraphDef --depth 2 --sort count
  protosplit tree model/ --html model.html
      An interactive page that works offline.
  protosplit tree model/ --svg model.svg
  protosplit tree new/ --diff old/
      What grew, shrank, appeared and disappeared; --html writes it as a page.
  protosplit tree model/ --limit 2GiB
      For checks of exporters: exits with 1 over the limit, and names the largest paths.
  protosplit tree model/ --json | jq '.tree.fields[0].path'";

#[derive(Args, Debug)]
pub(crate) struct TreeArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    pub(crate) file: PathBuf,
    /// Path to start from [default: the whole message]
    pub(crate) path: Option<String>,
    /// Show this many levels of fields
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<usize>,
    /// Show this many elements of a repeated field, and fields of a message [default: 10; many more in
    /// pages and pictures]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Leave out smaller parts: a size, or a share of the whole [default: 1%; 0 with --top or --sort
    /// and in pages and pictures]
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(min_size))]
    pub(crate) min_size: Option<LeastSize>,
    /// Order of fields and elements
    #[arg(long, value_enum, default_value_t = SortBy::Size)]
    pub(crate) sort: SortBy,
    /// Show the changes since this message; - for standard input
    #[arg(long, value_name = "OLD", conflicts_with = "svg")]
    pub(crate) diff: Option<PathBuf>,
    /// Exit with 1, and name the largest paths, if the message is larger than this
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(size::parse), conflicts_with = "diff")]
    pub(crate) limit: Option<u64>,
    /// Show whole paths, however long, as other commands accept them
    #[arg(long)]
    pub(crate) full_paths: bool,
    /// The file to write the table to [default: standard output]
    #[arg(short, long, conflicts_with_all = ["html", "svg"])]
    pub(crate) output: Option<PathBuf>,
    /// Write an interactive HTML page instead of a table; - for standard output
    #[arg(long, value_name = "OUT.html")]
    pub(crate) html: Option<PathBuf>,
    /// Write an SVG picture instead of a table; - for standard output
    #[arg(long, value_name = "OUT.svg")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Overwrite existing output
    #[arg(long)]
    pub(crate) force: bool,
}

/// The order of fields and elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// Largest first
    Size,
    /// Most frequent first
    Count,
    /// By name; elements by index
    Name,
}

impl From<SortBy> for TreeOrder {
    fn from(sort: SortBy) -> TreeOrder {
        match sort {
            SortBy::Size => TreeOrder::Size,
            SortBy::Count => TreeOrder::Count,
            SortBy::Name => TreeOrder::Name,
        }
    }
}

fn min_size(text: &str) -> Result<LeastSize, String> {
    let Some(percent) = text.strip_suffix('%') else {
        return size::parse(text).map(LeastSize::Bytes);
    };
    let (whole, fraction) = percent.split_once('.').unwrap_or((percent, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let millionths =
        (!percent.is_empty() && digits(whole) && digits(fraction) && fraction.len() <= 4)
            .then(|| format!("{whole}{fraction:0<4}").parse().ok())
            .flatten();
    match millionths {
        Some(share @ 0..=1_000_000) => Ok(LeastSize::Millionths(share)),
        _ => Err("must be a share from 0% to 100%, e.g. 0.5%".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_size_is_in_bytes_or_a_share_of_the_whole() {
        for (text, of_a_gib) in [
            ("0", 0),
            ("1KiB", 1024),
            ("0%", 0),
            ("0.1%", 1_073_741),
            ("50%", 1 << 29),
            ("100%", 1 << 30),
            ("0.0001%", 1073),
        ] {
            assert_eq!(
                min_size(text).map(|least| least.of(1 << 30)),
                Ok(of_a_gib),
                "{text}"
            );
        }
        for text in ["101%", "%", "-1%", "1.00001%", "1e1%"] {
            assert!(min_size(text).unwrap_err().contains("0.5%"), "{text}");
        }
    }
}
