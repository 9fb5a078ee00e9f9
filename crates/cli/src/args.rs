//! The command line, and what `--help` teaches.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use proto_splitter::split::ChunkCompression;
use proto_splitter::split::LARGEST_MAX_CHUNK_SIZE;

use crate::Exit;
use crate::output::Output;
use crate::size;

const ABOUT: &str = "\
Splits protobuf messages of any size into one seekable, checksummed file, and
merges them back.

A message over 2 GiB can't be read by protobuf. Split, it is a .cpb file of
chunks that each can: TensorFlow's C++ Merger reads it, and merging gives back
the same bytes.";

const EXAMPLES: &str = "\
Examples:
  protosplit split model/ -o small/                a SavedModel, all of its folder
  protosplit split --message tensorflow.GraphDef graph.pb
  protosplit info small/                           what became of it
  protosplit verify small/ --against model/saved_model.pb
  protosplit merge small/ -o whole/                and back
  protosplit convert model/ --in-place --to cpb    the same without a copy
  protosplit fingerprint model/                    as TensorFlow computes it

Files and folders appear complete or not at all. A run that is interrupted may leave a
hidden .protosplit-*.tmp beside its output, which can be deleted.

Exit status: 0 done, 1 bad data or data that differs, 2 wrong usage or something
that can't be read or written. `protosplit COMMAND --help` tells more.";

const SPLIT: &str = "\
INPUT is a .pb file, and OUTPUT a prefix: OUTPUT.cpb is written, or OUTPUT.pb if
the message is within the maximum chunk size, so that nothing has to be cut.
Or INPUT is the folder of a SavedModel, and OUTPUT a new folder: everything is
copied there, with saved_model.cpb in place of saved_model.pb, and fingerprint.pb
is what TensorFlow would write for it.

The input is never changed or removed. Files appear complete or not at all.
A chunk of bytes or of a string is never cut, and can be larger than the maximum.
A SIZE is a number of bytes, or one with a binary unit: 64MiB, 10KiB, 1GiB.

Examples:
  protosplit split model/ -o small/
      A SavedModel's folder. Chunks have at most 1 GiB.
  protosplit split graph.pb --message tensorflow.GraphDef
      A single file, to graph.cpb beside it. Any type that a SavedModel reaches
      will do, tensorflow.MetaGraphDef or tensorflow.TensorProto too.
  protosplit split saved_model.pb -o out/saved_model --max-chunk-size 64MiB --compression zstd:9
      The type of a saved_model.pb is known.
  protosplit split saved_model.pb --max-chunk-size 100MiB --dry-run
      What would be cut. Nothing is written.";

const MERGE: &str = "\
INPUT is a .cpb file, or the prefix of one, and OUTPUT a file. Or INPUT is the
folder of a SavedModel, and OUTPUT a new folder: everything is copied there, with
saved_model.pb in place of saved_model.cpb, and with the fingerprint.pb that goes with
it. If OUTPUT ends in .pb, only the message is written.

Every checksum is verified on the way. Files that protosplit wrote need no type.
Others may: it is asked for where the merge depends on it.

Examples:
  protosplit merge graph.cpb -o graph.pb
  protosplit merge small/ -o whole/
  protosplit merge small/ -o whole.pb
  protosplit merge theirs.cpb -o theirs.pb --message tensorflow.GraphDef
      A file that TensorFlow wrote, under a name that doesn't tell its type.
  protosplit merge theirs.cpb -o theirs.pb --assume-plain
      One whose type nobody knows: bytes are taken as bytes, messages as no
      groups, integer keys as plain varints, and slices are appended.";

const VERIFY: &str = "\
Checks a .cpb file: every hash, size, position and path, and the size and
checksum of the message that was split.

FILE can be a .cpb file, the prefix of one, or the folder of a SavedModel. A .pb has
no checksums: of one, only the form is checked, that it is fields one after the other.

Examples:
  protosplit verify graph.cpb
  protosplit verify small/ --deep
      Also parses all that was cut: nesting, wire types, strings in UTF-8.
  protosplit verify graph.cpb --against graph.pb
      Says whether a merge is byte-exact, equal as a message, or different, and
      where first. Exit status 1 if it is different.";

const INFO: &str = "\
Lists the chunks of a .cpb file: kind, size, size in the file, compression,
position and path. Reads headers only.

FILE can be a .cpb file, the prefix of one, or the folder of a SavedModel.

Examples:
  protosplit info graph.cpb
  protosplit info small/ --json | jq '.chunks | max_by(.size).path'
      The largest chunk's place in the message.";

const GET: &str = "\
Writes the value at a path. Only the chunks on the way there and those below are
read; of a .pb file little more than the value.

With the type, which a file that protosplit wrote says, a PATH is in names; without
it in numbers.

Examples:
  protosplit get small/ 'meta_graphs[0].meta_info_def' --format json
  protosplit get graph.cpb 'node[7].name' --format text
  protosplit get graph.cpb 'node[7].attr[\"value\"].tensor' --format npy -o weights.npy
  protosplit get graph.pb 'node[7].attr[\"value\"].tensor.tensor_content' -o weights.bin \\
      --message tensorflow.GraphDef
      A .pb file doesn't say its type, unless it is a saved_model.pb.";

const FINGERPRINT: &str = "\
Computes the fingerprint of a SavedModel as TensorFlow 2.21 does, and says whether
fingerprint.pb agrees. The model is read, not loaded: it may have any size.

Exit status 1 if fingerprint.pb differs, or if TensorFlow's own code can't compute
the fingerprint of this model.

Examples:
  protosplit fingerprint model/
  protosplit fingerprint model/ --json | jq -r .singleprint";

const CONVERT: &str = "\
Writes a SavedModel with its model in another form: saved_model.pb, or saved_model.cpb
in chunks. Everything else is copied, and fingerprint.pb made to agree.

In place, the new model appears beside the old one first, complete and checked, then
fingerprint.pb is replaced, and the old model goes last. Interrupted at any moment,
the folder has a model that can be read; run again, the conversion goes on.

Examples:
  protosplit convert model/ small/ --to cpb
  protosplit convert model/ --in-place --to cpb --max-chunk-size 512MiB
  protosplit convert small/ whole/
      A .pb if the model is under 2 GiB, which is the most that protobuf reads.
  protosplit convert small/ whole/ --to pb
      A .pb, or an error that says by how much it would be too large.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "protosplit", version, about = ABOUT, after_help = EXAMPLES)]
#[command(
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = false
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Split a message into a .cpb file
    #[command(after_help = SPLIT)]
    Split(SplitArgs),
    /// Merge a .cpb file to the message that was split
    #[command(after_help = MERGE)]
    Merge(MergeArgs),
    /// Check a .cpb file
    #[command(after_help = VERIFY)]
    Verify(VerifyArgs),
    /// List the chunks of a .cpb file
    #[command(after_help = INFO)]
    Info(InfoArgs),
    /// Read a part of a message
    #[command(after_help = GET)]
    Get(GetArgs),
    /// Write a SavedModel with its model in another form
    #[command(after_help = CONVERT)]
    Convert(ConvertArgs),
    /// Compute a SavedModel's fingerprint
    #[command(after_help = FINGERPRINT)]
    Fingerprint(FingerprintArgs),
}

#[derive(Args, Debug)]
pub(crate) struct SplitArgs {
    /// A .pb file, or the folder of a SavedModel
    pub(crate) input: PathBuf,
    /// A prefix, by default INPUT without extension; for a folder, a new one
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
    /// The message's type; a saved_model.pb needs none
    #[arg(long, value_name = "TYPE")]
    pub(crate) message: Option<String>,
    /// The most that the chunk of a message may have
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = ValueParser::new(chunk_size))]
    pub(crate) max_chunk_size: u64,
    /// Bytes and strings this large are cut out if anything is, or `none`
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = ValueParser::new(value_size))]
    pub(crate) value_chunk_size: ValueSize,
    /// auto[:LEVEL] (zstd where it pays), none, zstd[:LEVEL], brotli[:LEVEL] or snappy
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = ValueParser::new(compression))]
    pub(crate) compression: ChunkCompression,
    /// Leave a SavedModel's fingerprint.pb as it is
    #[arg(long)]
    pub(crate) keep_fingerprint: bool,
    /// Show what would be cut, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Replace what is in the way
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct MergeArgs {
    /// A .cpb file, its prefix, or the folder of a SavedModel
    pub(crate) input: PathBuf,
    /// The file to write; for a folder, a new one, or a name ending in .pb
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Leave a SavedModel's fingerprint.pb as it is
    #[arg(long)]
    pub(crate) keep_fingerprint: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Replace what is in the way
    #[arg(long)]
    pub(crate) force: bool,
}

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

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// A .cpb file, its prefix, or the folder of a SavedModel
    pub(crate) file: PathBuf,
    /// Compare a merge with this message
    #[arg(long, value_name = "ORIGINAL.pb")]
    pub(crate) against: Option<PathBuf>,
    /// Also parse what was cut
    #[arg(long)]
    pub(crate) deep: bool,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// A .cpb file, its prefix, or the folder of a SavedModel
    pub(crate) file: PathBuf,
    /// The message's type, where the file doesn't say it
    #[arg(long, value_name = "TYPE")]
    pub(crate) message: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct FingerprintArgs {
    /// The folder of a SavedModel
    pub(crate) folder: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// The folder of a SavedModel
    pub(crate) input: PathBuf,
    /// The folder to write
    #[arg(required_unless_present = "in_place", conflicts_with = "in_place")]
    pub(crate) output: Option<PathBuf>,
    /// The form of the model; auto: pb if it is under 2 GiB, else cpb
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) to: To,
    /// Convert the folder itself
    #[arg(long)]
    pub(crate) in_place: bool,
    /// For a .cpb, the most that the chunk of a message may have
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = ValueParser::new(chunk_size))]
    pub(crate) max_chunk_size: u64,
    /// Bytes and strings this large are cut out if anything is, or `none`
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = ValueParser::new(value_size))]
    pub(crate) value_chunk_size: ValueSize,
    /// auto[:LEVEL] (zstd where it pays), none, zstd[:LEVEL], brotli[:LEVEL] or snappy
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = ValueParser::new(compression))]
    pub(crate) compression: ChunkCompression,
    /// Leave fingerprint.pb as it is
    #[arg(long)]
    pub(crate) keep_fingerprint: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Replace a SavedModel that is in the way
    #[arg(long, conflicts_with = "in_place")]
    pub(crate) force: bool,
}

/// The form of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum To {
    Auto,
    Pb,
    Cpb,
}

#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// A .cpb or .pb file, its prefix, or the folder of a SavedModel
    pub(crate) file: PathBuf,
    /// The place in the message, as `info` shows it; "" is all of it
    pub(crate) path: String,
    /// The file to write, by default standard output
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
    /// What is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = GetFormat::Raw)]
    pub(crate) format: GetFormat,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Replace what is in the way
    #[arg(long)]
    pub(crate) force: bool,
}

/// How a part is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GetFormat {
    /// Its bytes: a message serialized, a string or bytes as they are
    Raw,
    /// As protobuf's JSON has it
    Json,
    /// A message in protobuf's text format, a value by itself
    Text,
    /// A TensorProto as a NumPy array
    Npy,
}

/// From which size on a value gets a chunk of its own. Not an `Option`: to clap that would be an option that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueSize(pub(crate) Option<u64>);

fn chunk_size(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        0 => Err("a chunk of 0 bytes holds nothing".into()),
        bytes if bytes > LARGEST_MAX_CHUNK_SIZE => Err(format!(
            "at most {LARGEST_MAX_CHUNK_SIZE} bytes: no reader takes a larger message in a chunk"
        )),
        bytes => Ok(bytes),
    }
}

fn value_size(text: &str) -> Result<ValueSize, String> {
    match text {
        "none" => Ok(ValueSize(None)),
        _ => match size::parse(text)? {
            0 => Err("a value of 0 bytes can't be cut".into()),
            bytes => Ok(ValueSize(Some(bytes))),
        },
    }
}

fn compression(text: &str) -> Result<ChunkCompression, String> {
    text.parse()
        .map_err(|error: proto_splitter::Error| error.to_string())
}

/// Prints what clap has to say: help and version as results, everything else as wrong usage, which is one line like any error.
pub(crate) fn explain(error: &clap::Error, args: &[OsString], output: &mut Output<'_>) -> Exit {
    let text = error.render().to_string();
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return match output.print(&text).and_then(|()| output.flush()) {
            Ok(()) => Exit::Done,
            Err(failure) => {
                output.note(failure.message());
                failure.exit()
            }
        };
    }
    output.note(format_args!(
        "{}; see `{} --help`",
        first_paragraph(&text),
        asked(args)
    ));
    Exit::Usage
}

/// What is wrong, on one line: what clap lists below its first line joined to it, and what it would have expected instead.
fn first_paragraph(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let mut lines = text.lines().map(str::trim);
    let mut said = lines.next().unwrap_or_default().to_owned();
    let listed: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    if !listed.is_empty() {
        said.push(' ');
        said.push_str(&listed.join(", "));
    }
    if let Some(tip) = lines.find_map(|line| line.strip_prefix("tip: ")) {
        said.push_str("; ");
        said.push_str(tip);
    }
    said
}

/// The command whose help has more to say.
fn asked(args: &[OsString]) -> String {
    let command = Cli::command();
    let named = args.get(1).and_then(|arg| arg.to_str());
    match named.and_then(|name| command.find_subcommand(name)) {
        Some(subcommand) => format!("{} {}", command.get_name(), subcommand.get_name()),
        None => command.get_name().to_owned(),
    }
}
