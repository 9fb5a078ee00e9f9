//! The files that records go to: one, or a main file with the trailer and others that have at most
//! this many bytes.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

use prost::Message;
use record_file::{Compression, RecordWriter};

use super::written::WrittenFile;
use crate::io::{AtomicFile, CHUNKED_EXTENSION, folder};
use crate::proto::ChunkInfo;
use crate::proto::chunk_metadata::ExternalFile;
use crate::split::file_sizes::{most_of_trailer, most_stored};
use crate::split::plan::metadata::part_trailer;
use crate::split::plan::split_plan::SplitPlan;
use crate::{Error, ErrorKind, Result};

/// Whether these of the plan's chunks, and a trailer of this many bytes, have room in one file.
pub(in crate::split) fn fit_in_one(
    plan: &SplitPlan,
    chunks: &[usize],
    trailer: u64,
    max: u64,
) -> bool {
    let sizes = chunks.iter().map(|&chunk| plan.chunks[chunk].size);
    let chunks = sizes.map(most_stored);
    chunks.fold(most_stored(trailer), u64::saturating_add) <= max
}

/// The name of the file after the first `count` others, of these many bytes and with this last
/// record: `MAIN.00001-89abcdef.cpb`.
///
/// What is in it gives it its name, so that it never takes the place of one that the main file of
/// an earlier split needs: that knows it by its size and its last record, too.
fn part_name(stem: &str, count: usize, size: u64, trailer: &[u8]) -> String {
    let crc32c = crc32c::crc32c_append(crc32c::crc32c(trailer), &size.to_le_bytes());
    format!("{stem}.{:05}-{crc32c:08x}.{CHUNKED_EXTENSION}", count + 1)
}

/// The files beside `main` that a split to it in several has chunks in, as far as their names tell,
/// in the order of these names. None if `main` isn't called `.cpb`.
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
/// In a folder that may not be listed, none are found: they stay, and nothing refers to them.
///
/// # Errors
///
/// [`ErrorKind::Io`] if reading the folder fails.
pub fn parts_beside(main: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    let main = main.as_ref();
    let Some(stem) = stem(main) else {
        return Ok(Vec::new());
    };
    let failed = |error: std::io::Error| Error::from(error).context(folder(main).display());
    let mut parts = Vec::new();
    let entries = match fs::read_dir(folder(main)) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Ok(parts),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let tag = name
            .to_str()
            .and_then(|name| name.strip_prefix(stem)?.strip_prefix('.'))
            .and_then(|name| without_extension(name)?.split_once('-'));
        let is_part = tag.is_some_and(|(number, crc)| {
            let digits = |text: &str, radix| text.chars().all(|c| c.is_digit(radix));
            number.len() >= 5 && digits(number, 10) && crc.len() == 8 && digits(crc, 16)
        });
        if is_part {
            parts.push(folder(main).join(name));
        }
    }
    parts.sort();
    Ok(parts)
}

/// What the names of the files beside `main` begin with. Without `.cpb` there are none: it would be
/// what those beside another main file begin with.
fn stem(main: &Path) -> Option<&str> {
    without_extension(main.file_name()?.to_str()?)
}

fn without_extension(name: &str) -> Option<&str> {
    name.strip_suffix(CHUNKED_EXTENSION)?.strip_suffix('.')
}

/// What the names of the files beside `main` begin with.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if there can be none.
pub(crate) fn stem_beside(main: &Path) -> Result<&str> {
    stem(main).ok_or_else(|| {
        let why = match main.file_name().and_then(|name| name.to_str()) {
            Some(_) => "a main file beside which there are others is called .cpb",
            None => "other files can't refer to a name that isn't Unicode",
        };
        Error::new(
            ErrorKind::InvalidConfig,
            format!("{}: {why}", main.display()),
        )
    })
}

/// How many files of at most `max` bytes `chunks` need at the most, however they compress.
pub(in crate::split) fn most_files(plan: &SplitPlan, chunks: &[usize], max: u64) -> usize {
    let (mut left, mut files) = (chunks, 0);
    while !left.is_empty() {
        left = &left[sure_to_fit(plan, left, most_stored(0), 0, max).max(1)..];
        files += 1;
    }
    files
}

/// How many of `chunks`, in order, are sure to fit in a file of at most `max` bytes that has `used`
/// and this many chunks already, however they compress.
pub(in crate::split) fn sure_to_fit(
    plan: &SplitPlan,
    chunks: &[usize],
    mut used: u64,
    there: usize,
    max: u64,
) -> usize {
    let fits = |(at, chunk): &(usize, &usize)| {
        used = used.saturating_add(most_stored(plan.chunks[**chunk].size));
        used.saturating_add(most_of_trailer(there + at + 1)) <= max
    };
    chunks.iter().enumerate().take_while(fits).count()
}

/// A file that is complete, but not yet in its place.
#[derive(Debug)]
pub(crate) struct DonePart {
    pub(crate) file: AtomicFile,
    pub(crate) path: PathBuf,
    pub(crate) named: ExternalFile,
    pub(crate) chunk_count: usize,
}

/// Completes the file that comes after `count` others beside `main`: writes its last record at
/// `end`, behind these chunks.
pub(crate) fn complete_part(
    main: &Path,
    count: usize,
    mut file: AtomicFile,
    end: u64,
    chunks: Vec<ChunkInfo>,
) -> Result<DonePart> {
    let stem = stem_beside(main)?;
    let chunk_count = chunks.len();
    let trailer = part_trailer(chunks).encode_to_vec();
    file.as_file_mut().seek(SeekFrom::Start(end))?;
    let mut writer = RecordWriter::starting_at(file.as_file_mut(), end)?;
    writer.write_record_alone(&trailer, Compression::None)?;
    writer.finish()?;
    let size = file.as_file().metadata()?.len();
    let trailer_crc32c = crc32c::crc32c(&trailer);
    let name = part_name(stem, count, size, &trailer);
    Ok(DonePart {
        file,
        path: folder(main).join(&name),
        named: ExternalFile {
            path: name,
            size,
            trailer_crc32c,
        },
        chunk_count,
    })
}

/// Fails if a file has more than the maximum. What is in it from `trailer` on is the trailer, which
/// has to be in one file.
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
        WrittenFile {
            path: part.path.clone(),
            size: part.named.size,
            chunks: part.chunk_count,
        }
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
