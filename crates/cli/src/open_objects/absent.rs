//! The replacement for open objects in a build without object stores.

use std::path::Path;

use proto_splitter::formats::Candidate;

use crate::failure::Failure;

/// The map of open objects, which is always empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenObjects;

impl OpenObjects {
    pub(crate) fn candidate<'a>(&self, named: &'a Path) -> Result<Candidate<'a>, Failure> {
        Err(only_files(named))
    }
}

/// Creates the error for a URL, which this build doesn't support.
pub(crate) fn only_files(named: &Path) -> Failure {
    let name = named.display();
    Failure::usage(format!("{name}: this build can only read and write files"))
}
