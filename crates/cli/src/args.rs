//! The command line, and what `--help` teaches. Each command's options and examples are in a file
//! of its own.

mod cat;
#[cfg(feature = "columns")]
mod columns;
mod convert;
mod depth;
mod diff;
mod edit;
mod export;
mod externalize;
mod fingerprint;
mod get;
mod in_parts;
mod info;
mod layout;
mod ls;
mod merge;
mod meta;
mod pieces;
mod print_schema;
mod printed;
mod reading;
mod rewrite;
mod running;
mod samediff;
mod schema;
mod split;
mod tensors;
mod tree;
mod values;
mod verify;
mod writing;

use clap::{ArgAction, Parser, Subcommand};

#[cfg(feature = "columns")]
pub(crate) use cat::TableFormat;
pub(crate) use cat::{CatArgs, CatFormat};
pub(crate) use convert::ConvertArgs;
pub(crate) use diff::DiffArgs;
pub(crate) use edit::{EditArgs, EditingArgs, InsertArgs, RemoveArgs, StripArgs};
pub(crate) use export::{ExportArgs, ExportFormat};
pub(crate) use externalize::{ExternalizeArgs, InternalizeArgs};
pub(crate) use fingerprint::FingerprintArgs;
pub(crate) use get::{GetArgs, GetFormat, Rows};
pub(crate) use in_parts::InPartsArgs;
pub(crate) use info::InfoArgs;
pub(crate) use layout::LayoutArgs;
pub(crate) use ls::LsArgs;
pub(crate) use merge::MergeArgs;
pub(crate) use meta::{CompletionsArgs, ManArgs};
pub(crate) use pieces::PiecesArgs;
pub(crate) use print_schema::PrintSchemaArgs;
pub(crate) use printed::PrintedArgs;
pub(crate) use reading::{PartsArgs, ReadingArgs};
pub(crate) use rewrite::{RecompressArgs, ReplaceArgs};
pub(crate) use running::{Shown, ThreadsArgs};
pub(crate) use samediff::{
    AddArgs, CopyArgs, DropArgs, ExtractArgs, MergeModelsArgs, RenameArgs, SameDiffArgs,
    SameDiffCommand, TagForm, TagsArgs, WritingArgs,
};
pub(crate) use schema::{CompanionArgs, SchemaArgs};
pub(crate) use split::SplitArgs;
pub(crate) use tensors::TensorsArgs;
pub(crate) use tree::{MinSize, SortBy, TreeArgs};
pub(crate) use verify::VerifyArgs;
pub(crate) use writing::RewriteArgs;

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
  protosplit tree model/                           what takes up space in it
  protosplit info small/                           what became of it
  protosplit verify small/ --against model/saved_model.pb
  protosplit merge small/ -o whole/                and back
  protosplit convert model/ --in-place --to cpb    the same without a copy
  protosplit externalize model/ -o runs/           runs in TensorFlow, whatever its size
  protosplit fingerprint model/                    as TensorFlow computes it

Files and folders appear complete or not at all, and Ctrl-C leaves nothing of them. A run
that SIGKILL ends may leave a hidden .protosplit-*.tmp beside its output: the next run with the
same output removes it, except on network file systems, where it can be deleted by hand.

Exit status: 0 done, 1 bad data or data that differs, 2 wrong usage or something
that can't be read or written, 130 stopped by Ctrl-C. `protosplit help COMMAND` tells more.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "protosplit", version, about = ABOUT, after_help = EXAMPLES)]
#[command(subcommand_required = true, arg_required_else_help = false)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Say nothing if all goes well, and show no progress
    #[arg(short, long, global = true, display_order = 900)]
    pub(crate) quiet: bool,
    /// Tell what is done and how long it takes; -vv tells it of each chunk
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet", display_order = 900)]
    pub(crate) verbose: u8,
    /// Show how far it is: on a terminal after a second, always or never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Shown::Auto, display_order = 901)]
    pub(crate) progress: Shown,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Split a message into a .cpb file
    #[command(after_help = split::HELP, mut_args(in_parts::apart_from_plan))]
    Split(SplitArgs),
    /// Merge a .cpb file to the message that was split
    #[command(after_help = merge::HELP, mut_args(in_parts::reading_apart_from_plan))]
    Merge(MergeArgs),
    /// Check a .cpb file
    #[command(after_help = verify::HELP, mut_args(in_parts::reading_apart_from_plan))]
    Verify(VerifyArgs),
    /// Show what takes up space in a message
    #[command(after_help = tree::HELP)]
    Tree(TreeArgs),
    /// List the chunks of a .cpb file
    #[command(after_help = info::HELP)]
    Info(InfoArgs),
    /// List the chunks of a .cpb file, one line each
    #[command(after_help = ls::HELP)]
    Ls(LsArgs),
    /// Say what every byte of a file is for
    #[command(after_help = layout::HELP)]
    Layout(LayoutArgs),
    /// Print a message or a part of it
    #[command(after_help = cat::HELP)]
    Cat(CatArgs),
    /// Print a message's type as .proto text
    #[command(after_help = print_schema::HELP)]
    Schema(PrintSchemaArgs),
    /// Read a part of a message
    #[command(after_help = get::HELP)]
    Get(GetArgs),
    /// List the tensors of a file by name
    #[command(after_help = tensors::HELP)]
    Tensors(TensorsArgs),
    /// Write all tensors of a file to a safetensors or NumPy file
    #[command(after_help = export::HELP)]
    Export(ExportArgs),
    /// Share out the elements of a long field to several messages
    #[command(after_help = pieces::HELP)]
    Pieces(PiecesArgs),
    /// Write a model in another form
    #[command(after_help = convert::HELP)]
    Convert(ConvertArgs),
    /// Make a SavedModel of any size run in unmodified TensorFlow
    #[command(after_help = externalize::EXTERNALIZE)]
    Externalize(ExternalizeArgs),
    /// Write the original of an externalized SavedModel
    #[command(after_help = externalize::INTERNALIZE)]
    Internalize(InternalizeArgs),
    /// Compute a SavedModel's fingerprint
    #[command(after_help = fingerprint::HELP)]
    Fingerprint(FingerprintArgs),
    /// Say whether two messages are equal, and where they differ
    #[command(after_help = diff::HELP)]
    Diff(DiffArgs),
    /// Write a .cpb file with another compression
    #[command(after_help = rewrite::RECOMPRESS)]
    Recompress(RecompressArgs),
    /// Write a file with another value at one place
    #[command(after_help = rewrite::REPLACE)]
    Replace(ReplaceArgs),
    /// Write a message without some of its values
    #[command(after_help = edit::REMOVE)]
    Remove(RemoveArgs),
    /// Write a message with one more value
    #[command(after_help = edit::INSERT)]
    Insert(InsertArgs),
    /// Write a message without what makes it large
    #[command(after_help = edit::STRIP)]
    Strip(StripArgs),
    /// Write a message with several changes
    #[command(after_help = edit::EDIT)]
    Edit(Box<EditArgs>),
    /// List, extract, drop, merge and add the tags of SameDiff models
    #[command(name = "samediff", after_help = samediff::HELP)]
    SameDiff(SameDiffArgs),
    /// Print what completes command lines in a shell
    #[command(after_help = meta::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Write manual pages
    #[command(after_help = meta::MAN)]
    Man(ManArgs),
}
