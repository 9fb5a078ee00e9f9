//! The record files of a message: either one file, or a main file that contains the trailer, and
//! other files of limited size that contain the chunks.

use record_file::WriterOptions;

use super::beside::DonePart;
use super::chunk_file::ChunkFile;
use super::sink::{ChunkSink, Chunks, Taken};
use crate::io::AtomicFile;
use crate::proto::ChunkInfo;
use crate::split::file_sizes::{most_of_trailer, most_stored};
use crate::split::plan::reader_limits::check_file_count;
use crate::split::plan::split_plan::SplitPlan;
use crate::{Error, ErrorKind, Result};

/// Returns true if the given chunks of the plan, and a trailer of `trailer` bytes, fit in one file
/// of `max` bytes.
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

/// Returns the maximum number of files, of at most `max` bytes each, that `chunks` need if they
/// don't compress.
pub(in crate::split) fn most_files(plan: &SplitPlan, chunks: &[usize], max: u64) -> usize {
    let (mut left, mut files) = (chunks, 0);
    while !left.is_empty() {
        left = &left[sure_to_fit(plan, left, most_stored(0), 0, max).max(1)..];
        files += 1;
    }
    files
}

/// Returns the number of chunks, from the first in `chunks` on, that fit in a file of at most `max`
/// bytes even if they don't compress. The file already has `used` bytes and `there` chunks.
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

/// The files of a message: a main file that ends with the trailer and, after a call of
/// [`go_beside`](Self::go_beside), other files of limited size for the chunks.
#[derive(Debug)]
pub(crate) struct ChunkFiles<'a> {
    main: ChunkFile,
    /// The main file, whose file mode the other files get, and the maximum size of each file in
    /// bytes; `None` if all chunks go to the main file.
    several: Option<(&'a AtomicFile, u64)>,
    open: Option<(AtomicFile, ChunkFile)>,
    done: Vec<DonePart>,
}

impl<'a> ChunkFiles<'a> {
    /// Creates the files, with all chunks going to the main file.
    pub(crate) fn new(main: ChunkFile) -> ChunkFiles<'a> {
        ChunkFiles {
            main,
            several: None,
            open: None,
            done: Vec::new(),
        }
    }

    /// Makes later chunks go to files of at most `max` bytes next to the main file.
    pub(crate) fn go_beside(&mut self, main: &'a AtomicFile, max: u64) {
        self.several = Some((main, max));
    }

    /// Returns the main file.
    pub(crate) fn main(&mut self) -> &mut ChunkFile {
        &mut self.main
    }

    /// Returns the file for the next chunk, and the file's number.
    pub(crate) fn current(&mut self) -> Result<(u32, &mut ChunkFile)> {
        let Some((main, _)) = self.several else {
            return Ok((0, &mut self.main));
        };
        let number = self.done.len() + 1;
        check_file_count(number)?;
        let number = u32::try_from(number)
            .map_err(|_| Error::new(ErrorKind::LimitExceeded, "too many files"))?;
        if self.open.is_none() {
            // The file has no name yet, since its name will depend on its content.
            let file = main.create_beside()?;
            let chunks = ChunkFile::begin(&file, WriterOptions::new())?;
            self.open = Some((file, chunks));
        }
        let open = self.open.as_mut().map(|(_, chunks)| chunks);
        Ok((number, open.unwrap_or(&mut self.main)))
    }

    /// Adds a chunk to the current file's list, if the chunk is in that file and the file is not
    /// the main file.
    pub(crate) fn note(&mut self, info: &ChunkInfo) {
        if let Some((_, open)) = &mut self.open
            && info.file as usize == self.done.len() + 1
        {
            open.note(*info);
        }
    }

    /// Completes the current file, unless it is the main file, or certainly has room for another
    /// record of at most `bytes` bytes.
    pub(crate) fn make_room(&mut self, bytes: u64) -> Result<()> {
        if let (Some((_, max)), Some((_, open))) = (self.several, &mut self.open) {
            let end = open.end().saturating_add(bytes);
            let count = open.chunks().len();
            if end.saturating_add(most_of_trailer(count + 1)) > max && count > 0 {
                self.complete()?;
            }
        }
        Ok(())
    }

    /// Completes the current file, unless it is the main one.
    pub(crate) fn complete(&mut self) -> Result<()> {
        if let (Some((file, chunks)), Some((main, max))) = (self.open.take(), self.several) {
            let done = chunks.complete(file, main.target(), self.done.len())?;
            let size = done.named.size;
            if size > max {
                let message = format!(
                    "a chunk doesn't fit: its file would have {size} bytes, over the maximum file size of {max} bytes: merge the file, and split it again"
                );
                return Err(Error::new(ErrorKind::LimitExceeded, message));
            }
            self.done.push(done);
        }
        Ok(())
    }

    /// Returns the completed files in addition to the main file.
    pub(crate) fn done(&self) -> &[DonePart] {
        &self.done
    }

    /// Returns the main file, and the other files. All other files must be complete.
    pub(crate) fn into_parts(self) -> (ChunkFile, Vec<DonePart>) {
        (self.main, self.done)
    }
}

impl ChunkSink for ChunkFiles<'_> {
    fn take(&mut self, chunks: Chunks<'_>) -> Result<Taken> {
        let Some((_, max)) = self.several else {
            return self.main.take(chunks);
        };
        let (mut all, mut left) = (Taken::default(), chunks.indices);
        while !left.is_empty() {
            let (number, open) = self.current()?;
            let there = open.chunks().len();
            let count = sure_to_fit(chunks.plan, left, open.end(), there, max);
            // A chunk that doesn't fit in any file causes an error once its file is complete.
            let (group, others) = left.split_at(count.max(usize::from(there == 0)));
            let mut taken = open.take(chunks.only(group))?;
            for record in &mut taken.records {
                record.file = number;
            }
            all.records.append(&mut taken.records);
            all.spans.append(&mut taken.spans);
            left = others;
            // If the chunks compressed well, there is room for more in the same file.
            if group.is_empty() {
                self.complete()?;
            }
        }
        self.complete()?;
        Ok(all)
    }
}
