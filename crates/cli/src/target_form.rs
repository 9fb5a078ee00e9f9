//! The `--to` option of commands that write a changed message.

use std::path::Path;

use proto_splitter::container::is_named_chunked;
use proto_splitter::formats::ConvertTarget;
use proto_splitter::ops;

use crate::failure::Failure;
use crate::input::Input;

/// Returns the form that `--to` names; `None` if the option isn't given.
pub(crate) fn requested(
    to: Option<&str>,
    input: &Input,
    output: &Path,
) -> Result<Option<&'static ConvertTarget>, Failure> {
    let Some(to) = to else {
        return Ok(None);
    };
    let is_chunked = is_named_chunked(output);
    if is_chunked || input.folder().is_some() {
        let what = if is_chunked {
            "a .cpb is a file in chunks"
        } else {
            "the folder of a SavedModel keeps its form"
        };
        return Err(Failure::usage(format!("--to {to}: {what}")));
    }
    let (_, form) = ops::form(input, to)?;
    Ok(Some(form))
}
