//! The options that name the type of a message.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use proto_splitter::formats::ALL;

/// The type of a message and the schema that defines it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SchemaArgs {
    /// Full name of the message's type; not needed for a saved_model.pb, or if the file names it
    #[arg(long, value_name = "TYPE", help_heading = "Schema")]
    pub(crate) message: Option<String>,
    /// A compiled schema, from `protoc --include_imports --descriptor_set_out` or `buf build`; may be
    /// repeated [default: a .desc or .binpb beside the input, if exactly one fits]
    #[arg(
        long,
        visible_alias = "schema-from",
        value_name = "FILE",
        help_heading = "Schema"
    )]
    pub(crate) descriptor_set: Vec<PathBuf>,
    /// A schema as .proto source; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Schema")]
    pub(crate) proto: Vec<PathBuf>,
    /// Folder to search for a .proto and its imports [default: its own and the current folder]; may be
    /// repeated
    #[arg(
        short = 'I',
        long,
        value_name = "DIR",
        requires = "proto",
        hide_short_help = true,
        help_heading = "Schema"
    )]
    pub(crate) proto_path: Vec<PathBuf>,
    /// Type of the messages in a log or record file
    ///
    /// Each message is preceded by its length, or is a record. In paths, the messages are message[0],
    /// message[1] and so on. With TYPE.FIELD, they are the elements of FIELD in one message of TYPE.
    #[arg(long, value_name = "TYPE", conflicts_with_all = ["message", "program", "input_format"], help_heading = "Schema")]
    pub(crate) delimited: Option<String>,
    #[command(flatten)]
    pub(crate) companion: CompanionArgs,
    /// A compiled schema in memory, passed by the calling program.
    #[arg(skip)]
    pub(crate) given: Option<Vec<u8>>,
}

/// The format of an input, and the path of the input's program file. Both are needed only if they
/// can't be inferred from the input's path.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CompanionArgs {
    /// Program of a parameters file, such as Paddle's, if it isn't in the same folder
    #[arg(
        long,
        value_name = "FILE",
        hide_short_help = true,
        help_heading = "Schema"
    )]
    pub(crate) program: Option<PathBuf>,
    /// Format of the input, if its name doesn't imply it: paddle, for a parameters or tensor file of
    /// any name
    #[arg(long, value_name = "FORMAT", value_parser = formats(), hide_possible_values = true, hide_short_help = true, help_heading = "Schema")]
    pub(crate) input_format: Option<String>,
}

impl CompanionArgs {
    /// Returns true if one of these options is set. If a command has two inputs, the option may
    /// apply to only one of them.
    pub(crate) fn is_named(&self) -> bool {
        self.program.is_some() || self.input_format.is_some()
    }
}

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(ALL.formats().iter().map(|format| format.name()))
}
