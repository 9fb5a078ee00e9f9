//! The command line and its help. The options and examples of the commands are in submodules.

mod append;
mod cat;
#[cfg(feature = "columns")]
mod columns;
mod completions;
mod convert;
mod depth;
mod diff;
mod edit;
mod export;
mod externalize;
mod fingerprint;
mod get;
mod info;
mod layout;
mod ls;
mod merge;
mod output_file;
mod parts;
mod pieces;
mod print_schema;
mod reading;
mod replace;
mod rewrite;
mod samediff;
mod schema;
mod sign;
mod split;
mod tensors;
mod threads;
mod tree;
mod values;
mod verify;

use clap::{ArgAction, Parser, Subcommand};

pub(crate) use append::AppendArgs;
pub(crate) use cat::{CatArgs, CatFormat, TallyArgs};
pub(crate) use completions::{CompletionsArgs, ManArgs};
pub(crate) use convert::ConvertArgs;
pub(crate) use diff::DiffArgs;
pub(crate) use edit::{EditArgs, EditingArgs, InsertArgs, RemoveArgs, StripArgs};
pub(crate) use export::{ExportArgs, ExportFormat};
pub(crate) use externalize::{ExternalizeArgs, InternalizeArgs};
pub(crate) use fingerprint::FingerprintArgs;
pub(crate) use get::{GetArgs, GetFormat, Rows};
pub(crate) use info::InfoArgs;
pub(crate) use layout::LayoutArgs;
pub(crate) use ls::LsArgs;
pub(crate) use merge::MergeArgs;
pub(crate) use output_file::OutputFileArgs;
pub(crate) use parts::PartsArgs;
pub(crate) use pieces::PiecesArgs;
pub(crate) use print_schema::PrintSchemaArgs;
pub(crate) use reading::ReadingArgs;
pub(crate) use replace::{RecompressArgs, ReplaceArgs};
pub(crate) use rewrite::RewriteArgs;
pub(crate) use samediff::{
    AddArgs, CopyArgs, DropArgs, ExtractArgs, MergeModelsArgs, RenameArgs, SameDiffArgs,
    SameDiffCommand, TagForm, TagsArgs, WritingArgs,
};
pub(crate) use schema::{CompanionArgs, SchemaArgs};
pub(crate) use sign::SignArgs;
pub(crate) use split::SplitArgs;
pub(crate) use tensors::TensorsArgs;
pub(crate) use threads::{ProgressMode, ThreadsArgs};
pub(crate) use tree::TreeArgs;
pub(crate) use verify::VerifyArgs;

const ABOUT: &str = "\
Work with protobuf messages and models of any size: split, merge, inspect, edit, convert.";

const LONG_ABOUT: &str = "\
Work with protobuf messages and models of any size: split, merge, inspect, edit, convert.

protobuf can't read or write a message over 2 GiB. protosplit splits one into smaller chunks,
in one seekable, checksummed .cpb file, and merges them back byte for byte. TensorFlow's C++
Merger reads these files, too.

It works with models of TensorFlow (SavedModel, GraphDef, checkpoint), ONNX, PaddlePaddle,
SameDiff and XLA, with profiles, and with messages of any type whose schema you name. A file
is named by a path or, in a bucket or on a server, by an s3://, gs://, az:// or https:// URL.";

const EXAMPLES: &str = "\
Examples:
  protosplit tree model/                                   what takes up space in a SavedModel
  protosplit split model/ -o small/                        copy the folder, with the model in chunks
  protosplit merge small/ -o whole/                        and back
  protosplit convert lost.onnx -o model.onnx --to external   an ONNX model over 2 GiB, for onnxruntime
  protosplit externalize model/ -o runs/                   make a model of any size load in TensorFlow
  protosplit split graph.pb --message tensorflow.GraphDef  any message, given its type
  protosplit get s3://bucket/model.cpb --tensor dense/kernel -o kernel.npy

Files and folders appear complete or not at all, and Ctrl-C leaves nothing behind. A run
killed by SIGKILL may leave a hidden .protosplit-*.tmp beside its output: the next run with
the same output removes it, except on network file systems, where you can delete it.

Exit status: 0 done, 1 bad data or data that differs, 2 wrong usage or something that can't
be read or written, 130 stopped by Ctrl-C. `protosplit help COMMAND` explains a command.";

/// Groups in the list of commands: for each, a heading and the names of its commands, in display
/// order.
const GROUPS: [(&str, &str); 5] = [
    ("Split and merge", "split merge verify recompress pieces"),
    (
        "Look inside",
        "info tree ls layout tensors get cat schema diff",
    ),
    ("Change", "replace insert remove strip edit append"),
    (
        "Models",
        "convert export externalize internalize fingerprint sign samediff",
    ),
    ("Shell", "completions man help"),
];

/// Returns clap's help template, in which the commands are listed under the headings of [`GROUPS`].
fn help_template() -> String {
    let commands = Command::augment_subcommands(clap::Command::new("protosplit"));
    let about = |name| {
        let about = commands.find_subcommand(name)?.get_about()?;
        Some(about.to_string())
    };
    let mut template = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        template += &format!("\n{heading}:\n");
        for name in names.split(' ') {
            let about = about(name).unwrap_or_else(|| "Explain a command".to_owned());
            template += &format!("  {name:<13}{about}\n");
        }
    }
    template + "\nOptions:\n{options}{after-help}"
}

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "protosplit", version, about = ABOUT, long_about = LONG_ABOUT)]
#[command(after_long_help = EXAMPLES, help_template = help_template())]
#[command(subcommand_required = true, arg_required_else_help = false)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print nothing on success, and no progress
    #[arg(short, long, global = true, display_order = 900)]
    pub(crate) quiet: bool,
    /// Log each stage and its time; -vv logs each chunk
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet", display_order = 900)]
    pub(crate) verbose: u8,
    /// When to show progress; auto: on a terminal, after a second
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ProgressMode::Auto, display_order = 901)]
    pub(crate) progress: ProgressMode,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Split a message into a .cpb file
    #[command(after_long_help = split::HELP, mut_args(parts::apart_from_plan))]
    Split(SplitArgs),
    /// Merge a .cpb file back into one message
    #[command(after_long_help = merge::HELP, mut_args(parts::reading_apart_from_plan))]
    Merge(MergeArgs),
    /// Check every checksum, size and path of a .cpb file
    #[command(after_long_help = verify::HELP, mut_args(parts::reading_apart_from_plan))]
    Verify(VerifyArgs),
    /// Show what takes up space in a message
    #[command(after_long_help = tree::HELP)]
    Tree(TreeArgs),
    /// Summarize a file: a model's inputs and outputs, a .cpb file's chunks
    #[command(after_long_help = info::HELP)]
    Info(InfoArgs),
    /// List the chunks of a .cpb file, one line each
    #[command(after_long_help = ls::HELP)]
    Ls(LsArgs),
    /// Explain every byte of a .cpb file
    #[command(after_long_help = layout::HELP)]
    Layout(LayoutArgs),
    /// Print a message or a part of it
    #[command(after_long_help = cat::HELP)]
    Cat(CatArgs),
    /// Print a message's type as .proto text
    #[command(after_long_help = print_schema::HELP)]
    Schema(PrintSchemaArgs),
    /// Extract a value or a tensor
    #[command(after_long_help = get::HELP)]
    Get(GetArgs),
    /// List the tensors of a file by name
    #[command(after_long_help = tensors::HELP)]
    Tensors(TensorsArgs),
    /// Write all tensors to a safetensors or NumPy file
    #[command(after_long_help = export::HELP)]
    Export(ExportArgs),
    /// Divide a long repeated field among several messages
    #[command(after_long_help = pieces::HELP)]
    Pieces(PiecesArgs),
    /// Convert a model to another form
    #[command(after_long_help = convert::HELP)]
    Convert(ConvertArgs),
    /// Make a SavedModel of any size load in unmodified TensorFlow
    #[command(after_long_help = externalize::EXTERNALIZE)]
    Externalize(ExternalizeArgs),
    /// Restore the original of an externalized SavedModel
    #[command(after_long_help = externalize::INTERNALIZE)]
    Internalize(InternalizeArgs),
    /// Compute a SavedModel's fingerprint
    #[command(after_long_help = fingerprint::HELP)]
    Fingerprint(FingerprintArgs),
    /// Sign a model of any size
    #[command(after_long_help = sign::HELP)]
    Sign(SignArgs),
    /// Compare two messages and show where they differ
    #[command(after_long_help = diff::HELP)]
    Diff(DiffArgs),
    /// Change the compression of a .cpb file
    #[command(after_long_help = replace::RECOMPRESS)]
    Recompress(RecompressArgs),
    /// Replace one value
    #[command(after_long_help = replace::REPLACE)]
    Replace(ReplaceArgs),
    /// Remove values
    #[command(after_long_help = edit::REMOVE)]
    Remove(RemoveArgs),
    /// Insert a value
    #[command(after_long_help = edit::INSERT)]
    Insert(InsertArgs),
    /// Remove large values, keep the structure
    #[command(after_long_help = edit::STRIP)]
    Strip(StripArgs),
    /// Make several changes in one pass
    #[command(after_long_help = edit::EDIT)]
    Edit(Box<EditArgs>),
    /// Append a tensor to a file of Paddle parameters
    #[command(after_long_help = append::HELP)]
    Append(AppendArgs),
    /// List and edit the tags of SameDiff models
    #[command(name = "samediff", after_long_help = samediff::HELP)]
    SameDiff(SameDiffArgs),
    /// Generate shell completions
    #[command(after_long_help = completions::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Write manual pages
    #[command(after_long_help = completions::MAN)]
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_under_one_heading_of_the_help() {
        let commands = Command::augment_subcommands(clap::Command::new("protosplit"));
        let mut defined: Vec<&str> = commands
            .get_subcommands()
            .map(clap::Command::get_name)
            .chain(["help"])
            .collect();
        let mut listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.split(' '))
            .collect();
        defined.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, defined);
    }
}
