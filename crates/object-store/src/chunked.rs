//! Chunked messages in stores.

use std::io;
use std::sync::Arc;

use proto_splitter_core::container::{ChunkedFile, Limits};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::location::ObjectLocation;
use crate::options::ObjectReadOptions;
use crate::reader::ObjectReader;

/// Opens a chunked message in a store. If the trailer names other objects that contain some of the
/// chunks, these objects are opened at the same time. They must be in the folder of `main`, or in
/// its subfolders.
///
/// `main` is a reader of the object with the trailer. It may still be opening the object.
///
/// # Errors
///
/// The errors of [`ChunkedFile::from_sources`]; [`ErrorKind::InvalidTrailer`] if the trailer names
/// an object outside of the folder of `main`.
///
/// # Examples
///
/// ```
/// use prost_reflect::prost_types::FileDescriptorProto;
/// use proto_splitter_core::merge::{Limits, ReadOptions};
/// use proto_splitter_core::split::{SizeSplitter, Source, SplitExt, SplitOptions};
/// use proto_splitter_object_store::{
///     ObjectLocation, ObjectReader, ObjectWriter, ObjectReadOptions, ObjectWriteOptions, open_chunked,
/// };
///
/// let message = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
/// let location = ObjectLocation::parse("memory:///chunked/message.cpb")?;
/// let mut writer = ObjectWriter::create(&location, &ObjectWriteOptions::new())?;
/// let options = SplitOptions::new().max_chunk_size(1000);
/// SizeSplitter.write_to_with(Source::from(&message), &mut writer, &options)?;
/// writer.finish()?;
///
/// let options = ObjectReadOptions::new();
/// let reader = ObjectReader::open(&location, &options)?;
/// let file = open_chunked(reader, &Limits::new(), &options)?;
/// assert_eq!(file.get(&"1".parse()?)?, "n".repeat(5000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_chunked(
    main: impl Into<Arc<ObjectReader>>,
    limits: &Limits,
    options: &ObjectReadOptions,
) -> Result<ChunkedFile<Arc<dyn ReadAt>>> {
    let main = main.into();
    let location = main.location().clone();
    let main: Arc<dyn ReadAt> = main;
    ChunkedFile::from_sources(main, limits, |named| {
        let part = beside(&location, &named.path)?;
        let part = ObjectReader::begin(&part, options)?;
        Ok(Arc::new(part) as Arc<dyn ReadAt>)
    })
}

/// Returns the location of an object that a trailer names. The name is relative to `main`, the
/// object with the trailer.
///
/// # Errors
///
/// [`ErrorKind::InvalidTrailer`] if the name isn't valid, or leads outside of the folder of `main`.
pub fn beside(main: &ObjectLocation, named: &str) -> Result<ObjectLocation> {
    // A copy of the object on Windows would have a path in which a backslash separates folders.
    let is_strange = |part: &str| matches!(part, "" | "." | "..") || part.contains(['\0', '\\']);
    if named.split('/').any(is_strange) {
        let message = "the name doesn't refer to an object in the same folder as the trailer";
        return Err(Error::new(ErrorKind::InvalidTrailer, message));
    }
    let part = main.beside(named);
    // Some names can't be represented unchanged as the path of an object.
    if part.path().as_ref().ends_with(named) {
        Ok(part)
    } else {
        Err(io::Error::from(io::ErrorKind::InvalidInput).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_names_objects_in_its_own_folder_alone() {
        let main = ObjectLocation::parse("memory:///models/large.cpb").unwrap();
        let part = beside(&main, "large.00001.cpb").unwrap();
        assert_eq!(part.path().as_ref(), "models/large.00001.cpb");
        for inside in ["parts/1.cpb", "größe~[1].cpb"] {
            let part = beside(&main, inside).unwrap();
            assert_eq!(part.path().as_ref(), format!("models/{inside}"));
        }
        for outside in [
            "../other.cpb",
            "/models/x.cpb",
            "a//b",
            "./x",
            "",
            "a/../../b",
            "..\\x",
        ] {
            let error = beside(&main, outside).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidTrailer, "{outside}");
        }
    }
}
