//! Telling outputs and inputs apart.

use std::path::Path;

use proto_splitter::atomic::MadeFrom;

use crate::failure::Failure;

/// Fails if the output `target` is one of the files in `read`.
pub(crate) fn check_apart<P: AsRef<Path>>(
    read: impl IntoIterator<Item = P>,
    target: &Path,
) -> Result<(), Failure> {
    let apart = MadeFrom::files(read).check_apart(target);
    apart.map_err(|error| Failure::usage(error.to_string()))
}
