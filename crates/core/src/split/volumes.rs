//! The files that records go to: one, or a main file with the trailer and others that have at most
//! so many bytes.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

use prost::Message;
use record_file::{Compression, RecordWriter};

use super::metadata::part_metadata;
use super::options::SplitOptions;
use super::plan::{PlannedChunk, SplitPlan};
use crate::atomic::{AtomicFile, folder};
use crate::proto::ChunkInfo;
use crate::proto::chunk_metadata::ExternalFile;
use crate::{Error, ErrorKind, Result};

/// Bytes that a record may take in a file: what headers add, and what compression can add to what
/// doesn't shrink.
fn most_stored(size: u64) -> u64 {
    size.saturating_add(size / 64).saturating_add(512)
}

/// Bytes of a file's own last record, with this many chunks before it.
fn most_of_trailer(chunks: usize) -> u64 {
    most_stored(64 + 48 * chunks as u64)
}

/// The largest chunk that has room in a file of `max` bytes.
pub(super) fn largest_chunk(max: u64) -> u64 {
    (max - max / 32).saturating_sub(2048).max(1)
}

/// Whether all chunks, and a trailer of so many bytes, have room in one file.
pub(super) fn fit_in_one(chunks: &[PlannedChunk], trailer: u64, max: u64) -> bool {
    let chunks = chunks.iter().map(|chunk| most_stored(chunk.size));
    chunks.fold(most_stored(trailer), u64::saturating_add) <= max
}

/// The name of the file after the first `count` others, with these last bytes:
/// `MAIN.00001-89abcdef.cpb`.
///
/// What is in it gives it its name, so that it never takes the place of one that the main file of
/// an earlier split needs.
fn part_name(stem: &str, count: usize, crc32c: u32) -> String {
    format!("{stem}.{:05}-{crc32c:08x}.cpb", count + 1)
}

/// The files of any split to `main` that are beside it, in the order of their names.
pub(super) fn parts_beside(main: &Path) -> Result<Vec<PathBuf>> {
    let stem = stem(main);
    let failed = |error: std::io::Error| Error::from(error).context(folder(main).display());
    let mut parts = Vec::new();
    for entry in fs::read_dir(folder(main)).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let tag = name
            .to_str()
            .and_then(|name| name.strip_prefix(stem.as_deref()?)?.strip_prefix('.'))
            .and_then(|name| name.strip_suffix(".cpb")?.split_once('-'));
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

fn stem(main: &Path) -> Option<String> {
    let name = main.file_name()?.to_str()?;
    Some(name.strip_suffix(".cpb").unwrap_or(name).to_owned())
}

/// Which of `chunks` go to which file of at most `max` bytes: in order, each file as full as is
/// sure to fit however they compress.
pub(super) fn assign(plan: &SplitPlan, chunks: &[usize], max: u64) -> Vec<Vec<usize>> {
    let mut files: Vec<Vec<usize>> = Vec::new();
    // The signature is in front.
    let front = most_stored(0);
    let mut used = front;
    for &chunk in chunks {
        let size = most_stored(plan.chunks[chunk].size);
        match files.last_mut() {
            Some(last) if used + size + most_of_trailer(last.len() + 1) <= max => last.push(chunk),
            _ => {
                used = front;
                files.push(vec![chunk]);
            }
        }
        used += size;
    }
    files
}

/// A file that is complete, but not yet in its place.
#[derive(Debug)]
pub(super) struct DonePart {
    pub(super) file: AtomicFile,
    pub(super) path: PathBuf,
    pub(super) named: ExternalFile,
    pub(super) chunk_count: usize,
}

/// Completes the file that comes after `count` others beside `main`: writes its last record at
/// `end`, behind these chunks.
pub(super) fn complete_part(
    main: &Path,
    count: usize,
    mut file: AtomicFile,
    end: u64,
    chunks: Vec<ChunkInfo>,
) -> Result<DonePart> {
    let Some(stem) = stem(main) else {
        let message = format!(
            "{}: other files can't refer to a name that isn't Unicode",
            main.display()
        );
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    };
    let chunk_count = chunks.len();
    let trailer = part_metadata(chunks).encode_to_vec();
    file.as_file_mut().seek(SeekFrom::Start(end))?;
    let mut writer = RecordWriter::starting_at(file.as_file_mut(), end)?;
    writer.write_record_alone(&trailer, Compression::None)?;
    writer.finish()?;
    let size = file.as_file().metadata()?.len();
    let trailer_crc32c = crc32c::crc32c(&trailer);
    let name = part_name(&stem, count, trailer_crc32c);
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
pub(super) fn check_size(file: &File, trailer: u64, options: &SplitOptions) -> Result<()> {
    let size = file.metadata()?.len();
    match options.get_max_file_size() {
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

/// Puts all files in their place: the main one last, so that it never names one that isn't there.
///
/// If one can't be, those before it are taken back, but for what has been there before with the
/// same name and so the same content.
pub(super) fn commit_all(main: AtomicFile, parts: Vec<DonePart>) -> Result<()> {
    let mut placed = Vec::new();
    let commit = || -> Result<()> {
        for DonePart { file, path, .. } in parts {
            let was_there = path.exists();
            file.commit_as(path.clone())?;
            if !was_there {
                placed.push(path);
            }
        }
        main.commit()
    };
    commit().inspect_err(|_| {
        for path in &placed {
            // What can't be removed is in the way of the next split, which says so.
            let _ = fs::remove_file(path);
        }
    })
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
        let found = parts_beside(&folder.path().join("m.cpb")).unwrap();
        let expected: Vec<_> = names[..3]
            .iter()
            .map(|name| folder.path().join(name))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(part_name("m", 0, 0x89ab_cdef), names[0]);
    }

    #[test]
    fn the_largest_chunk_has_room_in_a_file_of_its_own() {
        for max in [4096, 5000, 1 << 20, 4 << 30, u64::MAX] {
            let stored = most_stored(largest_chunk(max)).saturating_add(most_of_trailer(1));
            assert!(stored + 64 <= max, "{max}");
        }
    }
}
