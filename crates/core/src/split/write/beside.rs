//! Files that contain chunks and are next to a main file: their names, their paths, and complete
//! files to move to these paths.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::written::WrittenFile;
use crate::io::file_names::{is_part_name, stem};
use crate::io::{AtomicFile, CHUNKED_EXTENSION, folder};
use crate::proto::chunk_metadata::ExternalFile;
use crate::{Error, ErrorKind, Result};

/// Returns the name of a file next to the main file, such as `MAIN.00001-89abcdef.cpb`. The number
/// in the name follows from `count`, the number of files before this file. The checksum in the name
/// follows from the file's size and last record.
///
/// Since the name depends on the content, a new file never replaces a file that the main file of an
/// earlier split still needs.
fn part_name(stem: &str, count: usize, size: u64, trailer: &[u8]) -> String {
    let crc32c = crc32c::crc32c_append(crc32c::crc32c(trailer), &size.to_le_bytes());
    format!("{stem}.{:05}-{crc32c:08x}.{CHUNKED_EXTENSION}", count + 1)
}

/// Returns the paths of the files next to `main` whose names show that they contain chunks of a
/// multi-file split, in the order of their names. Empty if `main` doesn't end in `.cpb`.
///
/// ```
/// use proto_splitter_core::split::parts_beside;
/// let folder = tempfile::tempdir()?;
/// let part = folder.path().join("model.00001-89abcdef.cpb");
/// std::fs::write(&part, "")?;
/// assert_eq!(parts_beside(folder.path().join("model.cpb"))?, [part]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The list is also empty if this process isn't allowed to list the folder. Old files then stay in
/// the folder, although nothing refers to them.
///
/// # Errors
///
/// [`ErrorKind::Io`] if reading the folder fails.
pub fn parts_beside(main: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    let main = main.as_ref();
    let Some(stem) = stem(main) else {
        return Ok(Vec::new());
    };
    let failed = |error: std::io::Error| Error::from(error).in_file(folder(main));
    let mut parts = Vec::new();
    let entries = match fs::read_dir(folder(main)) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Ok(parts),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        if name.to_str().is_some_and(|name| is_part_name(stem, name)) {
            parts.push(folder(main).join(name));
        }
    }
    parts.sort();
    Ok(parts)
}

/// Returns the prefix of the names of the files that belong to `main`.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if `main` doesn't end in `.cpb`.
pub fn stem_beside(main: &Path) -> Result<&str> {
    stem(main).ok_or_else(|| {
        let why = match main.file_name().and_then(|name| name.to_str()) {
            Some(_) => "a main file with other files next to it must be called .cpb",
            None => "other files can't refer to a name that isn't Unicode",
        };
        Error::new(
            ErrorKind::InvalidConfig,
            format!("{}: {why}", main.display()),
        )
    })
}

/// A complete file that isn't at its final path yet.
#[derive(Debug)]
pub struct DonePart {
    /// The file, which can be moved to its final path.
    pub file: AtomicFile,
    /// The final path of the file.
    pub path: PathBuf,
    /// The trailer's entry for the file.
    pub named: ExternalFile,
    /// Number of chunks in the file. Several chunks that are stored as one record count as one.
    pub chunk_count: usize,
}

/// Returns a complete file, whose last record is `trailer`. The file's name depends on the file's
/// content, and on `count`, the number of files next to `main` that are numbered before this one.
pub(in crate::split) fn done_part(
    file: AtomicFile,
    (main, count): (&Path, usize),
    trailer: &[u8],
    chunk_count: usize,
) -> Result<DonePart> {
    let size = file.as_file().metadata()?.len();
    let name = part_name(stem_beside(main)?, count, size, trailer);
    Ok(DonePart {
        file,
        path: folder(main).join(&name),
        named: ExternalFile {
            path: name,
            size,
            trailer_crc32c: crc32c::crc32c(trailer),
        },
        chunk_count,
    })
}

/// Fails if a file with its trailer exceeds `max` bytes: a trailer can't continue in another file.
/// `trailer` is the trailer's offset in the file.
pub(crate) fn check_size(file: &File, trailer: u64, max: Option<u64>) -> Result<()> {
    let size = file.metadata()?.len();
    match max {
        Some(max) if size > max => {
            let of_trailer = size.saturating_sub(trailer);
            let message = format!(
                "the trailer doesn't fit: its file would have {size} bytes, {of_trailer} of them the trailer's, over the maximum file size of {max} bytes"
            );
            Err(Error::new(ErrorKind::LimitExceeded, message))
        }
        _ => Ok(()),
    }
}

impl From<&DonePart> for WrittenFile {
    fn from(part: &DonePart) -> Self {
        WrittenFile::new(part.path.clone(), part.named.size, part.chunk_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_splits_are_found_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "m.00001-89abcdef.cpb",
            "m.00002-00000000.cpb",
            "m.100000-00000000.cpb",
            "m.cpb",
            "m.1-89abcdef.cpb",
            "m.00001-89abcdef.pb",
            "m.x.00001-89abcdef.cpb",
            "n.00001-89abcdef.cpb",
            "m.00001-89abcdeg.cpb",
        ];
        for name in names {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = parts_beside(folder.path().join("m.cpb")).unwrap();
        let expected: Vec<_> = names[..3]
            .iter()
            .map(|name| folder.path().join(name))
            .collect();
        assert_eq!(found, expected);
        for other in ["m", "m.pb", "m.x"] {
            let found = parts_beside(folder.path().join(other)).unwrap();
            assert!(found.is_empty(), "{other}");
        }
    }

    #[test]
    fn files_that_differ_in_size_or_in_their_last_record_have_other_names() {
        let name = part_name("m", 0, 5000, b"trailer");
        assert_eq!(name, part_name("m", 0, 5000, b"trailer"));
        for other in [
            part_name("m", 0, 5001, b"trailer"),
            part_name("m", 0, 5000, b"other"),
        ] {
            assert!(other.starts_with("m.00001-") && other != name, "{other}");
        }
    }
}
