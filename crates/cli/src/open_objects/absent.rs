//! A build without stores, where no objects are open.

use std::path::Path;

use proto_splitter::formats::Candidate;

use crate::failure::Failure;

/// None are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenObjects;

impl OpenObjects {
    pub(crate) fn candidate<'a>(&self, named: &'a Path) -> Result<Candidate<'a>, Failure> {
        Err(only_files(named))
    }
}

/// The refusal of a URL.
pub(crate) fn only_files(named: &Path) -> Failure {
    let name = named.display();
    Failure::usage(format!("{name}: this build reads and writes files alone"))
}
