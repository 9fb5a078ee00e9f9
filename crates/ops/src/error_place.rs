//! Adding the input's name to error messages.

use std::path::Path;

use proto_splitter_core::Error;
use proto_splitter_core::formats::Opened;

/// Adds the input's name to the start of an error's message, unless the message already contains
/// the name, or the error isn't about the input.
pub(crate) fn at(input: &Opened, error: Error) -> Error {
    error.in_file_unless_named(input.input())
}

/// Adds the names of both inputs to the start of an error's message, unless the error already names
/// one of the inputs.
pub(crate) fn at_either(inputs: [&Opened; 2], error: Error) -> Error {
    let inputs = inputs.map(Opened::input);
    let is_about = |input: &Path| error.file() == Some(input) || error.names(input);
    if inputs.iter().any(|input| is_about(input)) {
        return error;
    }
    let [first, second] = inputs.map(Path::display);
    error.context(format_args!("{first} or {second}"))
}

pub(crate) fn at_path(path: &Path, error: Error) -> Error {
    error.in_file_unless_named(path)
}
