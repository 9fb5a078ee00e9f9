//! The command lines of `protosplit remove`, `insert`, `strip` and `edit`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueParser;
use proto_splitter::split::ChunkCompression;

use super::reading::ReadingArgs;
use super::rewrite::{FormArgs, NewValueArgs, RewriteArgs};
use super::threads::ThreadsArgs;
use super::values::{ValueSize, chunk_size, compression, value_size};
use crate::size;

/// The last paragraph of the help for the commands in this file.
macro_rules! form {
    () => {
        "\
FILE can be a message or model of any supported format, in one piece or in chunks. If it is
the folder of a SavedModel, OUTPUT is a new folder with an updated fingerprint.pb. OUTPUT is
in chunks if its name ends in .cpb, in one piece if it ends in .pb, and otherwise like FILE.
No value is held in memory. A .cpb is split again, with --max-chunk-size and FILE's profile,
which unpacks FILE's compressed chunks to a temporary file. An ONNX model with external data
keeps it external: --to onnx moves the tensors inside.
"
    };
}

pub(super) const REMOVE: &str = concat!(
    "\
Writes a message without the values at the given paths: elements of a repeated field,
entries of a map, or a whole field. All paths refer to FILE before any change.

",
    form!(),
    "
Examples:
  protosplit remove model/ 'meta_graphs[1]' -o smaller/
  protosplit remove graph.pb 'node[name=\"debug\"]' 'node[-3:]' -o out.pb \\
      --message tensorflow.GraphDef
  protosplit remove graph.cpb 'node[*].attr[\"_output_shapes\"]' -o out.cpb"
);

pub(super) const INSERT: &str = concat!(
    "\
Writes a message with one more value: an element, before the one at PATH, or at the end if
PATH is the field; an entry of a map; the value of a singular field that is
absent. --value is a number, text or enum value, or a message as JSON or in protobuf's text
format. --with names a file that contains the value, as `get` writes it.

",
    form!(),
    "
Examples:
  protosplit insert model/ 'meta_graphs[0].meta_info_def.tags' --value gpu -o new/
  protosplit insert graph.pb 'node[0]' --value 'name: \"x\" op: \"NoOp\"' -o out.pb \\
      --message tensorflow.GraphDef
  protosplit insert graph.pb 'node[3].attr[\"N\"]' --value '{\"i\": 5}' -o out.pb \\
      --message tensorflow.GraphDef"
);

pub(super) const STRIP: &str = concat!(
    "\
Writes a message without its large values, to inspect, compare or share it. --over empties
all strings, bytes and packed numbers over a size but keeps their fields, so that paths
stay the same. --tensors removes the elements of all tensors; names, types and shapes stay.

",
    form!(),
    "
Examples:
  protosplit strip model/ --tensors -o skeleton/
  protosplit strip trace.cpb --over 64KiB -o small.pb"
);

pub(super) const EDIT: &str = concat!(
    "\
Writes a message with several changes, made in one pass. All paths refer to FILE before any
change: --remove 'node[0]' --remove 'node[1]' removes the first two. Changing the same value
twice is an error.

",
    form!(),
    "
Examples:
  protosplit edit graph.pb --remove 'node[name=\"old\"]' --replace 'node[0].op=Const' \\
      --insert 'versions.bad_consumers=7' -o out.pb --message tensorflow.GraphDef
  protosplit edit model/ --replace-with 'meta_graphs[0].meta_info_def=info.pb' \\
      --strip-tensors -o new/"
);

#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    pub(crate) file: PathBuf,
    /// Values to remove; a path can select several, such as 'node[2:5]' or 'node[name="x"]'
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    #[command(flatten)]
    pub(crate) editing: EditingArgs,
}

#[derive(Args, Debug)]
pub(crate) struct InsertArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    pub(crate) file: PathBuf,
    /// Path at which to insert the value
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) value: NewValueArgs,
    #[command(flatten)]
    pub(crate) editing: EditingArgs,
}

#[derive(Args, Debug)]
pub(crate) struct StripArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) what: StripWhatArgs,
    #[command(flatten)]
    pub(crate) editing: EditingArgs,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct StripWhatArgs {
    /// Empty strings, bytes and packed numbers over this size
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(size::parse))]
    pub(crate) over: Option<u64>,
    /// Remove the elements of tensors
    #[arg(long)]
    pub(crate) tensors: bool,
}

#[derive(Args, Debug)]
pub(crate) struct EditArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    pub(crate) file: PathBuf,
    /// Remove values, as `remove` does; may be repeated, as may the options below
    #[arg(long, value_name = "PATH")]
    pub(crate) remove: Vec<String>,
    /// Insert a value, as `insert` does with --value
    #[arg(long, value_name = "PATH=VALUE", value_parser = ValueParser::new(assignment))]
    pub(crate) insert: Vec<(String, String)>,
    /// Insert a value from a file
    #[arg(long, value_name = "PATH=VALUE_FILE", value_parser = ValueParser::new(assignment))]
    pub(crate) insert_with: Vec<(String, String)>,
    /// Replace a value, as `replace` does with --value
    #[arg(long, value_name = "PATH=VALUE", value_parser = ValueParser::new(assignment))]
    pub(crate) replace: Vec<(String, String)>,
    /// Replace a value with one from a file
    #[arg(long, value_name = "PATH=VALUE_FILE", value_parser = ValueParser::new(assignment))]
    pub(crate) replace_with: Vec<(String, String)>,
    /// Empty strings, bytes and packed numbers over this size, as `strip` does
    #[arg(long, value_name = "SIZE", value_parser = ValueParser::new(size::parse))]
    pub(crate) strip_over: Option<u64>,
    /// Remove the elements of tensors, as `strip` does
    #[arg(long)]
    pub(crate) strip_tensors: bool,
    #[command(flatten)]
    pub(crate) editing: EditingArgs,
}

/// Options for reading and writing a changed message.
#[derive(Args, Debug)]
pub(crate) struct EditingArgs {
    /// The file to write; for a folder, a new folder
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    /// For a .cpb: largest chunk of a message
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = ValueParser::new(chunk_size))]
    pub(crate) max_chunk_size: u64,
    /// For a .cpb: if a message must be split, bytes and strings of at least this size become chunks; with `none`, only if unavoidable
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = ValueParser::new(value_size))]
    pub(crate) value_chunk_size: ValueSize,
    /// For a .cpb: auto[:LEVEL] (zstd where it pays), none, zstd[:LEVEL], brotli[:LEVEL] or snappy
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = ValueParser::new(compression))]
    pub(crate) compression: ChunkCompression,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
    #[command(flatten)]
    pub(crate) out: RewriteArgs,
}

/// Parses `PATH=VALUE`. Text in brackets or quotes belongs to the path.
fn assignment(text: &str) -> Result<(String, String), String> {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if depth > 0 => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            (None, '=') if depth == 0 => {
                let (path, value) = text.split_at(at);
                return Ok((path.to_owned(), value[1..].to_owned()));
            }
            (None, _) => {}
        }
    }
    Err("expected PATH=VALUE".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_ends_at_the_first_equals_sign_outside_of_brackets() {
        for (text, path, value) in [
            ("a.b=c=d", "a.b", "c=d"),
            ("node[name=\"x=]\"].op=", "node[name=\"x=]\"].op", ""),
            ("m['it\\'s=1']=2", "m['it\\'s=1']", "2"),
        ] {
            assert_eq!(assignment(text), Ok((path.into(), value.into())), "{text}");
        }
        assert!(assignment("node[name=x]").is_err());
    }
}
