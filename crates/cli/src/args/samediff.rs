//! The command lines of `protosplit samediff`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

pub(super) const HELP: &str = "\
A SameDiff model is a zip archive of tags: states of the model, such as checkpoints, the
oldest first. Tags share the arrays that are the same in both. Every edit writes a new
file and decodes nothing that stays; --force lets it take the place of the old one.

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
    /// Write one tag, with what it shares with others, as a model of its own
    Extract(ExtractArgs),
    /// Write a model without some of its tags
    Drop(DropArgs),
    /// Write the tags of several models as one
    Merge(MergeModelsArgs),
    /// Write a model with a tag more: from a classic, SDNB, SDZ or safetensors file
    Add(AddArgs),
    /// Write a model in which a tag, or a variable of one, has another name
    Rename(RenameArgs),
    /// Write a model in which arrays that are the same share one file
    Dedup(CopyArgs),
    /// Write a model without the files that nothing refers to
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

/// What an edit writes.
#[derive(Args, Debug)]
pub(crate) struct WritingArgs {
    /// The file to write
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    /// Replace the file if it is there
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
    /// The parameters alone
    Safetensors,
}

#[derive(Args, Debug)]
pub(crate) struct ExtractArgs {
    /// A SameDiff model
    pub(crate) file: PathBuf,
    /// The tag; by default the newest
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
    /// Leave out files that nothing refers to, too
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
    /// Have arrays that are the same share one file
    #[arg(long)]
    pub(crate) deduplicate: bool,
    /// Give a tag of the first file in which it occurs another name
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

/// What is written from one model without anything more being said.
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
    /// The model whose tags stand in front of the new one; by default there are none
    #[arg(long, value_name = "MODEL")]
    pub(crate) onto: Option<PathBuf>,
    /// Take the graph of this tag of MODEL, and its arrays where INPUT has none of that name
    #[arg(long, value_name = "TAG", requires = "onto")]
    pub(crate) like: Option<String>,
    #[command(flatten)]
    pub(crate) out: WritingArgs,
}
