//! Splitting and reading messages whose types prost-build generates.

use std::path::Path;

use proto_splitter::prost_reflect::MessageDescriptor;
use proto_splitter::schema::decode_descriptor_set;
use proto_splitter::split::{SizeSplitter, Source, SplitExt, SplitOptions, Written};
use proto_splitter::{Error, ErrorKind, Result};

/// The code that prost-build generates from the schema.
pub mod album {
    include!(concat!(env!("OUT_DIR"), "/album.rs"));
}

/// Returns the message type of an album, by which a splitter finds the positions for cuts.
///
/// # Errors
///
/// Fails if the descriptors aren't from this build.
pub fn album_type() -> Result<MessageDescriptor> {
    let descriptors = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.binpb"));
    let pool = decode_descriptor_set(descriptors)?;
    let album = pool.get_message_by_name("album.Album");
    album.ok_or_else(|| Error::new(ErrorKind::InvalidSchema, "no album.Album"))
}

/// Writes an album of any size to `PREFIX.cpb`, or to `PREFIX.pb` if it needn't be split.
///
/// # Errors
///
/// Fails if the file can't be written.
pub fn write(album: &album::Album, prefix: impl AsRef<Path>) -> Result<Written> {
    let source = Source::from_message(album, album_type()?);
    let options = SplitOptions::new()
        .max_chunk_size(64 << 20)
        .embed_schema(true);
    SizeSplitter.write_with(source, prefix, &options)
}

/// Reads the photo with this index, without reading other photos.
///
/// # Errors
///
/// Fails if the file can't be read, or has no photo with this index.
pub fn photo(path: impl AsRef<Path>, index: u64) -> Result<Vec<u8>> {
    let file = proto_splitter::open(path)?;
    Ok(file.get(&format!("photo[{index}].jpeg"))?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_message_is_split_and_read_back_in_parts_and_as_a_whole() {
        let photo_of = |at: u8| album::Photo {
            name: format!("{at}.jpeg"),
            jpeg: vec![at; 30 << 20].into(),
        };
        let before = album::Album {
            title: "Holiday".into(),
            photo: (0..4).map(photo_of).collect(),
        };
        let folder = tempfile::tempdir().unwrap();
        let written = write(&before, folder.path().join("holiday")).unwrap();
        assert!(written.path.ends_with("holiday.cpb"), "{:?}", written.path);
        assert_eq!(photo(&written.path, 2).unwrap(), vec![2; 30 << 20]);
        let after: album::Album = proto_splitter::open(&written.path).unwrap().read().unwrap();
        assert!(before == after);
    }

    #[test]
    fn the_page_has_this_code() {
        let page = include_str!("../../../docs/prost-build.md");
        let (code, _) = include_str!("lib.rs").split_once("#[cfg(test)]").unwrap();
        for file in [
            include_str!("../build.rs"),
            code,
            include_str!("../proto/album.proto"),
        ] {
            assert!(page.contains(file.trim()), "the page differs from\n{file}");
        }
    }
}
