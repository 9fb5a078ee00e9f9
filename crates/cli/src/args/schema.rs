//! The options that say what type a message has.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use proto_splitter::formats::ALL;

/// What is told of a message's type, and where the type is described.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SchemaArgs {
    /// The full name of the message's type; not needed for a saved_model.pb, nor where a file says
    /// it
    #[arg(long, value_name = "TYPE")]
    pub(crate) message: Option<String>,
    /// A schema as `protoc --include_imports --descriptor_set_out` or `buf build` write it; may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) descriptor_set: Vec<PathBuf>,
    /// A schema as .proto source; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) proto: Vec<PathBuf>,
    /// Where a .proto and its imports are looked for, by default beside it and here; may be repeated
    #[arg(short = 'I', long, value_name = "DIR", requires = "proto")]
    pub(crate) proto_path: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) companion: CompanionArgs,
}

/// What an input is, and what goes with it, where the input itself doesn't tell.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CompanionArgs {
    /// The program of a file of parameters, where it isn't beside it, as of Paddle's
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// The format of the input, where it isn't told by a name: paddle, for a file of parameters or of
    /// one tensor that is called anything
    #[arg(long, value_name = "FORMAT", value_parser = formats(), hide_possible_values = true)]
    pub(crate) input_format: Option<String>,
}

impl CompanionArgs {
    /// Whether anything is said that may go with one of two inputs alone.
    pub(crate) fn is_named(&self) -> bool {
        self.program.is_some() || self.input_format.is_some()
    }
}

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(ALL.formats().iter().map(|format| format.name()))
}
