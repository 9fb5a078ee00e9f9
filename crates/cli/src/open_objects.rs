//! Objects in stores that a command reads without copying them to a file.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter::formats::Candidate;
use proto_splitter::record_file::ReadAt;
use proto_splitter_object_store::{ObjectLocation, ObjectReadOptions, ObjectReader, beside};

use crate::failure::Failure;

/// The objects that a command has opened, by URL. They are kept open, since opening an object takes
/// a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenObjects(Arc<HashMap<PathBuf, Arc<ObjectReader>>>);

impl OpenObjects {
    /// Creates the map. `open` contains the open objects, by URL.
    pub(crate) fn new(open: HashMap<PathBuf, Arc<ObjectReader>>) -> OpenObjects {
        OpenObjects(Arc::new(open))
    }

    /// Returns the object at the URL `named` as a candidate, which formats can examine and open.
    pub(crate) fn candidate<'a>(&self, named: &'a Path) -> Result<Candidate<'a>, Failure> {
        let reader = match self.0.get(named) {
            Some(reader) => Arc::clone(reader),
            None => open(named).map_err(|error| Failure::usage(error.to_string()))?,
        };
        let location = reader.location().clone();
        let candidate = Candidate::of_source(named, reader as Arc<dyn ReadAt>);
        let candidate = candidate.map_err(|error| Failure::of(named, &error))?;
        Ok(candidate.beside(move |name| {
            let part = ObjectReader::begin(&beside(&location, name)?, &ObjectReadOptions::new())?;
            Ok(Arc::new(part) as Arc<dyn ReadAt>)
        }))
    }
}

/// Opens the object at the URL `named`.
pub(crate) fn open(named: &Path) -> io::Result<Arc<ObjectReader>> {
    let location = ObjectLocation::parse(named.to_str().unwrap_or_default())?;
    let reader = ObjectReader::open(&location, &ObjectReadOptions::new())?;
    Ok(Arc::new(reader))
}
