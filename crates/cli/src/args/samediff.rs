//! The command lines of `protosplit samediff`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

pub(super) const HELP: &str = "\
A SameDiff model is a zip archive of tags: states of the model, such as checkpoints, the
oldest first. Tags share equal arrays. Every edit writes a new file and copies unchanged
arrays without decoding them; --force allows it to replace the old file.

Examples:
  protosplit samediff add graph.fb --tag start -o model.zip
  protosplit samediff add step2.safetensors --onto model.zip --like start \\
      --tag step-2 -o model.zip --force
  protosplit samediff tags model.zip
  protosplit samediff rename model.zip start/w weights -o model.zip --force
  protosplit samediff extract model.zip step-2 -o step2.fb --to fb";

#[derive(Args, Debug)]
pub(crate) struct SameDiffArgs {
    #[command(subcommand)]
    pub(crate) command: SameDiffCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SameDiffCommand {
    /// List the tags of a model
    Tags(TagsArgs),
    /// Write one tag, with the arrays it shares, as a separate model
    Extract(ExtractArgs),
    /// Remove tags
    Drop(DropArgs),
    /// Combine the tags of several models in one
    Merge(MergeModelsArgs),
    /// Add a tag from a classic, SDNB, SDZ or safetensors file
    Add(AddArgs),
    /// Rename a tag or a variable
    Rename(RenameArgs),
    /// Store equal arrays once
    Dedup(CopyArgs),
    /// Remove unreferenced files
    Gc(CopyArgs),
}

#[derive(Args, Debug)]
pub(crate) struct TagsArgs {
    /// A SameDiff model
    pub(crate) file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The output of an edit.
#[derive(Args, Debug)]
pub(crate) struct WritingArgs {
    /// The file to write
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TagForm {
    /// A zip model
    Samediff,
    /// A classic FlatBuffers file
    Fb,
    /// The parameters only
    Safetensors,
}

#[derive(Args, Debug)]
pub(crate) struct ExtractArgs {
    /// A SameDiff model
    pub(crate) file: PathBuf,
    /// The tag [default: the newest]
    pub(crate) tag: Option<String>,
    #[command(flatten)]
    pub(crate) out: WritingArgs,
    /// The form to write
    #[arg(long, value_enum, default_value_t = TagForm::Samediff)]
    pub(crate) to: TagForm,
}

#[derive(Args, Debug)]
pub(crate) struct DropArgs {
    /// A SameDiff model
    pub(crate) file: PathBuf,
    /// The tags to leave out
    #[arg(required = true)]
    pub(crate) tags: Vec<String>,
    #[command(flatten)]
    pub(crate) out: WritingArgs,
    /// Also remove unreferenced files
    #[arg(long)]
    pub(crate) collect_garbage: bool,
}

#[derive(Args, Debug)]
pub(crate) struct MergeModelsArgs {
    /// SameDiff models, the oldest first
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) out: WritingArgs,
    /// Store equal arrays once
    #[arg(long)]
    pub(crate) deduplicate: bool,
    /// Rename a tag in the first file that has it
    #[arg(long, value_name = "TAG=NEW")]
    pub(crate) rename: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct RenameArgs {
    /// A SameDiff model
    pub(crate) file: PathBuf,
    /// A tag, or TAG/NAME for a variable of that tag
    #[arg(value_name = "TAG[/NAME]")]
    pub(crate) old: String,
    /// The new name of the tag or of the variable
    pub(crate) new: String,
    #[command(flatten)]
    pub(crate) out: WritingArgs,
}

/// Arguments for an edit that only needs an input and an output.
#[derive(Args, Debug)]
pub(crate) struct CopyArgs {
    /// A SameDiff model
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) out: WritingArgs,
}

#[derive(Args, Debug)]
pub(crate) struct AddArgs {
    /// A classic, SDNB, SDZ or safetensors file
    pub(crate) input: PathBuf,
    /// The name of the new tag
    #[arg(long)]
    pub(crate) tag: String,
    /// The model whose tags precede the new one [default: none]
    #[arg(long, value_name = "MODEL")]
    pub(crate) onto: Option<PathBuf>,
    /// Use the graph of this tag in MODEL, and the arrays whose names INPUT lacks
    #[arg(long, value_name = "TAG", requires = "onto")]
    pub(crate) like: Option<String>,
    #[command(flatten)]
    pub(crate) out: WritingArgs,
}
